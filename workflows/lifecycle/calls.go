package lifecycle

import (
	"errors"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	core "burnish/internal/lifecycle"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// started is a call, or mail, that is under way.
type started struct {
	call   core.Call
	mail   core.Mail
	future workflow.Future
	cancel workflow.CancelFunc // nil once it was called
	// opts are those of the activity that follows an attempt in the task; nil if none does.
	opts workflow.Context
	task bool // it is made in this workflow task
}

// nextCall starts what is due, cancels what is not, and tells the core what has ended.
func (r *run) nextCall(ctx workflow.Context) func() {
	for _, s := range r.started {
		if s.future.IsReady() {
			return func() { r.ended(ctx, s) }
		}
	}
	for _, c := range r.device.Undue() {
		switch s := r.call(c.Key); {
		case s == nil:
			return func() { r.decide(ctx, core.Ended{Key: c.Key, Outcome: core.NotMade()}) }
		case s.cancel != nil:
			return func() { s.cancel(); s.cancel = nil }
		}
	}
	for _, c := range r.device.Due() {
		if r.call(c.Key) == nil {
			return func() { r.start(ctx, c) }
		}
	}
	if mail := r.device.Mail; len(mail) > 0 {
		return func() {
			m := mail[0]
			if r.device.Mail = mail[1:]; len(mail) == 1 {
				r.device.Mail = nil
			}
			r.started = append(r.started, &started{mail: m,
				future: workflow.SignalExternalWorkflow(ctx, m.To, "", m.Signal, m.In)})
		}
	}
	return nil
}

// call finds a call that is under way, nil if it is not.
func (r *run) call(key string) *started {
	for _, s := range r.started {
		if s.call.Key == key {
			return s
		}
	}
	return nil
}

func (r *run) start(ctx workflow.Context, c core.Call) {
	s := &started{call: c}
	ctx, s.cancel = workflow.WithCancel(ctx)
	switch c.How.Way {
	case core.ToLimits:
		s.future = workflow.SignalExternalWorkflow(ctx, contract.LimitsWorkflowID, "", contract.SignalSlotRequest, c.In)
	case core.ToSuccessor:
		s.future = startSuccessor(ctx, c.In.(contract.DeviceInput))
	default:
		opts := options(ctx, c.How)
		if !c.How.InTask {
			s.future = workflow.ExecuteActivity(opts, c.Activity, c.In)
			break
		}
		s.task = true
		r.inTask++
		if !c.How.Once {
			s.opts = opts
		}
		s.future = workflow.ExecuteLocalActivity(calls.Locally(opts), c.Activity, attempts(c.In, 1))
	}
	r.started = append(r.started, s)
}

// attempts says in a request to the inventory how often it may have been carried out before.
func attempts(in any, before int) any {
	if request, ok := in.(contract.ReservationRequest); ok {
		request.EarlierWrites = before
		return request
	}
	return in
}

// startSuccessor starts the device's workflow under another name, which outlives this one.
func startSuccessor(ctx workflow.Context, in contract.DeviceInput) workflow.Future {
	summary, details := contract.Summary(in.State.Enrollment, contract.HardwareOf(in.State.Host.Identity))
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: contract.WorkflowID(in.Name), TaskQueue: contract.Queue, WorkflowTaskTimeout: contract.TaskTimeout,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     summary, StaticDetails: details,
	})
	return workflow.ExecuteChildWorkflow(child, contract.WorkflowDeviceLifecycle, in).GetChildWorkflowExecution()
}

