// Package lifecycle is the workflow of one device, from its enrollment to its end. The run
// (this file) listens and starts what the state calls for; each file of updates is one
// family of requests; the packages below do the work and never call back:
//
//	status       how the state is shown
//	record       the state, which changes as the pure table allows
//	discovery    what the host says of the hardware
//	reservation  all calls to the inventory
//	cleaning     one clean: plan, steps, interruption
//
// Nothing here reads a clock, a file or a driver: activities act.
package lifecycle

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/cleaning"
	"burnish/workflows/lifecycle/discovery"
	"burnish/workflows/lifecycle/record"
	"burnish/workflows/lifecycle/reservation"
	"burnish/workflows/lifecycle/status"
)

// Lifecycle holds what the worker gives its workflows. All of it is read inside
// SideEffects only, so that a replay never sees another worker's settings.
type Lifecycle struct {
	Planner *clean.Planner
}

// parts are what the run and the families of updates work on.
type parts struct {
	*record.Record
	reservation *reservation.Reservation
	discovery   *discovery.Discovery
	cleaning    *cleaning.Cleaning
	// enrolling: an enrollment is under way.
	enrolling bool
	// finished ends the run; finishErr says how, nil where it ends in order.
	finished  bool
	finishErr error
}

// run is one run of one device's workflow. The state survives it, the rest does not.
type run struct {
	*parts
	// signals holds those that arrived and were not read.
	signals workflow.Selector
	// working, reconciling, claimTimer: a coroutine does what the state calls for, reads
	// inventory or host, waits for a claim's deadline. cancelled: the Cancel of this run
	// was handled.
	working, reconciling, claimTimer, cancelled bool
	// backingOff: what failed for good waits before it is tried again.
	backingOff bool
	// defect ends the run as failed.
	defect error
}

// DeviceLifecycle is the workflow of one device: it listens for updates and signals, does
// what the state calls for, and continues as new when its history is long and nothing is
// under way. It ends when the device is forgotten, or when its enrollment is refused. A
// Cancel from outside is an abort; after a Terminate or Reset the device is brought back
// from what host and inventory remember.
func (l *Lifecycle) DeviceLifecycle(root workflow.Context, in contract.DeviceInput) error {
	// A disconnected context: a Cancel in the Web UI must not tear anything down.
	ctx, _ := workflow.NewDisconnectedContext(root)
	d, err := l.newRun(ctx, in)
	if err != nil {
		return err
	}
	if err := d.register(ctx); err != nil {
		return err
	}
	d.listen(ctx)
	if in.State != nil && !d.Published.Started() {
		d.Publish(ctx) // relocated here: the run of another name began this state
	}
	for {
		var next func()
		err := workflow.Await(ctx, func() bool { next = d.next(ctx, root); return next != nil || d.canEndRun(ctx) })
		switch {
		case err != nil:
			return err
		case next != nil:
			next()
		case d.defect != nil:
			return d.defect
		case d.finished:
			return d.finishErr
		default:
			d.State.ContinueAsNew = false
			return workflow.NewContinueAsNewError(root, contract.WorkflowDeviceLifecycle,
				contract.DeviceInput{Name: d.State.Name, State: d.State})
		}
	}
}

func (l *Lifecycle) newRun(ctx workflow.Context, in contract.DeviceInput) (*run, error) {
	r := &record.Record{State: in.State, Planner: l.Planner}
	switch {
	case in.State != nil:
		if in.State.Schema > contract.Schema {
			return nil, fmt.Errorf("device %s: its state has schema %d, this worker knows %d: upgrade the control workers", in.Name, in.State.Schema, contract.Schema)
		}
		r.Published = status.Resume(ctx, r.State)
	case in.Recovered != nil:
		r.State = &contract.DeviceState{}
		recoverFrom(ctx, r, in.Recovered, "its workflow was gone; the host remembers it")
	default:
		r.State = &contract.DeviceState{}
		r.Begin(ctx, contract.Enrollment{Name: in.Name})
		r.State.Enrolled = false
	}
	d := &run{parts: &parts{Record: r, reservation: reservation.New(ctx, r), discovery: &discovery.Discovery{Record: r}}}
	d.cleaning = &cleaning.Cleaning{Record: r, Reservation: d.reservation, Discovery: d.discovery}
	return d, nil
}

