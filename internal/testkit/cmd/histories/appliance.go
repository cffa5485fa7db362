package main

import (
	"context"
	"sync/atomic"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// rackServers and rackPage are the servers of the recorded appliance and of its pages: enough
// for a continue-as-new in a round.
const rackServers, rackPage = 1200, 100

// recordedRack is the appliance whose polls are recorded.
type recordedRack struct {
	// broken is the first server that cannot be read; -1: all can.
	broken atomic.Int64
	gone   atomic.Bool
}

func (r *recordedRack) pollPage(_ context.Context, in contract.PollPageInput) (contract.PollPageResult, error) {
	if r.gone.Load() || int64(in.Start) == r.broken.Load() {
		return contract.PollPageResult{}, contract.Refuse(contract.Refusal{Fault: device.Fault{
			Class: device.NeedsOperator, Code: device.CodeApplianceRefused, Message: "scripted", Remedy: "none",
		}})
	}
	out := contract.PollPageResult{Next: in.Start + rackPage, Total: rackServers,
		Counts: contract.PollCounts{Servers: rackPage, Devices: 3, Taken: 1, Failed: 1}}
	out.Problems = []contract.Mismatch{{Name: "node1", What: "scripted"}}
	if out.Next == rackServers {
		out.Next = 0
	}
	return out, nil
}

// record has an appliance's workflow live for a while: rounds, a page that is not read, an
// appliance that is gone until the operator is needed, polls that are off, and on request.
func (r *recordedRack) record(ctx context.Context, c *client.Client) {
	type state = contract.OneViewState
	interval, off := 2*time.Second, time.Duration(0)
	r.broken.Store(-1)
	var rounds int
	for _, step := range []struct {
		before func()
		look   *contract.LookRequest
		done   func(state) bool
	}{
		{nil, &contract.LookRequest{Source: "recorder", Interval: &interval, TellAfter: 3 * time.Second}, func(s state) bool { return s.Rounds > 1 }},
		{func() { r.broken.Store(1000) }, nil, func(s state) bool { return s.Unread == 1 }},
		{func() { r.gone.Store(true) }, nil, func(s state) bool { return s.NeedsOperator }},
		{func() { r.gone.Store(false); r.broken.Store(-1) }, nil, func(s state) bool { return s.Fault == nil }},
		{nil, &contract.LookRequest{Interval: &off}, func(s state) bool { rounds = s.Rounds; return s.Interval == 0 }},
		{nil, &contract.LookRequest{}, func(s state) bool { return s.Rounds > rounds }},
	} {
		if step.before != nil {
			step.before()
		}
		if step.look != nil {
			must.Do(c.LookNow(ctx, recorder, *step.look))
		}
		await(ctx, c.OneViewState, step.done)
	}
}
