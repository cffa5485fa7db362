package lifecycle

import (
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file is what a server of a shared pool does beside all other devices: its appliance is asked who has the server,
// and the profile with which Burnish uses it is applied and removed. A device without a pool, and one that is
// pre-allocated, makes no call here. Polls send only hints: the device asks the appliance itself, and the table decides
// (F6).

// shared says that Burnish has a profile on the server only while it uses it, so that others may take it meanwhile.
func (d *State) shared() bool { return d.Enrollment.Pool != nil && d.Enrollment.Pool.Dynamic }

// owes says that a profile of Burnish's may be on the server.
func (d *State) owes() bool {
	known := d.pool()
	return d.shared() && (known.Profile != "" || known.Applying)
}

// pool is what the state records. A device that has no record, because it is new or was recovered from its host's, may
// have a profile from before: it is found by its name.
func (d *State) pool() contract.PoolState {
	if d.Pool == nil {
		return contract.PoolState{Applying: true}
	}
	return *d.Pool
}

// updatePool changes what the state records.
func (d *State) updatePool(change func(*contract.PoolState)) {
	known := d.pool()
	change(&known)
	d.Pool = &known
}

func (d *State) poolRequest() contract.PoolRequest {
	return contract.PoolRequest{
		Name: d.Name, UUID: d.UUID, Serial: d.Host.Identity.Serial, Pool: *d.Enrollment.Pool, State: d.pool(),
	}
}

// poolDeadline bounds the question who has the server while a client waits: a claim must outlast it.
const poolDeadline = clientDeadline / 2

// readPool asks who has the server. within bounds the question, zero does not.
func (d *State) readPool(j *Job, within time.Duration) {
	j.PoolKnown = d.pool()
	d.make(j, Call{Activity: contract.ActivityReadPool, In: d.poolRequest(), WaitsFor: contract.WaitAppliance,
		How: How{Way: ToAppliance, Within: within, What: "who has " + d.Name}})
}

func (d *State) readPoolForClient(j *Job) { d.readPool(j, poolDeadline) }

// poolRead gives the answer, and records which profile is Burnish's. A recorded profile that is not on the server is
// forgotten (S4.24). What was recorded meanwhile is newer.
func (d *State) poolRead(j *Job, o Outcome) (contract.PoolSnapshot, *device.Fault) {
	found, f := d.poolAnswer(o)
	if f == nil && !d.poolChanges() && d.pool() == j.PoolKnown {
		d.updatePool(func(s *contract.PoolState) {
			s.Profile = ""
			if found.Ownership == device.PoolOurs {
				s.Profile = found.Profile
			}
		})
	}
	return found, f
}

func (d *State) poolAnswer(o Outcome) (found contract.PoolSnapshot, f *device.Fault) {
	switch {
	case o.Fault != nil && o.Fault.Code == device.CodeTimeout: // it neither answers nor refuses
		return found, &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable,
			Message: "the appliance " + d.Enrollment.Pool.Appliance + " has not answered in time",
			Remedy:  "check the appliance and the network, then repeat it"}
	case o.Fault != nil:
		return found, o.Fault
	}
	return *o.Found.(*contract.PoolSnapshot), nil
}

// poolChanges says that a call that changes the server is under way. There are no two at once.
func (d *State) poolChanges() bool {
	return d.calls(contract.ActivityApplyProfile, contract.ActivityRemoveProfile)
}

// profile begins the sequence that applies or removes the server's profile; its end goes on in back, with the job's
// Server. Applied for a tenant, the answer says whether others may have used the server since it was returned.
func (d *State) profile(j *Job, kind ProfileKind, back Phase) {
	j.Profile = kind
	d.share(j, phProfileTurn, back)
}

// ProfileKind is what is done to a server's profile, and for whom.
type ProfileKind struct {
	Remove, Tenant bool
	// Client: a client waits for it.
	Client bool
}

