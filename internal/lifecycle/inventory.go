package lifecycle

import (
	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/planning"
)

// This file makes the requests to the inventory, and records what follows from each answer: generation, provider, and
// whether the generation is uncertain.

// known is what the state records of the inventory.
func (d *State) known() device.Known {
	left := d.Left()
	if b := d.Device.Binding; b != nil {
		left = b.Instance // it may leave before the answer comes
	}
	return device.Known{Generation: d.Generation, Provider: d.Provider, Uncertain: d.GenerationUncertain,
		CleanRecorded: d.cleanReserves(), Left: left, LeftGeneration: d.leftGeneration()}
}

// recordOf is what this workflow records of the device if the instance has it; "" is none.
func (d *State) recordOf(instance string) *device.Record {
	r := device.RecordOf(instance)
	r.Hold, r.Bindings, r.Cleans = d.Device.Hold(), d.Device.Bindings, d.Cleans
	return &r
}

// cleared is a request that also records that no instance has the device (F24), as the first write of a clean or a
// return does. The record of the instance that left is replaced, any other one stays.
func (d *State) cleared(in contract.ReservationRequest) contract.ReservationRequest {
	in.Record, in.Left, in.LeftGeneration = d.recordOf(""), d.Left(), d.leftGeneration()
	return in
}

// clearedFor is cleared before an event, whose hold it records.
func (d *State) clearedFor(in contract.ReservationRequest, kind device.EventKind) contract.ReservationRequest {
	in = d.cleared(in)
	if next, err := device.Next(d.Device, device.Event{Kind: kind}); err == nil {
		in.Record.Hold = next.Hold()
	}
	return in
}

// leftGeneration is the newest generation at which a record of the instance that left is out of date: a failed burn may
// have written one, whatever its last attempt found.
func (d *State) leftGeneration() int64 {
	if d.GenerationUncertain || d.BurnedFor != "" {
		return d.Generation + 1
	}
	return d.Generation
}

// recorded is a request that also records again who has a bound device, or that its last instance has left (F24), and
// that an operator holds it (F43).
func (d *State) recorded(in contract.ReservationRequest) contract.ReservationRequest {
	switch dev := d.Device; {
	case dev.State == device.Unknown: // its memory is in doubt
	case dev.Binding != nil && dev.Binding.Instance != device.UnknownConsumer:
		in.Record = d.recordOf(dev.Binding.Instance)
	case dev.State == device.Retired: // the record of whom it was retired from stays: `forget` asks for it (F31)
		in.Record = d.recordOf("")
	case dev.Binding == nil && dev.Claim == nil && dev.State != device.Allocated &&
		(d.Left() != "" || dev.Hold() != device.HoldNone):
		return d.cleared(in)
	}
	return in
}

// request names the device's provider, with the generation and provider that must be found if any other would prove a
// foreign write.
func (d *State) request() contract.ReservationRequest {
	in := contract.ReservationRequest{UUID: d.UUID, Name: d.Name}
	if !d.ownedByBurnish() {
		in.Owner = device.OwnerNova
	}
	in.Expect, in.Provider = d.known().Expects(d.Device)
	return in
}

// unconditional is a request that expects no generation and no provider.
func (d *State) unconditional() contract.ReservationRequest {
	in := d.request()
	in.Expect, in.Provider = nil, ""
	return in
}

// ensureProvider is a request that makes sure that the provider exists, is reserved, and records this hardware.
func (d *State) ensureProvider(of device.Identity) contract.ReservationRequest {
	in := d.unconditional()
	in.Hardware = of.Hardware()
	if former := d.Host.Identity.Hardware(); former != in.Hardware {
		in.FormerHardware = former
	}
	in.Class, in.Traits, in.Driver = d.class(), planning.Traits(d.Enrollment, d.Host), d.Enrollment.Driver
	return in
}

// ask begins an observation. It must be called before the inventory is, because an answer is judged by the state at the
// time of the call.
func (d *State) ask(q device.Question) device.Snapshot { return device.Ask(q, d.Device, d.known()) }

// askToWrite begins an observation of a write that records what in says: a record that it replaces is explained.
func (d *State) askToWrite(q device.Question, in contract.ReservationRequest) device.Snapshot {
	asked := d.ask(q)
	if in.Record != nil {
		asked.Known.LeftGeneration++ // this write's own
	}
	return asked
}

