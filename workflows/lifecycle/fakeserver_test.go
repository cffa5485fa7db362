package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The SDK's test environment has no ScheduleToStart, does not wait for a canceled activity, and
// runs activities independently of its clock. This server of activities does all that in the
// environment's own time, on one goroutine and deterministically.

// job is one scheduled activity.
type job struct {
	name    string
	local   bool // it is made in the workflow task
	opts    workflow.ActivityOptions
	args    []any
	attempt int
	caller  workflow.Context
	beat    contract.Progress
	beats   int
}

func (j *job) canceled() bool { return j.caller.Err() != nil }

// outboundInterceptor handles what the workflow requests of the server.
type outboundInterceptor struct {
	interceptor.WorkflowOutboundInterceptorBase
	w *deviceEnv
}

func (o *outboundInterceptor) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	return o.execute(ctx, &job{name: name, opts: workflow.GetActivityOptions(ctx), args: args, caller: ctx})
}

func (o *outboundInterceptor) execute(ctx workflow.Context, j *job) workflow.Future {
	future, set := workflow.NewFuture(ctx)
	o.w.scheduled(j)
	settled := false
	settle := func(value any, err error) {
		if !settled {
			settled = true
			o.w.activitiesInFlight--
			set.Set(value, failure(j.name, err))
		}
	}
	o.w.activitiesInFlight++
	own, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(own, func(ctx workflow.Context) { o.w.serve(ctx, j, settle) })
	return future
}

// ExecuteLocalActivity makes one attempt. The device receives what arrives meanwhile, as from the
// task that a long call makes the SDK begin.
func (o *outboundInterceptor) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	local := workflow.GetLocalActivityOptions(ctx)
	o.w.checkLocal(name, local)
	opts := workflow.GetActivityOptions(ctx)
	opts.ScheduleToCloseTimeout, opts.StartToCloseTimeout, opts.HeartbeatTimeout, opts.RetryPolicy =
		local.ScheduleToCloseTimeout, local.ScheduleToCloseTimeout, 0, local.RetryPolicy
	if o.w.noLocalCalls {
		future, set := workflow.NewFuture(ctx)
		set.SetError(
			failure(name,
				contract.Refuse(contract.Refusal{Fault: device.Fault{Class: device.Transient, Code: device.CodeInventoryUnavailable,
					Message: "not in the task"}})))
		return future
	}
	o.w.localCalls = append(o.w.localCalls, name)
	call := func() workflow.Future {
		return o.execute(ctx, &job{name: name, local: true, opts: opts, args: args, caller: ctx})
	}
	if o.w.loseTask == nil || !o.w.loseTask(name) {
		return call()
	}
	future, set := workflow.NewFuture(ctx)
	own, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(own, func(ctx workflow.Context) {
		_ = call().Get(ctx, nil) // of the task that is lost
		set.Chain(call())
	})
	return future
}

// checkLocal checks a call in the workflow task: one attempt, much shorter than the task may take.
func (w *deviceEnv) checkLocal(name string, opts workflow.LocalActivityOptions) {
	assert.LessOrEqual(w, opts.ScheduleToCloseTimeout, contract.TaskTimeout/3, name)
	assert.EqualValues(w, 1, opts.RetryPolicy.MaximumAttempts, name)
	assert.NotEmpty(w, opts.Summary, name)
}

// ExecuteChildWorkflow records the child's input and options, and runs nothing.
func (o *outboundInterceptor) ExecuteChildWorkflow(ctx workflow.Context, _ string,
	args ...any) workflow.ChildWorkflowFuture {
	future, set := workflow.NewFuture(ctx)
	c := child{options: workflow.GetChildWorkflowOptions(ctx)}
	text, err := json.Marshal(args[0])
	if err == nil {
		err = json.Unmarshal(text, &c.in)
	}
	switch {
	case err != nil:
		o.w.Errorf("the child's input: %v", err)
	case o.w.nameTaken:
		err = serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", "", "")
	default:
		o.w.children = append(o.w.children, c)
	}
	set.Set(nil, err)
	return childFuture{future}
}

// child is a workflow that the device's workflow started.
type child struct {
	options workflow.ChildWorkflowOptions
	in      contract.DeviceInput
}

// childFuture is the future of a child that was started, or could not be.
type childFuture struct{ workflow.Future }

