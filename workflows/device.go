// Package workflows is what waits: one DeviceLifecycle per device listens, asks the
// pure machine (internal/device) what is legal, walks a recorded plan
// (internal/clean) and leaves every act to activities. Nothing here reads a clock,
// a file or a driver.
package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Lifecycle holds what the worker gives its workflows: all of it is read inside
// SideEffects only, so that a replay never sees another worker's settings.
type Lifecycle struct {
	Planner *clean.Planner
}

// quietHistory is the length, in events, from which an idle device continues as new.
const continueAsNewThreshold = 200

// lifecycle is one run of one device's workflow: state survives, the rest does not.
type lifecycle struct {
	state *contract.DeviceState

	planner *clean.Planner
	log     log.Logger
	// lock serialises what touches the inventory or must not meet it half-way.
	lock workflow.Mutex
	// stopStep cancels the running step, nil where none runs.
	stopStep workflow.CancelFunc
	// inUse is a consumer that a look saw while a clean was running.
	inUse *contract.ReservationSnapshot
	// signals holds those that came and were not read.
	signals workflow.Selector
	// working, looking, watching: a coroutine does what the state calls for, looks at
	// inventory or host, waits for a claim's deadline. cancelled: the Cancel of this
	// run was heard.
	working, reconciling, claimTimer, cancelled bool
	// moving counts operators' calls that take the device out of the pool or put it
	// back: set before their first blocking call, so that no claim comes between.
	poolTransitions int
	// resting: what failed for good waits a while before it is tried again.
	backingOff bool
	// enrolling: an enrolment is under way; remembered: the host knew the device
	// before it was asked to look.
	enrolling, knownToHost bool
	// over ends the run; ended says how, nil where it ends in order.
	finished  bool
	finishErr error
	// broken ends the run as failed: a defect.
	defect    error
	published published
}

// DeviceLifecycle is one device from its enrolment to its end: it listens for
// updates and signals, does what the state calls for, and continues as new when its
// history is long and nothing is under way. It ends when the device is forgotten,
// or when its enrolment is refused. A Cancel from outside is an abort; Terminate and
// Reset are made good from what host and inventory remember (DESIGN).
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
	if in.State != nil && d.published == (published{}) {
		d.publishStatus(ctx) // moved here: another name's run began this state
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
			d.state.ContinueAsNew = false
			return workflow.NewContinueAsNewError(root, contract.WorkflowDeviceLifecycle,
				contract.DeviceInput{Name: d.state.Name, State: d.state})
		}
	}
}

// next is what the main coroutine has to do now, nil where that is nothing. It never
// waits elsewhere, so that it always hears; whatever may wait has a coroutine for as
// long as it lasts, and a device that rests has none but the main one: a coroutine is
// most of what a device costs in memory (measured).
func (d *lifecycle) next(ctx, root workflow.Context) func() {
	switch {
	case root.Err() != nil && !d.cancelled:
		return func() { d.cancel(ctx) }
	case d.signals.HasPending():
		return func() { d.signals.Select(ctx) }
	case d.claimPending() && !d.claimTimer:
		return d.start(ctx, &d.claimTimer, d.watchClaim)
	case d.needsReconcile() && !d.reconciling && !d.state.Device.Returning:
		return d.start(ctx, &d.reconciling, d.reconcile)
	case d.workDue() && !d.working && d.defect == nil:
		return d.start(ctx, &d.working, d.work)
	}
	return nil
}

// start runs do in a coroutine of its own; busy is true until it ends.
func (d *lifecycle) start(ctx workflow.Context, busy *bool, do func(workflow.Context)) func() {
	return func() {
		*busy = true
		workflow.Go(ctx, func(ctx workflow.Context) {
			do(ctx)
			*busy = false
		})
	}
}

