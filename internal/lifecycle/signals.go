package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// decide handles the signal clean, which any Temporal client may send. A refused one is shown and logged, and changes
// nothing else.
func (s CleanAsked) decide(d *State) {
	in := s.In
	err := d.checkClean(in)
	if tooLong(in) {
		err = d.refuse(device.CodeInvalid, fmt.Sprintf("the signal is longer than %d KiB", maxInput>>10),
			"shorten its reason")
	}
	act := in.Act()
	act.Verb, act.From = contract.VerbClean.Update(), cmp.Or(act.From, contract.FromSignal)
	if err == nil {
		d.acting = act
		err = d.askClean(in)
	}
	if err == nil {
		d.accept(act)
	} else {
		err = d.logRefused(contract.VerbClean, in, d.refusal(contract.VerbClean, in, err))
		d.LastRefusal = "the clean signal was refused: " + faultOf(err).Error()
	}
	d.Publish = true
}

// decide handles a Cancel of the workflow as an abort. Temporal ignores further Cancels of this run: therefore a new
// run begins as soon as nothing is under way.
func (Canceled) decide(d *State) {
	d.ContinueAsNew = true
	act := contract.Act{Verb: contract.VerbAbort.Update(), Detail: "by a Cancel", From: contract.FromCancel}
	if CleanUnderWay(d.DeviceState) {
		d.accept(act)
		d.abort()
		d.LastRefusal = "the Cancel was handled as an abort: the running clean ends in state error"
	} else {
		d.LastRefusal = "the Cancel changed nothing: no clean was running; forget ends a retired device's workflow"
	}
	d.Publish = true
}

// decide handles a hint: the device reads its inventory and, for a hint from or about its host, discovers its hardware.
// A hint about another binding, or from before the present one, is dropped.
func (s Hinted) decide(d *State) {
	h := s.Hint
	switch {
	case s.Signal == contract.SignalTaken || s.Signal == contract.SignalFreed:
		if d.Enrollment.Pool != nil {
			d.hinted()
			d.Intent.ReadPool = true
		}
		return
	case h.Host == nil && tooLong(h):
		return
	case h.Wait != nil:
		d.onWait(*h.Wait)
		return
	case h.Slot != nil:
		d.onSlot(*h.Slot)
		return
	case h.Hardware:
		d.onHardware()
		return
	case !d.Enrolled && h.Host != nil && !d.enrolling() && !d.Finished:
		// This run was reset to before its enrollment: the host's record is ahead.
		d.recover(h.Host, "its workflow had no record of it; its host has one")
		d.Publish = true
		return
	case h.Host != nil && d.Enrolled && !strings.EqualFold(h.Host.Enrollment.Host, d.Enrollment.Host):
		return // that host had another device of this name, and was away when it was forgotten (F35)
	}
	d.Publish, d.PublishNumbers = true, true
	if state := d.Device.State; !d.Enrolled || state == device.Absent || state == device.Retired &&
		(h.Host != nil || s.Signal != contract.SignalObserved) {
		return
	}
	if h.Numbers && h.Host != nil && !d.isBehind(h.Host) {
		return
	}
	if r := h.Host; r != nil && d.isBehind(r) {
		d.invalidate(r, fmt.Sprintf("its host's record has clean %d and binding %d, its workflow %d and %d",
			r.Clean, r.Binding, d.Cleans, d.Device.Bindings))
		d.Publish = true
		return
	}
	if f := Fault(d.DeviceState); h.Host != nil && f != nil && f.Code == device.CodeHostUnreachable { // its worker is back
		d.endWait(contract.WaitHost)
	}
	d.hinted()
	if b := d.Device.Binding; h.Binding != 0 && (b == nil || b.Number != h.Binding) {
		return
	}
	if h.ObservedAt != "" {
		at, err := time.Parse(time.RFC3339Nano, h.ObservedAt)
		if err != nil || at.Before(d.BoundAt) {
			return
		}
	}
	d.Intent.ReadInventory = true
	if h.DuplicateAt != "" {
		d.Intent.DuplicateAt = h.DuplicateAt
	}
	if h.Host != nil || s.Signal == contract.SignalRefresh {
		d.Intent.Rediscover = true
	}
	if h.Started {
		d.SeenAt = never
	}
}

// Recover makes the state of a device from its host's record: it is unknown, and will be reserved and cleaned.
func Recover(known *contract.HostDeviceRecord, now time.Time, by Settings) *State {
	d := &State{DeviceState: &contract.DeviceState{}, now: now, by: by}
	why := "its workflow did not exist"
	if known.Ended != "" {
		why = "its workflow was " + known.Ended
	}
	d.recover(known, why+"; its host has a record of it")
	return d
}

func (d *State) recover(known *contract.HostDeviceRecord, why string) {
	d.enrollAs(known.Enrollment)
	d.Device.Cleanable = true // until the host's discovery says otherwise (D4)
	d.invalidate(known, why)
}

// New is a device that is not enrolled yet.
func New(name string, now time.Time) *State {
	d := &State{DeviceState: &contract.DeviceState{}, now: now}
	d.enrollAs(contract.Enrollment{Name: name})
	d.Enrolled = false
	return d
}

// isBehind says that the host knows higher numbers: this workflow's memory is older (F10, F36).
func (d *State) isBehind(r *contract.HostDeviceRecord) bool {
	return r.Seq > d.Seq || r.Binding > d.Device.Bindings || r.Clean > d.Cleans
}

// onHardware handles the report of the host that the hardware may have changed (F39). The host looks at an available
// device at once, and at one that is being cleaned when it is available. A tenant's device changes as its guest wants,
// and what an operator has is looked at before it is offered.
func (d *State) onHardware() {
	if d.Device.State != device.Available && d.Device.State != device.Cleaning {
		return
	}
	d.SeenAt, d.Intent.HardwareChanged = never, true
	// Nova may have given it to a guest, for which it leaves the host's driver.
	d.Intent.ReadInventory = d.Intent.ReadInventory || !d.ownedByBurnish()
}

// onWait handles the report of an activity that it waits, or that it goes on. One that comes late, when its call or its
// scheduling has ended, is dropped.
func (d *State) onWait(in contract.WaitReport) {
	underWay := in.Seq == 0 || in.Seq == d.Seq || d.Clean != nil && in.Seq == d.Clean.Seq
	switch {
	case !d.calling(in.For) || !underWay:
	case in.Fault.Code == "":
		d.endWait(in.For)
	case in.Stalled:
		d.waitingUntil(in.For, &in.Fault, d.now)
	case in.Moving:
		d.waitingUntil(in.For, &in.Fault, never)
	default:
		d.waiting(in.For, &in.Fault)
	}
}
