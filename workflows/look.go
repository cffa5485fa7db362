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
func (d *lifecycle) stockInput() contract.StockInput {
	in := contract.StockInput{UUID: d.state.UUID, Name: d.state.Name}
	if !d.selfOwned() {
		in.Owner = device.OwnerNova
	}
	if d.provable() && (d.state.Generation > 0 || d.state.Provider != "") {
		generation := d.state.Generation
		in.Expect = &generation
	}
	if d.kept() {
		in.Provider = d.state.Provider
	}
	return in
}

// provable says that a generation past the known one means a use, or another writer:
// nobody but Burnish writes to a provider of its own, nor to one that it holds.
func (d *lifecycle) provable() bool {
	held := d.state.Device.State == device.Available && d.state.Device.InMaintenance()
	return (d.selfOwned() || held) && !d.state.Uncertain || d.kept()
}

// kept says that the device is clean, and that this is true for as long as the provider
// that Nova made for it stays the one that Burnish burned, at the generation known: one
// that was made anew was free, and may have been somebody's.
func (d *lifecycle) kept() bool {
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
func (d *lifecycle) inventory(ctx, opts workflow.Context, activity string, in contract.StockInput, out *contract.Stock) error {
	var stock contract.Stock
	err := workflow.ExecuteActivity(opts, activity, in).Get(ctx, &stock)
	if err != nil {
		switch faultOf(err).Code {
		case device.CodeConflict, device.CodeInUse, device.CodeAlreadyBurned, device.CodeInventoryGenerationAhead, device.CodeNoProvider:
			// Known to have written nothing.
		default:
			d.state.Uncertain = true
		}
		return err
	}
	provider := stock.Provider
	if d.remade(stock) && since(ctx, availableKeepsProvider) {
		provider, d.state.Intent.Look = d.state.Provider, true
	}
	d.state.Generation, d.state.Provider, d.state.Uncertain = stock.Generation, provider, false
	if out != nil {
		*out = stock
	}
	return nil
}

// remade says that an available device has another provider than the one that it was offered
// by: who had it before that one was made left no trace in it (D9). That stays known until
// the device is cleaned, whoever asks meanwhile.
func (d *lifecycle) remade(s contract.Stock) bool {
	return d.state.Device.State == device.Available && d.state.Provider != "" && s.Provider != d.state.Provider
}

func (d *lifecycle) wantsLook() bool {
	i := d.state.Intent
	s := d.state.Device.State
	if s == device.Retired || !d.state.Enrolled || d.resting {
		return (i.Raise || i.Look) && d.state.Enrolled && !d.resting
	}
	return i.Raise || i.Publish || i.Look || i.Discover && !d.cleanUnderWay() && s != device.Unknown
}

// look looks because a hint asked for it, or burns what must not stay free. It runs
// beside a clean, so that a use that the inventory shows stops the clean.
func (d *lifecycle) look(ctx workflow.Context) {
	if err := d.lookOnce(ctx); err != nil {
		d.state.LastError = "looking: " + faultOf(err).Message
		d.rest(ctx)
	}
	d.show(ctx)
}

// rest waits a while before what failed is tried again.
func (d *lifecycle) rest(ctx workflow.Context) {
	if d.resting {
		return
	}
	d.resting = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := workflow.NewTimerWithOptions(ctx, lookAgainAfter, workflow.TimerOptions{Summary: "look again at " + d.state.Name}).Get(ctx, nil)
		if err != nil {
			d.log.Warn("timer ended early", "device", d.state.Name, "error", err)
		}
		d.resting = false
	})
}

