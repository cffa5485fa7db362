package record

import (
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// DropOverride ends the pending request of an override.
func (r *Record) DropOverride() {
	if o := r.State.Override; o != nil && o.Pending != nil {
		r.State.Override = &contract.OverrideState{Number: o.Number, Approved: o.Approved}
	}
}

// updateOverride keeps what is known of overrides true after an event. Whoever approves a
// request approves the return of the device as it was when it was requested. An approved one
// is why the device is not sanitized until a full plan ends, or another rule returns it.
func (r *Record) updateOverride(was device.Device, e device.Event) {
	o, next := r.State.Override, r.State.Device
	if o == nil {
		return
	}
	switch e.Kind {
	case device.Maintain, device.MaintainOff, device.Power:
	default:
		r.DropOverride()
	}
	if o.Approved != nil && (!next.NotSanitized || was.Dirty && next.Returning) {
		r.State.Override = &contract.OverrideState{Number: o.Number, Pending: r.State.Override.Pending}
	}
}