// recoverFrom makes the state of a device that only its host remembers: unknown, to be
// reserved and cleaned.
func recoverFrom(ctx workflow.Context, r *record.Record, known *contract.HostDeviceRecord, why string) {
	r.Begin(ctx, known.Enrollment)
	r.State.Device.Cleanable = true // until the host's discovery says otherwise (D4)
	r.Invalidate(ctx, known, why)
}

// next is what the main coroutine has to do now, nil where that is nothing. The main
// coroutine waits nowhere else, so that it handles everything at once; what may wait has a
// coroutine for as long as it lasts. An idle device has the main one only, because a
// coroutine is most of what a device costs in memory (measured).
func (d *run) next(ctx, root workflow.Context) func() {
	switch {
	case root.Err() != nil && !d.cancelled:
		return func() { d.cancel(ctx) }
	case d.signals.HasPending():
		return func() { d.signals.Select(ctx) }
	case d.cleaning.MustStop():
		return d.cleaning.Stop
	case d.claimPending() && !d.claimTimer:
		return d.start(ctx, &d.claimTimer, d.watchClaim)
	case d.needsReconcile() && !d.reconciling && !d.State.Device.Returning:
		return d.start(ctx, &d.reconciling, d.reconcile)
	case d.workDue() && !d.working && d.defect == nil:
		return d.start(ctx, &d.working, d.work)
	}
	return nil
}

// start runs do in a coroutine of its own; busy is true until it ends.
func (d *run) start(ctx workflow.Context, busy *bool, do func(workflow.Context)) func() {
	return func() {
		*busy = true
		workflow.Go(ctx, func(ctx workflow.Context) {
			do(ctx)
			*busy = false
		})
	}
}

// workDue says that the state itself calls for work.
func (d *run) workDue() bool {
	if !d.State.Enrolled || d.backingOff {
		return false
	}
	switch d.State.Device.State {
	case device.Unknown, device.Cleaning:
		return true
	case device.PendingCleaning:
		return !d.State.Device.AwaitingManualClean
	}
	return false
}

// work does what the state calls for, once.
func (d *run) work(ctx workflow.Context) {
	switch {
	case d.State.Device.State == device.Unknown:
		d.defect = d.resolveUnknown(ctx)
	case d.State.Device.Returning:
		d.defect = d.reservation.ReturnToPool(ctx)
	default:
		d.defect = d.cleaning.Run(ctx)
		if d.defect == nil && d.State.Device.Returning {
			d.defect = d.reservation.ReturnToPool(ctx)
		}
	}
	d.Publish(ctx)
}

// canEndRun is the one gate of continue-as-new and of the end: no signal is unread, no
// handler runs, and nothing is under way.
func (d *run) canEndRun(ctx workflow.Context) bool {
	if d.defect != nil {
		return true
	}
	if !workflow.AllHandlersFinished(ctx) || d.working || d.reconciling || d.needsReconcile() || d.workDue() {
		return false
	}
	return d.finished || d.State.ContinueAsNew || calls.Long(ctx)
}

// cancel turns a Cancel from outside into an abort. Temporal ignores further Cancels of
// this run, so that a new run begins as soon as nothing is under way.
func (d *run) cancel(ctx workflow.Context) {
	d.cancelled, d.State.ContinueAsNew = true, true
	if d.CleanUnderWay() {
		d.cleaning.Abort(ctx)
		d.State.LastRefusal = "Cancel was taken as abort: the running clean ends in error"
	} else {
		d.State.LastRefusal = "Cancel changed nothing: no clean was running; forget ends a retired device's workflow"
	}
	d.Publish(ctx)
}

// claimPending says that the device is claimed and its burn has not begun.
func (d *run) claimPending() bool {
	c := d.State.Device.Claim
	return c != nil && !c.Burning
}

// watchClaim ends the claim if its deadline passes before its burn begins.
func (d *run) watchClaim(ctx workflow.Context) {
	deadline := d.State.Device.Claim.Deadline
	waits := func() bool { return d.claimPending() && d.State.Device.Claim.Deadline.Equal(deadline) }
	ended, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout:      deadline.Sub(workflow.Now(ctx)),
		TimerOptions: workflow.TimerOptions{Summary: "claim of " + d.State.Name},
	}, func() bool { return !waits() })
	if err == nil && !ended && waits() {
		d.ApplyOrReport(ctx, device.Event{Kind: device.ClaimExpired})
		d.State.LastRefusal = "a claim expired before its burn began"
		d.Publish(ctx)
	}
}
