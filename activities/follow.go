package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// followsFor is the moment that a step may take for the next one to follow in its activity,
// and that the next one may take there. An activity of its own costs the server more than
// steps that short.
const followsFor = time.Second

// errNotAMoment ends a step that follows another one and does not end in a moment.
var errNotAMoment = errors.New("the step takes longer than a moment")

// follow begins the input's next step in the same activity, if it only reads and this one took
// a moment. It has a number, a fence and a slot of its own, as if it were scheduled, but leaves the
// journal to the step before it: what it has read counts only while it has the device (F37).
//
// Nil: it was not begun, or did not end: after a moment, a transient fault, a stop. The
// workflow schedules it, and it begins again. What it finds for good is
// returned: no failed verification is repeated until it passes.
func (a *attempt) follow(ctx context.Context, result contract.StepResult) *contract.NextResult {
	// A revision that the step gave the device is not yet in the input's identity.
	if !a.mayFollow(result.RunTime) || result.Firmware != "" || time.Since(a.began) >= followsFor || stopping(ctx) {
		return nil
	}
	i := slices.IndexFunc(a.Steps, func(s steps.Step) bool { return s.Name == a.in.Next.Step })
	if i < 0 || a.Steps[i].Writes {
		return nil
	}
	next := &attempt{
		Hardware: a.Hardware, step: a.Steps[i], in: a.in.Following(result.RunTime), info: a.info, began: a.began,
		follows: true, before: a.lease,
	}
	got, err := next.do(ctx)
	if err == nil {
		a.seen = next.seen
		return &contract.NextResult{Result: &got, Statement: next.statement}
	}
	refusal, final := contract.RefusalOf(err)
	if !final || temporal.IsCanceledError(err) || retriedFault(err) != nil ||
		refusal.Fault.Code == device.CodePlanOutdated {
		return nil
	}
	return &contract.NextResult{Refusal: &refusal}
}

// mayFollow says whether the next step may begin in the activity of this one, which took ran.
//
// The result of a step that only reads is never reported from the journal (F37), as that of one
// before another is. Where a crash is an operator's, each step is recorded from its beginning.
func (a *attempt) mayFollow(ran time.Duration) bool {
	return a.in.Next != nil && a.step.Writes && a.in.Settings.OnInterrupt != device.InterruptError && ran < followsFor
}

// stopping says whether the activity or its worker is to end.
func stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return ctx.Err() != nil
	}
}
