package reservation

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// outcome is how an attempt to lower a reservation ended.
type outcome int

const (
	released outcome = iota // reserved = 0 was read back
	changed                 // another wrote to the reservation meanwhile
	failed                  // the inventory refused for good
)

// ReturnToPool returns a device whose state says Returning (F5). `Returning` was recorded
// before the first write, and the write uses the generation that the clean recorded when
// it reserved the device.
func (d *Reservation) ReturnToPool(ctx workflow.Context) error {
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	s := d.State
	if s.Intent.DuplicateAt != "" {
		s.Clean = nil
		d.Fail(ctx, d.DuplicateSerialFault())
		return nil
	}
	var generation int64
	var provider string
	if s.Clean != nil {
		generation, provider = s.Clean.Generation, s.Clean.Provider
	} else {
		// No clean preceded (D4, D7, or a manageable device that is not dirty): reserve
		// and read first, as a clean does.
		found, err := d.ReserveForClean(ctx, ctx)
		if !s.Device.Returning {
			return nil
		}
		if f := calls.FaultIn(err); f != nil {
			d.returnFailed(ctx, f)
			return nil
		}
		if found.Used > 0 {
			d.ApplyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: Consumer(found)})
			return nil
		}
		generation, provider = found.Generation, found.Provider
	}
	s.Clean = nil
	if s.Device.InMaintenance() {
		// Maintenance keeps it reserved; `maintain --off` lowers the reservation.
		d.ApplyOrReport(ctx, device.Event{Kind: device.Returned})
		return nil
	}
	switch result, f := d.unreserve(ctx, generation, provider); {
	case !s.Device.Returning:
	case result == released && s.Device.InMaintenance():
		// Maintenance began during the write: reserve it again.
		d.ApplyOrReport(ctx, device.Event{Kind: device.Returned})
		s.Intent.EnsureReserved = true
	case result == released:
		d.ApplyOrReport(ctx, device.Event{Kind: device.Returned})
	default:
		d.returnFailed(ctx, f)
	}
	return nil
}

// returnFailed follows a return that did not succeed: a device whose reservation changed
// is cleaned again; one that the inventory refuses for good waits for an operator.
func (d *Reservation) returnFailed(ctx workflow.Context, f *device.Fault) {
	d.State.Clean = nil
	switch {
	case f.Code == device.CodeInventoryGenerationAhead || f.Code == device.CodeReservationChanged && d.OwnedByBurnish():
		d.Invalidate(ctx, nil, f.Message)
	case f.Code == device.CodeReservationChanged:
		d.ApplyOrReport(ctx, device.Event{Kind: device.ReservationChanged})
		d.State.Fault, d.State.LastError = f, f.Message
	default:
		d.Fail(ctx, f)
		// A write that lowers may still be on its way: a newer one makes it void.
		d.State.Intent.EnsureReserved = true
	}
}

// unreserve writes reserved = 0 with the one generation that is known to be the device's
// own, to the provider that the generation is of: one that Nova re-created has generations
// of its own. It repeats the write only after a read that still shows this generation
// (F5). The generation that a read shows is compared, never used to write.
func (d *Reservation) unreserve(ctx workflow.Context, generation int64, provider string) (outcome, *device.Fault) {
	pause := 200 * time.Millisecond
	read := d.unconditional()
	in := read
	in.Generation, in.Provider = generation, provider
	for {
		_, err := d.call(ctx, calls.NoRetry(ctx, "unreserve "+d.State.Name), contract.ActivityUnreserve, in)
		if err == nil {
			return released, nil
		}
		found, readErr := d.call(ctx, calls.WithInventory(ctx, "read the reservation of "+d.State.Name), contract.ActivityReadReservation, read)
		if readErr != nil {
			return failed, calls.FaultOf(readErr)
		}
		switch {
		case found.Provider != provider:
			return changed, reservationChanged("its provider was re-created before the device was returned")
		case found.Reserved == 0:
			d.State.Intent.ReadInventory = d.State.Intent.ReadInventory || found.Used > 0 // allocated already
			return released, nil
		case found.Generation != generation:
			return changed, reservationChanged("the reservation changed before the device was returned")
		}
		if f := calls.FaultOf(err); f.Class != device.Transient && f.Code != device.CodeConflict {
			return failed, f
		}
		if err := workflow.Sleep(ctx, pause); err != nil {
			return failed, calls.FaultOf(err)
		}
		pause = min(2*pause, 10*time.Second)
	}
}

