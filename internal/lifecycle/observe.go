package lifecycle

import (
	"fmt"
	"log/slog"

	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/workflows/contract"
)

// This file decides by the table of observations what an answer of the inventory means, and records it. Nothing else
// changes the state because of what the inventory shows (F6).

// conclude records what an answer means. The caller handles the follow-ups that concern it.
func (d *State) conclude(asked device.Snapshot, found device.Inventory, f *device.Fault) device.Observation {
	run := d.Clean
	asked.CleanStarted = run != nil
	asked.CleanReserved = d.cleanReserves()
	asked = answered(asked, found, f)
	if run != nil {
		asked = asked.WroteFirst(run.Number, d.Device.Hold())
	}
	o, why := device.Observe(d.Device, asked)
	d.record(o, string(why), asked, f)
	if run == nil && !o.Needs(device.RetryLater) { // this is what the device was to be read for
		d.InUse, d.Unreserved = false, false
	}
	if o.Needs(device.StopClean) { // the read after it concludes from what was known before this one
		known := asked.Known
		d.InUse, d.Generation, d.Provider, d.GenerationUncertain = true, known.Generation, known.Provider, known.Uncertain
	}
	d.Unreserved = d.Unreserved || o.Needs(device.RestartClean)
	return o
}

// observe says what an answer means now. It records nothing.
func (d *State) observe(asked device.Snapshot, found device.Inventory, f *device.Fault) device.Observation {
	o, _ := device.Observe(d.Device, answered(asked, found, f))
	return o
}

func answered(asked device.Snapshot, found device.Inventory, f *device.Fault) device.Snapshot {
	if f != nil {
		return asked.Failed(f.Code)
	}
	return asked.Answered(found)
}

// record applies an observation to the state. f is the fault of the call, nil if it succeeded.
func (d *State) record(o device.Observation, why string, asked device.Snapshot, f *device.Fault) {
	wasAvailable, wasCleaned := d.Device.State == device.Available, d.Device.BeingCleaned()
	backAgain := o.Event == device.ObservedInUse && o.Recorded && d.Knows(o.Instance)
	before := d.Device.Binding
	if o.Event == device.Invalidated || o.Event == device.ReservationChanged {
		d.countForeignWrite()
	}
	switch o.Event {
	case "":
	case device.Invalidated:
		if asked.Answer != device.Answered && asked.Question != device.AskEndMaintenance {
			why = f.Message
		}
		d.invalidate(nil, why)
	case device.Released:
		if err := d.endBinding(device.Event{Kind: device.Released}); err != nil {
			d.by.Log(slog.LevelError, "released", "device", d.Name, "error", err)
		}
	case device.CleanFailed:
		if f == nil {
			f = &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal, Message: why}
		}
		d.fail(f)
	default:
		d.must(o.EventOf(o.Event.UsesAutomated() && d.by.Policy().Automated))
	}
	i := &d.Intent
	i.EnsureReserved = (i.EnsureReserved || o.Needs(device.EnsureReserved)) && !o.Needs(device.StopReserving)
	i.ReadInventory = (i.ReadInventory || o.Needs(device.ReadAgain)) && !o.Needs(device.AwaitProvider)
	i.Import = i.Import && !o.Needs(device.EndImport)
	if b := d.Device.Binding; o.Recorded && b != nil && (before == nil || before.Number != b.Number) {
		d.logGivenBack(before, b)
	}
	switch {
	case backAgain:
		d.callBackAgain(o.Instance)
	case wasCleaned && o.Event == device.ObservedInUse:
		d.LastRefusal = "not cleaned: the inventory shows the device in use by " + o.Instance
	case o.Event == device.ReservationChanged:
		d.Fault = changedFault(why)
		d.LastError = d.Fault.Message
	case o.Needs(device.AwaitProvider) && !o.Needs(device.RetryLater):
		if d.Device.State != device.Retired {
			d.waiting(contract.WaitProvider, f) // until a call finds one
		}
	case o.Event == device.ObservedHeld: // what its operator asked for meanwhile is not known any more
		d.LastError = why + ": a clean that was requested meanwhile has not taken place; provide " + d.Name + " cleans it"
	case f != nil:
	case o.Event == device.ObservedUnused &&
		(wasAvailable || asked.Question == device.AskImport && o.Needs(device.EnsureReserved)),
		o.Event == "" && o.Needs(device.EnsureReserved) && asked.Inventory.Used == 0:
		d.LastError = why
	}
}

// logGivenBack keeps in the history, and in the log, that the inventory's record gave the device to an instance that
// this workflow did not know to have it, and by which numbers.
func (d *State) logGivenBack(before, now *device.Binding) {
	knew := fmt.Sprintf("no binding after %d", now.Number-1)
	if before != nil {
		knew = fmt.Sprintf("binding %d of %s", before.Number, before.Instance)
	}
	why := fmt.Sprintf("the inventory records binding %d of %s; this workflow knew %s", now.Number, now.Instance, knew)
	d.accept(contract.Act{Verb: string(device.ObservedInUse), By: contract.ByBurnish, Reason: why})
	d.by.Log(slog.LevelWarn, "the inventory gave the device to its instance", logs.Device, d.Name, logs.Error, why)
}

// callBackAgain calls the operator for a device whose former instance may have left it for good: another client's write
// hides which of its bindings the record is of.
func (d *State) callBackAgain(instance string) {
	d.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeReservationChanged,
		Message: "the inventory records " + instance + " after a write that is not Burnish's: whether it has left the " +
			"device is not known",
		Remedy: "if it has left, unbind " + d.Name + " --instance " + instance}
	d.LastError = d.Fault.Message
}

func changedFault(why string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeReservationChanged, Message: why,
		Remedy: "none needed: the device is cleaned again"}
}

// refuseUsed refuses a request if the inventory did not answer, or if the device is or was in use.
func (d *State) refuseUsed(o device.Observation, f *device.Fault) error {
	switch {
	case f != nil:
		return f
	case o.Event == device.ObservedInUse:
		return d.refuse(device.CodeInUse, "the inventory shows the device in use by "+o.Instance, "wait until it is released")
	case o.Event != "":
		return d.refuse(device.CodeInUse, "the inventory shows that the device was used: it is cleaned first",
			"wait until it is clean")
	}
	return nil
}