func (s childFuture) GetChildWorkflowExecution() workflow.Future { return s.Future }

func (s childFuture) SignalChildWorkflow(workflow.Context, string, any) workflow.Future {
	return s.Future
}

// SignalExternalWorkflow records the signal.
func (o *outboundInterceptor) SignalExternalWorkflow(ctx workflow.Context, id, _, signal string,
	arg any) workflow.Future {
	future, set := workflow.NewFuture(ctx)
	if id == contract.LimitsWorkflowID {
		set.Set(nil, o.w.limits.signal(signal, arg))
		return future
	}
	o.w.notifications = append(o.w.notifications, notified{id, signal, arg})
	if delay := o.w.signalDelay; delay > 0 && signal == contract.SignalDeviceLeft {
		workflow.Go(ctx, func(ctx workflow.Context) { set.Set(nil, workflow.Sleep(ctx, delay)) })
		return future
	}
	set.Set(nil, nil)
	return future
}

// notified is a signal to another workflow.
type notified struct {
	workflow, signal string
	arg              any
}

func (o *outboundInterceptor) UpsertTypedSearchAttributes(ctx workflow.Context,
	a ...temporal.SearchAttributeUpdate) error {
	o.w.upserts++
	o.w.attrs = temporal.NewSearchAttributes(contract.AttrUUID.ValueSet("carried over"))
	shown := temporal.NewSearchAttributes(a...)
	o.w.publishedInstance, _ = shown.GetKeyword(contract.AttrInstance)
	o.w.publishedStep, _ = shown.GetKeyword(contract.AttrStep)
	o.w.publishedState, _ = shown.GetKeyword(contract.AttrState)
	return o.Next.UpsertTypedSearchAttributes(ctx, a...)
}

func (o *outboundInterceptor) UpsertMemo(ctx workflow.Context, memo map[string]any) error {
	o.w.memos++
	o.w.publishedMemo, _ = memo[contract.MemoStatus].(contract.StatusMemo)
	return o.Next.UpsertMemo(ctx, memo)
}

// waitUntil waits for cond, at most until a time; the zero time is never.
func waitUntil(ctx workflow.Context, until time.Time, cond func() bool) bool {
	if until.IsZero() {
		return workflow.Await(ctx, cond) == nil
	}
	ok, err := workflow.AwaitWithTimeout(ctx, until.Sub(workflow.Now(ctx)), cond)
	return ok && err == nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func deadlineIn(ctx workflow.Context, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return workflow.Now(ctx).Add(d)
}

// serve carries a job through its attempts, as the server does.
func (w *deviceEnv) serve(ctx workflow.Context, j *job, settle func(any, error)) {
	deadline := deadlineIn(ctx, j.opts.ScheduleToCloseTimeout)
	onHost := j.opts.TaskQueue == contract.HostQueue("h1")
	for {
		j.attempt++
		startBy := deadlineIn(ctx, j.opts.ScheduleToStartTimeout)
		waitUntil(ctx, earlier(startBy, deadline), func() bool { return j.canceled() || !onHost || w.host.up })
		now := workflow.Now(ctx)
		switch {
		case j.canceled():
			settle(nil, temporal.NewCanceledError())
			return
		case onHost && !w.host.up && !deadline.IsZero() && !now.Before(deadline):
			settle(nil, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil))
			return
		case onHost && !w.host.up:
			details := []any{}
			if j.beats > 0 {
				details = append(details, j.beat)
			}
			settle(nil, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil, details...))
			return
		}
		var value any
		var err error
		if onHost {
			if w.beforeCall != nil {
				w.beforeCall(j.name)
			}
			value, err = w.host.attempt(ctx, j)
		} else {
			value, err = w.control(ctx, j, deadline, settle)
		}
		pause, final := j.retryAfter(err)
		if final || j.canceled() {
			settle(value, err)
			return
		}
		w.reportFailure(j, err)
		next := workflow.Now(ctx).Add(pause)
		if !deadline.IsZero() && next.After(deadline) {
			settle(value, err)
			return
		}
		waitUntil(ctx, next, j.canceled)
	}
}