func (d *lifecycle) lookOnce(ctx workflow.Context) error {
	if i := d.state.Intent; !i.Raise && !i.Publish && !i.Look {
		d.lookAtHost(ctx) // which may take long, and does not touch the inventory
		return nil
	}
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	defer d.lock.Unlock()
	switch i := &d.state.Intent; {
	case i.Import && d.state.Device.State == device.Unknown:
		i.Look, i.Raise = false, false // the import looks, and a burn now would be taken for a use
	case i.Publish:
		if _, err := d.publish(ctx); err != nil {
			return err
		}
		i.Publish = false
	case i.Raise:
		in := d.stockInput()
		in.Raise = true
		if !d.kept() {
			in.Expect = nil
		}
		var stock contract.Stock
		if err := d.inventory(ctx, withAnswer(ctx, "burn "+d.state.Name), contract.ActivityObserve, in, &stock); err != nil {
			return d.lookFailed(ctx, err)
		}
		i.Raise = false
		d.observed(ctx, stock)
	case i.Look:
		known, provider := d.state.Generation, d.state.Provider
		var stock contract.Stock
		in := d.stockInput()
		in.Expect, in.Provider = nil, ""
		sure, kept := d.provable(), d.kept()
		if err := d.inventory(ctx, withAnswer(ctx, "look at "+d.state.Name), contract.ActivityObserve, in, &stock); err != nil {
			return d.lookFailed(ctx, err)
		}
		i.Look = false
		if kept && d.kept() && stock.Provider != provider && stock.Used == 0 {
			d.doubtInPlace(ctx, "its provider was made anew while it was kept clean")
			return nil
		}
		if d.state.Device.Allocatable() && provider != "" && stock.Provider != provider && stock.Used == 0 {
			// Who had it while there was another provider left no trace in this one (D9).
			d.must(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.settings(ctx).Automated})
			d.state.LastError = "its provider was made anew although it was available: it is cleaned"
			return nil
		}
		if sure && stock.Generation > known && stock.Used == 0 && !d.cleanUnderWay() && d.state.Device.State != device.Retired {
			d.doubt(ctx, nil, "the inventory is newer than this workflow")
			return nil
		}
		d.observed(ctx, stock)
	}
	return nil
}

// lookFailed says what a look that failed means. What is kept clean and was written by
// somebody else is in doubt. A device of Nova's without a provider is not looked for time
// and again: the sweep tells when there is one; but what must be burned then, is.
func (d *lifecycle) lookFailed(ctx workflow.Context, err error) error {
	f := faultOf(err)
	switch {
	case f.Code == device.CodeInventoryGenerationAhead && d.kept():
		d.state.Intent.Raise = false
		d.doubtInPlace(ctx, f.Message)
		return nil
	case f.Code == device.CodeNoProvider && d.state.Provider != "":
		d.state.Intent.Look = false
		if d.state.Device.State == device.Retired {
			d.state.Intent.Raise = false
		}
		if !d.state.Intent.Raise {
			d.state.LastError = "looking: " + f.Message
			return nil
		}
	}
	return err
}

// doubtInPlace is doubt that ends what runs.
func (d *lifecycle) doubtInPlace(ctx workflow.Context, why string) {
	if d.stopStep != nil {
		d.stopStep()
	}
	d.doubt(ctx, nil, why)
}

// lookAtHost has the host look at the device again.
func (d *lifecycle) lookAtHost(ctx workflow.Context) {
	d.state.Intent.Discover = false
	f := faultIn(d.discover(seldom(onHost(ctx, d.state.Enrolment.Host, "discover "+d.state.Name, hostAnswersWithin))))
	changes := []device.Code{device.CodeIdentityChanged, device.CodeSerialMismatch, device.CodeTargetMissing, device.CodeDuplicateSerial}
	tells := f != nil && slices.Contains(changes, f.Code)
	switch {
	case d.state.Intent.Twin != "" && !tells: // a host that is silent does not say that it is not so
		f, tells = d.seenTwice(), true
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
func (d *lifecycle) observed(ctx workflow.Context, s contract.Stock) {
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
				d.must(ctx, device.Event{Kind: device.ObservedInUse, Instance: s.Consumers[0]})
			}
		case dev.State == device.Retired, dev.Returning:
		case dev.Claim != nil && dev.Claim.Burning: // the burn finds out by itself
		default:
			d.must(ctx, device.Event{Kind: device.ObservedInUse, Instance: first(s.Consumers)})
		}
		// Nova burns a device a while after it gave it out, and one that was marked
		// one-time-use afterwards not before its next round (S0.15, S0.16).
		d.state.Intent.Raise = d.state.Intent.Raise || d.state.Device.State == device.Allocated && s.Reserved < s.Total
		return
	}
	switch {
	case dev.Allocatable() && s.Reserved >= s.Total:
		// Burned by somebody although we offered it: used between two looks (D9).
		d.must(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.settings(ctx).Automated})
		d.state.LastError = "the inventory shows it burned and unused although it was available: it is cleaned"
	case dev.State == device.Allocated && dev.Binding == nil:
		d.must(ctx, device.Event{Kind: device.BindingMissing, Automated: d.settings(ctx).Automated})
	case dev.State == device.Allocated && dev.Owner == device.OwnerNova && dev.Binding.Observed:
		if err := d.endTenancy(ctx, device.Event{Kind: device.Released}); err != nil {
			d.log.Error("released", "device", d.state.Name, "error", err)
		}
	case s.Reserved < s.Total && !dev.Allocatable() && !dev.Returning && dev.Claim == nil:
		// Whatever lowered it: what is not allocatable must not look so (S2.40).
		d.state.LastError = "the inventory offered the device although it is " + d.stateInWords() + ": burned again"
		d.state.Intent.Raise = true
	}
}

