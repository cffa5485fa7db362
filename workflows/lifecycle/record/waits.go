package record

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// This file records what the device waits for (F29). Whatever is tried again is recorded
// with its cause, and ends when a try succeeds. Nothing is recorded while all goes well.

// endedWait is the wait of a call that failed at a time.
type endedWait struct {
	contract.Wait
	at time.Time
}

// During runs a call that waits for something (contract.WaitInventory or WaitHost). Only
// meanwhile the call's activity may report a wait. When the call ends its wait does too,
// unless the caller records a new one in the same task: that one began with the first.
func (r *Record) During(ctx workflow.Context, waitsFor string, call func() error) error {
	r.calling = append(r.calling, waitsFor)
	err := call()
	if i := slices.Index(r.calling, waitsFor); i >= 0 {
		r.calling = slices.Delete(r.calling, i, i+1)
	}
	if len(r.calling) == 0 {
		r.calling = nil
	}
	switch i := r.waitFor(waitsFor); {
	case i < 0 || r.Calling(waitsFor):
	case err != nil:
		w := r.State.Waits[i]
		r.interrupted = &endedWait{w, workflow.Now(ctx)}
		r.drop(i)
		r.logHostWait(ctx, w, w.Fault.Code, calls.FaultOf(err).Code)
	default:
		r.EndWait(ctx, waitsFor)
	}
	return err
}

// Calling says that a call under way waits for this.
func (r *Record) Calling(waitsFor string) bool { return slices.Contains(r.calling, waitsFor) }

// Waiting records that the device waits because of a fault, and publishes it. The operator
// is called when the wait has lasted for TellAfter.
func (r *Record) Waiting(ctx workflow.Context, waitsFor string, f *device.Fault) {
	var callAt time.Time
	if r.mayCall(ctx, waitsFor) {
		callAt = workflow.Now(ctx).Add(r.Policy(ctx).TellAfter)
	}
	r.WaitingUntil(ctx, waitsFor, f, callAt)
}

// mayCall says that the time at which the operator is called is not known yet.
func (r *Record) mayCall(ctx workflow.Context, waitsFor string) bool {
	if i := r.waitFor(waitsFor); i >= 0 {
		return r.State.Waits[i].CallAt.IsZero()
	}
	return !r.continues(ctx, waitsFor) || r.interrupted.CallAt.IsZero()
}

// continues says that a wait of this kind ended in this task with a failed call.
func (r *Record) continues(ctx workflow.Context, waitsFor string) bool {
	return r.interrupted != nil && r.interrupted.For == waitsFor && r.interrupted.at.Equal(workflow.Now(ctx))
}

// WaitingUntil is Waiting with the time at which the operator is called; zero is never.
func (r *Record) WaitingUntil(ctx workflow.Context, waitsFor string, f *device.Fault, callAt time.Time) {
	s, now := r.State, workflow.Now(ctx)
	i := r.waitFor(waitsFor)
	if i < 0 {
		w := contract.Wait{For: waitsFor, Since: now.UTC()}
		if r.continues(ctx, waitsFor) {
			w = r.interrupted.Wait
		}
		s.Waits = append(s.Waits, w)
		i = len(s.Waits) - 1
	}
	r.interrupted = nil
	w := &s.Waits[i]
	before := w.Fault.Code
	w.Fault = *f
	r.logHostWait(ctx, *w, before, f.Code)
	if !callAt.IsZero() && (w.CallAt.IsZero() || callAt.Before(w.CallAt)) {
		w.CallAt = callAt.UTC()
	}
	w.Called = w.Called || !w.CallAt.IsZero() && !w.CallAt.After(now)
	r.Publish()
}

// NoteWait records a wait that is expected to end within moments, and publishes nothing: the
// next publication shows it.
func (r *Record) NoteWait(ctx workflow.Context, waitsFor string, f *device.Fault) {
	if r.waitFor(waitsFor) < 0 {
		r.State.Waits = append(r.State.Waits, contract.Wait{For: waitsFor, Fault: *f, Since: workflow.Now(ctx).UTC()})
	}
}

// DropWait ends a wait that was only noted.
func (r *Record) DropWait(waitsFor string) {
	if i := r.waitFor(waitsFor); i >= 0 {
		r.drop(i)
	}
}

// NotStalled records that a wait makes progress again: the operator is no longer called.
func (r *Record) NotStalled(waitsFor string) {
	if i := r.waitFor(waitsFor); i >= 0 {
		r.State.Waits[i].Called, r.State.Waits[i].CallAt = false, time.Time{}
	}
}

// EndWait records that a wait is over, and publishes it.
func (r *Record) EndWait(ctx workflow.Context, waitsFor string) {
	if i := r.waitFor(waitsFor); i >= 0 {
		w := r.State.Waits[i]
		r.drop(i)
		r.logHostWait(ctx, w, w.Fault.Code, "")
		r.Publish()
	}
}

// Waits says that the device waits for this.
func (r *Record) Waits(waitsFor string) bool { return r.waitFor(waitsFor) >= 0 }

func (r *Record) waitFor(waitsFor string) int {
	return slices.IndexFunc(r.State.Waits, func(w contract.Wait) bool { return w.For == waitsFor })
}

func (r *Record) drop(i int) {
	s := r.State
	if s.Waits = slices.Delete(s.Waits, i, i+1); len(s.Waits) == 0 {
		s.Waits = nil
	}
}

// NextCall is when the operator is to be called because of a wait; zero if not at all.
func (r *Record) NextCall() time.Time {
	var next time.Time
	for _, w := range r.State.Waits {
		if !w.Called && !w.CallAt.IsZero() && (next.IsZero() || w.CallAt.Before(next)) {
			next = w.CallAt
		}
	}
	return next
}

// CallOperator calls the operator because of every wait that has lasted long enough.
func (r *Record) CallOperator(ctx workflow.Context) {
	for i := range r.State.Waits {
		w := &r.State.Waits[i]
		w.Called = w.Called || !w.CallAt.IsZero() && !w.CallAt.After(workflow.Now(ctx))
	}
	r.Publish()
}

// foreignQuiet is the time without a foreign write after which they are counted from zero.
const foreignQuiet = 30 * time.Minute

// CountForeignWrite records that another client wrote the device's provider, so that the
// device is cleaned again.
func (r *Record) CountForeignWrite(ctx workflow.Context) {
	now := workflow.Now(ctx).UTC()
	w := r.State.ForeignWrites
	if w == nil || now.Sub(w.At) > foreignQuiet {
		w = &contract.ForeignWrites{}
	}
	r.State.ForeignWrites = &contract.ForeignWrites{Count: w.Count + 1, At: now}
}
