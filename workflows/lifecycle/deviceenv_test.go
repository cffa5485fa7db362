package lifecycle_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle"
)

// deviceEnv is one device's workflow with a fake inventory, a fake host and a server of
// activities. It runs in the test environment's own time, and only while the test waits for
// something; a continue-as-new starts the next run.
type deviceEnv struct {
	t       testing.TB
	policy  clean.Policy
	planner *clean.Planner
	// signatures verifies overrides; nil: they are off.
	signatures lifecycle.Signatures
	inventory  *inventorysim.Inventory
	host       *fakeHost
	calls      *activities.Control
	// beforeCall is called before an activity has effect.
	beforeCall func(activity string)
	// lag is the time before a control call has its effect, and the time until its answer.
	lag         func(activity string) (before, after time.Duration)
	previousRun contract.PreviousRun
	// asked are the questions to instances, instanceSays what each answers, unasked why none does.
	asked         []contract.InstanceQuestion
	instanceSays  contract.InstanceAnswer
	unasked       error
	forgetLater   []string // "host name" of each name that was left for a host
	children      []child
	nameTaken     bool // another workflow already has the ID of the next child
	notifications []notified
	// signalDelay is how long the server needs to send a signal to an instance.
	signalDelay time.Duration
	limits      fakeLimits
	duplicate   string // the device with the same serial, as a listing shows it
	// others are the states of the other devices whose workflow runs, by its ID.
	others map[string]device.State
	// duplicateOnceListed is the same, to a search that waits until this device is listed.
	duplicateOnceListed string
	activityContext     context.Context

	env  *testsuite.TestWorkflowEnvironment
	now  time.Time // start of the present run; see clock
	runs int
	live bool // a run has not ended
	// ready: the present run has begun.
	ready     bool
	finishErr error
	// killed is the number of the run that was terminated last; publishedInstance is the
	// instance in its search attributes, publishedStep the step.
	killed                                           int
	publishedInstance, publishedState, publishedStep string
	publishedMemo                                    contract.StatusMemo
	listed                                           []*workflowpb.WorkflowExecutionInfo
	// handedOver is the state that the last run passed to its successor.
	handedOver *contract.DeviceState
	events     []*event
	attrs      temporal.SearchAttributes
	viewText   json.RawMessage
	lastView   contract.DeviceStatus
	// urged is the age at which the server suggests continue-as-new to a run; 0 is never.
	suggestAfter time.Duration

	cond             func() bool
	toLoop, toScript chan struct{}
	quit, loopEnded  chan struct{}
	stopped          bool
	violations       []string // failed checks of the environment's own goroutine

	owner       device.Owner
	oneTimeUse  bool
	queue       []*message
	updatesSent int
	open        []*call
	answered    func(*call)

	activitiesInFlight, upserts, memos, updates int
	scheduledActivities                         []string // of the activities scheduled
	localCalls                                  []string // those of them that were made in the workflow task
	// loseTask says that the task of a call is lost: the call is made once more.
	loseTask     func(activity string) bool
	noLocalCalls bool     // calls in the workflow task fail before they have effect
	defects      []string // logged by the workflow at level error
	log          *slog.Logger
	onChange     func() // called after every change
	trace        func(string)
	metrics      sdkclient.MetricsHandler // nil counts nothing
}

// event happens at a time, in the run of that time.
type event struct {
	at   time.Time
	do   func()
	done bool
	env  *testsuite.TestWorkflowEnvironment // where it is registered
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func standardPolicy() clean.Policy {
	return clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute,
		StepSettings: device.StepSettings{Verify: "full", TellAfter: 5 * time.Minute}}
}

// newDeviceEnv starts the workflow of device d1, not yet enrolled.
func newDeviceEnv(t testing.TB, policy clean.Policy) *deviceEnv {
	return newDeviceEnvOf(t, policy, contract.DeviceInput{Name: "d1"})
}

