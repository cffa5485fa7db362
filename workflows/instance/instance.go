package instance

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// startedFor is how long a run without any act waits for its first one.
const startedFor = time.Minute

// InstanceLifecycle holds an instance's devices. It ends when the last one has left. A Cancel
// changes nothing: only release ends an instance.
func InstanceLifecycle(root workflow.Context, in contract.InstanceInput) error {
	ctx, _ := workflow.NewDisconnectedContext(root)
	r := newRun(ctx, in)
	if err := r.register(ctx); err != nil {
		return err
	}
	if err := calls.Serve(ctx, func() func() { return r.next(ctx) }, func() bool { return r.mayEnd(ctx) }); err != nil {
		return err
	}
	switch r.Phase {
	case contract.InstanceReleased:
		return nil
	case contract.InstanceReset:
		return temporal.NewApplicationError("the workflow was reset, and ends as if it had been terminated: the next act of "+
			"the instance begins with what its devices say", string(contract.InstanceReset))
	}
	r.Schema = contract.InstanceSchema
	return calls.ContinueAsNew(root, contract.WorkflowInstance,
		contract.InstanceInput{UUID: r.UUID, State: r.InstanceState})
}

// run is one run of an instance's workflow. The state survives it, the rest does not.
type run struct {
	instance
	devices *devices
	signals workflow.Selector
	// Acts have a number each, and serving is that of the act whose turn it is.
	acts, serving int
	// ending, waiting: their coroutines run. resumed: it follows one that was terminated in mid-act, and has
	// something to give back unless its first act is about that.
	ending, waiting, resumed bool
	published                published
	// looked is how long the history was when this run was last asked whether it was reset.
	looked int
}

func newRun(ctx workflow.Context, in contract.InstanceInput) *run {
	r := &run{}
	r.InstanceState = in.State
	if in.State == nil {
		now := workflow.Now(ctx).UTC()
		r.InstanceState = &contract.InstanceState{Schema: contract.InstanceSchema, UUID: in.UUID,
			Phase: contract.InstanceBinding, CreatedAt: now, UpdatedAt: now}
	} else if r.resumed = len(r.Unsettled) > 0; workflow.GetInfo(ctx).ContinuedExecutionRunID != "" {
		r.published = resume(r.InstanceState)
	}
	calls.RequireSchemaUpTo("instance "+in.UUID, r.Schema, contract.InstanceSchema)
	r.devices = &devices{ctx: ctx, changed: func() { r.publish(ctx) }}
	r.world = r.devices
	r.signals = workflow.NewSelector(ctx)
	calls.Receive(ctx, r.signals, contract.SignalDeviceLeft, func(left contract.DeviceLeft) { r.onDeviceLeft(ctx, left) })
	return r
}

// next is what must be done now; nil if nothing.
func (r *run) next(ctx workflow.Context) func() {
	switch {
	case r.Phase == contract.InstanceReset:
		return nil
	case r.mayBeReset(ctx):
		return func() { r.noticeReset(ctx) }
	case r.signals.HasPending():
		return func() { r.signals.Select(ctx) }
	case r.fresh() && !r.waiting:
		return calls.Start(ctx, &r.waiting, r.awaitFirst)
	case !r.fresh() && !r.busy() && (r.empty() || len(r.Unsettled) > 0) && r.Phase != contract.InstanceReleased:
		return calls.Start(ctx, &r.ending, func(ctx workflow.Context) {
			r.devices.ctx = ctx
			r.endAct()
			r.publish(ctx)
		})
	}
	return nil
}

// mayBeReset says that this task may be the first one after a Reset.
func (r *run) mayBeReset(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID &&
		info.GetCurrentHistoryLength() != r.looked
}

// noticeReset ends a run that was reset before it does anything: what it remembers is older than what its devices have
// done, and a detach that Temporal sends it once more would end a later binding. Only a task that is no replay gets the
// version 1: that is the first one after the Reset.
//
// SAFETY F36
func (r *run) noticeReset(ctx workflow.Context) {
	r.looked = workflow.GetInfo(ctx).GetCurrentHistoryLength()
	if workflow.GetVersion(ctx, "reset "+strconv.Itoa(r.looked), workflow.DefaultVersion, 1) == 1 {
		r.Phase = contract.InstanceReset
	}
}

// fresh says that no act has begun yet.
func (r *run) fresh() bool { return r.acts == 0 && (r.resumed || r.Phase == contract.InstanceBinding) }

// awaitFirst ends a run whose first act was refused when it arrived; one that is resumed gives back first.
func (r *run) awaitFirst(ctx workflow.Context) {
	begun, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout:      startedFor,
		TimerOptions: workflow.TimerOptions{Summary: "the first act of " + r.UUID},
	}, func() bool { return !r.fresh() })
	switch {
	case err != nil || begun:
	case r.resumed:
		r.resumed = false
	default:
		r.Phase = contract.InstanceReleased
	}
}

// busy says that an act is under way, or the end of the run.
func (r *run) busy() bool { return r.serving < r.acts || r.ending }

// mayEnd says that the run may complete, or continue as new: nothing is under way.
func (r *run) mayEnd(ctx workflow.Context) bool {
	if r.Phase == contract.InstanceReset {
		return true
	}
	if !workflow.AllHandlersFinished(ctx) || r.busy() || r.waiting || r.fresh() {
		return false
	}
	return r.Phase == contract.InstanceReleased || calls.NewRunDue(ctx)
}

// takeTurn waits for the acts before.
func (r *run) takeTurn(ctx workflow.Context) error {
	turn := r.acts
	r.acts++
	if err := workflow.Await(ctx, func() bool { return r.serving == turn && !r.ending }); err != nil {
		return err
	}
	r.devices.ctx = ctx
	return nil
}

// endTurn lets the next act begin.
func (r *run) endTurn(ctx workflow.Context) {
	r.serving++
	r.publish(ctx)
}

// onDeviceLeft drops a device whose binding ended otherwise than by this workflow.
func (r *run) onDeviceLeft(ctx workflow.Context, left contract.DeviceLeft) {
	r.deviceLeft(left)
	if !r.busy() {
		r.left = nil
	}
	r.publish(ctx)
}

// result is the answer to an act.
func (r *run) result(already bool) (contract.InstanceResult, error) {
	status := r.status()
	status.Acts = nil
	return contract.InstanceResult{Instance: status, Already: already}, nil
}

// status is the instance as clients read it.
func (r *run) status() contract.InstanceStatus {
	s := contract.InstanceStatus{
		UUID: r.UUID, Phase: r.Phase, Host: hostOf(r.Devices), Project: r.Project, Addresses: r.InstanceState.Addresses,
		Devices: r.Devices, Move: r.Move, Unsettled: r.Unsettled, Doing: r.doing, LastError: r.LastError,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Acts: r.InstanceState.Acts,
	}
	if s.Devices == nil {
		s.Devices = []contract.HeldDevice{}
	}
	return s
}
