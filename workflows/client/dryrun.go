package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// DryRun asks the device's workflow what an update would do. It is a query, and leaves no event.
// Where the update would be refused, the error is that refusal.
func (c *Client) DryRun(ctx context.Context, name, update string, in any) (contract.DryRun, error) {
	var out contract.DryRun
	input, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encode the input of %s: %w", update, err)
	}
	answer, err := c.temporal.QueryWorkflowWithOptions(ctx, &sdkclient.QueryWorkflowWithOptionsRequest{
		WorkflowID: contract.WorkflowID(name), QueryType: contract.QueryDryRun,
		Args: []any{contract.DryRunInput{Update: update, Input: input}},
		// A workflow that has ended would still answer, and takes no update.
		QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case err != nil && strings.Contains(err.Error(), "unknown queryType "+contract.QueryDryRun):
		return out, contract.Refuse(contract.Refusal{Device: name, Fault: device.Fault{Class: device.Permanent, Code: device.CodeRefused,
			Message: "the control worker is older than this program, and has no dry run", Remedy: "upgrade the control worker, or leave out the dry run"}})
	case err != nil:
		return out, err
	case answer.QueryRejected != nil:
		return out, serviceerror.NewNotFound("no workflow " + contract.WorkflowID(name))
	}
	if err := answer.QueryResult.Get(&out); err != nil {
		return out, err
	}
	if out.Refusal != nil {
		return contract.DryRun{}, contract.Refuse(*out.Refusal)
	}
	return out, nil
}

// ErrDryRun is the error of an update that DryRuns asked about, and that was not sent.
var ErrDryRun = errors.New("a dry run: nothing was sent")

// DryRuns has the methods of the updates that have a dry run, and asks about them in the place
// of sending them: a caller that sends updates can so be made one that asks. Answer is the last
// answer; then the error is ErrDryRun.
type DryRuns struct {
	Ask    func(ctx context.Context, name, update string, in any) (contract.DryRun, error)
	Answer contract.DryRun
}

func (d *DryRuns) ask(ctx context.Context, name, update string, in any) (contract.Result, error) {
	var err error
	if d.Answer, err = d.Ask(ctx, name, update, in); err == nil {
		err = ErrDryRun
	}
	return contract.Result{}, err
}

// Clean asks what a clean would do; the other methods ask likewise.
func (d *DryRuns) Clean(ctx context.Context, name string, in contract.CleanInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateClean, in)
}

// Provide asks about provide.
func (d *DryRuns) Provide(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateProvide, in)
}

// Manage asks about manage.
func (d *DryRuns) Manage(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateManage, in)
}

// Abort asks about abort.
func (d *DryRuns) Abort(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateAbort, in)
}

// ReleaseHold asks about release-hold.
func (d *DryRuns) ReleaseHold(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateReleaseHold, in)
}

// Maintain asks about maintain.
func (d *DryRuns) Maintain(ctx context.Context, name string, in contract.MaintainInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateMaintain, in)
}

// Retire asks about retire.
func (d *DryRuns) Retire(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateRetire, in)
}

// Forget asks about forget.
func (d *DryRuns) Forget(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateForget, in)
}

// Label asks about label.
func (d *DryRuns) Label(ctx context.Context, name string, in contract.LabelInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateLabel, in)
}

// Replace asks about replace.
func (d *DryRuns) Replace(ctx context.Context, name string, in contract.ReplaceInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateReplace, in)
}

// Move asks about move.
func (d *DryRuns) Move(ctx context.Context, name string, in contract.MoveInput) (contract.Result, error) {
	return d.ask(ctx, name, contract.UpdateMove, in)
}