func newDeviceEnvOf(t testing.TB, policy clean.Policy, in contract.DeviceInput) *deviceEnv {
	t.Helper()
	w := &deviceEnv{
		t: t, policy: policy, owner: device.OwnerSelf, inventory: &inventorysim.Inventory{}, host: newFakeHost(),
		now: epoch, live: true,
		toLoop: make(chan struct{}), toScript: make(chan struct{}), quit: make(chan struct{}), loopEnded: make(chan struct{}),
	}
	w.slow("", time.Millisecond, time.Millisecond)
	w.calls = &activities.Control{Store: w.inventory}
	w.renewClient()
	w.setPolicy(policy)
	var err error
	w.activityContext, err = newActivityContext()
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, logged := range w.defects { // but what its operator is told
			assert.True(t, strings.HasPrefix(logged, "the erase policy excludes the device"), logged)
		}
		close(w.quit)
		<-w.loopEnded
	})
	go func() {
		defer close(w.loopEnded)
		select { // the test goes first
		case <-w.toLoop:
			w.loop(in)
		case <-w.quit:
		}
	}()
	return w
}

// slow makes a control call, or any for "", take so long until its effect, and until its answer.
func (w *deviceEnv) slow(activity string, before, after time.Duration) {
	w.lag = func(name string) (time.Duration, time.Duration) {
		if activity == "" || name == activity {
			return before, after
		}
		return time.Millisecond, time.Millisecond
	}
}

// renewClient gives the activities a client that has asked nothing yet: one that has asked spreads
// its listings over real time, which no clock of the environment passes.
func (w *deviceEnv) renewClient() { w.calls.Client = client.New(&listing{w: w}) }

// setPolicy replaces the worker's settings.
func (w *deviceEnv) setPolicy(p clean.Policy) {
	w.t.Helper()
	planner, err := clean.NewPlanner(steps.All().Planning(), p)
	require.NoError(w.t, err)
	w.policy, w.planner = p, planner
}

// loop is the goroutine that runs the environments. Only one of loop and test runs at a time:
// loop until it yields, the test until it waits.
func (w *deviceEnv) loop(in contract.DeviceInput) {
	for {
		w.run(in)
		var next *workflow.ContinueAsNewError
		if w.killed == w.runs && !w.stopped {
			record := w.host.record
			in = contract.DeviceInput{Name: "d1", Recovered: &record}
			w.activitiesInFlight, w.attrs = 0, temporal.SearchAttributes{}
			w.failOpenCalls()
			w.host.running = ""
			w.redeliver()
			continue
		}
		if !errors.As(w.finishErr, &next) {
			w.live = false
			for !w.stopped {
				w.yield()
			}
			return
		}
		in = contract.DeviceInput{}
		w.decode(next.Input, &in)
		w.handedOver = in.State
		w.checkHandover(in)
		w.redeliver()
	}
}

// run is one run of the workflow, to its end.
func (w *deviceEnv) run(in contract.DeviceInput) {
	w.runs++
	w.ready = false
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(&workflowLog{w: w})
	suite.SetMetricsHandler(cmp.Or(w.metrics, sdkclient.MetricsNopHandler))
	env := suite.NewTestWorkflowEnvironment()
	w.env = env
	env.SetStartTime(w.now)
	env.SetTestTimeout(time.Minute)
	env.SetWorkflowRunTimeout(0) // its timer would keep the environment for ten years
	env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: time.Minute,
		Interceptors:             []interceptor.WorkerInterceptor{&inboundInterceptor{w: w}},
	})
	if w.suggestAfter > 0 {
		env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true) }, w.suggestAfter)
	}
	env.SetOnTimerFiredListener(func(string) { w.scheduleCheck() })
	if w.attrs.Size() > 0 {
		assert.NoError(w, env.SetTypedSearchAttributesOnStart(w.attrs))
	}
	devices := &lifecycle.Lifecycle{Planner: w.planner, Signatures: w.signatures}
	env.RegisterWorkflowWithOptions(devices.DeviceLifecycle,
		workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	env.ExecuteWorkflow(contract.WorkflowDeviceLifecycle, in)
	w.now, w.finishErr = env.Now(), env.GetWorkflowError()
}

// onRunStarted is called when a run's workflow begins: only then do timers keep their order.
func (w *deviceEnv) onRunStarted() {
	env := w.env
	env.RegisterDelayedCallback(func() {
		if w.env != env || w.stopped {
			return
		}
		w.ready = true
		for _, e := range w.events {
			w.register(e)
		}
		w.checkCondition()
	}, 0)
}

