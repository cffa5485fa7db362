package lifecycle

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file takes a device into service, and goes on with hardware that was replaced or moved (D10).

func (d *State) checkEnroll(in contract.EnrollInput) error {
	if !d.Enrolled {
		return d.checkPool(in.Enrollment)
	}
	have, want := d.Enrollment, in.Enrollment
	switch {
	case !strings.EqualFold(have.Host, want.Host):
		return d.enrolledDifferently("another host", have.Host)
	case have.Driver != want.Driver:
		return d.enrolledDifferently("another driver", have.Driver)
	case have.Address != want.Address:
		return d.enrolledDifferently("another address", have.Address)
	case have.Owner != want.Owner:
		return d.enrolledDifferently("another owner", string(have.Owner))
	case have.OneTimeUse != want.OneTimeUse:
		return d.enrolledDifferently("another one-time-use", fmt.Sprint(have.OneTimeUse))
	case !samePool(have.Pool, want.Pool):
		return d.enrolledDifferently("another pool", formatPool(have.Pool))
	case !maps.Equal(have.Settings, want.Settings):
		return d.enrolledDifferently("other settings", formatSettings(have.Settings))
	}
	return nil
}

func (d *State) enrolledDifferently(what, have string) error {
	return d.refuse(device.CodeAlreadyExists, fmt.Sprintf("the device is already enrolled with %s: %s", what, have),
		d.retireFirst())
}

// formatSettings writes settings as an operator does.
func formatSettings(settings map[string]string) string {
	var pairs []string
	for _, key := range sortedKeys(settings) {
		pairs = append(pairs, key+"="+settings[key])
	}
	return strings.Join(pairs, ",")
}

// enrolling says that an enrollment is under way.
func (d *State) enrolling() bool {
	for _, j := range d.Jobs {
		if !j.Ended && j.Enrolls {
			return true
		}
	}
	return false
}

// enroll has the host discover the device and the inventory reserve it, and only then makes it a device. A refused
// enrollment leaves nothing behind: the workflow ends.
func (d *State) enroll(j *Job, _ contract.EnrollInput) { d.enter(j, phEnroll) }

func (d *State) enrollBegins(j *Job) {
	in := j.In.(contract.EnrollInput)
	if d.Enrolled {
		d.enrolledAlready(j, in)
		return
	}
	j.Enrolls = true
	if in.Enrollment.Name != d.Name {
		d.enrollEnds(j, d.refuse(device.CodeInvalid, "the enrollment is for "+in.Enrollment.Name,
			"enroll each device under its own name"))
		return
	}
	d.enrollAs(in.Enrollment)
	d.Enrolled = false
	if in.Import {
		d.importBegins(j)
		return
	}
	d.enter(j, phEnrollDiscover)
}

// enrolledAlready handles an enroll of a device that is enrolled already: the enrollment must be the same. A provide is
// carried out, because a device that was discovered automatically waits for it.
func (d *State) enrolledAlready(j *Job, in contract.EnrollInput) {
	if err := d.checkEnroll(in); err != nil {
		d.refused(j, err)
		return
	}
	if !in.Provide || d.Device.State != device.Manageable {
		d.unchanged(j)
		return
	}
	d.provide(j, "enrolled", phEnrollProvided)
}

func (d *State) enrollProvided(j *Job, o Outcome) { d.enrollEnds(j, o.err()) }

// enrollEnds answers. The run of a refused enrollment ends as failed, because a completed one means that the device was
// forgotten.
func (d *State) enrollEnds(j *Job, err error) {
	if j.Enrolls && err != nil {
		d.Finished, d.FinishErr = !d.Enrolled, d.refusal(j.Verb, j.In, err)
	} else if j.Enrolls {
		d.Finished, d.FinishErr = false, nil
	}
	j.Enrolls = false
	if err != nil {
		d.refused(j, err)
		return
	}
	d.done(j, contract.Result{Device: d.Status(), Note: d.Host.Note}, nil)
}

func (d *State) enrollDiscover(j *Job) { d.discover(j, whileClientWaits()) }

func (d *State) enrollDiscovered(j *Job, o Outcome) {
	host := d.Enrollment.Host
	if f := d.discovered(j, o); f != nil {
		f := *f
		d.notifyOther(&f)
		switch {
		case f.Code == device.CodeHostUnreachable:
			f.Message = "no worker of host " + host + " answered: nothing was enrolled"
			f.Remedy = "start burnish-worker there with BURNISH_HOST=" + host + ", or correct --host"
		case f.Code == device.CodeTargetMissing && strings.Contains(f.Remedy, "retire"):
			// The driver speaks of a device in service; this one is not enrolled.
			f.Remedy = "correct the path or address in the enrollment, or attach the device to host " + host +
				", then enroll it again"
		}
		d.enrollEnds(j, &f)
		return
	}
	if f := d.Host.Excluded; f != nil { // S2.25
		d.enrollRefused(j, f)
		return
	}
	if err := d.checkPool(d.Enrollment); err != nil { // its type is known now
		d.enrollRefused(j, err)
		return
	}
	d.enter(j, phEnrollUnique)
}

