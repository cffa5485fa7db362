package explorer

import "burnish/internal/device"

// check looks for a broken promise that no single move shows: what stays as it is.
func (t turn) check() {
	if !t.quiet() {
		return
	}
	d, i := t.dev(), t.w.inv
	offered := i.exists && !i.reserved && i.used == noParty
	switch {
	case offered && t.unaccounted() != noParty:
		t.broken("it stays offered with the bytes of " + t.w.bytes[t.w.slot].String())
	case offered && !d.Allocatable():
		t.broken("it stays offered although it is " + string(d.State))
	}
	for n, mine := range t.w.tenants {
		p := first + who(n)
		if d.State == device.Allocated && d.Binding != nil && d.Binding.Instance == p.String() && !mine.has &&
			mine.denied != noDenial && t.w.wf.backAgain != p {
			t.broken("it stays bound to " + p.String() + ", whose " + mine.denied.String())
		}
		if mine.has && !t.nova && d.State == device.Available {
			t.broken("it stays available although " + p.String() + " has it")
		}
	}
}

// quiet: nothing more happens by itself.
func (t turn) quiet() bool {
	f := t.w.wf
	switch {
	case !f.exists, t.busy(), f.read, f.ensure, t.w.host.started, t.w.late.kind != none, t.w.host.frozen:
		return false
	case f.look && t.state() != device.Retired, t.w.unseen && t.state() != device.Retired:
		return false
	}
	switch t.state() {
	case device.Cleaning:
		return false
	case device.Unknown, device.PendingCleaning:
		if !t.dev().AwaitingManualClean {
			return false
		}
	}
	return t.without.sweeps || !t.wantsRecheck()
}
