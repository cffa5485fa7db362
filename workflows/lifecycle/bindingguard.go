package lifecycle

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/lifecycle/status"
)

// This file keeps requests of operators from ending a binding in silence (F31).

// tenant is the instance that has the device by the workflow's own state: its binding, or
// the claim whose burn is under way. "" if none has it.
func (d *parts) tenant() string {
	switch dev := d.State.Device; {
	case dev.Binding != nil:
		return dev.Binding.Instance
	case dev.Claim != nil && dev.Claim.Burning:
		return dev.Claim.Instance
	case dev.State == device.Allocated:
		return device.UnknownConsumer
	}
	return ""
}

// nameTenant refuses a request that would end a binding without naming its instance.
func (d *parts) nameTenant(verb, named string) error {
	return d.nameInstance(verb, named, d.tenant())
}

// nameInstance is nameTenant for an instance that has the device by another record.
func (d *parts) nameInstance(verb, named, has string) error {
	switch {
	case has == "" || device.SameTenant(has, named):
		return nil
	case named == "":
		return d.Refuse(device.CodeInUse, "instance "+has+" has the device: "+verb+" would end its binding",
			status.NameTenant(d.State, verb, has))
	}
	return d.Refuse(device.CodeInUse, "instance "+has+" has the device, not "+named, status.NameTenant(d.State, verb, has))
}

// nameRecorded refuses a request that would destroy the inventory's record of an instance
// that has the device, unless the request names it. The caller holds the reservation's lock.
func (d *parts) nameRecorded(ctx workflow.Context, verb, named string) error {
	has, err := d.reservation.Tenant(ctx)
	if err != nil {
		return err
	}
	return d.nameInstance(verb, named, has)
}

// withdraw applies an event that gives the device to its operator. The inventory may record
// an instance that the workflow does not know of: such a device is refused unless the request
// names the instance. What leaves the offer is read where it is reserved.
func (d operations) withdraw(ctx workflow.Context, verb, named string, validate func() error,
	kind device.EventKind) error {
	if d.State.Device.State != device.Available {
		if err := d.checkRecorded(ctx, verb, named); err != nil {
			return err
		}
		if err := validate(); err != nil { // it may have changed during the read
			return err
		}
	}
	return d.reservation.ReserveThen(ctx, validate, kind)
}

// checkRecorded is nameRecorded for a caller that does not hold the reservation's lock.
func (d operations) checkRecorded(ctx workflow.Context, verb, named string) error {
	if err := d.reservation.Lock(ctx); err != nil {
		return err
	}
	defer d.reservation.Unlock()
	return d.nameRecorded(ctx, verb, named)
}

// recordEnd keeps in the history who ended a binding, and how. b is nil if there was none.
func (d *parts) recordEnd(b *device.Binding, verb, by, reason string) {
	if b == nil {
		return
	}
	ended := verb
	if by != "" {
		ended += " by " + by
	}
	if reason != "" {
		ended += ": " + reason
	}
	d.State.History = d.State.History.Ended(b.Number, ended)
}
