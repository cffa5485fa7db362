package lifecycle

import (
	"fmt"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file compares the device with its inventory, its pool, its instance and its host, and resolves what is unknown.

// wantsInventory says that the inventory must be called because of an intent.
func (d *State) wantsInventory() bool {
	i := d.Intent
	return i.EnsureReserved || i.EnsureProvider || i.ReadInventory
}

// needsReconcile says that inventory, pool, instance or host must be read.
func (d *State) needsReconcile() bool {
	i, s := d.Intent, d.Device.State
	if !d.RetryAt.IsZero() || !d.Enrolled {
		return false
	}
	if s == device.Retired {
		return i.EnsureReserved || i.ReadInventory
	}
	return d.wantsInventory() || d.asksPool() || i.AskInstance ||
		i.Rediscover && !CleanUnderWay(d.DeviceState) && s != device.Unknown
}

// reconcile compares the device with its inventory or, if nothing is wanted of that, with its host. It runs beside a
// clean, which it stops if the inventory shows the device in use.
func (d *State) reconcile(j *Job) {
	switch {
	case d.wantsInventory():
		d.enter(j, phReconcile)
	case d.asksPool():
		d.Intent.ReadPool = false
		d.enter(j, phAskPool)
	case d.Intent.AskInstance:
		d.enter(j, phAskInstance)
	default:
		d.rediscover(j) // without the provider: it may take long and makes no inventory call
	}
}

// reconcileCall makes the first inventory call that the intent asks for.
func (d *State) reconcileCall(j *Job) {
	switch i := &d.Intent; {
	case i.Import && d.Device.State == device.Unknown:
		// the import reads the reservation, and would mistake a write for a use
		i.ReadInventory, i.EnsureReserved = false, false
		d.recovered()
		d.drop(j)
	case i.EnsureProvider:
		j.Kind = ""
		d.inventory(j, contract.ActivityEnsureProvider, d.ensureProvider(d.Host.Identity),
			How{Client: true, What: "ensure the provider of " + d.Name})
	case i.EnsureReserved && !d.readsAgain():
		in := d.recorded(d.request())
		j.Asked = d.askToWrite(device.AskReserve, in)
		if d.Device.State != device.Allocated && !j.Asked.Known.KeepsClean(d.Device) {
			in.Expect = nil
		}
		d.reserve(j, in, How{Client: true})
	case i.ReadInventory:
		j.Asked = d.ask(device.AskRecheck)
		d.read(j, d.unconditional(), How{Client: true})
	default:
		d.drop(j)
	}
}

func (d *State) reconciled(j *Job, o Outcome) {
	provider := j.Asked.Question == ""
	found, f := d.answered(j, o)
	var again *device.Fault
	switch {
	case provider && f != nil:
		again = f
	case provider:
		d.Intent.EnsureProvider = false
	default:
		if f == nil && j.Asked.Question == device.AskReserve {
			d.Intent.EnsureReserved = false
		} else if f == nil {
			d.Intent.ReadInventory = false
		}
		switch o := d.conclude(j.Asked, found, f); {
		case o.Needs(device.RetryLater):
			again = f
		case f != nil && o.Event == device.Invalidated && d.Device.State == device.Unknown:
			d.Intent.EnsureReserved = false // an unknown device is reserved to be resolved
		}
	}
	if again != nil {
		d.backoff(again)
	} else {
		d.recovered()
	}
	d.drop(j)
}

// resolve decides the state of an unknown device (D8): it reserves the device, asks which instance an ended run of its
// workflow was bound to, and concludes from both.
func (d *State) resolve(j *Job) {
	d.Publish = true
	if d.Intent.Import {
		j.Asked = d.ask(device.AskImport)
		j.Asked.Imported = d.Intent.ImportProvider
		d.read(j, d.unconditional(), How{Client: true})
		return
	}
	j.Asked = d.ask(device.AskResolve)
	d.inventory(j, contract.ActivityEnsureProvider, d.ensureProvider(d.Host.Identity),
		How{Client: true, What: "ensure the provider of " + d.Name})
}

func (d *State) resolved(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	switch {
	case j.Asked.Question == device.AskImport:
		d.resolveImport(j, found, f)
	case d.Device.State != device.Unknown: // retired meanwhile
		d.workEnds(j)
	case f != nil:
		d.retry = f
		d.workEnds(j)
	default:
		j.Found, j.Tries = found, 0
		d.enter(j, phPrevious)
	}
}

// resolveImport decides the state of an imported device by its reservation (D8): in use, used and not cleaned since, or
// free. Only the provider that was imported counts: Nova re-creates a provider as free, even if the device was used
// before.
func (d *State) resolveImport(j *Job, found device.Inventory, f *device.Fault) {
	if f == nil && d.Device.State == device.Unknown { // not retired meanwhile
		d.Fault, d.Intent.Import = nil, false
	}
	if d.conclude(j.Asked, found, f).Needs(device.RetryLater) {
		d.retry = f
	}
	d.workEnds(j)
}

// findPrevious asks for the ended run of this device's workflow, more than once before it concludes that there is none:
// a listing lags behind, and a tenant's data depends on it.
func (d *State) findPrevious(j *Job) {
	d.make(j, Call{Activity: contract.ActivityFindPreviousRun, In: d.Name, WaitsFor: contract.WaitInventory,
		How: How{Way: ToInventory, What: "previous run of " + d.Name}})
}

func (d *State) foundPrevious(j *Job, o Outcome) {
	if o.Fault != nil {
		d.retry = o.Fault
		d.workEnds(j)
		return
	}
	j.Previous = *o.Found.(*contract.PreviousRun)
	if j.Tries++; j.Previous.RunID == "" {
		d.enter(j, phPreviousPause)
		return
	}
	d.resolvedBy(j)
}

func (d *State) pausePrevious(j *Job) { j.Until = d.now.Add(time.Second) }

func (d *State) previousAgain(j *Job, _ Outcome) {
	if j.Tries < 3 {
		d.enter(j, phPrevious)
		return
	}
	d.resolvedBy(j)
}

func (d *State) resolvedBy(j *Job) {
	found, previous := j.Found, j.Previous
	if d.Device.State != device.Unknown { // retired meanwhile
		d.workEnds(j)
		return
	}
	if previous.RunID != "" && previous.RunID != d.PreviousRunID {
		d.PreviousRunID = previous.RunID
		d.restoreBinding(previous)
		// Nova's provider records none, and a write may not have come (F43)
		if found.Hold == device.HoldNone && found.Witness != device.WitnessNone {
			found.Hold = previous.Hold
		}
	}
	d.Fault = nil
	if d.conclude(j.Asked, found, nil).Event == device.NoWitness {
		d.Fault = d.tenantUnrecorded(previous)
		d.LastError = d.Fault.Message
	}
	d.workEnds(j)
}

// tenantUnrecorded is the fault of a device for which nothing outside Temporal records who has it (F24, D16). It says
// what else is known of its last instance.
func (d *State) tenantUnrecorded(previous contract.PreviousRun) *device.Fault {
	known := "its bindings are not known"
	switch {
	case len(d.History) > 0:
		known = fmt.Sprintf("the last instance that this workflow knows of was %s", d.History[len(d.History)-1].Instance)
	case previous.RunID != "":
		known = fmt.Sprintf("an earlier workflow ended at %s in state %s without an instance",
			previous.EndedAt.Format(time.RFC3339), previous.State)
	}
	if n := d.Device.Bindings; n > 0 {
		known += fmt.Sprintf("; it was bound %d times", n)
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeTenantUnrecorded,
		Message: "the inventory does not record who has the device: " + known,
		Remedy:  "find out whether an instance uses it; if none does, clean " + d.Name + ", manage it, or retire it"}
}

// restoreBinding takes over the binding of an ended run, unless the present one is younger: the listing may show a run
// long after it ended (F25).
func (d *State) restoreBinding(previous contract.PreviousRun) {
	before := d.Device.Bindings
	d.must(device.Event{
		Kind: device.PreviousRunFound, Instance: previous.Instance,
		BoundSince: d.Device.Binding != nil && d.BoundAt.After(previous.EndedAt),
	})
	if d.Device.Bindings != before {
		d.BoundAt = previous.EndedAt // a run that ended later still counts
	}
}

// askInstance asks the instance that has the device by a record alone. One that was released, or that knows nothing of
// the device, gave it back while its workflow was lost: only the operator can say whether it is in use, and it must not
// stay reserved for that instance in silence.
//
// SAFETY F38
func (d *State) askInstance(j *Job) {
	asked := d.Device.Binding
	if asked == nil {
		d.Intent.AskInstance = false
		d.drop(j)
		return
	}
	j.Was = d.Device
	d.make(j, Call{Activity: contract.ActivityAskInstance, How: How{Way: ToInventory, Client: true,
		What: "ask instance " + asked.Instance}, In: contract.InstanceQuestion{Instance: asked.Instance, Device: d.Name}})
}

func (d *State) instanceAnswered(j *Job, o Outcome) {
	defer d.drop(j)
	now := d.Device.Binding
	switch {
	case now == nil || now.Number != j.Was.Binding.Number: // it has ended, and another one is asked for
		return
	case o.Fault != nil:
		d.backoff(o.Fault)
		return
	}
	d.Intent.AskInstance = false
	d.recovered()
	if o.Found.(*contract.InstanceAnswer).Left && d.Fault == nil {
		d.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeTenantLeft,
			Message: "instance " + now.Instance + " has the device by a record, and says that it has left it",
			Remedy:  "if nothing uses it, unbind " + d.Name + " --instance " + now.Instance}
		d.LastError = d.Fault.Message
	}
}

