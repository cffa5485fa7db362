package explorer

import (
	"strings"

	"burnish/internal/device"
)

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
	case d.State == device.Available && t.w.appliance.profile > 0:
		t.broken("it stays available with a profile of Burnish's")
	case offered && !d.Allocatable():
		t.broken("it stays offered although it is " + string(d.State))
	}
	// A record that was put back may name who had it then: its instance says that it has left (F38).
	for n, mine := range t.w.tenants {
		p := first + who(n)
		if d.State == device.Allocated && d.Binding != nil && d.Binding.Instance == p.id() && !mine.has &&
			mine.denied != noDenial && !t.operatorKnows(p) && !t.w.forgets {
			t.broken("it stays bound to " + p.String() + ", whose " + mine.denied.String())
		}
		if mine.has && !t.nova && d.State == device.Available {
			t.broken("it stays available although " + p.String() + " has it")
		}
	}
}

// operatorKnows: the operator is called, because this instance may have left.
func (t turn) operatorKnows(p who) bool {
	f := t.w.d.Fault
	return f != nil && f.Class == device.NeedsOperator && strings.Contains(f.Message, p.id())
}

// quiet: nothing more happens by itself.
func (t turn) quiet() bool {
	d := t.w.d
	if d == nil || !d.Quiet() || t.dev().Claim != nil || t.w.host.started || t.w.late != nil ||
		t.w.answer != nil || t.shared && t.wantsPoll() ||
		t.w.unseen && t.state() != device.Retired || !d.RetryAt.IsZero() || !d.PausedUntil.IsZero() {
		return false
	}
	return t.within.Alone || !t.wantsRecheck()
}
