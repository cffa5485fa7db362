// Package updates keeps which updates a workflow has carried out, by their IDs, and who asked
// for what. Temporal forgets IDs when a workflow continues as new; a state that has a Log does not.
package updates

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Log is the part of a workflow's state that keeps them.
type Log struct {
	Recent *contract.RecentUpdates
	Acts   *contract.ActLog
}

// Find finds an update that was carried out before, by its ID.
func (l Log) Find(id string) (contract.RecentUpdate, bool) { return l.Recent.Find(id) }

// OtherBody says that an update with this ID's key and another body was carried out before.
func (l Log) OtherBody(id string) bool { return l.Recent.OtherBody(id) }

// Record keeps an update's ID and its outcome.
func (l Log) Record(id string, refusal *contract.Refusal) {
	*l.Recent = l.Recent.With(contract.RecentUpdate{ID: id, Refusal: refusal})
}

// Accept keeps an act that was accepted, and when.
func (l Log) Accept(ctx workflow.Context, a contract.Act) {
	a.At = workflow.Now(ctx).UTC().Truncate(time.Millisecond)
	*l.Acts = l.Acts.With(a)
}

// Fail records that an accepted act failed.
func (l Log) Fail(request string, code device.Code) { *l.Acts = l.Acts.Failed(request, code) }

// Drop removes an accepted act that had nothing to change, so that repeating it never
// displaces others.
func (l Log) Drop(request string) { *l.Acts = l.Acts.Without(request) }