// reportFailure reports a failed attempt to the workflow, as workers do.
func (w *deviceEnv) reportFailure(j *job, err error) {
	refusal, isRefusal := contract.RefusalOf(err)
	if !isRefusal || !activities.WorthReporting(int32(j.attempt)) {
		return
	}
	report := contract.WaitReport{For: contract.WaitInventory, Fault: refusal.Fault}
	if j.opts.TaskQueue != contract.Queue {
		report.For = contract.WaitHost
	}
	if in, isStep := j.args[0].(contract.StepInput); isStep {
		report.Seq = in.Seq
	}
	w.after(1, func() { w.signal(contract.SignalObserved, contract.Hint{Wait: &report}) })
}

// retryAfter gives the pause before the next attempt, or says that this one was the last.
func (j *job) retryAfter(err error) (time.Duration, bool) {
	p := j.opts.RetryPolicy
	var app *temporal.ApplicationError
	switch {
	case err == nil, temporal.IsCanceledError(err):
		return 0, true
	case errors.As(err, &app) && (app.NonRetryable() || slices.Contains(p.NonRetryableErrorTypes, app.Type())):
		return 0, true
	case p.MaximumAttempts > 0 && j.attempt >= int(p.MaximumAttempts):
		return 0, true
	case app != nil && app.NextRetryDelay() > 0:
		return app.NextRetryDelay(), false
	}
	var late *temporal.TimeoutError
	if errors.As(err, &late) && late.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE {
		return 0, true
	}
	pause := float64(p.InitialInterval) * math.Pow(p.BackoffCoefficient, float64(j.attempt-1))
	return time.Duration(min(pause, float64(p.MaximumInterval))), false
}

// control runs one attempt on the control worker. The call takes place after `before`
// and its answer arrives after `after`, also when the activity has timed out. Only a local
// activity's context ends at its time-out: then it calls no more.
func (w *deviceEnv) control(ctx workflow.Context, j *job, deadline time.Time, settle func(any, error)) (any, error) {
	before, after := w.lag(j.name)
	attempt := j.attempt
	var value any
	var err error
	done, late := false, false
	w.after(before, func() {
		if late && j.local {
			return
		}
		if w.beforeCall != nil {
			w.beforeCall(j.name)
		}
		v, e := w.do(j.name, attempt, j.args[0])
		if w.trace != nil {
			w.trace(fmt.Sprintf("%s attempt %d %+v: %+v %v", j.name, attempt, j.args[0], v, e))
		}
		w.after(after, func() { value, err, done = v, e, true })
	})
	limit, kind := j.opts.StartToCloseTimeout, enumspb.TIMEOUT_TYPE_START_TO_CLOSE
	if after > limit && j.opts.HeartbeatTimeout > 0 { // its worker died
		limit, kind = j.opts.HeartbeatTimeout, enumspb.TIMEOUT_TYPE_HEARTBEAT
	}
	until := deadlineIn(ctx, limit)
	waits := j.opts.WaitForCancellation
	waitUntil(ctx, earlier(until, deadline), func() bool { return done || !waits && j.canceled() })
	late = !done
	switch {
	case done:
		return value, err
	case j.canceled():
		settle(nil, temporal.NewCanceledError())
		return nil, temporal.NewCanceledError()
	case !deadline.IsZero() && !workflow.Now(ctx).Before(deadline):
		return nil, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil)
	}
	return nil, temporal.NewTimeoutError(kind, nil)
}

// do calls the real activity.
func (w *deviceEnv) do(name string, attempt int, arg any) (any, error) {
	ctx := context.WithValue(w.activityContext, attemptKey{}, attempt)
	switch in := arg.(type) {
	case contract.ForgetLaterInput:
		w.forgetLater = append(w.forgetLater, in.Host+" "+in.Name)
		return nil, nil
	case contract.ReservationRequest:
		act := map[string]func(context.Context, contract.ReservationRequest) (device.Inventory, error){
			contract.ActivityEnsureProvider: w.calls.EnsureProvider, contract.ActivityReserveForBind: w.calls.ReserveForBind,
			contract.ActivityReadReservation: w.calls.ReadReservation, contract.ActivityEnsureReserved: w.calls.EnsureReserved,
			contract.ActivityUnreserve:      w.calls.Unreserve,
			contract.ActivityDeleteProvider: w.calls.DeleteProvider,
		}[name]
		stock, err := act(ctx, in)
		if err != nil {
			return nil, err
		}
		return stock, nil
	case contract.FindBySerialInput:
		switch {
		case in.Listed:
			return contract.DeviceBySerial{Name: w.duplicateOnceListed}, nil
		case in.Serial != "" && w.duplicate != "":
			return contract.DeviceBySerial{Name: w.duplicate}, nil
		}
		in.Serial = "" // what is listed of it is scripted
		return w.calls.FindBySerial(ctx, in)
	case contract.InstanceQuestion:
		w.asked = append(w.asked, in)
		return w.instanceSays, w.unasked
	case contract.SlotRequest:
		w.limits.gone = false
		return nil, w.limits.signal(contract.SignalSlotRequest, in)
	case string:
		if w.previousRun.RunID != "" { // scripted
			return w.previousRun, nil
		}
		w.renewClient()
		return w.calls.FindPreviousRun(ctx, in)
	}
	return nil, errors.New("no such activity: " + name)
}

