package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// stockInput names the device's provider, with the generation that this workflow
// knows where that proves something: nobody but Burnish writes to a provider of its
// own, so that a newer one means an older workflow.
func (d *lifecycle) reservationRequest() contract.ReservationRequest {
	in := contract.ReservationRequest{UUID: d.state.UUID, Name: d.state.Name}
	if !d.ownedByBurnish() {
		in.Owner = device.OwnerNova
	}
	if d.detectsForeignWrites() && (d.state.Generation > 0 || d.state.Provider != "") {
		generation := d.state.Generation
		in.Expect = &generation
	}
	if d.knownClean() {
		in.Provider = d.state.Provider
	}
	return in
}

// provable says that a generation past the known one means a use, or another writer:
// nobody but Burnish writes to a provider of its own, nor to one that it holds.
func (d *lifecycle) detectsForeignWrites() bool {
	held := d.state.Device.State == device.Available && d.state.Device.InMaintenance()
	return (d.ownedByBurnish() || held) && !d.state.GenerationUncertain || d.knownClean()
}

// kept says that the device is clean, and that this is true for as long as the provider
// that Nova made for it stays the one that Burnish burned, at the generation known: one
// that was made anew was free, and may have been somebody's.
func (d *lifecycle) knownClean() bool {
	dev := d.state.Device
	if d.state.Provider == "" || dev.Dirty {
		return false
	}
	switch dev.State {
	case device.Available:
		return dev.InMaintenance()
	case device.Manageable:
		return true
	case device.Cleaning: // returned as it is, without a clean before; or by steps that prove nothing
		return dev.NamedSteps || dev.Returning && d.state.Clean == nil && !dev.NotSanitized
	}
	return false
}

// inventory makes one inventory call and keeps what it tells of the generation.
func (d *lifecycle) inventory(ctx, opts workflow.Context, activity string, in contract.ReservationRequest, out *contract.ReservationSnapshot) error {
	var stock contract.ReservationSnapshot
	err := workflow.ExecuteActivity(opts, activity, in).Get(ctx, &stock)
	if err != nil {
		switch faultOf(err).Code {
		case device.CodeConflict, device.CodeInUse, device.CodeAlreadyBurned, device.CodeInventoryGenerationAhead, device.CodeNoProvider:
			// Known to have written nothing.
		default:
			d.state.GenerationUncertain = true
		}
		return err
	}
	provider := stock.Provider
	if d.providerRecreated(stock) {
		provider, d.state.Intent.ReadInventory = d.state.Provider, true
	}
	d.state.Generation, d.state.Provider, d.state.GenerationUncertain = stock.Generation, provider, false
	if out != nil {
		*out = stock
	}
	return nil
}

// remade says that an available device has another provider than the one that it was offered
// by: who had it before that one was made left no trace in it (D9). That stays known until
// the device is cleaned, whoever asks meanwhile.
func (d *lifecycle) providerRecreated(s contract.ReservationSnapshot) bool {
	return d.state.Device.State == device.Available && d.state.Provider != "" && s.Provider != d.state.Provider
}

func (d *lifecycle) needsReconcile() bool {
	i := d.state.Intent
	s := d.state.Device.State
	if s == device.Retired || !d.state.Enrolled || d.backingOff {
		return (i.EnsureReserved || i.ReadInventory) && d.state.Enrolled && !d.backingOff
	}
	return i.EnsureReserved || i.EnsureProvider || i.ReadInventory || i.Rediscover && !d.cleanUnderWay() && s != device.Unknown
}

// look looks because a hint asked for it, or burns what must not stay free. It runs
// beside a clean, so that a use that the inventory shows stops the clean.
func (d *lifecycle) reconcile(ctx workflow.Context) {
	if err := d.readInventory(ctx); err != nil {
		d.state.LastError = "looking: " + faultOf(err).Message
		d.backoff(ctx)
	}
	d.publishStatus(ctx)
}

// rest waits a while before what failed is tried again.
func (d *lifecycle) backoff(ctx workflow.Context) {
	if d.backingOff {
		return
	}
	d.backingOff = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := workflow.NewTimerWithOptions(ctx, backoffInterval, workflow.TimerOptions{Summary: "look again at " + d.state.Name}).Get(ctx, nil)
		if err != nil {
			d.log.Warn("timer ended early", "device", d.state.Name, "error", err)
		}
		d.backingOff = false
	})
}

