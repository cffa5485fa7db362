package lifecycle

import (
	"cmp"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file is how a device enters the offer and leaves it.

// returnToOffer returns a device that has Returning set (F5). What it follows from, the result of the last step or an
// earlier task, was recorded before the first write, and the write uses the generation that the clean recorded when it
// reserved the device. If its host has not seen it since it was out of our hands, the host looks first (F27); while the
// host does not answer, it is tried again. A server of a shared pool loses its profile first (S4.21): a device that is
// available has none.
func (d *State) returnToOffer(j *Job) {
	if d.shared() {
		d.profile(j, ProfileKind{Remove: true}, phReturnUnprofiled)
		return
	}
	d.enter(j, phReturn)
}

// returnUnprofiled goes on without a profile. A server that others took meanwhile is not returned.
func (d *State) returnUnprofiled(j *Job, out Outcome) {
	if !d.Device.Returning {
		d.workEnds(j) // retired, or unknown since
		return
	}
	switch o := d.observePool(device.AskPoolReturn, j.Server, out.Fault); {
	case o.Needs(device.Proceed):
		tag := j.Server.Tag
		d.updatePool(func(s *contract.PoolState) { s.Tag = tag })
		d.enter(j, phReturn)
		return
	case o.Event == device.LostRace:
		d.Clean = nil
		d.fail(d.takenFault())
	case o.Event == device.ReservationChanged: // SAFETY F34: what others may have used is not offered
		d.Clean = nil
		d.concludePool(device.AskPoolReturn, j.Server, nil)
	default:
		d.Clean = nil
		d.fail(cmp.Or(out.Fault, &device.Fault{Class: device.NeedsOperator, Code: device.CodeProfileFailed,
			Message: "the server's profile is still on " + d.Enrollment.Pool.Appliance + " although it was removed",
			Remedy:  "look at the server's profile on the appliance, then clean " + d.Name}))
	}
	d.workEnds(j)
}

func (d *State) returnBegins(j *Job) {
	switch {
	case !d.Device.Returning: // retired or in use since
		d.workEnds(j)
		return
	case d.Intent.DuplicateAt != "":
		d.Clean = nil
		d.fail(d.duplicateSerial())
		d.workEnds(j)
		return
	}
	j.SeenAt = d.SeenAt // at the end of the clean
	// A device that waits for its host is reserved: the inventory is not asked until the host answers.
	if d.Device.Unseen && d.waits(contract.WaitHost) {
		d.lookBeforeOffer(j, phReturnLooked)
		return
	}
	d.returnReserves(j)
}

func (d *State) returnLooked(j *Job, o Outcome) {
	if o.Fault != nil {
		if o.Again {
			d.retry = o.Fault
		}
		d.workEnds(j)
		return
	}
	d.returnReserves(j)
}

func (d *State) returnReserves(j *Job) {
	if d.Clean == nil {
		// No clean preceded (D4, D7, or a manageable device that is not dirty): reserve and read first, as a clean does.
		d.enter(j, phReturnReserve)
		return
	}
	if !d.ownedByBurnish() {
		// Whatever keeps the device from being returned now, it is clean only with the provider that its clean
		// reserved: a re-created one, which a read may have shown, was free.
		d.Generation, d.Provider = d.Clean.Generation, d.Clean.Provider
	}
	j.Generation, j.Provider = d.Generation, d.Provider
	d.returnLowers(j)
}

// returnReserveCall is never made in a task: nothing that it finds is cleaned, so that it must know how often it wrote.
func (d *State) returnReserveCall(j *Job) {
	j.Asked = d.ask(device.AskReturn)
	d.reserve(j, d.cleared(d.request()), How{})
}

func (d *State) returnReserved(j *Job, out Outcome) {
	found, f := d.answered(j, out)
	o := d.conclude(j.Asked, found, f)
	if o.Needs(device.RetryLater) {
		d.retry = f
	}
	if !o.Needs(device.Proceed) {
		d.workEnds(j)
		return
	}
	j.Generation, j.Provider = found.Generation, found.Provider
	d.returnLowers(j)
}

func (d *State) returnLowers(j *Job) {
	d.Clean = nil
	if d.Device.InMaintenance() {
		// Maintenance keeps it reserved; `maintain --off` lowers the reservation.
		d.must(device.Event{Kind: device.Returned})
		d.workEnds(j)
		return
	}
	j.InTask = true
	d.lower(j, phReturned)
}

func (d *State) returned(j *Job, _ Outcome) { d.workEnds(j) } // the fault is recorded

// lower begins the sequence that writes reserved = 0 with the one generation that is known to be the device's own, to
// the provider that has this generation: a re-created one counts its own. It repeats the write only after a read that
// still shows this generation (F5). The generation that a read shows is compared, never used to write. Each write is
// preceded by a recent look of the host (F27). The sequence ends with the fault of a look or of a write that did not
// succeed, which it has recorded.
func (d *State) lower(j *Job, back Phase) {
	j.Pause, j.Fault = 200*time.Millisecond, nil
	j.Back = append(j.Back, back)
	d.lowerAgain(j, Outcome{})
}

// lowerAgain has the host look at the device, unless its last look is recent, and then writes. What may not be offered
// any more, since a write without an answer, is not.
func (d *State) lowerAgain(j *Job, _ Outcome) {
	if j.Fault != nil && !d.Device.Returning && !d.Device.Allocatable() {
		d.lowerEnds(j, j.Fault)
		return
	}
	if d.Device.Unseen || d.now.Sub(j.SeenAt) > maxLookAge {
		d.lookBeforeOffer(j, phLowerLooked)
		return
	}
	d.enter(j, phLower)
}

func (d *State) lowerLooked(j *Job, o Outcome) {
	if o.Fault != nil {
		if o.Again {
			d.retry = o.Fault
		}
		d.lowerEnds(j, o.Fault)
		return
	}
	d.enter(j, phLower)
}

func (d *State) lowerCall(j *Job) {
	j.Asked = device.Ask(device.AskUnreserve, d.Device, device.Known{Generation: j.Generation, Provider: j.Provider})
	in := d.lowerRequest(j)
	in.Provider, in.Receipt, in.Statements = j.Provider, d.Receipt, d.Statements
	d.inventory(j, contract.ActivityUnreserve, in,
		How{Once: true, Client: true, InTask: j.InTask, What: "unreserve " + d.Name})
}

func (d *State) lowerRequest(j *Job) contract.ReservationRequest {
	in := d.unconditional()
	in.Generation = j.Generation
	return in
}

func (d *State) lowered(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	if j.Fault = f; f != nil {
		j.Asked.Refused = f.Class != device.Transient && f.Code != device.CodeConflict
		d.enter(j, phLowerRead)
		return
	}
	d.judgeLowered(j, found, nil)
}

func (d *State) lowerReadCall(j *Job) { d.read(j, d.lowerRequest(j), How{}) }

func (d *State) lowerRead(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	d.judgeLowered(j, found, f)
}

// judgeLowered decides what became of the write. f is the fault of the read that followed it.
func (d *State) judgeLowered(j *Job, found device.Inventory, f *device.Fault) {
	asked := answered(j.Asked, found, f)
	o, why := device.Observe(d.Device, asked)
	if o.Needs(device.RepeatWrite) {
		if j.Fault != nil {
			d.waiting(contract.WaitReturn, j.Fault)
		}
		d.enter(j, phLowerPause)
		return
	}
	if f == nil {
		f = j.Fault
	}
	d.record(o, string(why), asked, f)
	d.lowerEnds(j, f)
}

func (d *State) lowerPause(j *Job) {
	j.Until = d.now.Add(j.Pause)
	j.Pause = min(2*j.Pause, 10*time.Second)
}

func (d *State) lowerEnds(j *Job, f *device.Fault) {
	d.endWait(contract.WaitReturn)
	d.back(j, Outcome{Fault: f})
}

// leave begins the sequence that reserves an available device before the event j.Kind takes it out of the offer, so
// that no scheduler allocates it meanwhile; whether the event may happen is asked again once it is reserved. In any
// other state it only applies the event.
func (d *State) leave(j *Job, kind device.EventKind, back Phase) {
	j.Kind = kind
	d.share(j, phLeave, back)
}

func (d *State) leaveBegins(j *Job) {
	if d.Device.State != device.Available {
		d.back(j, Outcome{Err: d.apply(device.Event{Kind: j.Kind})})
		return
	}
	if err := d.mayLeave(j); err != nil {
		d.back(j, Outcome{Err: err})
		return
	}
	j.Offers = true
	d.enter(j, phLeaveAlone)
}

func (d *State) mayLeave(j *Job) error {
	switch j.Verb.Name {
	case contract.VerbManage.Name, contract.VerbMaintain.Name, contract.VerbRetire.Name:
		return d.validate(j)
	}
	return d.legal(device.Event{Kind: j.Kind})
}

func (d *State) leaveEnds(j *Job, err error) {
	j.Offers = false
	d.letGo(j)
	d.back(j, Outcome{Err: err})
}

func (d *State) leaveAlone(j *Job) {
	if err := d.mayLeave(j); err != nil {
		d.leaveEnds(j, err)
		return
	}
	if !d.Device.Allocatable() {
		d.leaveEnds(j, d.apply(device.Event{Kind: j.Kind}))
		return
	}
	j.Found = device.Inventory{}
	if d.ownedByBurnish() {
		d.enter(j, phLeaveReserve)
		return
	}
	// An instance that used the device since the last read left it reserved (D9), and one that uses it now may be gone
	// before the write.
	j.Asked = d.ask(device.AskBeforeLeaving)
	d.read(j, d.unconditional(), How{Client: true})
}

func (d *State) leaveRead(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	if err := d.refuseUsed(d.conclude(j.Asked, found, f), f); err != nil {
		d.leaveEnds(j, err)
		return
	}
	j.Found = found
	d.enter(j, phLeaveReserve)
}

func (d *State) leaveReserveCall(j *Job) {
	in := d.clearedFor(d.request(), j.Kind)
	in.Provider = j.Found.Provider // the one that was read, if it is Nova's
	j.Asked = d.askToWrite(device.AskToLeave, in)
	d.reserve(j, in, How{Client: true})
}

func (d *State) leaveReserved(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	err := d.refuseUsed(d.conclude(j.Asked, found, f), f)
	if err == nil {
		err = d.mayLeave(j)
	}
	if err == nil {
		err = d.apply(device.Event{Kind: j.Kind})
	}
	if err == nil {
		d.Intent.EnsureReserved = false // done above
	}
	d.leaveEnds(j, err)
}

// endMaintenance begins the sequence that ends the operator's maintenance of an available device: its host must see the
// enrolled device, it must be unused, and its reservation is lowered as after a clean (S2.51, F27).
func (d *State) endMaintenance(j *Job, back Phase) {
	j.Offers = true
	j.Back = append(j.Back, back)
	d.lookBeforeOffer(j, phEndMaintenanceLooked)
}

func (d *State) endMaintenanceEnds(j *Job, err error) {
	j.Offers = false
	d.letGo(j)
	d.back(j, Outcome{Err: err})
}

func (d *State) endMaintenanceLooked(j *Job, o Outcome) {
	if o.Fault != nil {
		d.endMaintenanceEnds(j, o.Fault)
		return
	}
	d.enter(j, phEndMaintenance)
}

func (d *State) endMaintenanceCall(j *Job) {
	if err := d.legal(device.Event{Kind: device.MaintainOff}); err != nil || d.Device.State != device.Available {
		d.endMaintenanceEnds(j, err)
		return
	}
	in := d.clearedFor(d.request(), device.MaintainOff)
	j.Asked = d.askToWrite(device.AskEndMaintenance, in)
	d.reserve(j, in, How{Client: true})
}

func (d *State) endMaintenanceReserved(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	err := d.refuseUsed(d.conclude(j.Asked, found, f), f)
	if err == nil {
		err = d.apply(device.Event{Kind: device.MaintainOff})
	}
	if err != nil || !d.Device.Allocatable() {
		d.endMaintenanceEnds(j, err)
		return
	}
	// Not in the task: if that is lost, and with it the request, the device stays in maintenance.
	j.Generation, j.Provider, j.InTask = found.Generation, found.Provider, false
	d.lower(j, phEndMaintenanceLowered)
}

func (d *State) endMaintenanceLowered(j *Job, o Outcome) {
	if o.Fault != nil && !d.Device.Allocatable() {
		d.endMaintenanceEnds(j, o.Fault)
		return
	}
	d.endMaintenanceEnds(j, nil)
}
