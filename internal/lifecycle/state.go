// Package lifecycle is the lifecycle of one device as a pure function: what happened goes in (Decide), and what must be
// under way comes out (Due). It starts nothing, waits for nothing and reads no clock, file or setting: time is a part
// of each input, and settings are asked through Settings, whose answers the workflow records.
//
// Three tables decide, of which this package has the third: what is legal (device.Next), what an answer means
// (device.Observe), and what is due (due.go). The workflow, the explorer, the simulation and the dry run all call it.
package lifecycle

import (
	"log/slog"
	"slices"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// State is one device: what survives the runs of its workflow (DeviceState), and all that is under way. Nothing is
// known only by a stack.
type State struct {
	*contract.DeviceState

	// Jobs are under way: the requests that are not answered yet, and what the device does by itself.
	Jobs []*Job
	// Holder is the job that has the provider for itself, "" if none has: no two write it at once. Queue are those that
	// wait for it, in their order.
	Holder string
	Queue  []string
	// RetryAt is when failed work is tried again, zero if it is not put off; Failures counts its tries.
	RetryAt  time.Time
	Failures int
	// PausedUntil is when the next clean may begin that another client's writes put off, zero if none is. PausedIn is
	// the state that this holds for.
	PausedUntil time.Time
	PausedIn    device.State
	// StepShownAt is when the listing shows the present step, which it does not before it has lasted; zero if it is
	// shown. StepShown is that step's scheduling. StepLasts: it has lasted.
	StepShownAt time.Time
	StepShown   int64
	StepLasts   bool
	// InUse: the inventory showed a use during a clean. Unreserved: the reservation of the clean is gone, or another
	// client has written it. The clean stops, and the inventory is read again, for the use may have ended since. Again is
	// why the clean must begin again, "" if it must not.
	InUse, Unreserved bool
	Again             string
	// Failure is how far the last step was that failed, by its host.
	Failure contract.CleanFailure
	// Taking is the request of an operator who takes the device out of the offer while it waits; nil if none does.
	Taking *contract.CleanSlot
	// Claims counts those of this run.
	Claims int
	// KnownToHost: the host had a record of the device before this run discovered it. Written: the host found at its
	// last look that others have written to a clean device.
	KnownToHost, Written bool
	// PoolStopped: the change of the server that is under way is no longer wanted.
	PoolStopped bool
	// Mail is to be sent to other workflows. Nothing waits for it but the end of the run.
	Mail []Mail
	// Finished ends the workflow: as failed with FinishErr, or as completed if that is nil. Defect ends it as failed
	// because Burnish has a defect.
	Finished          bool
	FinishErr, Defect error
	// Publish: what is published has changed. PublishNumbers has the numbers of the device written, too: a turnover
	// changes them and does not write them, so that who compares them asks.
	Publish, PublishNumbers bool

	now    time.Time
	by     Settings
	acting contract.Act // who asked for what is being done
	// doubted are the waits that ended with a call which has just failed: one that begins in the same decision began
	// with it.
	doubted []contract.Wait
	retry   *device.Fault // why the work at hand must be tried again after a pause
}

// Settings answers what depends on the worker: its policy, and what that makes of the device. The workflow records each
// answer, so that a replay sees the same one. What is logged and counted decides nothing.
type Settings interface {
	Policy() clean.Policy
	Plan(of clean.Subject, full bool, asked clean.Request) RecordedPlan
	Steps(of clean.Subject) []contract.CleanStep
	Choose(of device.Capabilities, action, strategy string) Choice
	// Signed verifies the signatures of overrides, nil if they are off, and says what time it is there.
	Signed() (verify func(contract.OverrideClaims, []byte) bool, now time.Time)
	// Archive is the archive with one more clean.
	Archive(contract.Archive, contract.CleanSummary) contract.Archive
	// Run identifies the device's first run: the numbers of cleans count from it.
	Run() string
	Log(level slog.Level, message string, about ...any)
	Count(Figure)
}

// RecordedPlan is the plan of a clean, and the policy of the worker that made it.
type RecordedPlan struct {
	Plan  []contract.Planned `json:"plan,omitempty"`
	Fault *device.Fault      `json:"fault,omitempty"`
	// Runbook is what the plan follows; "": phases and priorities.
	Runbook       string `json:"runbook,omitempty"`
	RunbookDigest string `json:"runbook_digest,omitempty"`
	// Group are the devices that are cleaned together, by a label and its value.
	Group        string       `json:"group,omitempty"`
	PolicyDigest string       `json:"policy_digest"`
	Policy       clean.Policy `json:"policy"`
}

// Choice is what the erase policy chose among a device's capabilities.
type Choice struct {
	Operation device.Operation `json:"operation,omitempty"`
	Fault     *device.Fault    `json:"fault,omitempty"`
}

// Mail is one signal to another workflow. Name is what the log calls it if it is not delivered.
type Mail struct {
	To, Signal, Name string
	In               any
	// MayBeGone: a receiver that does not run has nothing to learn.
	MayBeGone bool
}

// Job is something that is under way.
type Job struct {
	// ID is the request's, or what the device does by itself: work, reconcile, look.
	ID   string
	Verb contract.Verb // of a request
	In   contract.Input
	Act  contract.Act
	// Phase is what it waits for (due.go). Back are the phases that go on where a sequence that several share ends.
	Phase Phase
	Back  []Phase
	// Call is the call that is due, nil if it waits for something else. Calls counts them.
	Call  *Call
	Calls int
	// Until is when it ends to wait; zero is never.
	Until  time.Time
	queued bool
	// Ended: Result or Err is the answer to the request.
	Ended  bool
	Result contract.Result
	Err    error

	// What one phase leaves for the next.
	Asked      device.Snapshot
	Found      device.Inventory
	Server     contract.PoolSnapshot
	Host       contract.DiscoveryResult // before a look, or what a look found
	Was        device.Device
	Claims     int // how many there were
	Kind       device.EventKind
	Run        *contract.CleanRun
	Generation int64
	Provider   string
	SeenAt     time.Time // of the host's last look
	Began      time.Time
	Pause      time.Duration
	Tries      int
	Fault      *device.Fault
	Refused    error
	Enrollment contract.Enrollment
	Previous   contract.PreviousRun
	Note       string
	Power      string
	Last       contract.DeviceStatus
	Already    bool
	Kept       contract.ReservationRequest // of the inventory call under way; Reads: it changes nothing
	Identity   device.Identity
	Profile    ProfileKind
	Since      time.Time // when the present wait began
	// SilentAfter is how long a host may be silent, Numbers what its device had done before it was asked.
	SilentAfter time.Duration
	Numbers     contract.HostNumbers
	Slot        *contract.CleanSlot // of a request that takes the device out of the offer
	PoolKnown   contract.PoolState  // when the appliance was asked
	// InTask: its writes may be made in a workflow task. Offers: it takes the device out of the offer or puts it back:
	// meanwhile the device cannot be claimed. Taken: it was.
	InTask, Offers, Taken, Reads bool
	// Cleans: a clean is under way in it. Planned: that has a plan, and perhaps a slot. Prepared: its server is ready.
	Cleans, Planned, Prepared bool
	// Repeated: it was carried out before. Recorded: its burn is to be in the history before its write. Claimed: its
	// instance had a claim when it began.
	Repeated, Recorded, Claimed bool
	// Enrolls: it makes a device, which is none before its end.
	Enrolls bool
	// Used: others have changed the server since it was returned.
	Used bool
}

// Call is one call that must be under way: an activity, unless How says otherwise.
type Call struct {
	// Key names the call in its device for as long as that exists.
	Key      string
	Activity string
	In       any
	How      How
	// WaitsFor is what the device waits for meanwhile: only the activity of such a call may report that wait.
	WaitsFor string
}

// How is how a call is made.
type How struct {
	Way Way
	// What says in the history what it is for.
	What string
	// Host takes it; "" is a control worker.
	Host string
	// InTask: the first attempt is made in the workflow task, and only where that fails, or is slow, the activity.
	InTask bool
	// Once: there is one attempt in all.
	Once bool
	// StartWithin is how long it may wait for a worker. Within bounds it as a whole, Budget its running time; zero is
	// the way's own.
	StartWithin, Within, Budget time.Duration
	// Client: a client waits for it, and its attempts are bounded.
	Client bool
}

// Way is a kind of call, by whom it asks.
type Way string

// The ways.
const (
	ToInventory Way = "inventory"
	ToHost      Way = "host"
	ToAppliance Way = "appliance" // reads of it
	ToProfile   Way = "profile"   // changes of a server's profile
	ToPower     Way = "power"
	ToStep      Way = "step"
	ToLimits    Way = "limits" // a signal to their workflow
	ToSuccessor Way = "child"  // the start of the device's workflow under another name
)

// Outcome is how a call, or a sequence of phases, ended.
type Outcome struct {
	// Fault is why it failed, nil if it did not.
	Fault *device.Fault
	// Found is what it found: a pointer to the activity's result.
	Found any
	// Known are the numbers of a host that refused because it knows later ones. Progress is how far a step was, in its
	// attempt number Attempt.
	Known    *contract.HostNumbers
	Progress *contract.Progress
	Attempt  int32
	// NotStarted: no worker took it in time.
	NotStarted bool
	// Err is the refusal of a shared sequence of phases. Again: it may succeed later.
	Err   error
	Again bool
}

func (o Outcome) err() error {
	switch {
	case o.Err != nil:
		return o.Err
	case o.Fault != nil:
		return o.Fault
	}
	return nil
}

// Input is something that happened: Asked, Hinted, CleanAsked, Canceled, Ended or Come.
type Input interface{ decide(d *State) }

// Asked is a verb that is asked of the device. Its answer is the job's.
type Asked struct {
	ID   string
	Verb contract.Verb
	In   contract.Input
}

// Hinted is a signal that has the device look: by itself it proves nothing.
type Hinted struct {
	Signal string
	Hint   contract.Hint
}

// CleanAsked is the signal that asks for a clean.
type CleanAsked struct{ In contract.CleanInput }

// Canceled is a cancellation of the workflow: an abort.
type Canceled struct{}

// Ended is the end of a call.
type Ended struct {
	Key     string
	Outcome Outcome
}

// Come is a moment that has come.
type Come struct{}

// Decide applies what happened to the state, and whatever follows from it. It never blocks: what must be under way
// then is what Due says.
func (d *State) Decide(in Input, now time.Time, by Settings) {
	d.now, d.by = now, by
	in.decide(d)
	d.acting = contract.Act{}
	d.settle()
	d.doubted, d.retry = nil, nil
}

// Answer takes the answer to a request; ok is false until there is one.
func (d *State) Answer(id string) (result contract.Result, err error, ok bool) {
	i := slices.IndexFunc(d.Jobs, func(j *Job) bool { return j.ID == id && j.Ended })
	if i < 0 {
		return result, nil, false
	}
	j := d.Jobs[i]
	d.Jobs = slices.Delete(d.Jobs, i, i+1)
	return j.Result, j.Err, true
}

// job finds a job that is under way.
func (d *State) job(id string) *Job {
	for _, j := range d.Jobs {
		if j.ID == id && !j.Ended {
			return j
		}
	}
	return nil
}

// inPhase says that a job is in one of the phases.
func (d *State) inPhase(phases ...Phase) bool {
	return slices.ContainsFunc(d.Jobs, func(j *Job) bool { return !j.Ended && slices.Contains(phases, j.Phase) })
}

// begin makes a job, which its caller gives its first phase.
func (d *State) begin(id string) *Job {
	j := &Job{ID: id}
	d.Jobs = append(d.Jobs, j)
	return j
}

// enter takes a job to its next phase.
func (d *State) enter(j *Job, p Phase) {
	j.Phase, j.Call, j.Until = p, nil, time.Time{}
	r := rowOf(p)
	switch {
	case r.provider == forItself && d.Holder != j.ID:
		if d.Holder != "" || len(d.Queue) > 0 {
			j.queued = true
			d.Queue = append(d.Queue, j.ID)
			return
		}
		d.Holder = j.ID
	case r.provider == free:
		d.letGo(j)
	}
	if r.begin != nil {
		r.begin(d, j)
	}
}

// make is the call that a job waits for.
func (d *State) make(j *Job, c Call) {
	j.Calls++
	c.Key = j.ID + "/" + string(j.Phase) + "/" + itoa(j.Calls)
	j.Call = &c
}

// share begins a sequence of phases that several share; its end goes on in the phase back.
func (d *State) share(j *Job, first, back Phase) {
	j.Back = append(j.Back, back)
	d.enter(j, first)
}

// back ends such a sequence.
func (d *State) back(j *Job, o Outcome) {
	last := len(j.Back) - 1
	p := j.Back[last]
	j.Back = j.Back[:last]
	j.Phase, j.Call, j.Until = p, nil, time.Time{}
	rowOf(p).then(d, j, o)
}

// letGo gives the provider back.
func (d *State) letGo(j *Job) {
	if d.Holder == j.ID {
		d.Holder = ""
	}
	if j.queued {
		j.queued = false
		d.Queue = slices.DeleteFunc(d.Queue, func(id string) bool { return id == j.ID })
	}
}

// drop ends what the device does by itself.
func (d *State) drop(j *Job) {
	d.letGo(j)
	d.Jobs = slices.DeleteFunc(d.Jobs, func(k *Job) bool { return k == j })
	d.Publish = true
}

func (e Ended) decide(d *State) {
	for _, j := range d.Jobs {
		if j.Call == nil || j.Call.Key != e.Key {
			continue
		}
		d.acting = j.Act
		c := *j.Call
		j.Call = nil
		d.endWaitOf(c, e.Outcome.Fault)
		rowOf(j.Phase).then(d, j, e.Outcome)
		return
	}
}

func (Come) decide(d *State) {
	for _, m := range d.moments() {
		if !m.at.After(d.now) {
			m.come()
		}
	}
}

// settle starts and ends what follows from the state by itself, until nothing does.
func (d *State) settle() {
	for d.settleOnce() {
		d.acting = contract.Act{}
	}
}

func (d *State) settleOnce() bool {
	// First, what has come: the next call is made by what follows from it.
	for _, j := range d.Jobs {
		if r := rowOf(j.Phase); !j.Ended && r.until != nil && r.until(d, j) {
			d.acting = j.Act
			j.Until = time.Time{}
			r.then(d, j, Outcome{})
			return true
		}
	}
	if d.Holder == "" && len(d.Queue) > 0 {
		j := d.job(d.Queue[0])
		d.Queue, j.queued, d.Holder, d.acting = d.Queue[1:], false, j.ID, j.Act
		rowOf(j.Phase).begin(d, j)
		return true
	}
	switch {
	case !d.PausedUntil.IsZero() && d.Device.State != d.PausedIn:
		d.pauseEnded()
	case d.looksAtOnce() && d.job(jobLook) == nil:
		d.rediscover(d.begin(jobLook))
	case d.needsReconcile() && d.job(jobReconcile) == nil && !d.Device.Returning:
		d.reconcile(d.begin(jobReconcile))
	case d.workDue() && d.job(jobWork) == nil && d.Defect == nil:
		d.work(d.begin(jobWork))
	default:
		return false
	}
	return true
}

// What the device does by itself.
const (
	jobWork      = "work"      // what its state requires
	jobReconcile = "reconcile" // it compares itself with inventory, appliance, instance or host
	jobLook      = "look"      // its host looks at once, because the hardware may have changed
)

// Quiet says that nothing is under way, so that the run may end.
func (d *State) Quiet() bool {
	return len(d.Jobs) == 0 && len(d.Mail) == 0 && !d.looksAtOnce() && !d.needsReconcile() && !d.workDue()
}