func (d *lifecycle) readInventory(ctx workflow.Context) error {
	if i := d.state.Intent; !i.EnsureReserved && !i.EnsureProvider && !i.ReadInventory {
		d.rediscover(ctx) // which may take long, and does not touch the inventory
		return nil
	}
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	defer d.lock.Unlock()
	switch i := &d.state.Intent; {
	case i.Import && d.state.Device.State == device.Unknown:
		i.ReadInventory, i.EnsureReserved = false, false // the import looks, and a burn now would be taken for a use
	case i.EnsureProvider:
		if _, err := d.ensureProvider(ctx); err != nil {
			return err
		}
		i.EnsureProvider = false
	case i.EnsureReserved:
		in := d.reservationRequest()
		if !d.knownClean() {
			in.Expect = nil
		}
		var stock contract.ReservationSnapshot
		if err := d.inventory(ctx, withClientDeadline(ctx, "burn "+d.state.Name), contract.ActivityEnsureReserved, in, &stock); err != nil {
			return d.readFailed(ctx, err)
		}
		i.EnsureReserved = false
		d.observed(ctx, stock)
	case i.ReadInventory:
		known, provider := d.state.Generation, d.state.Provider
		var stock contract.ReservationSnapshot
		in := d.reservationRequest()
		in.Expect, in.Provider = nil, ""
		sure, kept := d.detectsForeignWrites(), d.knownClean()
		if err := d.inventory(ctx, withClientDeadline(ctx, "look at "+d.state.Name), contract.ActivityReadReservation, in, &stock); err != nil {
			return d.readFailed(ctx, err)
		}
		i.ReadInventory = false
		if kept && d.knownClean() && stock.Provider != provider && stock.Used == 0 {
			d.invalidateRunning(ctx, "its provider was made anew while it was kept clean")
			return nil
		}
		if d.state.Device.Allocatable() && provider != "" && stock.Provider != provider && stock.Used == 0 {
			// Who had it while there was another provider left no trace in this one (D9).
			d.applyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.settings(ctx).Automated})
			d.state.LastError = "its provider was made anew although it was available: it is cleaned"
			return nil
		}
		if sure && stock.Generation > known && stock.Used == 0 && !d.cleanUnderWay() && d.state.Device.State != device.Retired {
			d.invalidate(ctx, nil, "the inventory is newer than this workflow")
			return nil
		}
		d.observed(ctx, stock)
	}
	return nil
}

// lookFailed says what a look that failed means. What is kept clean and was written by
// somebody else is in doubt. A device of Nova's without a provider is not looked for time
// and again: the sweep tells when there is one; but what must be burned then, is.
func (d *lifecycle) readFailed(ctx workflow.Context, err error) error {
	f := faultOf(err)
	switch {
	case f.Code == device.CodeInventoryGenerationAhead && d.knownClean():
		d.state.Intent.EnsureReserved = false
		d.invalidateRunning(ctx, f.Message)
		return nil
	case f.Code == device.CodeNoProvider && d.state.Provider != "":
		d.state.Intent.ReadInventory = false
		if d.state.Device.State == device.Retired {
			d.state.Intent.EnsureReserved = false
		}
		if !d.state.Intent.EnsureReserved {
			d.state.LastError = "looking: " + f.Message
			return nil
		}
	}
	return err
}

// doubtInPlace is doubt that ends what runs.
func (d *lifecycle) invalidateRunning(ctx workflow.Context, why string) {
	if d.stopStep != nil {
		d.stopStep()
	}
	d.invalidate(ctx, nil, why)
}

// lookAtHost has the host look at the device again.
func (d *lifecycle) rediscover(ctx workflow.Context) {
	d.state.Intent.Rediscover = false
	f := faultIn(d.discover(limitedRetries(onHost(ctx, d.state.Enrollment.Host, "discover "+d.state.Name, hostResponseTimeout))))
	changes := []device.Code{device.CodeIdentityChanged, device.CodeSerialMismatch, device.CodeTargetMissing, device.CodeDuplicateSerial}
	tells := f != nil && slices.Contains(changes, f.Code)
	switch {
	case d.state.Intent.DuplicateAt != "" && !tells: // a host that is silent does not say that it is not so
		f, tells = d.duplicateSerialFault(), true
	case f == nil:
		return
	}
	if tells {
		if illegal := d.apply(ctx, device.Event{Kind: device.IdentityChanged}); illegal == nil {
			d.state.Fault = f
		}
	}
	d.state.LastError = "the host's look: " + f.Message
}

