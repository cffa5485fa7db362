// Package lifecycle is the workflow of one device. It decides nothing about the device: it tells the pure core
// (internal/lifecycle) what happened, has under way what the core says is due, and publishes what changed. Only
// activities read a clock, a file or a driver.
package lifecycle

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	core "burnish/internal/lifecycle"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// Lifecycle contains the settings of the worker. Workflows read them inside SideEffects only, so that a replay never
// depends on another worker's settings.
type Lifecycle struct {
	Planner *clean.Planner
	// Signatures verifies the signatures of overrides; nil: overrides are off.
	Signatures Signatures
}

// Signatures verifies the signatures of overrides. It is asked only when a request arrives, so that a replay never
// depends on this worker's key.
type Signatures interface {
	Verify(c contract.OverrideClaims, signature []byte) bool
}

// run is one run of one device's workflow. The device's state survives it, the rest does not.
type run struct {
	*Lifecycle
	device    *core.State
	signals   workflow.Selector
	published publisher
	// started are the calls that are under way, and the mail.
	started []*started
	// inTask counts the calls that are made in this workflow task: nothing is published meanwhile.
	inTask int
	timer  timer
	// canceled: the Cancel of this run was handled.
	canceled bool
}

// DeviceLifecycle is the workflow of one device: it receives updates and signals, does what the core says is due, and
// continues as new when its history is long and nothing is under way. It ends when the device is forgotten, or when its
// enrollment is refused. A Cancel is an abort; after a Terminate or Reset the device recovers from the records of its
// host and its inventory.
//
// What runs before and after the wait has functions of its own: every idle device keeps this one's frame, and 48 bytes
// more once doubled the stack of each from 8 to 16 KiB (measured).
func (l *Lifecycle) DeviceLifecycle(root workflow.Context, in contract.DeviceInput) error {
	r, ctx, err := l.begin(root, in)
	if err == nil {
		err = calls.Serve(ctx, func() func() { return r.next(ctx, root) }, func() bool { return r.mayEnd(ctx) })
	}
	if err != nil {
		return err
	}
	return r.end(root)
}

// begin makes the run and has it receive updates, queries and signals.
func (l *Lifecycle) begin(root workflow.Context, in contract.DeviceInput) (*run, workflow.Context, error) {
	// A disconnected context: a Cancel in the Web UI must not interrupt anything directly.
	ctx, _ := workflow.NewDisconnectedContext(root)
	r := &run{Lifecycle: l}
	switch {
	case in.State != nil:
		calls.RequireSchema("device "+in.Name, in.State.Schema)
		r.device = &core.State{DeviceState: in.State}
		r.published = resumePublisher(ctx, in.State)
	case in.Recovered != nil:
		r.device = core.Recover(in.Recovered, workflow.Now(ctx), r.recorder(ctx))
	default:
		r.device = core.New(in.Name, workflow.Now(ctx))
	}
	if err := r.register(ctx); err != nil {
		return nil, nil, err
	}
	r.listen(ctx)
	r.decide(ctx, core.Come{}) // what is due now
	switch {
	case in.State == nil:
	case r.published.started():
		show(ctx, r.device) // what the last run showed ended with it
	default:
		r.device.Publish = true // moved: this state was begun under another name
	}
	return r, ctx, nil
}

// end is how the run ends: as failed, as completed, or as continued by the next one.
func (r *run) end(root workflow.Context) error {
	d := r.device
	switch {
	case d.Defect != nil:
		return d.Defect
	case d.Finished:
		return d.FinishErr
	}
	d.ContinueAsNew, d.Schema = false, contract.Schema
	return calls.ContinueAsNew(root, contract.WorkflowDeviceLifecycle,
		contract.DeviceInput{Name: d.Name, State: d.DeviceState})
}

// decide tells the core what happened.
func (r *run) decide(ctx workflow.Context, in core.Input) {
	r.device.Decide(in, workflow.Now(ctx), r.recorder(ctx))
}

// next is what the main coroutine must do now; nil if nothing. It is the only one but for those of updates that wait
// for their answer: a coroutine takes most of an idle device's memory (measured).
func (r *run) next(ctx, root workflow.Context) func() {
	d := r.device
	switch {
	case root.Err() != nil && !r.canceled:
		return func() { r.canceled = true; r.decide(ctx, core.Canceled{}) }
	case r.signals.HasPending():
		return func() { r.signals.Select(ctx) }
	}
	if do := r.nextCall(ctx); do != nil {
		return do
	}
	switch at, what := d.Next(); {
	case r.timer.fired():
		return func() { r.timer = timer{}; r.decide(ctx, core.Come{}) }
	case !at.Equal(r.timer.at):
		return func() { r.timer.set(ctx, at, what+" of "+d.Name) }
	case d.Publish && r.inTask == 0:
		return func() { r.publish(ctx) }
	}
	return nil
}

// mayEnd decides alone whether the run may continue as new or end: no handler runs, and nothing is under way. Its
// caller has read every signal before.
func (r *run) mayEnd(ctx workflow.Context) bool {
	d := r.device
	if d.Defect != nil {
		return true
	}
	return workflow.AllHandlersFinished(ctx) && len(r.started) == 0 && d.Quiet() &&
		(d.Finished || d.ContinueAsNew || calls.NewRunDue(ctx))
}

// timer is the one timer of a run: of the next moment.
type timer struct {
	at     time.Time
	future workflow.Future
	cancel workflow.CancelFunc
}

func (t *timer) fired() bool { return t.future != nil && t.future.IsReady() }

// set replaces the timer. One that fires for nothing costs a workflow task.
func (t *timer) set(ctx workflow.Context, at time.Time, what string) {
	if t.cancel != nil {
		t.cancel()
	}
	*t = timer{at: at}
	if at.IsZero() {
		return
	}
	ctx, t.cancel = workflow.WithCancel(ctx)
	t.future = workflow.NewTimerWithOptions(ctx, max(at.Sub(workflow.Now(ctx)), 1), workflow.TimerOptions{Summary: what})
}

// listen makes the selector of all signals.
func (r *run) listen(ctx workflow.Context) {
	r.signals = workflow.NewSelector(ctx)
	calls.Receive(ctx, r.signals, contract.SignalClean,
		func(in contract.CleanInput) { r.decide(ctx, core.CleanAsked{In: in}) })
	for _, name := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh,
		contract.SignalTaken, contract.SignalFreed} {
		calls.Receive(ctx, r.signals, name,
			func(hint contract.Hint) { r.decide(ctx, core.Hinted{Signal: name, Hint: hint}) })
	}
}