func (l *Lifecycle) newRun(ctx workflow.Context, in contract.DeviceInput) (*lifecycle, error) {
	d := &lifecycle{planner: l.Planner, log: workflow.GetLogger(ctx), lock: workflow.NewMutex(ctx)}
	switch {
	case in.State != nil:
		if in.State.Schema > contract.Schema {
			return nil, fmt.Errorf("device %s: its state has schema %d, this worker knows %d: upgrade the control workers", in.Name, in.State.Schema, contract.Schema)
		}
		d.state = in.State
		d.published = lastPublished(ctx, d.state)
	case in.Recovered != nil:
		d.newState(ctx, in.Recovered.Enrollment)
		// Until the host has said so, nobody knows that nothing can erase it (D4).
		d.state.Device.Cleanable = true
		d.invalidate(ctx, in.Recovered, "its workflow was gone; the host remembers it")
	default:
		d.newState(ctx, contract.Enrollment{Name: in.Name})
		d.state.Enrolled = false
	}
	return d, nil
}

// begin makes the state of a device that has none yet.
func (d *lifecycle) newState(ctx workflow.Context, e contract.Enrollment) {
	now := workflow.Now(ctx).UTC()
	d.state = &contract.DeviceState{
		Schema: contract.Schema, Name: e.Name, UUID: contract.DeviceUUID(e.Name),
		Enrollment: e, Enrolled: true, CreatedAt: now, UpdatedAt: now,
		Device: device.Device{Owner: e.Owner, OneTimeUse: e.OneTimeUse},
	}
}

// due says whether the state itself calls for work in the main coroutine.
func (d *lifecycle) workDue() bool {
	if !d.state.Enrolled || d.backingOff {
		return false
	}
	switch d.state.Device.State {
	case device.Unknown, device.Cleaning:
		return true
	case device.PendingCleaning:
		return !d.state.Device.AwaitingManualClean
	}
	return false
}

// work does what the state calls for, once.
func (d *lifecycle) work(ctx workflow.Context) {
	do := d.clean
	switch {
	case d.state.Device.State == device.Unknown:
		do = d.resolveUnknown
	case d.state.Device.Returning:
		do = d.returnToPool
	}
	d.defect = do(ctx)
	d.publishStatus(ctx)
}

// mayEnd is the one gate of continue-as-new, and of the end: nothing heard and
// unread, nobody being answered, nothing under way.
func (d *lifecycle) canEndRun(ctx workflow.Context) bool {
	if d.defect != nil {
		return true
	}
	if !workflow.AllHandlersFinished(ctx) || d.working || d.reconciling || d.needsReconcile() || d.workDue() {
		return false
	}
	info := workflow.GetInfo(ctx)
	return d.finished || d.state.ContinueAsNew || info.GetContinueAsNewSuggested() ||
		info.GetCurrentHistoryLength() > continueAsNewThreshold
}

// apply asks the machine, and keeps the books that follow from its answer.
func (d *lifecycle) apply(ctx workflow.Context, e device.Event) error {
	was := d.state.Device
	next, err := device.Next(was, e)
	if err != nil {
		return err
	}
	d.state.Device = next
	d.state.UpdatedAt = workflow.Now(ctx).UTC()
	if next.Binding != nil && (was.Binding == nil || was.Binding.Number != next.Binding.Number) {
		d.state.BoundAt = d.state.UpdatedAt
		d.state.History = lastN(append(d.state.History, *next.Binding), contract.KeptBindings)
	}
	if next.State == device.Available || next.State == device.Allocated || next.State == device.Manageable {
		d.state.Fault, d.state.LastError = nil, ""
	}
	if next.AwaitingManualClean && !was.AwaitingManualClean {
		d.state.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeAutomatedCleanOff,
			Message: "automated cleaning is off", Remedy: "clean " + d.state.Name}
	}
	// What a look saw while the device was claimed had no consequence then.
	if was.Claim != nil && next.Claim == nil && next.State == device.Available {
		d.state.Intent.ReadInventory = true
	}
	// Whoever leaves the pool by another way than a burn must be burned all the same
	// (S2.40). A clean and a doubt begin with that.
	if schedulable(was) && !schedulable(next) && e.Kind != device.Burned &&
		next.State != device.Unknown && (next.State != device.PendingCleaning || next.AwaitingManualClean) {
		d.state.Intent.EnsureReserved = true
	}
	return nil
}

