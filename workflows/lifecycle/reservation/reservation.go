// Package reservation makes all calls to the inventory for one device, and owns what the
// state keeps of them: generation, provider, and whether the generation is uncertain. It
// records what an answer means for the device. What it asks of the run above it stands in
// fields that the run reads: InUse and PoolTransitions.
package reservation

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/record"
	"burnish/workflows/lifecycle/status"
)

// Reservation is the provider of one device in the inventory.
type Reservation struct {
	*record.Record
	lock workflow.Mutex
	// InUse is the snapshot that showed a consumer while a clean was running: the clean
	// stops and takes it over.
	InUse *contract.ReservationSnapshot
	// PoolTransitions counts the calls that take the device out of the pool or put it
	// back: while there is one, the device cannot be claimed.
	PoolTransitions int
}

// New is the reservation of the device that the record describes.
func New(ctx workflow.Context, r *record.Record) *Reservation {
	return &Reservation{Record: r, lock: workflow.NewMutex(ctx)}
}

// Lock serializes what reads and then writes the inventory, or must not run meanwhile.
func (d *Reservation) Lock(ctx workflow.Context) error { return d.lock.Lock(ctx) }

// Unlock ends what Lock began.
func (d *Reservation) Unlock() { d.lock.Unlock() }

// request names the device's provider, with the generation that this workflow knows
// where a later one proves something.
func (d *Reservation) request() contract.ReservationRequest {
	s := d.State
	in := contract.ReservationRequest{UUID: s.UUID, Name: s.Name}
	if !d.OwnedByBurnish() {
		in.Owner = device.OwnerNova
	}
	if d.detectsForeignWrites() && (s.Generation > 0 || s.Provider != "") {
		generation := s.Generation
		in.Expect = &generation
	}
	if d.knownClean() {
		in.Provider = s.Provider
	}
	return in
}

// unconditional is a request that expects no generation and no provider.
func (d *Reservation) unconditional() contract.ReservationRequest {
	in := d.request()
	in.Expect, in.Provider = nil, ""
	return in
}

// detectsForeignWrites says that a generation past the known one means a use, or another
// writer: nobody but Burnish writes to its own providers, nor to one that it holds.
func (d *Reservation) detectsForeignWrites() bool {
	s := d.State
	held := s.Device.State == device.Available && s.Device.InMaintenance()
	return (d.OwnedByBurnish() || held) && !s.GenerationUncertain || d.knownClean()
}

// knownClean says that the device is clean for as long as its provider of Nova's stays
// the one that Burnish reserved, at the known generation: a provider that was re-created
// was free, and the device may have been in use.
func (d *Reservation) knownClean() bool {
	dev := d.State.Device
	if d.State.Provider == "" || dev.Dirty {
		return false
	}
	switch dev.State {
	case device.Available:
		return dev.InMaintenance()
	case device.Manageable:
		return true
	case device.Cleaning: // returned without a clean, or after named steps, which prove nothing
		return dev.NamedSteps || dev.Returning && d.State.Clean == nil && !dev.NotSanitized
	}
	return false
}

// providerRecreated says that an available device has another provider than the one by
// which it became available: a use before the new provider was made left no trace in it
// (D9). The old provider stays recorded until the device is cleaned.
func (d *Reservation) providerRecreated(s contract.ReservationSnapshot) bool {
	return d.State.Device.State == device.Available && d.State.Provider != "" && s.Provider != d.State.Provider
}

// call makes one inventory call and records generation and provider of its answer.
func (d *Reservation) call(ctx, opts workflow.Context, activity string, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	var found contract.ReservationSnapshot
	if err := workflow.ExecuteActivity(opts, activity, in).Get(ctx, &found); err != nil {
		switch calls.FaultOf(err).Code {
		case device.CodeConflict, device.CodeInUse, device.CodeAlreadyBurned, device.CodeInventoryGenerationAhead, device.CodeNoProvider:
			// These are known to have written nothing.
		default:
			d.State.GenerationUncertain = true
		}
		return found, err
	}
	provider := found.Provider
	if d.providerRecreated(found) {
		provider, d.State.Intent.ReadInventory = d.State.Provider, true
	}
	d.State.Generation, d.State.Provider, d.State.GenerationUncertain = found.Generation, provider, false
	return found, nil
}