// enrollRefused leaves nothing with the host, unless its record is of a device whose workflow was lost (F35).
func (d *State) enrollRefused(j *Job, err error) {
	if d.KnownToHost {
		d.enrollEnds(j, err)
		return
	}
	d.refuseForgetting(j, d.Enrollment, err)
}

func (d *State) enrollUnique(j *Job, o Outcome) {
	if f := d.foundOther(j, o); f != nil {
		d.enrollRefused(j, f)
		return
	}
	d.enter(j, phEnrollProvider)
}

func (d *State) enrollProvider(j *Job) {
	d.inventory(j, contract.ActivityEnsureProvider, d.ensureProvider(d.Host.Identity),
		How{Client: true, InTask: true, What: "ensure the provider of " + d.Name})
}

func (d *State) enrollReserved(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	if f != nil {
		d.enrollRefused(j, f)
		return
	}
	j.Found = found
	d.enter(j, phEnrollPrevious)
}

func (d *State) previousCall(j *Job) {
	d.make(j, Call{Activity: contract.ActivityFindPreviousRun, In: d.Name,
		How: How{Way: ToInventory, Client: true, InTask: true, What: "previous run of " + d.Name}})
}

func (d *State) enrollKnown(j *Job, o Outcome) {
	if o.Fault != nil {
		d.enrollRefused(j, o.Fault)
		return
	}
	in := j.In.(contract.EnrollInput)
	if d.KnownToHost || o.Found.(*contract.PreviousRun).RunID != "" {
		// An earlier workflow of this device was terminated or reset: a tenant that it recorded counts, and this
		// enrollment proves nothing.
		d.Enrolled = true
		d.invalidate(nil, "it was enrolled before, and its workflow did not end by forget")
		d.Intent.Rediscover = false
		d.enrollEnds(j, nil)
		return
	}
	asserted := in.Enrollment.OperatorAssertsClean && !d.by.Policy().OnEnroll
	if err := d.apply(device.Event{Kind: device.Enroll, AssertedClean: asserted}); err != nil {
		d.enrollEnds(j, err)
		return
	}
	d.Enrolled = true
	if d.conclude(d.ask(device.AskReserve), j.Found, nil).Event != "" {
		d.enrollEnds(j, nil) // another service allocated it before it was enrolled
		return
	}
	if in.Enrollment.OperatorAssertsClean && !asserted {
		d.LastRefusal = "--clean was not accepted: cleaning on enrollment is on"
	}
	if in.Provide {
		d.provide(j, "enrolled", phEnrollProvided)
		return
	}
	d.enrollEnds(j, nil)
}

// importBegins enrolls a device that another service allocated until now (S2.84): it is unknown until the inventory is
// read. Its host discovers it later, because a guest may have it now.
func (d *State) importBegins(j *Job) {
	if d.ownedByBurnish() {
		d.enrollEnds(j, d.refuse(device.CodeInvalid, "only a device of another owner can be imported", "enroll it"))
		return
	}
	d.enter(j, phImportRead)
}

func (d *State) importRead(j *Job) {
	in := d.request()
	in.Driver = d.Enrollment.Driver
	d.read(j, in, How{Client: true})
}

func (d *State) importFound(j *Job, o Outcome) {
	found, f := d.answered(j, o)
	if f != nil {
		d.enrollEnds(j, f)
		return
	}
	j.Found = found
	d.enter(j, phImportPrevious)
}

func (d *State) imported(j *Job, o Outcome) {
	if o.Fault != nil {
		d.enrollEnds(j, o.Fault)
		return
	}
	d.Enrolled, d.Enrollment.Imported = true, true
	d.Device.Cleanable = true // until the host's discovery says otherwise (D4)
	if o.Found.(*contract.PreviousRun).RunID != "" {
		d.invalidate(nil, "it was enrolled before, and its workflow did not end by forget")
		d.enrollEnds(j, nil)
		return
	}
	err := d.apply(device.Event{Kind: device.Import})
	if err == nil {
		d.Intent.Import, d.Intent.Rediscover = true, true
		// The provider that the operator saw, if that is known.
		d.Intent.ImportProvider = cmp.Or(j.In.(contract.EnrollInput).Provider, j.Found.Provider)
	}
	d.enrollEnds(j, err)
}

