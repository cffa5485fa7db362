// Package reservation makes all inventory calls of one device, and owns the fields of the
// state that come from them: generation, provider, and whether the generation is uncertain.
// It records what an answer means for the device. Its caller reads InUse, Unreserved and
// OfferTransitions.
package reservation

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/discovery"
	"burnish/workflows/lifecycle/record"
	"burnish/workflows/planning"
)

// Reservation is the provider of one device in the inventory.
type Reservation struct {
	*record.Record
	lock workflow.Mutex
	// discovery looks at the device before it is offered.
	discovery *discovery.Discovery
	// InUse is the observation of a use during a clean. The clean stops, and concludes from it.
	InUse *device.Snapshot
	// Unreserved: a read showed that the reservation of the running clean is gone. The clean
	// stops, clears it and begins again.
	Unreserved bool
	// OfferTransitions counts the calls that take the device out of the offer or put it
	// back: while there is one, the device cannot be claimed.
	OfferTransitions int
}

// New returns the reservation of the device that discovery discovers.
func New(ctx workflow.Context, found *discovery.Discovery) *Reservation {
	return &Reservation{Record: found.Record, discovery: found, lock: workflow.NewMutex(ctx)}
}

// StopsClean says that the running clean must stop because of what the inventory showed.
func (d *Reservation) StopsClean() bool { return d.InUse != nil || d.Unreserved }

// Lock serializes everything that reads and then writes the reservation.
func (d *Reservation) Lock(ctx workflow.Context) error { return d.lock.Lock(ctx) }

// Unlock ends what Lock began.
func (d *Reservation) Unlock() { d.lock.Unlock() }

// known is what the state records of the inventory.
func (d *Reservation) known() device.Known {
	s := d.State
	left := d.left()
	if b := s.Device.Binding; b != nil {
		left = b.Instance // it may leave before the answer comes
	}
	return device.Known{Generation: s.Generation, Provider: s.Provider, Uncertain: s.GenerationUncertain,
		CleanRecorded: s.Clean != nil, Left: left, LeftGeneration: d.leftGeneration()}
}

// left is the instance that the provider may still record although it has left.
func (d *Reservation) left() string { return d.State.Left() }

// recordOf is what this workflow records of the device if the instance has it; "" is none.
func (d *Reservation) recordOf(instance string) *device.Record {
	r := device.RecordOf(instance)
	r.Hold, r.Bindings, r.Cleans = d.State.Device.Hold(), d.State.Device.Bindings, d.State.Cleans
	return &r
}

// cleared is a request that also records that no instance has the device (F24), as the first
// write of a clean or a return does. The record of the instance that left is replaced, any
// other one stays.
func (d *Reservation) cleared(in contract.ReservationRequest) contract.ReservationRequest {
	in.Record, in.Left, in.LeftGeneration = d.recordOf(""), d.left(), d.leftGeneration()
	return in
}

// clearedFor is cleared before an event, whose hold it records.
func (d *Reservation) clearedFor(in contract.ReservationRequest, kind device.EventKind) contract.ReservationRequest {
	in = d.cleared(in)
	if next, err := device.Next(d.State.Device, device.Event{Kind: kind}); err == nil {
		in.Record.Hold = next.Hold()
	}
	return in
}

// leftGeneration is the newest generation at which a record of the instance that left is
// out of date: a failed burn may have written one, whatever its last attempt found.
func (d *Reservation) leftGeneration() int64 {
	if d.State.GenerationUncertain || d.State.BurnedFor != "" {
		return d.State.Generation + 1
	}
	return d.State.Generation
}

// recorded is a request that also records again who has a bound device, or that its last
// instance has left (F24), and that an operator holds it (F43).
func (d *Reservation) recorded(in contract.ReservationRequest) contract.ReservationRequest {
	switch dev := d.State.Device; {
	case dev.State == device.Unknown: // its memory is in doubt
	case dev.Binding != nil && dev.Binding.Instance != device.UnknownConsumer:
		in.Record = d.recordOf(dev.Binding.Instance)
	case dev.State == device.Retired: // the record of whom it was retired from stays: `forget` asks for it (F31)
		in.Record = d.recordOf("")
	case dev.Binding == nil && dev.Claim == nil && dev.State != device.Allocated &&
		(d.left() != "" || dev.Hold() != device.HoldNone):
		return d.cleared(in)
	}
	return in
}

// request names the device's provider, with the generation and provider that must be
// found if any other would prove a foreign write.
func (d *Reservation) request() contract.ReservationRequest {
	in := contract.ReservationRequest{UUID: d.State.UUID, Name: d.State.Name}
	if !d.OwnedByBurnish() {
		in.Owner = device.OwnerNova
	}
	in.Expect, in.Provider = d.known().Expects(d.State.Device)
	return in
}