// ended tells the core how a call has ended. An attempt in the task that failed for a while is followed by
// the activity.
func (r *run) ended(ctx workflow.Context, s *started) {
	if s.task {
		r.inTask--
	}
	found := resultOf(s.call)
	err := s.future.Get(ctx, found)
	o := outcome(err, found)
	if s.task && s.opts != nil && o.Fault != nil && o.Fault.Class == device.Transient && s.cancel != nil {
		s.task = false
		s.future = workflow.ExecuteActivity(s.opts, s.call.Activity, attempts(s.call.In, 2))
		return
	}
	r.started = slices.DeleteFunc(r.started, func(other *started) bool { return other == s })
	if len(r.started) == 0 {
		r.started = nil
	}
	if s.mail.To != "" {
		if err != nil && !(s.mail.MayBeGone && errors.As(err, new(*temporal.UnknownExternalWorkflowExecutionError))) {
			workflow.GetLogger(ctx).Warn(s.mail.Name, "device", r.device.Name, "other", s.mail.To, "error", err)
		}
		return
	}
	r.decide(ctx, core.Ended{Key: s.call.Key, Outcome: o})
}

// options are those of a call's activity.
func options(ctx workflow.Context, how core.How) workflow.Context {
	switch how.Way {
	case core.ToHost:
		ctx = calls.OnHost(ctx, how.Host, how.What, how.StartWithin)
		if how.Client {
			ctx = calls.LimitedRetries(ctx)
		}
	case core.ToStep:
		ctx = calls.WithStep(ctx, how.Host, how.What, how.StartWithin, how.Budget)
	case core.ToPower:
		ctx = calls.WithPower(ctx, how.Host, how.What, how.Once)
	case core.ToAppliance:
		ctx = calls.WithAppliance(ctx, how.What)
	case core.ToProfile:
		if ctx = calls.WithProfile(ctx, how.What); how.Client {
			ctx = calls.WhileClientWaits(ctx)
		}
	default:
		switch ctx = calls.WithInventory(ctx, how.What); {
		case how.Once:
			ctx = calls.NoRetry(ctx, how.What)
		case how.Client:
			ctx = calls.WithClientDeadline(ctx, how.What)
		}
	}
	if how.Within > 0 {
		ctx = workflow.WithScheduleToCloseTimeout(ctx, how.Within)
	}
	return ctx
}

// resultOf is a place for the result of a call.
func resultOf(c core.Call) any {
	switch c.Activity {
	case contract.ActivityReadReservation, contract.ActivityEnsureReserved, contract.ActivityEnsureProvider,
		contract.ActivityReserveForBind, contract.ActivityUnreserve, contract.ActivityDeleteProvider:
		return &device.Inventory{}
	case contract.ActivityDiscover:
		return &contract.DiscoveryResult{}
	case contract.ActivityFindBySerial:
		return &contract.DeviceBySerial{}
	case contract.ActivityFindPreviousRun:
		return &contract.PreviousRun{}
	case contract.ActivityAskInstance:
		return &contract.InstanceAnswer{}
	case contract.ActivityReadPool, contract.ActivityApplyProfile, contract.ActivityRemoveProfile:
		return &contract.PoolSnapshot{}
	case contract.ActivityPower:
		return &contract.PowerResult{}
	}
	if c.How.Way == core.ToStep {
		return &contract.StepAnswer{}
	}
	return nil
}

// outcome is how a call has ended, as the core reads it.
func outcome(err error, found any) core.Outcome {
	o := core.Outcome{Fault: calls.FaultIn(err)}
	if err == nil {
		o.Found = found
		return o
	}
	if refusal, ok := contract.RefusalOf(err); ok {
		o.Known, o.Progress, o.Attempt = refusal.Known, refusal.Progress, refusal.Attempt
	}
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		o.Fault = &device.Fault{Class: device.Permanent, Code: device.CodeAlreadyExists, Message: err.Error()}
	}
	var late *temporal.TimeoutError
	if !errors.As(err, &late) {
		return o
	}
	o.NotStarted = calls.IsScheduleToStart(late)
	var last contract.Progress
	if o.Progress == nil && late.HasLastHeartbeatDetails() && late.LastHeartbeatDetails(&last) == nil {
		o.Progress = &last
	}
	return o
}