func reservationChanged(message string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeReservationChanged, Message: message, Remedy: "none: it is cleaned again"}
}

// ReserveThen reserves an available device before the event takes it out of the pool, so
// that no scheduler allocates it meanwhile; validate is asked again once it is reserved.
// In any other state it just applies the event.
func (d *Reservation) ReserveThen(ctx workflow.Context, validate func() error, kind device.EventKind) error {
	if d.State.Device.State != device.Available {
		return d.Apply(ctx, device.Event{Kind: kind})
	}
	if err := validate(); err != nil {
		return err
	}
	d.PoolTransitions++
	defer func() { d.PoolTransitions-- }()
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	if err := validate(); err != nil {
		return err
	}
	if !d.State.Device.Allocatable() {
		return d.Apply(ctx, device.Event{Kind: kind})
	}
	in := d.request()
	if !d.OwnedByBurnish() {
		// An instance that had it and left since the last read left it reserved (D9).
		found, err := d.read(ctx, in)
		if err != nil {
			return calls.FaultOf(err)
		}
		if found.Used > 0 { // and may be gone by the write
			return d.refuseUsed(ctx, found)
		}
		if found.Reserved >= found.Total && d.State.Device.Allocatable() {
			d.Conclude(ctx, found)
			return d.Refuse(device.CodeInUse, "the inventory shows that the device was used since: it is cleaned first", "wait until it is clean")
		}
		in.Expect, in.Provider = &found.Generation, found.Provider
	}
	found, err := d.ensureReserved(ctx, in)
	if err != nil {
		// Whether it is reserved now is unknown: the device reads its inventory.
		d.State.Intent.ReadInventory = true
		return calls.FaultOf(err)
	}
	if found.Used > 0 {
		return d.refuseUsed(ctx, found)
	}
	if err := validate(); err != nil {
		return err
	}
	if err := d.Apply(ctx, device.Event{Kind: kind}); err != nil {
		return err
	}
	d.State.Intent.EnsureReserved = false // done above
	return nil
}

// EndMaintenance ends the operator's maintenance of an available device: it must be
// unused, and its reservation is lowered as after a clean (S2.51).
func (d *Reservation) EndMaintenance(ctx workflow.Context) error {
	d.PoolTransitions++
	defer func() { d.PoolTransitions-- }()
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	if err := d.Legal(device.Event{Kind: device.MaintainOff}); err != nil || d.State.Device.State != device.Available {
		return err
	}
	found, err := d.ensureReserved(ctx, d.request())
	if err != nil {
		f := calls.FaultOf(err)
		if f.Code == device.CodeInventoryGenerationAhead {
			d.Invalidate(ctx, nil, "it may have been used while it was in maintenance")
		}
		return f
	}
	if found.Used > 0 {
		return d.refuseUsed(ctx, found)
	}
	if err := d.Apply(ctx, device.Event{Kind: device.MaintainOff}); err != nil || !d.State.Device.Allocatable() {
		return err
	}
	if result, f := d.unreserve(ctx, found.Generation, found.Provider); result != released {
		d.ApplyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.Policy(ctx).Automated})
		return f
	}
	return nil
}

// refuseUsed concludes from a snapshot that shows a consumer, and refuses the request.
func (d *Reservation) refuseUsed(ctx workflow.Context, found contract.ReservationSnapshot) error {
	d.Conclude(ctx, found)
	return d.Refuse(device.CodeInUse, "the inventory shows the device in use by "+Consumer(found), "wait until it is released")
}
