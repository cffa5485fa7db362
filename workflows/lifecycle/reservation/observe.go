package reservation

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// Ask begins an observation. It must be called before the inventory is, because an answer
// is judged by the state at the time of the call.
func (d *Reservation) Ask(q device.Question) device.Snapshot {
	return device.Ask(q, d.State.Device, d.known())
}

// Conclude decides by the table of observations what an answer of the inventory means, and
// records it. Nothing else changes the state because of what the inventory shows (F6). The
// caller handles the follow-ups that concern it.
func (d *Reservation) Conclude(ctx workflow.Context, asked device.Snapshot, found device.Inventory,
	err error) device.Observation {
	run := d.State.Clean
	asked.CleanStarted = run != nil
	asked.CleanReserved = run != nil && (run.Generation != 0 || run.Provider != "")
	asked = answer(asked, found, err)
	if run != nil {
		asked = asked.WroteFirst(run.Number, d.State.Device.Hold())
	}
	o, why := device.Observe(d.State.Device, asked)
	d.record(ctx, o, string(why), asked, calls.FaultIn(err))
	if o.Needs(device.StopClean) && o.Event == "" {
		d.InUse = &asked
	}
	d.Unreserved = d.Unreserved || o.Needs(device.RestartClean)
	return o
}

// ConcludeUse records the use that stopped a clean, which has ended, and returns who has the device.
func (d *Reservation) ConcludeUse(ctx workflow.Context) string {
	asked := *d.InUse
	asked.CleanStarted, asked.CleanReserved, d.InUse = false, false, nil
	o, why := device.Observe(d.State.Device, asked)
	d.record(ctx, o, string(why), asked, nil)
	return o.Instance
}

// Allows says that a clean may proceed by this answer. If not, the answer shows a use, which stops it.
func (d *Reservation) Allows(asked device.Snapshot, found device.Inventory) bool {
	asked = answer(asked, found, nil)
	o, _ := device.Observe(d.State.Device, asked)
	if o.Needs(device.Proceed) {
		return true
	}
	d.InUse = &asked
	return false
}

// observe says what an answer means now. It records nothing.
func (d *Reservation) observe(asked device.Snapshot, found device.Inventory) device.Observation {
	o, _ := device.Observe(d.State.Device, answer(asked, found, nil))
	return o
}

// RetriesLater says that the operation is to be tried again after a pause. It records
// nothing.
func (d *Reservation) RetriesLater(asked device.Snapshot, err error) bool {
	o, _ := device.Observe(d.State.Device, answer(asked, device.Inventory{}, err))
	return o.Needs(device.RetryLater)
}

func answer(asked device.Snapshot, found device.Inventory, err error) device.Snapshot {
	if err != nil {
		return asked.Failed(calls.FaultOf(err).Code)
	}
	return asked.Answered(found)
}

// record applies an observation to the state. f is the fault of the call, nil if it
// succeeded.
func (d *Reservation) record(ctx workflow.Context, o device.Observation, why string, asked device.Snapshot,
	f *device.Fault) {
	s, wasAvailable := d.State, d.State.Device.State == device.Available
	backAgain := o.Event == device.ObservedInUse && o.Recorded && s.Knows(o.Instance)
	before := s.Device.Binding
	if o.Event == device.Invalidated || o.Event == device.ReservationChanged {
		d.CountForeignWrite(ctx)
	}
	switch o.Event {
	case "":
	case device.Invalidated:
		if asked.Answer != device.Answered && asked.Question != device.AskEndMaintenance {
			why = f.Message
		}
		d.Invalidate(ctx, nil, why)
	case device.Released:
		if err := d.EndBinding(ctx, device.Event{Kind: device.Released}); err != nil {
			workflow.GetLogger(ctx).Error("released", "device", s.Name, "error", err)
		}
	case device.CleanFailed:
		if f == nil {
			f = &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal, Message: why}
		}
		d.Fail(ctx, f)
	default:
		d.ApplyOrReport(ctx, o.EventOf(o.Event.UsesAutomated() && d.Policy(ctx).Automated))
	}
	i := &s.Intent
	i.EnsureReserved = (i.EnsureReserved || o.Needs(device.EnsureReserved)) && !o.Needs(device.StopReserving)
	i.ReadInventory = (i.ReadInventory || o.Needs(device.ReadAgain)) && !o.Needs(device.AwaitProvider)
	i.Import = i.Import && !o.Needs(device.EndImport)
	if b := s.Device.Binding; o.Recorded && b != nil && (before == nil || before.Number != b.Number) {
		d.logGivenBack(ctx, before, b)
	}
	switch {
	case backAgain:
		d.callBackAgain(o.Instance)
	case o.Event == device.ReservationChanged:
		s.Fault = changedFault(why)
		s.LastError = s.Fault.Message
	case o.Needs(device.AwaitProvider) && !o.Needs(device.RetryLater):
		if s.Device.State != device.Retired {
			d.Waiting(ctx, contract.WaitProvider, f) // until a call finds one
		}
	case o.Event == device.ObservedHeld: // what its operator asked for meanwhile is not known any more
		s.LastError = why + ": a clean that was requested meanwhile has not taken place; provide " + s.Name + " cleans it"
	case f != nil:
	case o.Event == device.ObservedUnused &&
		(wasAvailable || asked.Question == device.AskImport && o.Needs(device.EnsureReserved)),
		o.Event == "" && o.Needs(device.EnsureReserved) && asked.Inventory.Used == 0:
		s.LastError = why
	}
}