// inventory makes an inventory call. One in the workflow task is not in the history before its task has ended: if the
// task is lost, the call is made again, perhaps after other events, and what it wrote then counts as written by an
// earlier attempt of the same call. An inventory that is known to be away is not tried in the task.
func (d *State) inventory(j *Job, activity string, in contract.ReservationRequest, how How) {
	how.Way = ToInventory
	how.InTask = how.InTask && !d.waits(contract.WaitInventory) && !d.waits(contract.WaitReturn)
	d.make(j, Call{Activity: activity, In: in, How: how, WaitsFor: contract.WaitInventory})
	j.Kept, j.Reads = in, activity == contract.ActivityReadReservation
}

// answered records what an inventory call says of generation and provider, and gives the answer.
func (d *State) answered(j *Job, o Outcome) (device.Inventory, *device.Fault) {
	in := j.Kept
	if o.Fault != nil {
		switch o.Fault.Code {
		case device.CodeConflict, device.CodeInUse, device.CodeAlreadyBurned, device.CodeInventoryGenerationAhead,
			device.CodeNoProvider:
			// These are known to have written nothing.
		default:
			d.GenerationUncertain = d.GenerationUncertain || !j.Reads
		}
		return device.Inventory{}, o.Fault
	}
	found := *o.Found.(*device.Inventory)
	d.endWait(contract.WaitProvider)
	known, readAgain := d.known().After(d.Device, found, in.Expect != nil || in.Generation != 0)
	d.Generation, d.Provider, d.GenerationUncertain = known.Generation, known.Provider, known.Uncertain
	if !j.Reads || found.Reserved == 0 {
		number := d.Reservation()
		if d.Receipt = found.Receipt; d.Reservation() != number {
			d.Statements = nil // nothing is known of what happened between the two reservations
		}
	}
	if in.Record != nil && found.Witness != device.WitnessBound {
		d.BurnedFor = ""
	}
	// Numbers of the record that are higher than this workflow's: its memory is older, or a task was lost (F36). That
	// of a binding comes with the binding.
	d.Cleans = max(d.Cleans, found.Record.Cleans)
	if found.Record.Witness == device.WitnessFree {
		d.Device.Bindings = max(d.Device.Bindings, found.Record.Bindings)
	}
	d.Intent.ReadInventory = d.Intent.ReadInventory || readAgain
	return found, nil
}

// read makes a call that reads the provider while a client waits.
func (d *State) read(j *Job, in contract.ReservationRequest, how How) {
	how.What = "read the reservation of " + d.Name
	d.inventory(j, contract.ActivityReadReservation, in, how)
}

// reserve makes a call that reserves the provider.
func (d *State) reserve(j *Job, in contract.ReservationRequest, how How) {
	how.What, in.Receipt = "reserve "+d.Name, d.Receipt
	d.inventory(j, contract.ActivityEnsureReserved, in, how)
}

// tenantOf is the instance that has the device by the inventory's record: its consumer, or the instance that it was
// reserved for, unless that one has unbound it and only the next clean takes the record away. Of a retired device every
// record counts. "" if no instance has it, or if there is no provider.
func (d *State) tenantOf(found device.Inventory, f *device.Fault) (string, error) {
	switch {
	case f != nil && f.Code == device.CodeNoProvider:
		return "", nil
	case f != nil:
		return "", f
	case found.Used > 0:
		return found.Consumer(), nil
	case found.Witness == device.WitnessBound && (d.Device.State == device.Retired || found.Tenant != d.Left()):
		return found.Tenant, nil
	}
	return "", nil
}

// class is the provider's resource class (S2.33).
func (d *State) class() string {
	class := "CUSTOM_" + customName(d.Enrollment.Type)
	if i := d.Host.Identity; i.Vendor != "" && i.Product != "" {
		class += "_" + customName(i.Vendor) + "_" + customName(i.Product)
	}
	return class
}

func customName(s string) string {
	out := []byte(s)
	for i, c := range out {
		switch {
		case c >= 'a' && c <= 'z':
			out[i] = c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		default:
			out[i] = '_'
		}
	}
	return string(out)
}
