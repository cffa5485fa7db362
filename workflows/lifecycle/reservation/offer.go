package reservation

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// maxLookAge is how old the host's last look at a device may be when its reservation is
// lowered. A clean ends with one.
const maxLookAge = 3 * time.Minute

// ReturnToOffer returns a device that has Returning set (F5). What it follows from, the result of the
// last step or an earlier task, was recorded before the first write, and the write uses the generation
// that the clean recorded when it reserved the device. If its host has not seen it since it was out of
// our hands, the host looks first (F27); while the host does not answer, it is tried again (Retry).
func (d *Reservation) ReturnToOffer(ctx workflow.Context) error {
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	s := d.State
	if !s.Device.Returning {
		return nil // retired or in use since
	}
	if s.Intent.DuplicateAt != "" {
		s.Clean = nil
		d.Fail(ctx, d.DuplicateSerialFault())
		return nil
	}
	seenAt := s.UpdatedAt // the end of the clean
	// A device that waits for its host is reserved: the inventory is not asked until the
	// host answers.
	if s.Device.Unseen && d.Waits(contract.WaitHost) && d.look(ctx, &seenAt) != nil {
		return nil
	}
	var generation int64
	var provider string
	if s.Clean != nil {
		generation, provider = s.Clean.Generation, s.Clean.Provider
		if !d.OwnedByBurnish() {
			// Whatever keeps the device from being returned now, it is clean only with the provider
			// that its clean reserved: a re-created one, which a read may have shown, was free.
			s.Generation, s.Provider = generation, provider
		}
	} else {
		// No clean preceded (D4, D7, or a manageable device that is not dirty): reserve
		// and read first, as a clean does.
		asked := d.Ask(device.AskReturn)
		found, err := d.reserveForReturn(ctx)
		o := d.Conclude(ctx, asked, found, err)
		if o.Needs(device.RetryLater) {
			d.Retry = calls.FaultOf(err)
		}
		if !o.Needs(device.Proceed) {
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
	_ = d.unreserve(ctx, d.callInTask, generation, provider, seenAt) // which records the fault
	return nil
}

// look has the host look at the device, unless its last look, at the time at, is recent. It
// returns the fault of a look that did not succeed.
func (d *Reservation) look(ctx workflow.Context, at *time.Time) *device.Fault {
	if !d.State.Device.Unseen && workflow.Now(ctx).Sub(*at) <= maxLookAge {
		return nil
	}
	f, again := d.discovery.BeforeOffer(ctx)
	*at = workflow.Now(ctx)
	if again {
		d.Retry = f
	}
	return f
}

// unreserve writes reserved = 0 with the one generation that is known to be the device's
// own, to the provider that has this generation: a re-created one counts its own. It
// repeats the write only after a read that still shows this generation (F5). The generation
// that a read shows is compared, never used to write. Each write is preceded by a recent
// look of the host, the last at seenAt (F27). It concludes from the result, and returns the
// fault of a look or of a write that did not succeed.
func (d *Reservation) unreserve(ctx workflow.Context, call inventoryCall, generation int64, provider string,
	seenAt time.Time) *device.Fault {
	pause := 200 * time.Millisecond
	defer d.EndWait(ctx, contract.WaitReturn)
	read := d.unconditional()
	read.Generation = generation
	in := read
	in.Provider = provider
	for {
		if f := d.look(ctx, &seenAt); f != nil {
			return f
		}
		asked := device.Ask(device.AskUnreserve, d.State.Device, device.Known{Generation: generation, Provider: provider})
		found, err := call(ctx, calls.NoRetry(ctx, "unreserve "+d.State.Name), contract.ActivityUnreserve, in)
		f := calls.FaultIn(err)
		if err != nil {
			asked.Refused = f.Class != device.Transient && f.Code != device.CodeConflict
			found, err = d.call(ctx, calls.WithInventory(ctx, "read the reservation of "+d.State.Name),
				contract.ActivityReadReservation, read)
		}
		asked = answer(asked, found, err)
		o, why := device.Observe(d.State.Device, asked)
		if o.Needs(device.RepeatWrite) {
			if f != nil {
				d.Waiting(ctx, contract.WaitReturn, f)
			}
			if err = workflow.Sleep(ctx, pause); err == nil {
				pause = min(2*pause, 10*time.Second)
				continue
			}
			asked = answer(asked, found, err)
			o, why = device.Observe(d.State.Device, asked)
		}
		if err != nil {
			f = calls.FaultOf(err)
		}
		d.record(ctx, o, string(why), asked, f)
		return f
	}
}

// ReserveThen reserves an available device before the event takes it out of the offer, so
// that no scheduler allocates it meanwhile; validate is called again once it is reserved.
// In any other state it only applies the event.
func (d *Reservation) ReserveThen(ctx workflow.Context, validate func() error, kind device.EventKind) error {
	if d.State.Device.State != device.Available {
		return d.Apply(ctx, device.Event{Kind: kind})
	}
	if err := validate(); err != nil {
		return err
	}
	d.OfferTransitions++
	defer func() { d.OfferTransitions-- }()
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
	in := d.clearedFor(d.request(), kind)
	if !d.OwnedByBurnish() {
		// An instance that used the device since the last read left it reserved (D9), and
		// one that uses it now may be gone before the write.
		asked := d.Ask(device.AskBeforeLeaving)
		found, err := d.Read(ctx)
		if err := d.refuseUsed(d.Conclude(ctx, asked, found, err), err); err != nil {
			return err
		}
		in.Expect, in.Provider = &found.Generation, found.Provider
	}
	asked := d.askToWrite(device.AskToLeave, in)
	found, err := d.ensureReserved(ctx, in)
	if err := d.refuseUsed(d.Conclude(ctx, asked, found, err), err); err != nil {
		return err
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

// EndMaintenance ends the operator's maintenance of an available device: its host must see
// the enrolled device, it must be unused, and its reservation is lowered as after a clean
// (S2.51, F27).
func (d *Reservation) EndMaintenance(ctx workflow.Context) error {
	d.OfferTransitions++
	defer func() { d.OfferTransitions-- }()
	if f, _ := d.discovery.BeforeOffer(ctx); f != nil {
		return f
	}
	seenAt := workflow.Now(ctx)
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	if err := d.Legal(device.Event{Kind: device.MaintainOff}); err != nil || d.State.Device.State != device.Available {
		return err
	}
	in := d.clearedFor(d.request(), device.MaintainOff)
	asked := d.askToWrite(device.AskEndMaintenance, in)
	found, err := d.ensureReserved(ctx, in)
	if err := d.refuseUsed(d.Conclude(ctx, asked, found, err), err); err != nil {
		return err
	}
	if err := d.Apply(ctx, device.Event{Kind: device.MaintainOff}); err != nil || !d.State.Device.Allocatable() {
		return err
	}
	// Not in the task: if that is lost, and with it the request, the device stays in maintenance.
	if f := d.unreserve(ctx, d.call, found.Generation, found.Provider, seenAt); f != nil && !d.State.Device.Allocatable() {
		return f
	}
	return nil
}

// refuseUsed refuses a request if the inventory did not answer, or if the device is or was
// in use.
func (d *Reservation) refuseUsed(o device.Observation, err error) error {
	switch {
	case err != nil:
		return calls.FaultOf(err)
	case o.Event == device.ObservedInUse:
		return d.Refuse(device.CodeInUse, "the inventory shows the device in use by "+o.Instance, "wait until it is released")
	case o.Event != "":
		return d.Refuse(device.CodeInUse, "the inventory shows that the device was used: it is cleaned first",
			"wait until it is clean")
	}
	return nil
}