func (d *State) profileTurn(*Job) bool { return !d.poolChanges() }

func (d *State) profileTurned(j *Job, _ Outcome) {
	if j.Cleans && d.cleanStops(j) { // given up while it waited for its turn
		d.back(j, NotMade())
		return
	}
	d.enter(j, phProfile)
}

func (d *State) profileCall(j *Job) {
	how := How{Way: ToProfile, Client: j.Profile.Client, What: "apply the profile of " + d.Name}
	if j.Profile.Remove {
		how.What = "remove the profile of " + d.Name
		d.make(j, Call{Activity: contract.ActivityRemoveProfile, In: d.poolRequest(), How: how,
			WaitsFor: contract.WaitAppliance})
		return
	}
	returned := ""
	if j.Profile.Tenant {
		returned = d.pool().Tag
	}
	// The state says so before the appliance is asked, so that a crash between the two leaves no unknown profile.
	d.updatePool(func(s *contract.PoolState) { s.Applying, s.Tag = true, "" })
	d.Publish = true
	in := d.poolRequest()
	in.State.Tag = returned
	d.make(j, Call{Activity: contract.ActivityApplyProfile, In: in, How: how, WaitsFor: contract.WaitAppliance})
}

func (d *State) profileDone(j *Job, o Outcome) {
	d.PoolStopped = false
	found, f := d.poolAnswer(o)
	if f == nil {
		remove := j.Profile.Remove
		d.updatePool(func(s *contract.PoolState) {
			switch ours := found.Ownership == device.PoolOurs; {
			case ours && !remove:
				s.Profile, s.Applying = found.Profile, false
			case !ours && remove:
				s.Profile, s.Applying = "", false
			}
		})
		d.Publish = true
	}
	j.Server = found
	d.back(j, Outcome{Fault: f})
}

// observePool says what the appliance's answer means for the device. It changes nothing.
func (d *State) observePool(q device.Question, found contract.PoolSnapshot, f *device.Fault) device.Observation {
	asked := device.Ask(q, d.Device, device.Known{})
	asked.Pool, asked.PoolChanged = found.Ownership, d.pool().ChangedBy(found.Tag)
	if q == device.AskPoolApplied || q == device.AskPoolReturn {
		asked.PoolChanged = found.Gap // Burnish itself has changed the tag
	}
	if f != nil {
		asked.Pool = ""
		if f.Code == device.CodeServerTaken {
			asked.Pool = device.PoolTaken
		}
	}
	o, _ := device.Observe(d.Device, asked)
	return o
}

// concludePool is observePool, and applies the event.
func (d *State) concludePool(q device.Question, found contract.PoolSnapshot, f *device.Fault) device.Observation {
	o := d.observePool(q, found, f)
	if o.Event == "" {
		return o
	}
	d.must(o.EventOf(o.Event.UsesAutomated() && d.by.Policy().Automated))
	switch o.Event {
	case device.LostRace:
		d.Fault = d.takenFault()
		d.LastError = d.Fault.Message
	case device.ObservedUnused, device.ReservationChanged:
		d.LastError = d.usedFault().Message + ": it is cleaned again"
		d.countForeignWrite()
	}
	return o
}

// takenFault is the fault of a server that others have.
func (d *State) takenFault() *device.Fault {
	remedy := "take another server; this one is cleaned when a poll finds that the other user has left it"
	if d.Device.NamedSteps {
		remedy = "provide it, or name its steps again, when the other user has left it"
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeServerTaken,
		Message: "another user of " + d.Enrollment.Pool.Appliance + " has the server", Remedy: remedy}
}

// usedFault is the fault of a server that nothing shows to be as Burnish has left it.
func (d *State) usedFault() *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
		Message: "its server was changed on " + d.Enrollment.Pool.Appliance +
			" since it was cleaned: another user may have had it",
		Remedy: "take another device; this one is cleaned automatically"}
}