// listing lists the terminated runs.
type listing struct {
	client.Client
	w *deviceEnv
}

func (v *listing) ListWorkflow(context.Context,
	*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: v.w.listed}, nil
}

// DescribeWorkflowExecution describes the other devices, by their state.
func (v *listing) DescribeWorkflowExecution(_ context.Context, id,
	_ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	state, known := v.w.others[id]
	if !known {
		return nil, serviceerror.NewNotFound(id)
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(string(state))
	fields := map[string]*commonpb.Payload{contract.AttrState.GetName(): payload}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
	}}, err
}

// listTerminated lists the present run as terminated, with its last search attributes.
func (w *deviceEnv) listTerminated() {
	fields := map[string]*commonpb.Payload{}
	for key, value := range map[string]string{contract.AttrInstance.GetName(): w.publishedInstance,
		contract.AttrState.GetName(): w.publishedState} {
		if value == "" {
			continue
		}
		payload, err := converter.GetDefaultDataConverter().ToPayload(value)
		assert.NoError(w, err)
		fields[key] = payload
	}
	w.listed = append(w.listed, &workflowpb.WorkflowExecutionInfo{
		Execution:        &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID("d1"), RunId: fmt.Sprintf("run-%d", w.runs)},
		Status:           enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
		CloseTime:        timestamppb.New(w.clock()),
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
	})
}

type attemptKey struct{}

// newActivityContext gives a context in which the real activities run outside of any
// environment: activity.GetInfo returns the attempt that do set.
func newActivityContext() (context.Context, error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&attemptInterceptor{}}})
	var own context.Context
	capture := func(ctx context.Context) error { own = ctx; return nil }
	env.RegisterActivityWithOptions(capture, activity.RegisterOptions{Name: "capture"})
	_, err := env.ExecuteActivity("capture")
	return context.WithoutCancel(own), err
}

type attemptInterceptor struct {
	interceptor.WorkerInterceptorBase
}

func (a *attemptInterceptor) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &attemptsIn{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type attemptsIn struct {
	interceptor.ActivityInboundInterceptorBase
}

func (a *attemptsIn) Init(out interceptor.ActivityOutboundInterceptor) error {
	return a.Next.Init(&attemptsOut{interceptor.ActivityOutboundInterceptorBase{Next: out}})
}

type attemptsOut struct {
	interceptor.ActivityOutboundInterceptorBase
}

func (a *attemptsOut) GetInfo(ctx context.Context) activity.Info {
	info := a.Next.GetInfo(ctx)
	if n, ok := ctx.Value(attemptKey{}).(int); ok {
		info.Attempt = int32(n)
	}
	return info
}

// failure converts an error as the server does, wrapped as an activity error.
func failure(name string, err error) error {
	if err == nil {
		return nil
	}
	c := temporal.GetDefaultFailureConverter()
	if temporal.IsCanceledError(err) {
		return c.FailureToError(c.ErrorToFailure(err))
	}
	return c.FailureToError(&failurepb.Failure{
		Message: "activity error", Cause: c.ErrorToFailure(err),
		FailureInfo: &failurepb.Failure_ActivityFailureInfo{ActivityFailureInfo: &failurepb.ActivityFailureInfo{
			ActivityType: &commonpb.ActivityType{Name: name}, ActivityId: "1",
		}},
	})
}