func (d *State) checkReplace(contract.ReplaceInput) error {
	if p := d.Enrollment.Pool; p != nil {
		return d.refuse(device.CodeRefused, "another server has another URI on "+p.Appliance+
			", and the device has the old one's",
			"retire "+d.Name+" --reason R, then forget "+d.Name+", and enroll the new server")
	}
	return d.legal(device.Event{Kind: device.Replace})
}

// replace makes the hardware that is in the device's slot now its next unit: dirty, with the history of the device
// kept. Its signatures are foreign, as at an enrollment (F15).
func (d *State) replace(j *Job, _ contract.ReplaceInput) { d.nameRecorded(j, phReplaceNamed) }

func (d *State) replaceLooks(j *Job) {
	j.Was, j.Enrollment = d.Device, d.Enrollment
	j.Enrollment.AcceptSignature = j.In.(contract.ReplaceInput).AcceptSignature
	d.enter(j, phReplaceDiscover)
}

func (d *State) replaceDiscover(j *Job) {
	d.discoverAt(j, contract.DiscoverInput{Enrollment: j.Enrollment, UUID: d.UUID, Replace: true})
}

// discoverAt has the host of a slot discover the hardware in it. It does not keep the result.
func (d *State) discoverAt(j *Job, in contract.DiscoverInput) {
	how := whileClientWaits()
	how.Way, how.Host, how.What = ToHost, in.Enrollment.Host, "discover "+in.Enrollment.Name
	d.make(j, Call{Activity: contract.ActivityDiscover, In: in, How: how})
}

func (d *State) discoveredAt(o Outcome) (found contract.DiscoveryResult, f *device.Fault) {
	if o.Fault != nil {
		d.notifyOther(o.Fault)
		return found, o.Fault
	}
	return *o.Found.(*contract.DiscoveryResult), nil
}

func (d *State) replaceDiscovered(j *Job, o Outcome) {
	found, f := d.discoveredAt(o)
	switch {
	case f != nil:
		d.refused(j, f)
		return
	case found.Identity == d.Host.Identity:
		d.refused(j, d.refuse(device.CodeRefused, "the hardware in its slot is the enrolled one",
			"put the other hardware into its slot first"))
		return
	}
	j.Host = found
	d.enter(j, phReplaceUnique)
}

// replaceOthers asks for the next unit, which was not moved here.
func (d *State) replaceOthers(j *Job) { d.findOthersOf(j, j.Host.Identity, "") }

func (d *State) replaceUnique(j *Job, o Outcome) {
	if f := d.foundOther(j, o); f != nil {
		d.refused(j, f)
		return
	}
	d.enter(j, phReplaceProvider)
}

// replaceProvider has the inventory record the other hardware (D10, F35).
func (d *State) replaceProvider(j *Job) {
	d.inventory(j, contract.ActivityEnsureProvider, d.ensureProvider(j.Host.Identity),
		How{Client: true, What: "ensure the provider of " + d.Name})
}

func (d *State) replaced(j *Job, o Outcome) {
	_, f := d.answered(j, o)
	err := Outcome{Fault: f}.err()
	if err == nil && d.Device.State != j.Was.State { // retired meanwhile: what was validated is no more
		err = d.refuse(device.CodeConflict, "the device is "+Phrase(d.DeviceState)+" since the replacement began",
			"show "+d.Name+", and replace it again")
	}
	if err == nil {
		err = d.apply(device.Event{Kind: device.Replace})
	}
	if err != nil {
		d.refused(j, err)
		return
	}
	d.Enrollment, d.Host = j.Enrollment, contract.DiscoveryResult{} // the operation was the old hardware's
	d.HoldReason, d.LastRefusal, d.Intent.DuplicateAt, d.MovedFrom = "", "", "", ""
	d.keep(j.Host)
	if j.In.(contract.ReplaceInput).Provide {
		d.provide(j, "replaced", phProvided)
		return
	}
	d.done(j, contract.Result{Device: d.Status(), Note: d.Host.Note}, nil)
}

func (d *State) checkMove(in contract.MoveInput) error {
	if in.Enrollment.Name == d.Name {
		return d.refuse(device.CodeInvalid, "the device has this name already", "name the slot that the hardware is in now")
	}
	return d.legal(device.Event{Kind: device.Move})
}

// checkNewName refuses a name that no device can have.
func (d *State) checkNewName(in contract.MoveInput) error {
	if _, err := device.CanonicalName(in.Enrollment.Name); err != nil {
		return d.refuse(device.CodeInvalid, err.Error(), "name the slot that the hardware is in now")
	}
	return nil
}