// unconditional is a request that expects no generation and no provider.
func (d *Reservation) unconditional() contract.ReservationRequest {
	in := d.request()
	in.Expect, in.Provider = nil, ""
	return in
}

// inventoryCall is call or callInTask.
type inventoryCall func(ctx, opts workflow.Context, activity string,
	in contract.ReservationRequest) (device.Inventory, error)

// call makes one inventory call, and records the generation and provider of its answer.
func (d *Reservation) call(ctx, opts workflow.Context, activity string,
	in contract.ReservationRequest) (device.Inventory, error) {
	return d.callBy(ctx, activity, in, func(found *device.Inventory) error {
		return workflow.ExecuteActivity(opts, activity, in).Get(ctx, found)
	})
}

// callInTask is call with its first attempt in the workflow task itself. If that fails or is
// slow the activity follows, with its retries and visible as pending; Unreserve has one
// attempt in all (F5). An inventory that is known to be away is not tried in the task.
//
// An attempt in a task is not in the history before its task has ended. If the task is lost,
// the call is made again, perhaps after other events: what it wrote then counts as written by
// an earlier attempt of the same call.
func (d *Reservation) callInTask(ctx, opts workflow.Context, activity string,
	in contract.ReservationRequest) (device.Inventory, error) {
	if d.Waits(contract.WaitInventory) || d.Waits(contract.WaitReturn) {
		return d.call(ctx, opts, activity, in)
	}
	in.EarlierWrites = 1
	return d.callBy(ctx, activity, in, func(found *device.Inventory) error {
		err :=
			d.InTask(func() error { return workflow.ExecuteLocalActivity(calls.Locally(opts), activity, in).Get(ctx, found) })
		if f := calls.FaultIn(err); activity == contract.ActivityUnreserve || f == nil || f.Class != device.Transient {
			return err
		}
		in.EarlierWrites = 2
		return workflow.ExecuteActivity(opts, activity, in).Get(ctx, found)
	})
}

// callBy makes one inventory call by do.
func (d *Reservation) callBy(ctx workflow.Context, activity string, in contract.ReservationRequest,
	do func(*device.Inventory) error) (device.Inventory, error) {
	var found device.Inventory
	err := d.During(ctx, contract.WaitInventory, func() error { return do(&found) })
	if err != nil {
		switch calls.FaultOf(err).Code {
		case device.CodeConflict, device.CodeInUse, device.CodeAlreadyBurned, device.CodeInventoryGenerationAhead,
			device.CodeNoProvider:
			// These are known to have written nothing.
		default:
			d.State.GenerationUncertain = d.State.GenerationUncertain || activity != contract.ActivityReadReservation
		}
		return found, err
	}
	d.EndWait(ctx, contract.WaitProvider)
	known, readAgain := d.known().After(d.State.Device, found, in.Expect != nil || in.Generation != 0)
	d.State.Generation, d.State.Provider, d.State.GenerationUncertain = known.Generation, known.Provider, known.Uncertain
	if in.Record != nil && found.Witness != device.WitnessBound {
		d.State.BurnedFor = ""
	}
	d.takeNumbers(found.Record)
	d.State.Intent.ReadInventory = d.State.Intent.ReadInventory || readAgain
	return found, nil
}

// takeNumbers continues with numbers of the record that are higher than this workflow's: its
// memory is older, or a task was lost (F36). That of a binding comes with the binding.
func (d *Reservation) takeNumbers(r device.Record) {
	d.State.Cleans = max(d.State.Cleans, r.Cleans)
	if r.Witness == device.WitnessFree {
		d.State.Device.Bindings = max(d.State.Device.Bindings, r.Bindings)
	}
}

// askToWrite begins an observation of a write that records what in says: a record that it
// replaces is explained.
func (d *Reservation) askToWrite(q device.Question, in contract.ReservationRequest) device.Snapshot {
	asked := d.Ask(q)
	if in.Record != nil {
		asked.Known.LeftGeneration++ // this write's own
	}
	return asked
}

// Confirm reads the provider and concludes from it, before an answer that this workflow's memory
// alone supports (F36).
func (d *Reservation) Confirm(ctx workflow.Context) error {
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	asked := d.Ask(device.AskRecheck)
	found, err := d.callInTask(ctx, calls.WithClientDeadline(ctx, "read the reservation of "+d.State.Name),
		contract.ActivityReadReservation, d.unconditional())
	d.Conclude(ctx, asked, found, err)
	if err != nil {
		return calls.FaultOf(err)
	}
	return nil
}

// EnsureProvider makes sure that the provider exists and is reserved.
func (d *Reservation) EnsureProvider(ctx workflow.Context) (device.Inventory, error) {
	return d.ensureProvider(ctx, d.call, d.State.Host.Identity)
}