// publish makes sure that the provider exists, and that it is burned.
func (d *lifecycle) publish(ctx workflow.Context) (contract.Stock, error) {
	in := d.stockInput()
	in.Expect, in.Provider = nil, ""
	in.Class, in.Traits, in.Driver = d.class(), d.traits(), d.state.Enrolment.Driver
	var stock contract.Stock
	err := d.inventory(ctx, withAnswer(ctx, "publish "+d.state.Name), contract.ActivityPublish, in, &stock)
	return stock, err
}

// class is the provider's resource class (S2.33).
func (d *lifecycle) class() string {
	class := "CUSTOM_" + customName(d.state.Enrolment.Type)
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
	if d.state.Enrolment.OneTimeUse {
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
				d.onHint(ctx, name, hint)
			}
		})
	}
}

// onClean is the signal that any Temporal client may send. What the state refuses
// changes nothing and is shown.
func (d *lifecycle) onClean(ctx workflow.Context, in contract.CleanInput) {
	err := d.mayClean(in)
	if tooLong(in) && since(ctx, longRefused) {
		err = d.refuse(device.CodeInvalid, fmt.Sprintf("it is longer than %d KiB", maxInput>>10), "shorten its reason")
	}
	if err == nil {
		_, err = d.requestClean(ctx, in)
	}
	if err != nil {
		d.state.LastRefusal = "the clean signal was refused: " + faultOf(d.refusal(contract.UpdateClean, err)).Error()
	}
	d.show(ctx)
}

// onHint makes the device look for itself, unless the hint speaks of another tenancy
// or was seen before the present one.
func (d *lifecycle) onHint(ctx workflow.Context, name string, h contract.Hint) {
	if h.Host == nil && tooLong(h) && since(ctx, longRefused) {
		return
	}
	if !d.state.Enrolled && h.Host != nil && !d.enrolling && !d.over {
		// A run that was reset to before its enrolment: the host knows better.
		d.begin(ctx, h.Host.Enrolment)
		d.state.Device.Cleanable = true
		d.doubt(ctx, h.Host, "its workflow knew nothing of it; the host remembers it")
		d.show(ctx)
		return
	}
	if s := d.state.Device.State; !d.state.Enrolled || s == device.Absent || s == device.Retired && (h.Host != nil || name != contract.SignalObserved) {
		return
	}
	if r := h.Host; r != nil && (r.Seq > d.state.Seq || r.Binding > d.state.Device.Bindings || r.Clean > d.state.Cleans) {
		if d.stopStep != nil {
			d.stopStep()
		}
		d.doubt(ctx, r, fmt.Sprintf("its host remembers clean %d and tenancy %d, the workflow %d and %d",
			r.Clean, r.Binding, d.state.Cleans, d.state.Device.Bindings))
		d.show(ctx)
		return
	}
	if c := d.state.Clean; h.Host != nil && c != nil && c.Silent { // it is silent no more
		c.Silent = false
		d.show(ctx)
	}
	if b := d.state.Device.Binding; h.Binding != 0 && (b == nil || b.Number != h.Binding) {
		return
	}
	if h.Seen != "" {
		seen, err := time.Parse(time.RFC3339Nano, h.Seen)
		if err != nil || seen.Before(d.state.BoundAt) {
			return
		}
	}
	d.state.Intent.Look = true
	if h.Twin != "" {
		d.state.Intent.Twin = h.Twin
	}
	if h.Host != nil || name == contract.SignalRefresh {
		d.state.Intent.Discover = true
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
