package record

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file keeps who changed the device, when and why, for the history alone: it decides
// nothing.

// actKey is the key of WithAct in a context.
type actKey struct{}

// WithAct gives the context of an update, or of a signal, the act that it carries out: what it
// changes says who asked for it, also after it waited.
func WithAct(ctx workflow.Context, a contract.Act) workflow.Context {
	return workflow.WithValue(ctx, actKey{}, a)
}

// observed are the events that no request causes, with what shows them. The others are of the
// act in the context, or else Burnish's own.
var observed = map[device.EventKind]string{
	device.ObservedInUse:    "the inventory shows it in use",
	device.ObservedUnused:   "the inventory shows it unused",
	device.ObservedFree:     "the inventory shows it unused",
	device.Released:         "the inventory shows that its instance has left",
	device.BindingEnded:     "the inventory records that its instance has left",
	device.BindingMissing:   "no binding is recorded",
	device.PreviousRunFound: "an earlier run of its workflow says so",
	device.NoWitness:        "nothing records who has it",
	device.Invalidated:      "its state is unknown",
	device.IdentityChanged:  "its host found other hardware",
	device.Taken:            "a poll of its pool found that others took its server",
	device.Freed:            "a poll of its pool found that others left its server",
	device.LostRace:         "others took its server first",
}

// own are the observed events that are acts of their own: nothing else in the history shows
// them.
var own = map[device.EventKind]bool{
	device.Taken: true, device.Freed: true, device.LostRace: true, device.IdentityChanged: true,
	device.BindingMissing: true,
}

// keepMoments records what an event changed of the device's bindings and of its clean, and an
// act of Burnish itself.
func (r *Record) keepMoments(ctx workflow.Context, was device.Device, e device.Event) {
	s, next := r.State, r.State.Device
	m := moment(ctx, e)
	if own[e.Kind] {
		r.Updates().Accept(ctx, contract.Act{Verb: m.Verb, By: m.By, Reason: m.Reason})
	}
	if next.State == device.PendingCleaning &&
		(was.State != device.PendingCleaning || was.AwaitingManualClean && !next.AwaitingManualClean) {
		s.Intent.By = contract.ByBurnish
		if e.Kind == device.Provide || e.Kind == device.Clean || e.Kind == device.CleanSteps {
			s.Intent.By = m.By
		}
	}
	if was.Binding != nil && (next.Binding == nil || next.Binding.Number != was.Binding.Number) {
		s.History = s.History.Over(was.Binding.Number, m)
	}
	if next.Binding != nil && (was.Binding == nil || was.Binding.Number != next.Binding.Number) {
		s.History = s.History.With(*next.Binding, m)
	}
}

// moment says when an event happened, by whom and why.
func moment(ctx workflow.Context, e device.Event) device.Moment {
	m := device.Moment{At: workflow.Now(ctx).UTC().Truncate(time.Millisecond), Verb: string(e.Kind),
		By: contract.ByBurnish}
	if why, ok := observed[e.Kind]; ok {
		m.Reason = why
		return m
	}
	if a, ok := ctx.Value(actKey{}).(contract.Act); ok {
		m.Verb, m.By, m.Reason = a.Verb, a.By, a.Reason
	}
	return m
}