// observed draws the device's own conclusions from what its inventory says; nothing
// else moves a state by what others do (F6).
func (d *lifecycle) observed(ctx workflow.Context, s contract.ReservationSnapshot) {
	dev := d.state.Device
	if s.Used > 0 {
		switch {
		case d.cleanUnderWay() && d.state.Clean != nil:
			d.inUse = &s
			if d.stopStep != nil {
				d.stopStep()
			}
		case dev.State == device.Allocated && dev.Binding != nil:
			if dev.Owner == device.OwnerNova && dev.Binding.Observed && len(s.Consumers) > 0 && !slices.Contains(s.Consumers, dev.Binding.Instance) {
				d.applyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: s.Consumers[0]})
			}
		case dev.State == device.Retired, dev.Returning:
		case dev.Claim != nil && dev.Claim.Burning: // the burn finds out by itself
		default:
			d.applyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: first(s.Consumers)})
		}
		// Nova burns a device a while after it gave it out, and one that was marked
		// one-time-use afterwards not before its next round (S0.15, S0.16).
		d.state.Intent.EnsureReserved = d.state.Intent.EnsureReserved || d.state.Device.State == device.Allocated && s.Reserved < s.Total
		return
	}
	switch {
	case dev.Allocatable() && s.Reserved >= s.Total:
		// Burned by somebody although we offered it: used between two looks (D9).
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.settings(ctx).Automated})
		d.state.LastError = "the inventory shows it burned and unused although it was available: it is cleaned"
	case dev.State == device.Allocated && dev.Binding == nil:
		d.applyOrReport(ctx, device.Event{Kind: device.BindingMissing, Automated: d.settings(ctx).Automated})
	case dev.State == device.Allocated && dev.Owner == device.OwnerNova && dev.Binding.Observed:
		if err := d.endBinding(ctx, device.Event{Kind: device.Released}); err != nil {
			d.log.Error("released", "device", d.state.Name, "error", err)
		}
	case s.Reserved < s.Total && !dev.Allocatable() && !dev.Returning && dev.Claim == nil:
		// Whatever lowered it: what is not allocatable must not look so (S2.40).
		d.state.LastError = "the inventory offered the device although it is " + d.describeState() + ": burned again"
		d.state.Intent.EnsureReserved = true
	}
}

// publish makes sure that the provider exists, and that it is burned.
func (d *lifecycle) ensureProvider(ctx workflow.Context) (contract.ReservationSnapshot, error) {
	in := d.reservationRequest()
	in.Expect, in.Provider = nil, ""
	in.Class, in.Traits, in.Driver = d.class(), d.traits(), d.state.Enrollment.Driver
	var stock contract.ReservationSnapshot
	err := d.inventory(ctx, withClientDeadline(ctx, "publish "+d.state.Name), contract.ActivityEnsureProvider, in, &stock)
	return stock, err
}

// class is the provider's resource class (S2.33).
func (d *lifecycle) class() string {
	class := "CUSTOM_" + customName(d.state.Enrollment.Type)
	if i := d.state.Host.Identity; i.Vendor != "" && i.Product != "" {
		class += "_" + customName(i.Vendor) + "_" + customName(i.Product)
	}
	return class
}