// terminate terminates the present run; the host still has its record and starts the device
// again.
func (w *deviceEnv) terminate() {
	w.after(1, func() {
		w.killed = w.runs
		w.listTerminated()
		hint := w.host.hint(w.clock())
		w.after(2, func() {})
		w.signal(contract.SignalObserved, hint)
	})
}

// clock is the time in the environment.
func (w *deviceEnv) clock() time.Time {
	if w.live && w.env != nil {
		return w.env.Now()
	}
	return w.now
}

// after calls do at a later time, also in a later run.
func (w *deviceEnv) after(d time.Duration, do func()) {
	e := &event{at: w.clock().Add(max(d, 1)), do: do}
	w.events = append(w.events, e)
	if w.ready {
		w.register(e)
	}
}

func (w *deviceEnv) register(e *event) {
	env := w.env
	e.env = env
	env.RegisterDelayedCallback(func() {
		if e.done || w.env != env || w.stopped {
			return
		}
		e.done = true
		w.dropFinishedEvents()
		e.do()
		w.scheduleCheck()
	}, max(e.at.Sub(env.Now()), 1))
}

func (w *deviceEnv) dropFinishedEvents() {
	var left []*event
	for _, e := range w.events {
		if !e.done {
			left = append(left, e)
		}
	}
	w.events = left
}

// scheduleCheck checks the test's condition after the present event.
func (w *deviceEnv) scheduleCheck() {
	env := w.env
	env.RegisterDelayedCallback(func() {
		if w.env == env && !w.stopped {
			w.checkCondition()
		}
	}, 0)
}

func (w *deviceEnv) checkCondition() {
	if !w.ready {
		return
	}
	if w.onChange != nil {
		w.onChange()
	}
	if len(w.violations) > 0 || w.cond != nil && w.cond() {
		w.cond = nil
		w.yield()
	}
}

// yield lets the test go on, and returns when the test waits again or has ended. In the latter
// case the run ends at its next task.
func (w *deviceEnv) yield() {
	select {
	case w.toScript <- struct{}{}:
		select {
		case <-w.toLoop:
			return
		case <-w.quit:
		}
	case <-w.quit:
	}
	w.stopped = true
	w.env.RegisterDelayedCallback(func() {}, 1) // the task in which it ends
}