// logGivenBack keeps in the history, and in the log, that the inventory's record gave the device
// to an instance that this workflow did not know to have it, and by which numbers.
func (d *Reservation) logGivenBack(ctx workflow.Context, before, now *device.Binding) {
	knew := fmt.Sprintf("no binding after %d", now.Number-1)
	if before != nil {
		knew = fmt.Sprintf("binding %d of %s", before.Number, before.Instance)
	}
	why := fmt.Sprintf("the inventory records binding %d of %s; this workflow knew %s", now.Number, now.Instance, knew)
	d.Updates().Accept(ctx, contract.Act{Verb: string(device.ObservedInUse), By: contract.ByBurnish, Reason: why})
	workflow.GetLogger(ctx).Warn("the inventory gave the device to its instance", logs.Device, d.State.Name,
		logs.Error, why)
}

// callBackAgain calls the operator for a device whose former instance may have left it for good:
// another client's write hides which of its bindings the record is of.
func (d *Reservation) callBackAgain(instance string) {
	d.State.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeReservationChanged,
		Message: "the inventory records " + instance + " after a write that is not Burnish's: whether it has left the " +
			"device is not known",
		Remedy: "if it has left, unbind " + d.State.Name + " --instance " + instance}
	d.State.LastError = d.State.Fault.Message
}

func changedFault(why string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeReservationChanged, Message: why,
		Remedy: "none needed: the device is cleaned again"}
}

// Reconcile makes the first inventory call that the intent asks for, and concludes from
// the answer. It runs beside a clean.
func (d *Reservation) Reconcile(ctx workflow.Context) error {
	if err := d.Lock(ctx); err != nil {
		return err
	}
	defer d.Unlock()
	switch i := &d.State.Intent; {
	case i.Import && d.State.Device.State == device.Unknown:
		// the import reads the reservation, and would mistake a write for a use
		i.ReadInventory, i.EnsureReserved = false, false
	case i.EnsureProvider:
		if _, err := d.EnsureProvider(ctx); err != nil {
			return err
		}
		i.EnsureProvider = false
	case i.EnsureReserved:
		in := d.recorded(d.request())
		asked := d.askToWrite(device.AskReserve, in)
		if !asked.Known.KeepsClean(d.State.Device) {
			in.Expect = nil
		}
		found, err := d.ensureReserved(ctx, in)
		return d.reconciled(ctx, asked, found, err, &i.EnsureReserved)
	case i.ReadInventory:
		asked := d.Ask(device.AskRecheck)
		found, err := d.Read(ctx)
		return d.reconciled(ctx, asked, found, err, &i.ReadInventory)
	}
	return nil
}

// reconciled concludes from an answer and clears the intent that asked for it. An error
// that it returns must be retried after a pause.
func (d *Reservation) reconciled(ctx workflow.Context, asked device.Snapshot, found device.Inventory, err error,
	intent *bool) error {
	if err == nil {
		*intent = false
	}
	o := d.Conclude(ctx, asked, found, err)
	switch {
	case o.Needs(device.RetryLater):
		return err
	case err != nil && o.Event == device.Invalidated && d.State.Device.State == device.Unknown:
		d.State.Intent.EnsureReserved = false // an unknown device is reserved to be resolved
	}
	return nil
}

// ReserveForBind reserves the provider for the instance of the claim, records it there in
// the same write (F24), reads both back (S0.4), and concludes from the answer, unless claimed
// says that the claim ended meanwhile. It returns the fault of a burn that failed or may have
// failed.
//
// then, if any, is what the device needs beside its reservation before it is bound. It runs
// without the lock, because it may take long; its fault ends the burn, which it has recorded.
func (d *Reservation) ReserveForBind(ctx workflow.Context, claimed func() bool,
	then func() *device.Fault) *device.Fault {
	asked, in := d.Ask(device.AskBind), d.request()
	instance := d.State.Device.Claim.Instance
	d.State.BurnedFor, in.Record = instance, d.recordOf(instance)
	in.Record.Bindings++ // that of this binding
	reserve := inventoryCall(d.callInTask)
	if !d.OwnedByBurnish() {
		reserve = d.call // nothing records for whom an attempt in a lost task wrote
	}
	found, err := reserve(ctx, calls.WithClientDeadline(ctx, "reserve "+d.State.Name), contract.ActivityReserveForBind, in)
	if !claimed() {
		return nil
	}
	if then != nil && err == nil && d.observe(asked, found).Event == device.Burned {
		d.Unlock()
		f := then()
		if err := d.Lock(ctx); err != nil {
			return calls.FaultOf(err)
		}
		if f != nil || !claimed() {
			return f
		}
	}
	switch d.Conclude(ctx, asked, found, err).Event {
	case device.Burned:
		d.State.BurnedFor = ""
		return nil
	case device.BurnFailed: // an attempt before the last one may have written
		d.State.GenerationUncertain = true
	}
	if err != nil {
		return calls.FaultOf(err)
	}
	return &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
		Message: "its provider was re-created although it was available: who used it before is not known",
		Remedy:  "take another device; this one is cleaned automatically"}
}