func (d *lifecycle) traits() []string {
	traits := []string{"OWNER_CYBORG"} // D12
	if can := d.state.Host.Capabilities; can != nil {
		traits = append(traits, can.Traits()...) // S2.15
	}
	if d.state.Enrollment.OneTimeUse {
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

// listen makes the selector of all signals. Reading with ReceiveAsync in its
// callbacks, and only where something is pending, is what keeps a signal from being
// lost when the run continues as new (measured); a corrupt one is dropped, not waited
// for.
func (d *lifecycle) listen(ctx workflow.Context) {
	d.signals = workflow.NewSelector(ctx)
	d.signals.AddReceive(workflow.GetSignalChannel(ctx, contract.SignalClean), func(c workflow.ReceiveChannel, _ bool) {
		var in contract.CleanInput
		if c.ReceiveAsync(&in) {
			d.onClean(ctx, in)
		}
	})
	for _, name := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh} {
		d.signals.AddReceive(workflow.GetSignalChannel(ctx, name), func(c workflow.ReceiveChannel, _ bool) {
			var hint contract.Hint
			if c.ReceiveAsync(&hint) {
				d.onRecheck(ctx, name, hint)
			}
		})
	}
}

// onClean is the signal that any Temporal client may send. What the state refuses
// changes nothing and is shown.
func (d *lifecycle) onClean(ctx workflow.Context, in contract.CleanInput) {
	err := d.validateClean(in)
	if tooLong(in) {
		err = d.refuse(device.CodeInvalid, fmt.Sprintf("it is longer than %d KiB", maxInput>>10), "shorten its reason")
	}
	if err == nil {
		_, err = d.requestClean(ctx, in)
	}
	if err != nil {
		d.state.LastRefusal = "the clean signal was refused: " + faultOf(d.refusal(contract.UpdateClean, err)).Error()
	}
	d.publishStatus(ctx)
}

// onHint makes the device look for itself, unless the hint speaks of another tenancy
// or was seen before the present one.
func (d *lifecycle) onRecheck(ctx workflow.Context, name string, h contract.Hint) {
	if h.Host == nil && tooLong(h) {
		return
	}
	if !d.state.Enrolled && h.Host != nil && !d.enrolling && !d.finished {
		// A run that was reset to before its enrolment: the host knows better.
		d.newState(ctx, h.Host.Enrollment)
		d.state.Device.Cleanable = true
		d.invalidate(ctx, h.Host, "its workflow knew nothing of it; the host remembers it")
		d.publishStatus(ctx)
		return
	}
	if s := d.state.Device.State; !d.state.Enrolled || s == device.Absent || s == device.Retired && (h.Host != nil || name != contract.SignalObserved) {
		return
	}
	if r := h.Host; r != nil && (r.Seq > d.state.Seq || r.Binding > d.state.Device.Bindings || r.Clean > d.state.Cleans) {
		if d.stopStep != nil {
			d.stopStep()
		}
		d.invalidate(ctx, r, fmt.Sprintf("its host remembers clean %d and tenancy %d, the workflow %d and %d",
			r.Clean, r.Binding, d.state.Cleans, d.state.Device.Bindings))
		d.publishStatus(ctx)
		return
	}
	if c := d.state.Clean; h.Host != nil && c != nil && c.HostUnreachable { // it is silent no more
		c.HostUnreachable = false
		d.publishStatus(ctx)
	}
	if b := d.state.Device.Binding; h.Binding != 0 && (b == nil || b.Number != h.Binding) {
		return
	}
	if h.ObservedAt != "" {
		seen, err := time.Parse(time.RFC3339Nano, h.ObservedAt)
		if err != nil || seen.Before(d.state.BoundAt) {
			return
		}
	}
	d.state.Intent.ReadInventory = true
	if h.DuplicateAt != "" {
		d.state.Intent.DuplicateAt = h.DuplicateAt
	}
	if h.Host != nil || name == contract.SignalRefresh {
		d.state.Intent.Rediscover = true
	}
}

// faultIn is faultOf for an error that may be nil.
func faultIn(err error) *device.Fault {
	if err == nil {
		return nil
	}
	return faultOf(err)
}

// faultOf finds what an operator can act upon in any error of a call.
func faultOf(err error) *device.Fault {
	if f, ok := device.AsFault(err); ok {
		return f
	}
	if r, ok := contract.RefusalOf(err); ok {
		if string(r.Fault.Code) == notRegistered {
			return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostWorkerTooOld,
				Message: "the worker does not know this step: " + r.Fault.Message,
				Remedy:  "upgrade burnish-worker there and restart it, then clean the device again"}
		}
		return &r.Fault
	}
	var late *temporal.TimeoutError
	if errors.As(err, &late) {
		if isScheduleToStart(late) {
			return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
				Message: "no worker takes this host's work", Remedy: "start burnish-worker on the host"}
		}
		return &device.Fault{Class: device.Transient, Code: device.CodeTimeout, Message: "no answer in time"}
	}
	if temporal.IsCanceledError(err) {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeAborted, Message: "cancelled"}
	}
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: err.Error()}
}

func isScheduleToStart(e *temporal.TimeoutError) bool {
	return e.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}