// EnsureProvider makes sure that the provider exists and is reserved.
func (d *Reservation) EnsureProvider(ctx workflow.Context) (contract.ReservationSnapshot, error) {
	in := d.unconditional()
	in.Class, in.Traits, in.Driver = d.class(), d.traits(), d.State.Enrollment.Driver
	return d.call(ctx, calls.WithClientDeadline(ctx, "ensure the provider of "+d.State.Name), contract.ActivityEnsureProvider, in)
}

// DeleteProvider takes the provider out of the inventory; opts are the activity's.
func (d *Reservation) DeleteProvider(opts workflow.Context) error {
	_, err := d.call(opts, opts, contract.ActivityDeleteProvider, d.request())
	return err
}

// Read reads the provider, whichever the device has now. It changes nothing.
func (d *Reservation) Read(ctx workflow.Context) (contract.ReservationSnapshot, error) {
	return d.read(ctx, d.unconditional())
}

// ReadForImport is Read for a device that is not enrolled yet.
func (d *Reservation) ReadForImport(ctx workflow.Context) (contract.ReservationSnapshot, error) {
	in := d.request()
	in.Driver = d.State.Enrollment.Driver
	return d.read(ctx, in)
}

func (d *Reservation) read(ctx workflow.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	return d.call(ctx, calls.WithClientDeadline(ctx, "read the reservation of "+d.State.Name), contract.ActivityReadReservation, in)
}

// ReserveForBind reserves the provider for an instance and reads it back (S0.4).
func (d *Reservation) ReserveForBind(ctx workflow.Context) error {
	found, err := d.call(ctx, calls.WithClientDeadline(ctx, "reserve "+d.State.Name), contract.ActivityReserveForBind, d.request())
	if err == nil && d.providerRecreated(found) {
		return &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
			Message: "its provider was re-created although it was available: who had it before is not known",
			Remedy:  "take another device; this one is cleaned by itself"}
	}
	return err
}

// ReserveForClean reserves the provider before a clean or a return, without end (F4). A
// cancel of opts ends it.
func (d *Reservation) ReserveForClean(ctx, opts workflow.Context) (contract.ReservationSnapshot, error) {
	return d.call(ctx, calls.WithInventory(opts, "reserve "+d.State.Name), contract.ActivityEnsureReserved, d.request())
}

// ensureReserved reserves the provider while a client waits.
func (d *Reservation) ensureReserved(ctx workflow.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	return d.call(ctx, calls.WithClientDeadline(ctx, "reserve "+d.State.Name), contract.ActivityEnsureReserved, in)
}

// Wanted says that Reconcile has something to do.
func (d *Reservation) Wanted() bool {
	i := d.State.Intent
	return i.EnsureReserved || i.EnsureProvider || i.ReadInventory
}

// Reconcile does the first thing that the intent asks of the inventory, and draws the
// device's own conclusions from the answer. It runs beside a clean.
func (d *Reservation) Reconcile(ctx workflow.Context) error {
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	switch i := &d.State.Intent; {
	case i.Import && d.State.Device.State == device.Unknown:
		i.ReadInventory, i.EnsureReserved = false, false // the import reads it, and would take a write now for a use
	case i.EnsureProvider:
		if _, err := d.EnsureProvider(ctx); err != nil {
			return err
		}
		i.EnsureProvider = false
	case i.EnsureReserved:
		in := d.request()
		if !d.knownClean() {
			in.Expect = nil
		}
		found, err := d.ensureReserved(ctx, in)
		if err != nil {
			return d.readFailed(ctx, err)
		}
		i.EnsureReserved = false
		d.Conclude(ctx, found)
	case i.ReadInventory:
		known, provider := d.State.Generation, d.State.Provider
		detects, clean := d.detectsForeignWrites(), d.knownClean()
		found, err := d.Read(ctx)
		if err != nil {
			return d.readFailed(ctx, err)
		}
		i.ReadInventory = false
		if clean && d.knownClean() && found.Provider != provider && found.Used == 0 {
			d.Invalidate(ctx, nil, "its provider was re-created while the device was held clean")
			return nil
		}
		if d.State.Device.Allocatable() && provider != "" && found.Provider != provider && found.Used == 0 {
			// A use by way of the old provider left no trace in the new one (D9).
			d.ApplyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.Policy(ctx).Automated})
			d.State.LastError = "its provider was re-created although it was available: it is cleaned"
			return nil
		}
		if detects && found.Generation > known && found.Used == 0 && !d.CleanUnderWay() && d.State.Device.State != device.Retired {
			d.Invalidate(ctx, nil, "the inventory is ahead of this workflow")
			return nil
		}
		d.Conclude(ctx, found)
	}
	return nil
}

