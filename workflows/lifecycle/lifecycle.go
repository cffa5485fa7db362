// Package lifecycle is the workflow of one device, from its enrollment to its end. The run
// (this file) receives signals and starts the work that the state requires; each file of
// updates handles one family of requests; the packages below do the work and never call
// back:
//
//	status       the state as clients read it
//	record       the state, which changes as the pure table allows
//	discovery    the hardware, as its host discovers it
//	reservation  all calls to the inventory
//	pool         all calls to the appliance of a shared pool
//	cleaning     one clean: plan, steps, interruption
//
// Only activities read a clock, a file or a driver.
package lifecycle

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/cleaning"
	"burnish/workflows/lifecycle/discovery"
	"burnish/workflows/lifecycle/pool"
	"burnish/workflows/lifecycle/record"
	"burnish/workflows/lifecycle/reservation"
	"burnish/workflows/lifecycle/status"
)

// Lifecycle contains the settings of the worker. Workflows read them inside SideEffects
// only, so that a replay never depends on another worker's settings.
type Lifecycle struct {
	Planner *clean.Planner
	// Signatures verifies the signatures of overrides; nil: overrides are off.
	Signatures Signatures
}

// parts are the parts of one device's workflow, which the run and the families of updates
// share.
type parts struct {
	*record.Record
	reservation *reservation.Reservation
	discovery   *discovery.Discovery
	cleaning    *cleaning.Cleaning
	pool        *pool.Pool
	signatures  Signatures
	// enrolling: an enrollment is under way.
	enrolling bool
	// asking counts the binds that ask the host before they burn. looking is true while the host
	// looks because the hardware may have changed.
	asking  int
	looking bool
	// finished ends the run: as failed with finishErr, or as completed if that is nil.
	finished  bool
	finishErr error
}

// run is one run of one device's workflow. The state survives it, the rest does not.
type run struct {
	*parts
	// signals receives all signals.
	signals workflow.Selector
	// Each is true while a coroutine runs: working does what the state requires, reconciling
	// reads inventory or host, claimTimer waits for a claim's deadline.
	working, reconciling, claimTimer bool
	// callTimer is true while a coroutine waits until the operator is to be called, stepTimer
	// while one waits until the present step has lasted.
	callTimer, stepTimer bool
	// starting counts the coroutines that were started and have not run yet.
	starting int
	// overrideTimer is true while a coroutine waits for the expiry of a requested override.
	overrideTimer bool
	// canceled: the Cancel of this run was handled.
	canceled bool
	// backingOff: failed work waits before it is tried again. failures counts its tries;
	// hinted ends the pause.
	backingOff, hinted bool
	failures           int
	// pausing: a clean waits because another client writes the provider.
	pausing bool
	// defect ends the run as failed.
	defect error
}

// DeviceLifecycle is the workflow of one device: it receives updates and signals, does
// what the state requires, and continues as new when its history is long and nothing is
// under way. It ends when the device is forgotten, or when its enrollment is refused. A
// Cancel is an abort; after a Terminate or Reset the device recovers from the records of
// its host and its inventory.
//
// What runs before and after the wait has functions of its own: every idle device keeps this
// one's frame, and 48 bytes more once doubled the stack of each from 8 to 16 KiB (measured).
func (l *Lifecycle) DeviceLifecycle(root workflow.Context, in contract.DeviceInput) error {
	d, ctx, err := l.begin(root, in)
	if err == nil {
		err = calls.Serve(ctx, func() func() { return d.next(ctx, root) }, func() bool { return d.canEndRun(ctx) })
	}
	if err != nil {
		return err
	}
	return d.end(root)
}

// begin makes the run and has it receive updates, queries and signals.
func (l *Lifecycle) begin(root workflow.Context, in contract.DeviceInput) (*run, workflow.Context, error) {
	// A disconnected context: a Cancel in the Web UI must not interrupt anything directly.
	ctx, _ := workflow.NewDisconnectedContext(root)
	d := l.newRun(ctx, in)
	if err := d.register(ctx); err != nil {
		return nil, nil, err
	}
	d.listen(ctx)
	switch {
	case in.State == nil:
	case d.Published.Started():
		status.Show(ctx, d.State) // what the last run showed ended with it
	default:
		d.Publish() // relocated: this state was begun under another name
	}
	return d, ctx, nil
}