// move carries the device over to the name of the slot that its hardware is in now; state and history are kept, and it
// is dirty. Once the new workflow has started, this one ends.
func (d *State) move(j *Job, _ contract.MoveInput) { d.nameRecorded(j, phMoveNamed) }

func (d *State) moveLooks(j *Job) {
	j.Enrollment = mergeEnrollment(d.Enrollment, j.In.(contract.MoveInput).Enrollment)
	d.enter(j, phMoveDiscover)
}

func (d *State) moveDiscover(j *Job) {
	to := j.Enrollment
	d.discoverAt(j, contract.DiscoverInput{
		Enrollment: to, UUID: contract.DeviceUUID(to.Name), Known: d.Host.Identity, MovedFrom: d.Name,
		Binding: d.Device.Bindings,
	})
}

func (d *State) moveDiscovered(j *Job, o Outcome) {
	found, f := d.discoveredAt(o)
	if f != nil {
		d.refused(j, f)
		return
	}
	j.Host = found
	if err := d.validate(j); err != nil {
		d.refuseForgetting(j, j.Enrollment, err)
		return
	}
	if d.owes() { // its profile has this name's UUID: the new name could not find it again
		d.profile(j, ProfileKind{Remove: true, Client: true}, phMoveUnprofiled)
		return
	}
	d.moveUnprofiled(j, Outcome{})
}

func (d *State) moveUnprofiled(j *Job, o Outcome) {
	err := o.err()
	if err == nil {
		err = d.validate(j)
	}
	if err != nil {
		d.refuseForgetting(j, j.Enrollment, err)
		return
	}
	d.enter(j, phMoveStart)
}

// mergeEnrollment returns an enrollment for another slot. Fields that the slot does not set are kept.
func mergeEnrollment(e, at contract.Enrollment) contract.Enrollment {
	e.Name, e.Address, e.OperatorAssertsClean = at.Name, at.Address, false
	e.Host, e.Driver, e.Pool = cmp.Or(at.Host, e.Host), cmp.Or(at.Driver, e.Driver), cmp.Or(at.Pool, e.Pool)
	settings := map[string]string{}
	maps.Copy(settings, e.Settings)
	maps.Copy(settings, at.Settings)
	e.Settings = settings
	return e
}

// moveStart starts the workflow of the new name, which outlives this one.
func (d *State) moveStart(j *Job) {
	to, found := j.Enrollment, j.Host
	state := *d.DeviceState
	state.Name, state.UUID, state.Enrollment = to.Name, contract.DeviceUUID(to.Name), to
	state.Host.Identity, state.Host.Note, state.Host.ObservedAt = found.Identity, found.Note, found.ObservedAt
	if r := found.Record; r != nil {
		state.Seq, state.Cleans = max(state.Seq, r.Seq), max(state.Cleans, r.Clean)
	}
	// It was out of our hands, and its new slot was never seen with it (F27).
	state.Device.Dirty, state.Device.Unseen = true, true
	// The new slot has another provider.
	state.Generation, state.Provider, state.GenerationUncertain, state.ContinueAsNew = 0, "", true, false
	state.Intent = contract.Intent{EnsureProvider: true}
	state.LastRefusal, state.MovedFrom = "moved here from "+d.Name, d.Name
	d.make(j, Call{How: How{Way: ToSuccessor}, In: contract.DeviceInput{Name: to.Name, State: &state}})
}

func (d *State) moveStarted(j *Job, o Outcome) {
	if o.Fault != nil {
		err := error(o.Fault)
		if o.Fault.Code == device.CodeAlreadyExists {
			err = d.refuse(device.CodeAlreadyExists, j.Enrollment.Name+" is enrolled already",
				"retire and forget it first, or move to another name")
		}
		d.refuseForgetting(j, j.Enrollment, err)
		return
	}
	j.Last, j.Note = d.Status(), "continues as "+j.Enrollment.Name
	d.must(device.Event{Kind: device.Move})
	d.Intent, d.Clean = contract.Intent{}, nil
	d.enter(j, phMoveProvider) // the new workflow has the device: the rest may take any time
}

func (d *State) moveDeleted(j *Job, o Outcome) {
	if _, f := d.answered(j, o); f != nil {
		d.by.Log(slog.LevelError, "the provider of the old slot was not deleted", "device", d.Name, "error", f)
	}
	d.forgetOnHost(j, d.Enrollment, phMoveForgotten)
}

func (d *State) moved(j *Job, o Outcome) {
	if o.Fault != nil {
		d.by.Log(slog.LevelError, "the host keeps its record of the old slot", "device", d.Name, "error", o.Fault)
	}
	d.Finished = true
	d.done(j, contract.Result{Device: j.Last, Note: j.Note}, nil)
}
