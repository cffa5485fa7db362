package lifecycle

import (
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file records what the device waits for (F29). Whatever is tried again is recorded with its cause, and ends when
// a try succeeds. Nothing is recorded while all goes well.

// calling says that a call under way waits for this.
func (d *State) calling(waitsFor string) bool {
	return slices.ContainsFunc(d.Jobs, func(j *Job) bool {
		return !j.Ended && j.Call != nil && j.Call.WaitsFor == waitsFor
	})
}

// endWaitOf ends the wait of a call that has ended. One whose call failed goes on if the same decision waits on: it
// began with the first.
func (d *State) endWaitOf(c Call, f *device.Fault) {
	switch {
	case c.WaitsFor == "" || !d.waits(c.WaitsFor) || d.calling(c.WaitsFor):
	case f != nil:
		w := d.Waits[d.waitFor(c.WaitsFor)]
		d.doubted = append(d.doubted, w)
		d.dropWait(c.WaitsFor)
		d.logHostWait(w, w.Fault.Code, f.Code)
	default:
		d.endWait(c.WaitsFor)
	}
}

// waiting records that the device waits because of a fault, and publishes it. The operator is called when the wait has
// lasted for TellAfter.
func (d *State) waiting(waitsFor string, f *device.Fault) {
	var callAt time.Time
	if d.waitOf(waitsFor).CallAt.IsZero() {
		callAt = d.now.Add(d.by.Policy().TellAfter)
	}
	d.waitingUntil(waitsFor, f, callAt)
}

// waitOf is the wait for something, or how it begins: with the call that has just failed, if one did.
func (d *State) waitOf(waitsFor string) contract.Wait {
	for _, w := range slices.Concat(d.Waits, d.doubted) {
		if w.For == waitsFor {
			return w
		}
	}
	return contract.Wait{For: waitsFor, Since: d.now.UTC()}
}

// waitingUntil is waiting with the time at which the operator is called; zero is never.
func (d *State) waitingUntil(waitsFor string, f *device.Fault, callAt time.Time) {
	i := d.waitFor(waitsFor)
	if i < 0 {
		d.Waits = append(d.Waits, d.waitOf(waitsFor))
		i = len(d.Waits) - 1
	}
	w := &d.Waits[i]
	before := w.Fault.Code
	w.Fault = *f
	d.logHostWait(*w, before, f.Code)
	if !callAt.IsZero() && (w.CallAt.IsZero() || callAt.Before(w.CallAt)) {
		w.CallAt = callAt.UTC()
	}
	w.Called = w.Called || !w.CallAt.IsZero() && !w.CallAt.After(d.now)
	d.Publish = true
}

// noteWait records a wait that is expected to end within moments, and publishes nothing: the next publication shows it.
func (d *State) noteWait(waitsFor string, f *device.Fault) {
	if !d.waits(waitsFor) {
		d.Waits = append(d.Waits, contract.Wait{For: waitsFor, Fault: *f, Since: d.now.UTC()})
	}
}

// dropWait ends a wait that was only noted.
func (d *State) dropWait(waitsFor string) {
	if i := d.waitFor(waitsFor); i >= 0 {
		if d.Waits = slices.Delete(slices.Clone(d.Waits), i, i+1); len(d.Waits) == 0 {
			d.Waits = nil
		}
	}
}

// notStalled records that a wait makes progress again: the operator is no longer called.
func (d *State) notStalled(waitsFor string) {
	if i := d.waitFor(waitsFor); i >= 0 {
		d.Waits[i].Called, d.Waits[i].CallAt = false, time.Time{}
	}
}

// endWait records that a wait is over, and publishes it.
func (d *State) endWait(waitsFor string) {
	if i := d.waitFor(waitsFor); i >= 0 {
		w := d.Waits[i]
		d.dropWait(waitsFor)
		d.logHostWait(w, w.Fault.Code, "")
		d.Publish = true
	}
}

// waits says that the device waits for this.
func (d *State) waits(waitsFor string) bool { return d.waitFor(waitsFor) >= 0 }

func (d *State) waitFor(waitsFor string) int {
	return slices.IndexFunc(d.Waits, func(w contract.Wait) bool { return w.For == waitsFor })
}

// nextOperatorCall is when the operator is to be called because of a wait; zero if not at all.
func (d *State) nextOperatorCall() time.Time {
	var next time.Time
	for _, w := range d.Waits {
		if !w.Called && !w.CallAt.IsZero() && (next.IsZero() || w.CallAt.Before(next)) {
			next = w.CallAt
		}
	}
	return next
}

// callOperator calls the operator because of every wait that has lasted long enough.
func (d *State) callOperator() {
	for i := range d.Waits {
		w := &d.Waits[i]
		w.Called = w.Called || !w.CallAt.IsZero() && !w.CallAt.After(d.now)
	}
	d.Publish = true
}