// end is how the run ends: as failed, as completed, or as continued by the next one.
func (d *run) end(root workflow.Context) error {
	switch {
	case d.defect != nil:
		return d.defect
	case d.finished:
		return d.finishErr
	}
	d.State.ContinueAsNew, d.State.Schema = false, contract.Schema
	return workflow.NewContinueAsNewError(root, contract.WorkflowDeviceLifecycle,
		contract.DeviceInput{Name: d.State.Name, State: d.State})
}

func (l *Lifecycle) newRun(ctx workflow.Context, in contract.DeviceInput) *run {
	r := &record.Record{State: in.State, Planner: l.Planner}
	switch {
	case in.State != nil:
		calls.RequireSchema("device "+in.Name, in.State.Schema)
		r.Published = status.Resume(ctx, r.State)
	case in.Recovered != nil:
		r.State = &contract.DeviceState{}
		why := "its workflow did not exist"
		if in.Recovered.Ended != "" {
			why = "its workflow was " + in.Recovered.Ended
		}
		recoverFrom(ctx, r, in.Recovered, why+"; its host has a record of it")
	default:
		r.State = &contract.DeviceState{}
		r.Begin(ctx, contract.Enrollment{Name: in.Name})
		r.State.Enrolled = false
	}
	found := &discovery.Discovery{Record: r}
	d := &run{parts: &parts{Record: r, reservation: reservation.New(ctx, found), discovery: found,
		pool: &pool.Pool{Record: r}, signatures: l.Signatures}}
	d.cleaning = &cleaning.Cleaning{Record: r, Reservation: d.reservation, Discovery: d.discovery, Pool: d.pool}
	return d
}

// recoverFrom makes the state of a device from its host's record: it is unknown, and will
// be reserved and cleaned.
func recoverFrom(ctx workflow.Context, r *record.Record, known *contract.HostDeviceRecord, why string) {
	r.Begin(ctx, known.Enrollment)
	r.State.Device.Cleanable = true // until the host's discovery says otherwise (D4)
	r.Invalidate(ctx, known, why)
}

// next is what the main coroutine must do now; nil if nothing. The main coroutine waits
// nowhere else, so that it handles everything immediately; work that may wait has its own
// coroutine until it ends. An idle device has the main one only, because a coroutine takes
// most of a device's memory (measured).
func (d *run) next(ctx, root workflow.Context) func() {
	switch {
	case root.Err() != nil && !d.canceled:
		return func() { d.cancel(ctx) }
	case d.signals.HasPending():
		return func() { d.signals.Select(ctx) }
	case d.cleaning.MustStop():
		return d.cleaning.Stop
	case d.claimPending() && !d.claimTimer:
		return d.start(ctx, &d.claimTimer, d.watchClaim)
	case d.pendingOverride() != nil && !d.overrideTimer:
		return d.start(ctx, &d.overrideTimer, d.watchOverride)
	case !d.NextCall().IsZero() && !d.callTimer:
		return d.start(ctx, &d.callTimer, d.callOperator)
	case d.looksAtOnce() && !d.looking:
		return d.start(ctx, &d.looking, d.lookAtOnce)
	case d.needsReconcile() && !d.reconciling && !d.State.Device.Returning:
		return d.start(ctx, &d.reconciling, d.reconcile)
	case d.workDue() && !d.working && d.defect == nil:
		return d.start(ctx, &d.working, d.work)
	case d.PublishDue() && d.starting == 0: // last: what is started now may change more
		return func() { d.PublishNow(ctx) }
	case d.StepDue() && !d.stepTimer:
		return d.start(ctx, &d.stepTimer, d.watchStep)
	}
	return nil
}

// start is calls.Start of a coroutine that is counted until it runs.
func (d *run) start(ctx workflow.Context, busy *bool, do func(workflow.Context)) func() {
	return func() {
		d.starting++
		calls.Start(ctx, busy, func(ctx workflow.Context) {
			d.starting--
			do(ctx)
		})()
	}
}