// ReplaceHardware is EnsureProvider for other hardware than the provider records (D10, F35).
func (d *Reservation) ReplaceHardware(ctx workflow.Context, by device.Identity) (device.Inventory, error) {
	return d.ensureProvider(ctx, d.call, by)
}

// EnsureNewProvider is EnsureProvider for a device that is being enrolled.
func (d *Reservation) EnsureNewProvider(ctx workflow.Context) (device.Inventory, error) {
	return d.ensureProvider(ctx, d.callInTask, d.State.Host.Identity)
}

func (d *Reservation) ensureProvider(
	ctx workflow.Context, call inventoryCall, of device.Identity,
) (device.Inventory, error) {
	in := d.unconditional()
	in.Hardware = of.Hardware()
	if former := d.State.Host.Identity.Hardware(); former != in.Hardware {
		in.FormerHardware = former
	}
	in.Class, in.Traits, in.Driver = d.class(), planning.Traits(d.State.Enrollment, d.State.Host),
		d.State.Enrollment.Driver
	return call(ctx, calls.WithClientDeadline(ctx, "ensure the provider of "+d.State.Name),
		contract.ActivityEnsureProvider, in)
}

// DeleteProvider deletes the provider; opts are the activity's options.
func (d *Reservation) DeleteProvider(opts workflow.Context) error {
	_, err := d.call(opts, opts, contract.ActivityDeleteProvider, d.request())
	return err
}

// Read reads the device's present provider. It changes nothing in the inventory.
func (d *Reservation) Read(ctx workflow.Context) (device.Inventory, error) {
	return d.read(ctx, d.unconditional())
}

// ReadForImport is Read for a device that is not enrolled yet.
func (d *Reservation) ReadForImport(ctx workflow.Context) (device.Inventory, error) {
	in := d.request()
	in.Driver = d.State.Enrollment.Driver
	return d.read(ctx, in)
}

// Tenant reads which instance has the device by the inventory's record: its consumer, or the
// instance that it was reserved for, unless that one has unbound it and only the next clean
// takes the record away. Of a retired device every record counts. "" if no instance has it, or
// if there is no provider.
func (d *Reservation) Tenant(ctx workflow.Context) (string, error) {
	found, err := d.Read(ctx)
	switch f := calls.FaultIn(err); {
	case f != nil && f.Code == device.CodeNoProvider:
		return "", nil
	case f != nil:
		return "", f
	case found.Used > 0:
		return found.Consumer(), nil
	case found.Witness == device.WitnessBound && (d.State.Device.State == device.Retired || found.Tenant != d.left()):
		return found.Tenant, nil
	}
	return "", nil
}

func (d *Reservation) read(ctx workflow.Context, in contract.ReservationRequest) (device.Inventory, error) {
	return d.call(ctx, calls.WithClientDeadline(ctx, "read the reservation of "+d.State.Name),
		contract.ActivityReadReservation, in)
}

// ReserveForClean reserves the provider before a clean (F4), and records in the same write
// that no instance has the device (F24). It is retried until it succeeds or opts is canceled.
func (d *Reservation) ReserveForClean(ctx, opts workflow.Context) (device.Inventory, error) {
	return d.reserveCleared(ctx, opts, d.callInTask)
}

// reserveForReturn is ReserveForClean before a return that no clean precedes. Nothing that it
// finds is cleaned, so that it must know how often it wrote: it is never made in a task.
func (d *Reservation) reserveForReturn(ctx workflow.Context) (device.Inventory, error) {
	return d.reserveCleared(ctx, ctx, d.call)
}

func (d *Reservation) reserveCleared(ctx, opts workflow.Context, call inventoryCall) (device.Inventory, error) {
	return call(ctx, calls.WithInventory(opts, "reserve "+d.State.Name), contract.ActivityEnsureReserved,
		d.cleared(d.request()))
}

// ensureReserved reserves the provider while a client waits.
func (d *Reservation) ensureReserved(ctx workflow.Context, in contract.ReservationRequest) (device.Inventory, error) {
	return d.call(ctx, calls.WithClientDeadline(ctx, "reserve "+d.State.Name), contract.ActivityEnsureReserved, in)
}

// Wanted says that Reconcile has something to do.
func (d *Reservation) Wanted() bool {
	i := d.State.Intent
	return i.EnsureReserved || i.EnsureProvider || i.ReadInventory
}

// class is the provider's resource class (S2.33).
func (d *Reservation) class() string {
	class := "CUSTOM_" + customName(d.State.Enrollment.Type)
	if i := d.State.Host.Identity; i.Vendor != "" && i.Product != "" {
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