// Errorf lets package assert report to the environment on any goroutine; the test fails when it
// goes on.
func (w *deviceEnv) Errorf(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// until runs the environment until cond holds, for at most a day of its time.
func (w *deviceEnv) until(what string, cond func() bool) {
	w.t.Helper()
	w.within(24*time.Hour, what, cond)
}

func (w *deviceEnv) within(d time.Duration, what string, cond func() bool) {
	w.t.Helper()
	late := false
	if w.env == nil || !cond() {
		w.cond = func() bool { return cond() || late || !w.live }
		limit := &event{at: w.clock().Add(d), do: func() { late = true }}
		w.events = append(w.events, limit)
		if w.ready {
			w.register(limit)
		}
		w.toLoop <- struct{}{}
		select {
		case <-w.toScript:
		case <-w.loopEnded:
			w.t.FailNow()
		}
		limit.done = true
		w.dropFinishedEvents()
	}
	if len(w.violations) > 0 {
		w.t.Fatalf("%s\n%s", strings.Join(w.violations, "\n"), w.describe())
	}
	if !cond() {
		w.t.Fatalf("no %s (after %s, run %d, ended: %v): %s", what, w.clock().Sub(epoch), w.runs, w.finishErr, w.describe())
	}
}

// pass lets time pass.
func (w *deviceEnv) pass(d time.Duration) {
	w.t.Helper()
	over := false
	w.after(d, func() { over = true })
	w.within(d+time.Second, "the end of "+d.String(), func() bool { return over || !w.live })
}

func (w *deviceEnv) describe() string {
	v := w.view()
	v.Steps, v.Cleans = nil, nil
	text, err := json.Marshal(v)
	require.NoError(w.t, err)
	return fmt.Sprintf("%s; inventory %+v; host up %v running %q; activities %s", text, w.inventory.Snapshot(), w.host.up,
		w.host.running, strings.Join(w.scheduledActivities, " "))
}

// view is the device as the query shows it.
func (w *deviceEnv) view() contract.DeviceStatus {
	var v contract.DeviceStatus
	if w.env == nil {
		return v
	}
	value, err := w.env.QueryWorkflow(contract.QueryDevice)
	if err != nil {
		return v
	}
	var text json.RawMessage
	assert.NoError(w, value.Get(&text))
	if !bytes.Equal(text, w.viewText) {
		assert.NoError(w, json.Unmarshal(text, &v))
		w.viewText, w.lastView = text, v
	}
	return w.lastView
}

func (w *deviceEnv) decode(p *commonpb.Payloads, to any) {
	assert.NoError(w, converter.GetDefaultDataConverter().FromPayloads(p, to))
}

// checkHandover checks each continue-as-new: nothing is in flight, and the state is bounded.
func (w *deviceEnv) checkHandover(in contract.DeviceInput) {
	assert.Zero(w, w.activitiesInFlight, "continued as new with activities in flight: %v", w.scheduledActivities)
	assert.Zero(w, w.updates, "continued as new while an update waited for its answer")
	if !assert.NotNil(w, in.State) {
		return
	}
	s := in.State
	text, err := json.Marshal(s)
	assert.NoError(w, err)
	_, err = s.Archive.Cleans() // package contract tests its bounds
	assert.NoError(w, err)
	assert.LessOrEqual(w, len(s.History), 20)
	assert.LessOrEqual(w, len(s.Recent), 40)
	assert.Less(w, len(text), 48<<10, "the state does not stay small")
	assert.Equal(w, device.Absent == s.Device.State, !s.Enrolled)
}

func (w *deviceEnv) scheduled(j *job) {
	w.scheduledActivities = append(w.scheduledActivities, j.name)
	want := contract.HostQueue("h1")
	_, control := (&activities.Control{}).Activities()[j.name]
	control = control || j.name == contract.ActivityRequestSlot || j.name == contract.ActivityAskInstance
	if control {
		want = contract.Queue
	}
	assert.Equal(w, want, j.opts.TaskQueue, "%s on another queue", j.name)
	assert.Positive(w, j.opts.StartToCloseTimeout, j.name)
	assert.NotEmpty(w, j.opts.Summary, j.name)
	assert.NotNil(w, j.opts.RetryPolicy, j.name)
	if j.name == contract.ActivityUnreserve {
		assert.EqualValues(w, 1, j.opts.RetryPolicy.MaximumAttempts, "Unreserve is never retried by the server")
	}
	if !control {
		assert.Contains(w, j.opts.RetryPolicy.NonRetryableErrorTypes, "ActivityNotRegisteredError", j.name)
	}
	if _, step := w.host.steps[j.name]; step {
		assert.True(w, j.opts.WaitForCancellation, "a canceled step is waited for")
		assert.GreaterOrEqual(w, j.opts.HeartbeatTimeout, 30*time.Second)
	}
}

// inboundInterceptor wraps the workflow itself.
type inboundInterceptor struct {
	interceptor.WorkerInterceptorBase
	w *deviceEnv
}

func (i *inboundInterceptor) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inboundWorkflow{interceptor.WorkflowInboundInterceptorBase{Next: next}, i.w}
}

type inboundWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
	w *deviceEnv
}

// ExecuteWorkflow lets the environment end a run when its test is over.
func (i *inboundWorkflow) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	var out any
	var err error
	done := false
	workflow.Go(ctx, func(ctx workflow.Context) { out, err = i.Next.ExecuteWorkflow(ctx, in); done = true })
	i.w.onRunStarted()
	own, _ := workflow.NewDisconnectedContext(ctx)
	run := i.w.runs
	if e := workflow.Await(own, func() bool { return done || i.w.stopped || i.w.killed == run }); e != nil || !done {
		return nil, errors.New("the test is over")
	}
	return out, err
}

func (i *inboundWorkflow) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outboundInterceptor{interceptor.WorkflowOutboundInterceptorBase{Next: out}, i.w})
}
