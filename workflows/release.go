package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// lowered is how an attempt to lower a reservation ended.
type unreserveOutcome int

const (
	released unreserveOutcome = iota // reserved = 0 was read back
	changed                          // the reservation changed hands meanwhile
	failed                           // the inventory refused for good
)

// giveBack returns a device whose state says Returning: F5. `Returning` was recorded
// before the first write, and the write uses the generation that the clean's own
// Observe recorded.
func (d *lifecycle) returnToPool(ctx workflow.Context) error {
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	defer d.lock.Unlock()
	if d.state.Intent.DuplicateAt != "" {
		d.state.Clean = nil
		d.fail(ctx, d.duplicateSerialFault())
		return nil
	}
	var generation int64
	var provider string
	if d.state.Clean != nil {
		generation, provider = d.state.Clean.Generation, d.state.Clean.Provider
	} else {
		// No clean preceded (D4, D7, or a manageable device that is not dirty): look
		// and burn first, as a clean would have.
		in := d.reservationRequest()
		var stock contract.ReservationSnapshot
		err := d.inventory(ctx, withInventory(ctx, "observe "+d.state.Name), contract.ActivityEnsureReserved, in, &stock)
		if !d.state.Device.Returning {
			return nil
		}
		if f := faultIn(err); f != nil {
			d.returnFailed(ctx, f)
			return nil
		}
		if stock.Used > 0 {
			d.applyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: first(stock.Consumers)})
			return nil
		}
		generation, provider = stock.Generation, stock.Provider
	}
	d.state.Clean = nil
	if d.state.Device.InMaintenance() {
		// A hold keeps it burned; `maintain --off` lowers it.
		d.applyOrReport(ctx, device.Event{Kind: device.Returned})
		return nil
	}
	switch outcome, f := d.unreserve(ctx, generation, provider); {
	case !d.state.Device.Returning:
	case outcome == released && d.state.Device.InMaintenance():
		// The hold came while the write was under way: burn it again.
		d.applyOrReport(ctx, device.Event{Kind: device.Returned})
		d.state.Intent.EnsureReserved = true
	case outcome == released:
		d.applyOrReport(ctx, device.Event{Kind: device.Returned})
	default:
		d.returnFailed(ctx, f)
	}
	return nil
}

// returnFailed follows a return that did not come about: what may have changed hands
// is cleaned again, what the inventory refuses for good waits for an operator.
func (d *lifecycle) returnFailed(ctx workflow.Context, f *device.Fault) {
	d.state.Clean = nil
	switch {
	case f.Code == device.CodeInventoryGenerationAhead || f.Code == device.CodeReservationChanged && d.ownedByBurnish():
		d.invalidate(ctx, nil, f.Message)
	case f.Code == device.CodeReservationChanged:
		d.applyOrReport(ctx, device.Event{Kind: device.ReservationChanged})
		d.state.Fault, d.state.LastError = f, f.Message
	default:
		d.fail(ctx, f)
		// A write that lowers may still be on its way: a newer one makes it void.
		d.state.Intent.EnsureReserved = true
	}
}

// lower writes reserved = 0 with the one generation that is known to be the device's
// own, and repeats that write only after a look that still shows this generation
// (F5). The generation that a look shows is compared, never used to write. The write is
// to the provider that the generation is of: one that Nova made anew has generations of
// its own.
func (d *lifecycle) unreserve(ctx workflow.Context, generation int64, provider string) (unreserveOutcome, *device.Fault) {
	pause := 200 * time.Millisecond
	look := d.reservationRequest()
	look.Expect, look.Provider = nil, ""
	in := look
	in.Generation, in.Provider = generation, provider
	for {
		err := d.inventory(ctx, noRetry(ctx, "release "+d.state.Name), contract.ActivityUnreserve, in, nil)
		if err == nil {
			return released, nil
		}
		var stock contract.ReservationSnapshot
		if err := d.inventory(ctx, withInventory(ctx, "look at "+d.state.Name), contract.ActivityReadReservation, look, &stock); err != nil {
			return failed, faultOf(err)
		}
		switch {
		case stock.Provider != provider:
			return changed, &device.Fault{Class: device.NeedsOperator, Code: device.CodeReservationChanged,
				Message: "its provider was made anew before the device was returned", Remedy: "none: it is cleaned again"}
		case stock.Reserved == 0:
			d.state.Intent.ReadInventory = d.state.Intent.ReadInventory || stock.Used > 0 // taken already
			return released, nil
		case stock.Generation != generation:
			return changed, &device.Fault{Class: device.NeedsOperator, Code: device.CodeReservationChanged,
				Message: "the reservation changed hands before the device was returned", Remedy: "none: it is cleaned again"}
		}
		if f := faultOf(err); f.Class == device.Permanent || f.Class == device.NeedsOperator {
			if f.Code != device.CodeConflict {
				return failed, f
			}
		}
		if err := workflow.Sleep(ctx, pause); err != nil {
			return failed, faultOf(err)
		}
		pause = min(2*pause, 10*time.Second)
	}
}