// readFailed says what a failed call of Reconcile means. A device that is held clean and
// was written to by another is invalidated. A missing provider of Nova's is not asked for
// again and again, because the reconciliation of the inventory reports when there is one;
// a device that must be reserved then, is.
func (d *Reservation) readFailed(ctx workflow.Context, err error) error {
	f := calls.FaultOf(err)
	i := &d.State.Intent
	switch {
	case f.Code == device.CodeInventoryGenerationAhead && d.knownClean():
		i.EnsureReserved = false
		d.Invalidate(ctx, nil, f.Message)
		return nil
	case f.Code == device.CodeNoProvider && d.State.Provider != "":
		i.ReadInventory = false
		if d.State.Device.State == device.Retired {
			i.EnsureReserved = false
		}
		if !i.EnsureReserved {
			d.State.LastError = "inventory: " + f.Message
			return nil
		}
	}
	return err
}

// Conclude draws the device's own conclusions from a snapshot; nothing else moves its
// state by what others do (F6).
func (d *Reservation) Conclude(ctx workflow.Context, found contract.ReservationSnapshot) {
	s, dev := d.State, d.State.Device
	if found.Used > 0 {
		switch {
		case d.CleanUnderWay() && s.Clean != nil:
			d.InUse = &found
		case dev.State == device.Allocated && dev.Binding != nil:
			if dev.Owner == device.OwnerNova && dev.Binding.Observed && len(found.Consumers) > 0 && !slices.Contains(found.Consumers, dev.Binding.Instance) {
				d.ApplyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: found.Consumers[0]})
			}
		case dev.State == device.Retired, dev.Returning:
		case dev.Claim != nil && dev.Claim.Burning: // the burn sees it itself
		default:
			d.ApplyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: Consumer(found)})
		}
		// Nova reserves a device some time after it allocates it, and one that was marked
		// one-time-use later in its next round (S0.15, S0.16).
		s.Intent.EnsureReserved = s.Intent.EnsureReserved || s.Device.State == device.Allocated && found.Reserved < found.Total
		return
	}
	switch {
	case dev.Allocatable() && found.Reserved >= found.Total:
		// Reserved by another although it was available: it was used between two reads (D9).
		d.ApplyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.Policy(ctx).Automated})
		s.LastError = "the inventory shows it reserved and unused although it was available: it is cleaned"
	case dev.State == device.Allocated && dev.Binding == nil:
		d.ApplyOrReport(ctx, device.Event{Kind: device.BindingMissing, Automated: d.Policy(ctx).Automated})
	case dev.State == device.Allocated && dev.Owner == device.OwnerNova && dev.Binding.Observed:
		if err := d.EndBinding(ctx, device.Event{Kind: device.Released}); err != nil {
			workflow.GetLogger(ctx).Error("released", "device", s.Name, "error", err)
		}
	case found.Reserved < found.Total && !dev.Allocatable() && !dev.Returning && dev.Claim == nil:
		// Whatever lowered it: a device that is not allocatable must be reserved (S2.40).
		s.LastError = "the inventory showed the device free although it is " + status.Describe(s) + ": reserved again"
		s.Intent.EnsureReserved = true
	}
}

// Consumer is the first consumer of a snapshot, in words.
func Consumer(found contract.ReservationSnapshot) string {
	if len(found.Consumers) == 0 {
		return "an unknown consumer"
	}
	return found.Consumers[0]
}

// class is the provider's resource class (S2.33).
func (d *Reservation) class() string {
	class := "CUSTOM_" + customName(d.State.Enrollment.Type)
	if i := d.State.Host.Identity; i.Vendor != "" && i.Product != "" {
		class += "_" + customName(i.Vendor) + "_" + customName(i.Product)
	}
	return class
}

func (d *Reservation) traits() []string {
	traits := []string{"OWNER_CYBORG"} // D12
	if can := d.State.Host.Capabilities; can != nil {
		traits = append(traits, can.Traits()...) // S2.15
	}
	if d.State.Enrollment.OneTimeUse {
		traits = append(traits, "HW_PCI_ONE_TIME_USE")
	}
	return traits
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
