package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file is what operators ask for: to provide, clean and abort, and to take a device out of the offer or out of
// service.

func (d *State) checkProvide(contract.ReasonInput) error {
	switch d.Device.State {
	case device.Available, device.Cleaning, device.PendingCleaning:
		if !d.Device.NamedSteps {
			return nil // already so, or on its way
		}
	case device.Manageable:
		return nil
	}
	return d.legal(device.Event{Kind: device.Provide})
}

func (d *State) onItsWay() bool { return d.Device.State != device.Manageable }

func (d *State) provideAsked(j *Job, in contract.ReasonInput) { d.provide(j, in.Reason, phProvided) }

func (d *State) provided(j *Job, o Outcome) { d.finished(j, o.err()) }

// provide begins the sequence that gives a manageable device to the offer: first its host looks at one that is not
// dirty. It was out of our hands, and is not cleaned (F27), unless others wrote to it (F39).
func (d *State) provide(j *Job, reason string, back Phase) {
	d.Intent.Reason, d.Intent.DuplicateAt = reason, ""
	d.doubtShared()
	j.Back = append(j.Back, back)
	if !d.Device.Dirty {
		d.lookBeforeOffer(j, phProvideLooked)
		return
	}
	d.providing(j, Outcome{})
}

func (d *State) providing(j *Job, o Outcome) {
	if f := o.Fault; f != nil && f.Code != device.CodeForeignWrite {
		d.back(j, Outcome{Fault: f})
		return
	}
	err := d.apply(device.Event{Kind: device.Provide})
	if err == nil {
		d.showNoErasePath()
	}
	d.back(j, Outcome{Err: err})
}

