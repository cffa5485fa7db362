package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/record"
	"burnish/workflows/lifecycle/status"
)

// listen makes the selector of all signals.
func (d *run) listen(ctx workflow.Context) {
	d.signals = workflow.NewSelector(ctx)
	calls.Receive(ctx, d.signals, contract.SignalClean, func(in contract.CleanInput) { d.onClean(ctx, in) })
	for _, name := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh} {
		calls.Receive(ctx, d.signals, name, func(hint contract.Hint) { d.onRecheck(ctx, name, hint) })
	}
	d.receivePool(ctx)
}

// onClean handles the signal clean, which any Temporal client may send. A refused one is
// shown and logged, and changes nothing else.
func (d *run) onClean(ctx workflow.Context, in contract.CleanInput) {
	ops := operations{d.parts}
	err := ops.validateClean(in)
	if tooLong(in) {
		err = d.Refuse(device.CodeInvalid, fmt.Sprintf("the signal is longer than %d KiB", maxInput>>10),
			"shorten its reason")
	}
	act := in.Act()
	act.Verb, act.From = contract.VerbClean.Update(), cmp.Or(act.From, contract.FromSignal)
	if err == nil {
		_, err = ops.clean(record.WithAct(ctx, act), in)
	}
	if err == nil {
		d.Updates().Accept(ctx, act)
	} else {
		err = d.LogRefused(ctx, contract.VerbClean.Update(), in, d.Refusal(contract.VerbClean.Update(), err))
		d.State.LastRefusal = "the clean signal was refused: " + calls.FaultOf(err).Error()
	}
	d.Publish()
}

// onRecheck handles a hint: the device reads its inventory and, for a hint from or about
// its host, discovers its hardware. A hint about another binding, or from before the
// present one, is dropped.
func (d *run) onRecheck(ctx workflow.Context, name string, h contract.Hint) {
	s := d.State
	if h.Host == nil && tooLong(h) {
		return
	}
	if h.Wait != nil {
		d.onWait(ctx, *h.Wait)
		return
	}
	if h.Slot != nil {
		d.cleaning.OnSlot(ctx, *h.Slot)
		return
	}
	if h.Hardware {
		d.onHardware()
		return
	}
	if !s.Enrolled && h.Host != nil && !d.enrolling && !d.finished {
		// This run was reset to before its enrollment: the host's record is ahead.
		recoverFrom(ctx, d.Record, h.Host, "its workflow had no record of it; its host has one")
		d.Publish()
		return
	}
	d.PublishNumbers()
	if state := s.Device.State; !s.Enrolled || state == device.Absent || state == device.Retired &&
		(h.Host != nil || name != contract.SignalObserved) {
		return
	}
	if h.Numbers && h.Host != nil && !isAhead(h.Host, s) {
		return
	}
	if r := h.Host; r != nil && isAhead(r, s) {
		d.Invalidate(ctx, r, fmt.Sprintf("its host's record has clean %d and binding %d, its workflow %d and %d",
			r.Clean, r.Binding, s.Cleans, s.Device.Bindings))
		d.Publish()
		return
	}
	if f := status.Fault(s); h.Host != nil && f != nil && f.Code == device.CodeHostUnreachable { // its worker is back
		d.EndWait(ctx, contract.WaitHost)
	}
	d.hinted = true
	if b := s.Device.Binding; h.Binding != 0 && (b == nil || b.Number != h.Binding) {
		return
	}
	if h.ObservedAt != "" {
		at, err := time.Parse(time.RFC3339Nano, h.ObservedAt)
		if err != nil || at.Before(s.BoundAt) {
			return
		}
	}
	s.Intent.ReadInventory = true
	if h.DuplicateAt != "" {
		s.Intent.DuplicateAt = h.DuplicateAt
	}
	if h.Host != nil || name == contract.SignalRefresh {
		s.Intent.Rediscover = true
	}
}

// isAhead says that the host knows higher numbers: this workflow's memory is older (F10, F36).
func isAhead(r *contract.HostDeviceRecord, s *contract.DeviceState) bool {
	return r.Seq > s.Seq || r.Binding > s.Device.Bindings || r.Clean > s.Cleans
}

// onHardware handles the report of the host that the hardware may have changed (F39). The host looks
// at an available device at once, and at one that is being cleaned when it is available. A
// tenant's device changes as its guest wants, and what an operator has is looked at before it
// is offered.
func (d *run) onHardware() {
	s := d.State
	if s.Device.State != device.Available && s.Device.State != device.Cleaning {
		return
	}
	s.SeenAt, s.Intent.HardwareChanged = time.Time{}, true
	// Nova may have given it to a guest, for which it leaves the host's driver.
	s.Intent.ReadInventory = s.Intent.ReadInventory || !d.OwnedByBurnish()
}

// looksAtOnce says that the host must look at hardware that is offered, because it may have
// changed. The inventory is asked first where a guest of Nova's may be the reason; otherwise
// the look does not wait for it.
func (d *run) looksAtOnce() bool {
	i := d.State.Intent
	return i.HardwareChanged && d.State.Device.State == device.Available && (d.OwnedByBurnish() || !i.ReadInventory)
}

func (d *run) lookAtOnce(ctx workflow.Context) {
	d.discovery.Rediscover(ctx)
	d.Publish()
}

// underWay says whether a scheduling is the last one of this device, or that of its clean's step.
func (d *run) underWay(seq int64) bool {
	return seq == d.State.Seq || d.State.Clean != nil && seq == d.State.Clean.Seq
}

// onWait handles the report of an activity that it waits, or that it goes on. One that comes
// late, when its call or its scheduling has ended, is dropped.
func (d *run) onWait(ctx workflow.Context, in contract.WaitReport) {
	switch {
	case !d.Calling(in.For) || in.Seq != 0 && !d.underWay(in.Seq):
	case in.Fault.Code == "":
		d.EndWait(ctx, in.For)
	case in.Stalled:
		d.WaitingUntil(ctx, in.For, &in.Fault, workflow.Now(ctx))
	case in.Moving:
		d.WaitingUntil(ctx, in.For, &in.Fault, time.Time{})
	default:
		d.Waiting(ctx, in.For, &in.Fault)
	}
}