// stepShownAfter is how long a step lasts until the listing shows it in place of the step
// before it.
const stepShownAfter = time.Second

// watchStep publishes the present step if it lasts.
func (d *run) watchStep(ctx workflow.Context) {
	of := d.State.Seq
	changed := func() bool { return !d.StepDue() || d.State.Seq != of }
	d.await(ctx, stepShownAfter, "publish the step of "+d.State.Name, changed)
	if !changed() {
		d.PublishStep(ctx)
	}
}

// workDue says that the state requires work.
func (d *run) workDue() bool {
	if !d.State.Enrolled || d.backingOff {
		return false
	}
	switch d.State.Device.State {
	case device.Cleaning:
		return !d.pausing
	case device.Unknown:
		return !d.State.Device.AwaitingManualClean
	case device.PendingCleaning:
		return !d.State.Device.AwaitingManualClean && !d.pausing
	}
	return false
}

// work does what the state requires, once.
func (d *run) work(ctx workflow.Context) {
	switch {
	case d.State.Device.State == device.Unknown:
		d.defect = d.resolveUnknown(ctx)
	case d.State.Intent.ConfirmSerial:
		d.defect = d.discovery.ConfirmSerialUnique(ctx)
	case d.State.Device.Returning:
		d.defect = d.returnToOffer(ctx)
	case d.pauseClean(ctx):
	default:
		d.defect = d.cleaning.Run(ctx)
		if d.defect == nil && d.State.Device.Returning {
			d.defect = d.returnToOffer(ctx)
		}
	}
	if f := d.Retry; f != nil {
		d.Retry = nil
		d.backoff(ctx, f)
	} else if !d.backingOff {
		d.recovered(ctx)
	}
	d.Publish()
}

// canEndRun decides alone whether the run may continue as new or end: no handler runs, and
// nothing is under way. Its caller has read every signal before.
func (d *run) canEndRun(ctx workflow.Context) bool {
	if d.defect != nil {
		return true
	}
	if !workflow.AllHandlersFinished(ctx) || d.working || d.reconciling || d.looking || d.cleaning.Sending() ||
		d.Notifying(ctx) || d.looksAtOnce() || d.needsReconcile() || d.workDue() {
		return false
	}
	return d.finished || d.State.ContinueAsNew || calls.LongHistory(ctx)
}

// cancel handles a Cancel as an abort. Temporal ignores further Cancels of this run:
// therefore a new run begins as soon as nothing is under way.
func (d *run) cancel(ctx workflow.Context) {
	d.canceled, d.State.ContinueAsNew = true, true
	act := contract.Act{Verb: contract.VerbAbort.Update(), Detail: "by a Cancel", From: contract.FromCancel}
	if d.CleanUnderWay() {
		d.Updates().Accept(ctx, act)
		d.cleaning.Abort(ctx)
		d.State.LastRefusal = "the Cancel was handled as an abort: the running clean ends in state error"
	} else {
		d.State.LastRefusal = "the Cancel changed nothing: no clean was running; forget ends a retired device's workflow"
	}
	d.Publish()
}

// claimPending says that the device is claimed and its burn has not begun.
func (d *run) claimPending() bool {
	c := d.State.Device.Claim
	return c != nil && !c.Burning
}

// watchClaim ends the claim if its deadline passes before its burn begins.
func (d *run) watchClaim(ctx workflow.Context) {
	deadline := d.State.Device.Claim.Deadline
	pending := func() bool { return d.claimPending() && d.State.Device.Claim.Deadline.Equal(deadline) }
	ended, err := d.awaitFor(ctx, deadline.Sub(workflow.Now(ctx)), "claim of "+d.State.Name,
		func() bool { return !pending() })
	if err == nil && !ended && pending() {
		d.ApplyOrReport(ctx, device.Event{Kind: device.ClaimExpired})
		d.State.LastRefusal = "a claim expired before its burn began"
		d.Publish()
	}
}