// checkClean: an operator may clean a device in state error or manageable, and one that waits for a manual
// clean (S3.20,
// D7).
func (d *State) checkClean(in contract.CleanInput) error {
	if err := d.checkForm(in); err != nil {
		return err
	}
	if !in.Manual() {
		return d.legal(device.Event{Kind: device.Clean})
	}
	if d.Device.State == device.Manageable {
		for _, step := range in.Steps {
			if clean.OfWorkflow(step) {
				return d.refuse(device.CodeNoSuchStep, "the step "+step+" is for runbooks only", "write a runbook in the policy")
			}
			if _, known := d.Host.Steps[step]; !known {
				return d.refuse(device.CodeNoSuchStep, "host "+d.Enrollment.Host+" has no step "+step,
					"name one of "+strings.Join(sortedKeys(d.Host.Steps), ", "))
			}
		}
	}
	return d.legal(device.Event{Kind: device.CleanSteps})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// checkForm refuses a request that no policy and no device could carry out: a signal with one is refused as an update
// is.
func (d *State) checkForm(in contract.CleanInput) error {
	if in.Runbook != "" && (len(in.Steps) > 0 || len(in.Args) > 0) {
		return d.refuse(device.CodeInvalid, "a runbook has its own steps and arguments", "name either a runbook or steps")
	}
	for _, step := range in.Steps {
		if strings.TrimSpace(step) == "" {
			return d.refuse(device.CodeInvalid, "a step name is empty", "name steps as `steps "+d.Name+"` lists them")
		}
	}
	for _, step := range sortedKeys(in.Args) {
		if !slices.Contains(in.Steps, step) {
			return d.refuse(device.CodeInvalid, fmt.Sprintf("arguments are given for %q, which is not among the steps", step),
				"name the step too")
		}
		if _, err := clean.ParseArgs(in.Args[step]); err != nil {
			return d.refuse(device.CodeInvalid, step+": "+err.Error(), "give the arguments as a JSON object")
		}
	}
	return nil
}

// checkPlan refuses a clean that needs a step which the host's worker does not know. Of named steps it refuses those
// that do not apply to the device, arguments that do not fit, and a runbook that is not there or not for this
// device. By
// a signal they are accepted, and the clean ends in state error: what is planned depends on this worker's policy, and a
// signal's handler is replayed. No step of it runs.
func (d *State) checkPlan(in contract.CleanInput) error {
	f := d.by.Plan(d.subject(), !in.Manual(), manual(in)).Fault
	switch {
	case f == nil:
	case f.Code == device.CodeHostWorkerTooOld, // S2.75
		in.Manual() && (f.Class == device.Permanent || f.Code == device.CodeNoErasePath):
		return d.refuse(f.Code, f.Message, f.Remedy)
	}
	return nil
}

func manual(in contract.CleanInput) clean.Request {
	return clean.Request{Steps: in.Steps, Args: in.Args, Runbook: in.Runbook}
}

// PlanOf is what a clean would do now. It changes nothing.
func (d *State) PlanOf(in contract.CleanInput, planner *clean.Planner) contract.CleanPlan {
	input := d.subject()
	out := contract.CleanPlan{Operation: input.Operation, PolicyDigest: planner.Digest(), Steps: []contract.Planned{}}
	if err := d.checkForm(in); err != nil {
		out.Fault = faultOf(err)
		return out
	}
	if d.Host.Excluded != nil && !in.Manual() {
		out.Fault = d.Host.Excluded
		return out
	}
	made := Plan(planner, input, !in.Manual(), manual(in))
	out.Fault, out.Runbook, out.RunbookDigest = made.Fault, made.Runbook, made.RunbookDigest
	out.Steps = append(out.Steps, made.Plan...)
	return out
}

func (d *State) cleanAsked(j *Job, in contract.CleanInput) { d.finished(j, d.askClean(in)) }

func (d *State) askClean(in contract.CleanInput) error {
	kind := device.Clean
	if in.Manual() {
		kind = device.CleanSteps
	}
	if err := d.apply(device.Event{Kind: kind}); err != nil {
		return err
	}
	d.Intent.Steps, d.Intent.Reason, d.Intent.DuplicateAt = in.Steps, in.Reason, ""
	d.Intent.Args, d.Intent.Runbook = in.Args, in.Runbook
	d.Fault, d.LastError, d.LastRefusal = nil, "", ""
	return nil
}

func (d *State) checkReleaseHold(contract.ReasonInput) error {
	if !d.waits(contract.WaitHold) && !d.waits(contract.WaitTogether) {
		return d.refuse(device.CodeRefused, "no clean is on hold: the device is "+Phrase(d.DeviceState), "show "+d.Name)
	}
	return nil
}

// releaseHoldAsked lets a clean go on that its runbook holds.
func (d *State) releaseHoldAsked(j *Job, in contract.ReasonInput) {
	d.releaseHold(in)
	d.carriedOut(j)
}

func (d *State) checkAbort(contract.ReasonInput) error {
	switch {
	case d.Taking != nil:
		return nil
	case d.Device.Returning:
		return d.refuse(device.CodeRefused, "the device is clean and being returned: there is nothing left to abort",
			"none is needed")
	case !CleanUnderWay(d.DeviceState):
		return d.refuse(device.CodeRefused, "no clean is running: the device is "+Phrase(d.DeviceState), "show "+d.Name)
	}
	return nil
}

// abortAsked is answered at once with what the abort waits for (F9).
func (d *State) abortAsked(j *Job, _ contract.ReasonInput) {
	if d.Taking != nil {
		d.Taking = nil
		d.done(j, contract.Result{Device: d.Status(), Note: "it is no longer to be taken out of the offer"}, nil)
		return
	}
	already := d.Intent.Abort
	note := d.abort()
	d.done(j, contract.Result{Device: d.Status(), Already: already, Note: note}, nil)
}

func (d *State) checkRetire(in contract.RetireInput) error {
	if d.Device.State == device.Retired {
		return nil
	}
	if err := d.nameTenant(in.Instance); err != nil {
		return err
	}
	if in.Lost {
		return d.legal(device.Event{Kind: device.Lost})
	}
	return d.legal(device.Event{Kind: device.Retire})
}

// retire reserves the device first, so that no scheduler allocates it meanwhile. --lost waits for neither host nor
// inventory: the device is reserved as soon as the inventory answers.
func (d *State) retire(j *Job, in contract.RetireInput) {
	j.Was = d.Device
	if in.Lost { // whom the inventory records is asked by forget, which destroys the record
		d.retired(j, Outcome{Err: d.apply(device.Event{Kind: device.Lost})})
		return
	}
	d.withdraw(j, device.Retire, phRetired)
}

func (d *State) isRetired() bool { return d.Device.State == device.Retired }

func (d *State) retired(j *Job, o Outcome) {
	if err := o.err(); err != nil {
		d.refused(j, err)
		return
	}
	in := j.In.(contract.RetireInput)
	d.recordEnd(j.Was.Binding, "retired", in.By, in.Reason)
	d.HoldReason, d.Clean = in.Reason, nil
	d.Intent.Rediscover, d.Intent.ReadInventory, d.Intent.Import = false, false, false
	d.Fault, d.LastError = nil, ""
	// Its profile is removed: it can be forgotten only without one, or if it is lost.
	if d.owes() {
		d.PoolStopped = d.poolChanges() // of a clean, or of its return
		d.profile(j, ProfileKind{Remove: true, Client: true}, phRetiredUnprofiled)
		return
	}
	d.carriedOut(j)
}

func (d *State) retiredUnprofiled(j *Job, o Outcome) {
	note := "its server profile was removed"
	if f := o.Fault; f != nil {
		note = "its server profile was not removed: " + f.Message
		if j.In.(contract.RetireInput).Lost {
			d.updatePool(func(s *contract.PoolState) { s.Abandoned = true })
			note += "; remove it on " + d.Enrollment.Pool.Appliance
		} else {
			note += "; forget tries again"
		}
	}
	d.done(j, contract.Result{Device: d.Status(), Note: note}, nil)
}

func (d *State) checkForget(contract.TenantInput) error {
	return d.legal(device.Event{Kind: device.Forget})
}

// forget deletes the provider and ends the workflow.
func (d *State) forget(j *Job, _ contract.TenantInput) { d.nameRecorded(j, phForgetNamed) }

func (d *State) forgetNamed(j *Job) {
	if p := d.Pool; (p == nil || !p.Abandoned) && d.owes() {
		d.profile(j, ProfileKind{Remove: true, Client: true}, phForgetUnprofiled)
		return
	}
	d.enter(j, phForgetProvider)
}

func (d *State) forgetUnprofiled(j *Job, o Outcome) {
	if o.Fault != nil {
		d.refused(j, o.Fault)
		return
	}
	d.enter(j, phForgetProvider)
}

func (d *State) deleteProvider(j *Job) {
	if j.Verb.Name == contract.VerbForget.Name {
		j.Last = d.Status()
	}
	d.inventory(j, contract.ActivityDeleteProvider, d.request(), How{Client: j.Verb.Name == contract.VerbForget.Name,
		What: "delete the provider of " + d.Name})
}

func (d *State) forgetDeleted(j *Job, o Outcome) {
	_, f := d.answered(j, o)
	var err error
	if f != nil {
		err = f
	} else {
		err = d.apply(device.Event{Kind: device.Forget})
	}
	if err != nil {
		d.refused(j, err)
		return
	}
	d.Intent = contract.Intent{} // nothing is left to reconcile
	d.forgetOnHost(j, d.Enrollment, phForgotten)
}

func (d *State) forgotDevice(j *Job, o Outcome) {
	note := "forgotten"
	if o.Fault != nil {
		note += ", but not by its host: " + o.Fault.Error()
	}
	d.Finished = true
	d.done(j, contract.Result{Device: j.Last, Note: note}, nil)
}

func (d *State) checkManage(in contract.TenantInput) error {
	if d.Device.State == device.Manageable {
		return nil
	}
	if d.Taking != nil {
		return d.refuse(device.CodeRefused, "the device waits already to be taken out of the offer",
			"wait, or abort "+d.Name)
	}
	if err := d.nameTenant(in.Instance); err != nil {
		return err
	}
	return d.legal(device.Event{Kind: device.Manage})
}

func (d *State) manage(j *Job, _ contract.TenantInput) {
	if d.Device.State == device.Available {
		d.awaitCapacity(j, phManageGranted)
		return
	}
	d.manageGranted(j, Outcome{})
}

func (d *State) isManageable() bool { return d.Device.State == device.Manageable }

func (d *State) manageGranted(j *Job, o Outcome) {
	if err := o.err(); err != nil {
		d.refused(j, err)
		return
	}
	d.withdraw(j, device.Manage, phManaged)
}

func (d *State) managed(j *Job, o Outcome) {
	d.capacityTaken(j, o.err() == nil)
	d.finished(j, o.err())
}

func (d *State) checkMaintain(in contract.MaintenanceInput) error {
	if in.Off {
		if d.Device.State == device.Available {
			return nil // its host looks at it first
		}
		return d.legal(device.Event{Kind: device.MaintainOff})
	}
	return d.legal(device.Event{Kind: device.Maintain})
}

// maintain begins or ends the operator's maintenance. An available device is reserved meanwhile, and becomes free again
// only if it was not used (S2.51).
func (d *State) maintain(j *Job, in contract.MaintenanceInput) {
	if !in.Off {
		j.Was = d.Device
		d.leave(j, device.Maintain, phMaintained)
		return
	}
	quarantined := d.Device.Maintenance == device.MaintenanceQuarantined
	switch {
	case d.Device.Status == device.Enabled && !quarantined:
		d.done(j, contract.Result{Device: d.Status(), Already: true, Note: d.takenNote()}, nil)
	case d.Device.State != device.Available:
		d.maintenanceEnds(j, Outcome{})
	case d.shared():
		d.enter(j, phMaintainServer)
	default:
		d.endMaintenance(j, phMaintenanceEnded)
	}
}

func (d *State) maintained(j *Job, o Outcome) {
	if err := o.err(); err != nil {
		d.refused(j, err)
		return
	}
	d.HoldReason = j.In.(contract.MaintenanceInput).Reason
	d.done(j, contract.Result{Device: d.Status(), Already: j.Was.Status == device.Maintaining}, nil)
}

func (d *State) maintainServerRead(j *Job, o Outcome) {
	found, f := d.poolRead(j, o)
	j.Server = found
	used, f := d.notTaken(found, f)
	switch j.Used = used; {
	case f != nil:
		d.refused(j, f)
	case used:
		d.lookBeforeOffer(j, phMaintenanceEnded)
	default:
		d.endMaintenance(j, phMaintenanceEnded)
	}
}

func (d *State) maintenanceEnds(j *Job, o Outcome) {
	if err := o.err(); err != nil {
		d.refused(j, err)
		return
	}
	if d.Device.Status == device.Maintaining || d.Device.Maintenance == device.MaintenanceQuarantined {
		if err := d.apply(device.Event{Kind: device.MaintainOff}); err != nil {
			d.refused(j, err)
			return
		}
	}
	d.HoldReason = ""
	if j.Used { // SAFETY F34: it leaves its maintenance for a clean, not for the offer
		d.concludePool(device.AskPool, j.Server, nil)
	}
	d.done(j, contract.Result{Device: d.Status(), Note: d.takenNote()}, nil)
}

// What keeps requests of operators from ending a binding in silence (F31).

// tenant is the instance that has the device by the workflow's own state: its binding, or the claim whose burn is under
// way. "" if none has it.
func (d *State) tenant() string {
	switch dev := d.Device; {
	case dev.Binding != nil:
		return dev.Binding.Instance
	case dev.Claim != nil && dev.Claim.Burning:
		return dev.Claim.Instance
	case dev.State == device.Allocated:
		return device.UnknownConsumer
	}
	return ""
}

// nameTenant refuses a request that would end a binding without naming its instance.
func (d *State) nameTenant(named string) error { return nameInstance(named, d.tenant()) }

// nameInstance is nameTenant for an instance that has the device by another record.
func nameInstance(named, has string) error {
	if has == "" || device.SameTenant(has, named) {
		return nil
	}
	return &tenantError{has: has, named: named}
}

// namedIn is the instance that a request names, "" if it names none.
func namedIn(in contract.Input) string {
	switch in := in.(type) {
	case contract.TenantInput:
		return in.Instance
	case contract.RetireInput:
		return in.Instance
	case contract.ReplaceInput:
		return in.Instance
	case contract.MoveInput:
		return in.Instance
	}
	return ""
}

// nameRecorded begins the sequence that refuses a request which would destroy the inventory's record of an instance
// that has the device, unless the request names it. The job keeps the provider for itself afterwards.
func (d *State) nameRecorded(j *Job, back Phase) { d.share(j, phNameRecorded, back) }

func (d *State) nameRecordedCall(j *Job) { d.read(j, d.unconditional(), How{Client: true}) }

func (d *State) recordedNamed(j *Job, o Outcome) {
	has, err := d.tenantOf(d.answered(j, o))
	if err == nil {
		err = nameInstance(namedIn(j.In), has)
	}
	if err == nil {
		err = d.validate(j) // it may have changed during the read
	}
	d.back(j, Outcome{Err: err})
}

// named goes on with a request that named the instance which has the device, or refuses it.
func named(then func(*State, *Job)) func(*State, *Job, Outcome) {
	return func(d *State, j *Job, o Outcome) {
		if err := o.err(); err != nil {
			d.refused(j, err)
			return
		}
		then(d, j)
	}
}

// alreadyHeld answers a request for what the device is already. Its operator works at the hardware because of that, and
// the inventory may record an instance that this memory does not know of (F36). A lost device waits for no inventory.
func (d *State) alreadyHeld(j *Job) {
	if in, is := j.In.(contract.RetireInput); is && in.Lost {
		d.unchanged(j)
		return
	}
	d.nameRecorded(j, phAlreadyNamed)
}

func (d *State) stillHeld(j *Job) {
	if v := verbOf(j.Verb.Update()); !j.Repeated && !v.already(d) { // it has changed since
		v.do(d, j)
		return
	}
	d.unchanged(j)
}

// heldAgain is alreadyHeld for a request that was carried out before, if the device is still so.
func (d *State) heldAgain(j *Job) {
	if !verbOf(j.Verb.Update()).already(d) {
		d.unchanged(j)
		return
	}
	d.alreadyHeld(j)
}

// withdraw begins the sequence of an event that gives the device to its operator. The inventory may record an instance
// that the workflow does not know of: such a device is refused unless the request names the instance. What leaves the
// offer is read where it is reserved.
func (d *State) withdraw(j *Job, kind device.EventKind, back Phase) {
	j.Kind = kind
	if d.Device.State == device.Available && !d.Device.InMaintenance() {
		d.share(j, phLeave, back)
		return
	}
	j.Back = append(j.Back, back)
	d.nameRecorded(j, phWithdrawNamed)
}

func (d *State) withdrawNamed(j *Job, o Outcome) {
	d.letGo(j)
	if o.Err != nil {
		d.back(j, o)
		return
	}
	d.enter(j, phLeave)
}

// recordEnd keeps in the history who ended a binding, and how. b is nil if there was none.
func (d *State) recordEnd(b *device.Binding, verb, by, reason string) {
	if b == nil {
		return
	}
	ended := verb
	if by != "" {
		ended += " by " + by
	}
	if reason != "" {
		ended += ": " + reason
	}
	d.History = d.History.Ended(b.Number, ended)
}

func (d *State) checkLabel(in contract.LabelInput) error {
	_, err := in.Of(d.Enrollment.Labels)
	if err == nil {
		return nil
	}
	remedy := "give labels as KEY=VALUE and KEY-"
	if overwritten := in.LabelChange; !in.Overwrite {
		overwritten.Overwrite = true
		if _, other := overwritten.Of(d.Enrollment.Labels); other == nil {
			remedy = "use --overwrite"
		}
	}
	return d.refuse(device.CodeInvalid, err.Error(), remedy)
}

// label changes labels, which decide nothing: the device's state stays as it is. They reach the host's record with its
// next step, so that a workflow that is lost keeps them.
func (d *State) label(j *Job, in contract.LabelInput) {
	next, err := in.Of(d.Enrollment.Labels)
	switch {
	case err != nil:
		d.refused(j, err)
	case maps.Equal(next, d.Enrollment.Labels):
		d.unchanged(j)
	default:
		d.Enrollment.Labels = next
		d.carriedOut(j)
	}
}

// The actions of power.
const (
	powerOn    = "on"
	powerOff   = "off"
	powerReset = "reset"
)

// checkPower refuses a change of the power while the device is cleaned (S3.28). In state error it is allowed (S3.29). A
// device that an instance has needs its name (F31).
func (d *State) checkPower(in contract.PowerInput) error {
	if !slices.Contains([]string{powerOn, powerOff, powerReset}, in.Target) {
		return d.refuse(device.CodeInvalid, fmt.Sprintf("%q is not a power action", in.Target), "give one of on, off, reset")
	}
	switch {
	case d.Host.Power:
	case d.Host.Identity.Serial == "":
		return d.refuse(device.CodeRefused, "its host has not said yet that it has power control",
			"wait until its host has looked at it: show "+d.Name)
	default:
		return d.refuse(device.CodeNoPowerControl, "its driver has no power control", "change its power at the hardware")
	}
	if err := d.legal(device.Event{Kind: device.Power}); err != nil {
		return err
	}
	name := "name the instance"
	switch has := d.tenant(); {
	case has == "" || device.SameTenant(has, in.Instance):
		return nil
	case in.Instance == "":
		return d.refuse(device.CodeInUse, "instance "+has+" has the device: it would lose its power state",
			name+": power "+d.Name+" "+in.Target+" --instance "+has)
	default:
		return d.refuse(device.CodeInUse, "instance "+has+" has the device, not "+in.Instance,
			name+" that has it: power "+d.Name+" "+in.Target+" --instance "+has)
	}
}

// power has the device's host change its power, once the inventory's record confirms whose it is (F36). On and off are
// repeated until they are so. A reset is sent at most once: where its outcome is not known, the answer says so. One
// that others have in a shared pool, or that may be theirs, is refused (S4.26).
func (d *State) power(j *Job, _ contract.PowerInput) { d.confirm(j, phPowerConfirmed) }

func (d *State) powerConfirmed(j *Job, o Outcome) {
	err := o.err()
	if err == nil {
		err = d.validate(j)
	}
	if err != nil {
		d.refused(j, err)
		return
	}
	j.Since, j.Note = d.now, j.In.(contract.PowerInput).Target
	if d.shared() {
		d.enter(j, phPowerServer)
		return
	}
	d.enter(j, phPower)
}

func (d *State) powerServerRead(j *Job, o Outcome) {
	used, f := d.notTaken(d.poolRead(j, o))
	err := Outcome{Fault: f}.err()
	if f == nil && used {
		d.Intent.ReadPool = true
		f = d.usedFault()
		f.Remedy = "wait until it is cleaned again, or end its maintenance"
		err = f
	} else if f == nil {
		err = d.checkPower(j.In.(contract.PowerInput))
	}
	if err != nil {
		d.refused(j, err)
		return
	}
	d.enter(j, phPower)
}

func (d *State) powerCall(j *Job) {
	what := "power " + j.Note
	if j.Note == "" {
		what = "read the power state of"
	}
	d.make(j, Call{Activity: contract.ActivityPower,
		How: How{Way: ToPower, Host: d.Enrollment.Host, Once: j.Note == powerReset, What: what + " " + d.Name},
		In: contract.PowerCall{
			Enrollment: d.Enrollment, Identity: d.Host.Identity, Action: j.Note, Seq: d.Seq, Binding: d.Device.Bindings,
		}})
}

func (d *State) powered(j *Job, o Outcome) {
	j.Fault, j.Power = o.Fault, ""
	if o.Fault == nil {
		j.Power = o.Found.(*contract.PowerResult).State
	}
	// How the appliance shows an idle server whose power Burnish has changed is recorded, so that the change is not
	// taken for another user's.
	if d.shared() && d.Device.State == device.Available {
		d.enter(j, phPowerTag)
		return
	}
	d.powerEnds(j)
}

// powerTagRead: in a change that has lasted for longer than a blink since the server was found unchanged, another user
// may have had it: it is cleaned (F34).
func (d *State) powerTagRead(j *Job, o Outcome) {
	found, f := d.poolRead(j, o)
	if f == nil && found.Ownership != device.PoolTaken && d.now.Sub(j.Since) <= device.Blink &&
		d.Device.State == device.Available {
		d.updatePool(func(s *contract.PoolState) { s.Tag = found.Tag })
	}
	d.Intent.ReadPool = true
	d.powerEnds(j)
}

func (d *State) powerEnds(j *Job) {
	target, f := j.In.(contract.PowerInput).Target, j.Fault
	switch {
	case f == nil:
		note := "power " + target + " was carried out"
		if j.Power != "" {
			note += "; the device is " + j.Power
		}
		d.done(j, contract.Result{Device: d.Status(), Note: note}, nil)
	case target != powerReset || f.Class != device.Transient:
		d.refused(j, f)
	default:
		j.Note = ""
		d.enter(j, phPowerRead)
	}
}

func (d *State) powerRead(j *Job, o Outcome) {
	now := "its power state cannot be read"
	if o.Fault == nil {
		if state := o.Found.(*contract.PowerResult).State; state != "" {
			now = "it is " + state + " now"
		}
	}
	d.refused(j, d.refuse(device.CodePowerUnknown, "whether the device was reset is not known ("+j.Fault.Message+"); "+now,
		"look at the device; power "+d.Name+" reset sends another reset"))
}

func (d *State) checkMigrate(contract.ReasonInput) error {
	switch {
	case d.Enrollment.Pool == nil:
		return d.refuse(device.CodeRefused, "it is in no pool", "see server_hardware_uri of burnish enroll --help")
	case d.Device.Claim != nil:
		return d.refuse(device.CodeConflict, "the device is being bound", "repeat it in a moment")
	}
	return nil
}

// migrate makes a pre-allocated device dynamic. In the model that it leaves, the profile on the server is Burnish's,
// whoever made it: it is recorded (S4.34), and an available device loses it (S4.35), out of the offer and switched off.
// A migration that ended halfway goes on where it stopped (S4.37).
func (d *State) migrate(j *Job, _ contract.ReasonInput) {
	if j.Already = d.Enrollment.Pool.Dynamic; j.Already {
		d.endMigration(j)
		return
	}
	d.enter(j, phMigrateRead)
}

func (d *State) migrateRead(j *Job, o Outcome) {
	found, f := d.poolAnswer(o)
	err := Outcome{Fault: f}.err()
	if err == nil {
		err = d.checkMigrate(contract.ReasonInput{})
	}
	if err != nil {
		d.refused(j, err)
		return
	}
	j.Server, j.Used = found, d.Device.State == device.Available && found.Profile != ""
	switch {
	case j.Used:
		j.Note = "its idle profile was removed: " + found.Profile
		// Offered with a profile, it would look as if others had it.
		d.leave(j, device.Manage, phMigrateLeft)
		return
	case found.Profile != "":
		j.Note = "its profile is recorded: " + found.Profile
	default:
		j.Note = "it had no profile"
	}
	d.migrated(j, Outcome{})
}

func (d *State) migrated(j *Job, o Outcome) {
	if err := o.err(); err != nil {
		d.refused(j, err)
		return
	}
	dynamic := *d.Enrollment.Pool
	dynamic.Dynamic = true
	d.Enrollment.Pool = &dynamic
	d.Pool = &contract.PoolState{Profile: j.Server.Profile, Migrating: j.Used}
	d.Intent.Rediscover = true // so that its host records it too
	d.Publish = true
	d.endMigration(j)
}

// endMigration returns an idle device to the offer, which removes its profile.
func (d *State) endMigration(j *Job) {
	switch known := d.Pool; {
	case known == nil || !known.Migrating:
		d.done(j, contract.Result{Device: d.Status(), Already: j.Already, Note: j.Note}, nil)
	case d.Device.State == device.Manageable:
		d.provide(j, "migrated", phMigrateProvided)
	default:
		d.migrateProvided(j, Outcome{})
	}
}

func (d *State) migrateProvided(j *Job, o Outcome) {
	if err := o.err(); err != nil {
		d.refused(j, err)
		return
	}
	d.updatePool(func(s *contract.PoolState) { s.Migrating = false })
	d.enter(j, phMigrateReturns)
}

func (d *State) migrateReturned(*Job) bool { return !d.Device.Returning }

func (d *State) migrationEnds(j *Job, _ Outcome) {
	if f := d.Fault; f != nil && d.Device.State == device.Error {
		d.refused(j, f)
		return
	}
	d.done(j, contract.Result{Device: d.Status(), Note: j.Note}, nil)
}