// leavePool burns an available device before the event takes it out of the pool, so
// that nobody is given it meanwhile; guard is asked again once it is burned. Elsewhere
// it just applies the event.
func (d *lifecycle) reserveThen(ctx workflow.Context, guard func() error, kind device.EventKind) error {
	if d.state.Device.State != device.Available {
		return d.apply(ctx, device.Event{Kind: kind})
	}
	if err := guard(); err != nil {
		return err
	}
	d.poolTransitions++
	defer func() { d.poolTransitions-- }()
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	defer d.lock.Unlock()
	if err := guard(); err != nil {
		return err
	}
	if !d.state.Device.Allocatable() {
		return d.apply(ctx, device.Event{Kind: kind})
	}
	in := d.reservationRequest()
	var stock contract.ReservationSnapshot
	if !d.ownedByBurnish() {
		// Whoever had it and left since the last look left it burned (D9).
		if err := d.inventory(ctx, withClientDeadline(ctx, "look at "+d.state.Name), contract.ActivityReadReservation, in, &stock); err != nil {
			return faultOf(err)
		}
		if stock.Used > 0 { // and may be gone by the burn
			d.observed(ctx, stock)
			return d.refuse(device.CodeInUse, "the inventory shows the device in use by "+first(stock.Consumers), "wait until it is released")
		}
		if stock.Reserved >= stock.Total && d.state.Device.Allocatable() {
			d.observed(ctx, stock)
			return d.refuse(device.CodeInUse, "the inventory shows that the device was used since: it is cleaned first", "wait until it is clean")
		}
		in.Expect, in.Provider = &stock.Generation, stock.Provider
	}
	if err := d.inventory(ctx, withClientDeadline(ctx, "burn "+d.state.Name), contract.ActivityEnsureReserved, in, &stock); err != nil {
		// Whether it is burned now is unknown: the device looks for itself.
		d.state.Intent.ReadInventory = true
		return faultOf(err)
	}
	if stock.Used > 0 {
		d.observed(ctx, stock)
		return d.refuse(device.CodeInUse, "the inventory shows the device in use by "+first(stock.Consumers), "wait until it is released")
	}
	if err := guard(); err != nil {
		return err
	}
	if err := d.apply(ctx, device.Event{Kind: kind}); err != nil {
		return err
	}
	d.state.Intent.EnsureReserved = false // just done
	return nil
}

// rejoinPool ends the operator's hold on an available device: it must be unused, and
// its reservation is lowered as after a clean (S2.51).
func (d *lifecycle) endMaintenance(ctx workflow.Context) error {
	d.poolTransitions++
	defer func() { d.poolTransitions-- }()
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	defer d.lock.Unlock()
	if err := d.validateMaintain(contract.MaintainInput{Off: true}); err != nil || d.state.Device.State != device.Available {
		return err
	}
	in := d.reservationRequest()
	var stock contract.ReservationSnapshot
	if err := d.inventory(ctx, withClientDeadline(ctx, "observe "+d.state.Name), contract.ActivityEnsureReserved, in, &stock); err != nil {
		f := faultOf(err)
		if f.Code == device.CodeInventoryGenerationAhead {
			d.invalidate(ctx, nil, "it may have been used while it was held")
		}
		return f
	}
	if stock.Used > 0 {
		d.observed(ctx, stock)
		return d.refuse(device.CodeInUse, "the inventory shows the device in use by "+first(stock.Consumers), "wait until it is released")
	}
	if err := d.apply(ctx, device.Event{Kind: device.MaintainOff}); err != nil || !d.state.Device.Allocatable() {
		return err
	}
	if outcome, f := d.unreserve(ctx, stock.Generation, stock.Provider); outcome != released {
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.settings(ctx).Automated})
		return f
	}
	return nil
}