// confirm compares the device with its record before an answer about who has the device that only this workflow's
// memory supports: the memory may be older (SAFETY F36). It ends when the state is known again.
func (d *State) confirm(j *Job, back Phase) {
	first := phConfirm
	if d.Device.State == device.Unknown {
		first = phAwaitKnown
	}
	d.share(j, first, back)
}

func (d *State) confirmCall(j *Job) {
	j.Asked = d.ask(device.AskRecheck)
	d.read(j, d.unconditional(), How{InTask: true, Client: true})
}

func (d *State) confirmed(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	d.conclude(j.Asked, found, f)
	if f != nil {
		d.letGo(j)
		d.back(j, Outcome{Fault: f})
		return
	}
	d.enter(j, phAwaitKnown)
}

// awaitKnown waits until the state of an unknown device is resolved, or a use that was read is the device's, for as
// long as a client waits. The refusal of one that is not says that its instance may still have it.
func (d *State) awaitKnown(j *Job) { j.Until = d.now.Add(clientDeadline) }

func (d *State) isKnown(*Job) bool {
	// InUse: its clean's step stops first, and the use is read again.
	return !d.InUse && (d.Device.State != device.Unknown || d.Device.AwaitingManualClean)
}

func (d *State) nowKnown(j *Job, o Outcome) {
	switch {
	case !o.Again:
		d.back(j, Outcome{})
	case d.InUse:
		d.back(j, Outcome{Err: d.refuse(device.CodeReservationUnknown,
			"who has the device is not known yet: the step of its clean is being stopped",
			"repeat the request once the step has stopped")})
	default:
		d.back(j, Outcome{Err: d.notKnownYet()})
	}
}

func (d *State) notKnownYet() error {
	return d.refuse(device.CodeReservationUnknown, "who has the device is not known yet: the inventory is being asked",
		"wait until the inventory has been read")
}

// boundSince says that a bind began since the job noted the claims. A binding that was read from the record, or that an
// ended run had, began before.
func (d *State) boundSince(j *Job) bool {
	return d.Claims > j.Claims && (d.Device.Binding != nil || d.Device.Claim != nil)
}