// offered says that the reservation of such a device is 0: it is allocatable, or
// claimed and not burned yet.
func schedulable(d device.Device) bool { return d.State == device.Available && !d.InMaintenance() }

// must is apply for events that the calling code has already made sure of; an
// illegal one is a defect and is told as such.
func (d *lifecycle) applyOrReport(ctx workflow.Context, e device.Event) {
	if err := d.apply(ctx, e); err != nil {
		d.log.Error("illegal event: this is a defect of Burnish", "device", d.state.Name, "error", err)
		d.state.LastError = err.Error()
	}
}

// fail puts the device into error with the fault that an operator reads.
func (d *lifecycle) fail(ctx workflow.Context, f *device.Fault) {
	kind := device.CleanFailed
	if f.Code == device.CodeWearLimitExceeded {
		kind = device.WearLimitExceeded
	}
	d.applyOrReport(ctx, device.Event{Kind: kind})
	if f.Remedy == "" {
		f.Remedy = "clean " + d.state.Name + " to try again"
	}
	d.state.Fault, d.state.LastError = f, f.Message
	d.log.Warn("clean failed", "device", d.state.Name, "uuid", d.state.UUID, "fault", string(f.Code), "error", f.Message)
}

// doubt makes the device unknown because host or inventory know newer than this
// workflow; numbers that must never go back are taken over.
func (d *lifecycle) invalidate(ctx workflow.Context, r *contract.HostDeviceRecord, why string) {
	if r != nil {
		d.state.Cleans = max(d.state.Cleans, r.Clean)
		d.state.Seq = max(d.state.Seq, r.Seq)
		d.state.Device.Bindings = max(d.state.Device.Bindings, r.Binding)
		d.state.Host.Identity = r.Identity
	}
	d.applyOrReport(ctx, device.Event{Kind: device.Invalidated})
	d.state.Clean, d.state.GenerationUncertain = nil, true
	d.state.Intent.Rediscover, d.state.Intent.Import = true, false // the inventory's word alone does no more
	d.state.LastError = "brought back: " + why
	d.log.Warn("device is in doubt", "device", d.state.Name, "uuid", d.state.UUID, "why", why)
}

// cancel turns a Cancel from outside into an abort. Temporal swallows further
// Cancels of this run, so that a new run is wanted at the next quiet point.
func (d *lifecycle) cancel(ctx workflow.Context) {
	d.cancelled, d.state.ContinueAsNew = true, true
	if d.cleanUnderWay() {
		d.abort(ctx)
		d.state.LastRefusal = "Cancel was taken as abort: the running clean ends in error"
	} else {
		d.state.LastRefusal = "Cancel changed nothing: no clean was running; forget ends a retired device's workflow"
	}
	d.publishStatus(ctx)
}

// claimWaits says that the device is claimed and its burn has not begun.
func (d *lifecycle) claimPending() bool {
	c := d.state.Device.Claim
	return c != nil && !c.Burning
}

// watchClaim lets the claim go if its deadline passes before its burn begins.
func (d *lifecycle) watchClaim(ctx workflow.Context) {
	deadline := d.state.Device.Claim.Deadline
	waits := func() bool { return d.claimPending() && d.state.Device.Claim.Deadline.Equal(deadline) }
	ended, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout:      deadline.Sub(workflow.Now(ctx)),
		TimerOptions: workflow.TimerOptions{Summary: "claim of " + d.state.Name},
	}, func() bool { return !waits() })
	if err == nil && !ended && waits() {
		d.applyOrReport(ctx, device.Event{Kind: device.ClaimExpired})
		d.state.LastRefusal = "a claim expired before its burn began"
		d.publishStatus(ctx)
	}
}

func lastN[T any](all []T, n int) []T {
	if len(all) > n {
		return append([]T(nil), all[len(all)-n:]...)
	}
	return all
}

// illegal says whether the machine refused, as opposed to a defect.
func illegal(err error) (*device.IllegalError, bool) {
	var e *device.IllegalError
	ok := errors.As(err, &e)
	return e, ok
}