// takenNote says why a device stays in maintenance after its operator has ended theirs; "" if it does not.
func (d *State) takenNote() string {
	if d.Device.Maintenance != device.MaintenanceTaken {
		return ""
	}
	return "another user of " + d.Enrollment.Pool.Appliance +
		" has the server, and its maintenance ends when a poll finds that they have left it"
}

// asksPool says that the appliance must be asked because of a hint, or because the profile of a device in use is not
// known. In other states the device asks before it uses the server.
func (d *State) asksPool() bool {
	if !d.Intent.ReadPool || !d.shared() {
		return false
	}
	switch d.Device.State {
	case device.Available:
		return d.Device.Claim == nil
	case device.Manageable, device.Error:
		return true
	case device.Allocated:
		return d.pool().Applying
	}
	return false
}

// poolAsked does what follows from who has the server: others took it while it was available (S4.8) or lost to them
// (S4.11), or they have left it (S4.9).
func (d *State) poolAsked(j *Job, o Outcome) {
	found, f := d.poolRead(j, o)
	if f != nil {
		d.LastError = "pool: " + f.Message
		d.drop(j) // the next poll gives the hint again
		return
	}
	if d.observePool(device.AskPool, found, nil).Event != device.Taken {
		d.concludePool(device.AskPool, found, nil)
		d.drop(j)
		return
	}
	// It leaves the offer as for its operator: reserved first.
	j.Kind = device.Taken
	d.share(j, phLeave, phPoolLeft)
}

func (d *State) poolLeft(j *Job, o Outcome) {
	err := o.err()
	if err != nil && d.legal(device.Event{Kind: device.Taken}) == nil {
		d.Intent.ReadPool = true
		d.backoff(faultOf(err))
	} else {
		d.recovered()
	}
	d.drop(j)
}

// doubtShared makes a manageable server Dirty before it is provided: no poll looks at it, so that others may have used
// and left it unnoticed (S4.28). A pre-allocated one was Burnish's all the time, also while it is being migrated.
func (d *State) doubtShared() {
	if p := d.Pool; d.shared() && !d.Device.Dirty && (p == nil || !p.Migrating) {
		d.must(device.Event{Kind: device.IdentityChanged})
	}
}

// notTaken refuses a request for a server that others have; what follows from that the device finds out by
// itself. used:
// it was changed since it was returned.
func (d *State) notTaken(found contract.PoolSnapshot, f *device.Fault) (used bool, refused *device.Fault) {
	switch {
	case f != nil:
		return false, f
	case found.Ownership == device.PoolTaken:
		d.Intent.ReadPool = true
		return false, d.takenFault()
	}
	known := d.Pool
	return known != nil && d.Device.State == device.Available && known.ChangedBy(found.Tag), nil
}

// checkPool refuses an enrollment whose pool cannot be used.
func (d *State) checkPool(e contract.Enrollment) error {
	p := e.Pool
	refuse := func(message, remedy string) error { return d.refuse(device.CodeInvalid, message, remedy) }
	switch {
	case p == nil:
		return nil
	case e.Owner == device.OwnerNova:
		return refuse("a server of a shared pool cannot have owner=nova", "enroll it with owner=self")
	case e.Type != "" && e.Type != contract.TypeNode:
		return refuse("only whole servers can be in a shared pool, and the type is "+e.Type, "give --type "+contract.TypeNode+
			", or no pool")
	}
	if err := p.Check(); err != nil {
		return refuse(err.Error(), "enroll it with the right setting")
	}
	return nil
}

// samePool compares the pools of two enrollments.
func samePool(a, b *contract.Pool) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// formatPool writes a pool as an operator reads it.
func formatPool(p *contract.Pool) string {
	if p == nil {
		return "none"
	}
	model := "pre-allocated"
	if p.Dynamic {
		model = "dynamic"
	}
	return p.Appliance + " " + p.Hardware + " " + p.Template + " " + model
}
