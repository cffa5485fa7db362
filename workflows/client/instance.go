package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// DoInstance asks an instance to carry out a verb. Bind and attach start its workflow if there is none.
// Release answers that it is so already of an instance whose workflow has completed, unless a device
// says that it is bound to it; a device that no run of the instance knows of may be bound to it: a new
// run asks it, for a detach.
func (c *Client) DoInstance(
	ctx context.Context, instance string, v contract.Verb, in contract.Input,
) (contract.InstanceResult, error) {
	if !v.Takes(in) {
		return contract.InstanceResult{}, fmt.Errorf("%s takes a %T, not a %T", v.Name, v.Input, in)
	}
	result, err := c.instance(ctx, instance, v, in)
	if !NotFound(err) {
		return result, err
	}
	switch v.Name {
	case contract.VerbInstanceDetach.Name:
		return c.startInstance(ctx, contract.InstanceInput{UUID: instance}, true, v, in)
	case contract.VerbInstanceRelease.Name:
		status, known := c.Instance(ctx, instance) // the query finds a completed run too
		switch {
		case known == nil && status.Phase == contract.InstanceReleased:
			return contract.InstanceResult{Instance: status, Already: true}, nil
		case known != nil && !NotFound(known):
			return result, known
		}
	}
	return result, err
}

// lost is the state of an instance whose workflow does not run: it was terminated, is past the server's retention, or
// was released while a device says that it is bound to it. It has what its last run had, as far as these devices do not
// say otherwise, and those that say they are bound to it. What that run was about to get or to give back is unsettled.
//
// SAFETY F38
func (c *Client) lost(ctx context.Context, instance string) (*contract.InstanceState, error) {
	last, run, err := c.instanceSays(ctx, instance)
	if err != nil && !NotFound(err) {
		return nil, err
	}
	now := time.Now().UTC()
	state := &contract.InstanceState{
		Schema: contract.InstanceSchema, UUID: instance, Phase: contract.InstanceActive, CreatedAt: now, UpdatedAt: now,
	}
	var source []contract.HeldDevice
	if err == nil && last.Phase != contract.InstanceReleased {
		state.Project, state.Addresses, state.Unsettled, state.Move = last.Project, last.Addresses, last.Unsettled, last.Move
		state.Granted, err = queryRun[contract.Requests](ctx, c, contract.InstanceWorkflowID(instance), run,
			contract.QueryGranted)
		if err != nil {
			return nil, err
		}
		if state.Devices, err = c.notLeft(ctx, last.Devices, state.Unsettled, instance); err != nil {
			return nil, err
		}
	}
	if state.Move != nil {
		if source, err = c.notLeft(ctx, state.Move.Source, state.Unsettled, instance); err != nil {
			return nil, err
		}
		state.Move.Source = source
		if state.Phase = contract.InstanceMigrating; len(state.Devices)+len(source) == 0 {
			state.Move = nil
		}
	}
	bound, err := c.BoundTo(ctx, instance)
	for _, d := range bound {
		if !has(state.Devices, d) && !has(state.Unsettled, d) && !has(source, d) {
			state.Devices = append(state.Devices, d)
		}
	}
	if len(state.Devices)+len(state.Unsettled) == 0 && state.Move == nil {
		state.Phase = contract.InstanceBinding
	}
	return state, err
}

func has(devices []contract.HeldDevice, d contract.HeldDevice) bool {
	return slices.ContainsFunc(devices, func(h contract.HeldDevice) bool { return h.Name == d.Name })
}

// notLeft are the devices that are settled and do not say that they have left the instance: while it had no workflow,
// nobody heard them.
func (c *Client) notLeft(
	ctx context.Context, devices, unsettled []contract.HeldDevice, instance string,
) (kept []contract.HeldDevice, err error) {
	for _, d := range devices {
		now, bound, knows, err := c.boundTo(ctx, d.Name, instance)
		switch {
		case err != nil:
			return nil, err
		case has(unsettled, d), knows && !bound:
			continue
		case now.Binding != 0:
			d.Binding = now.Binding
		}
		kept = append(kept, d)
	}
	return kept, nil
}

// BoundTo returns the devices that say they are bound to an instance, also those whose workflow
// ended while they were. The listing by which they are found lags behind: that a device is not
// among them proves nothing.
func (c *Client) BoundTo(ctx context.Context, instance string) ([]contract.HeldDevice, error) {
	runs, err := c.bound.find(ctx, c, instance)
	if err != nil {
		return nil, fmt.Errorf("find the devices of instance %s: %w", instance, err)
	}
	names := map[string]bool{}
	for _, run := range runs {
		names[run.Name] = true
	}
	var bound []contract.HeldDevice
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d, says, _, err := c.boundTo(ctx, name, instance)
		if err != nil {
			return nil, err
		}
		if says {
			bound = append(bound, d)
		}
	}
	return bound, nil
}

// boundTo says whether a device's last run says that it is bound to an instance, and whether the device knows that: a
// run that has ended, that has just begun, or that does not answer, does not.
func (c *Client) boundTo(
	ctx context.Context, name, instance string,
) (d contract.HeldDevice, bound, knows bool, err error) {
	e, found, err := c.LastRun(ctx, name)
	if err != nil {
		return d, false, false, err
	}
	v := e.Status
	if e.Running {
		if now, err := c.Query(ctx, name); err == nil {
			v, knows = now, now.DeviceState != device.Unknown
		}
	}
	bound = found && !e.Forgotten && v.InstanceUUID != nil && device.SameTenant(*v.InstanceUUID, instance)
	d = contract.HeldDevice{Name: name, Type: v.Type, Host: v.Hostname, Binding: v.Binding}
	return d, bound, knows || e.Forgotten, nil
}

// instanceOf is the instance of a run of a device; "" if it has none.
func instanceOf(e Execution) string {
	if e.Status.InstanceUUID == nil {
		return ""
	}
	return *e.Status.InstanceUUID
}

func boundQuery(instances []string) string {
	return joined("WorkflowType = "+literal(contract.WorkflowDeviceLifecycle),
		anyOf(contract.AttrInstance.GetName(), instances),
		"ExecutionStatus IN ('Running', 'Terminated', 'Canceled', 'TimedOut', 'Failed')")
}

// Instance asks an instance's workflow for its status. A control worker must answer. That of a
// completed run has the phase released; NotFound where no run is known. The last error of an act
// under way is that of the call which is made again until devices have answered it.
func (c *Client) Instance(ctx context.Context, instance string) (contract.InstanceStatus, error) {
	status, _, err := c.instanceSays(ctx, instance)
	if err != nil || status.Doing == "" {
		return status, err
	}
	pending, err := c.PendingActivities(ctx, contract.InstanceWorkflowID(instance))
	for _, a := range pending {
		if failure := a.GetLastFailure().GetMessage(); failure != "" {
			status.LastError = fmt.Sprintf("%s is tried again, after attempt %d: %s", status.Doing, a.GetAttempt()-1,
				strings.Join(strings.Fields(failure), " "))
		}
	}
	return status, err
}

// instanceSays is what an instance's workflow says of itself, and by which run; "" is the newest. A run that was reset
// remembers too little: the one before it says it.
//
// SAFETY F36
func (c *Client) instanceSays(
	ctx context.Context, instance string,
) (status contract.InstanceStatus, run string, err error) {
	id := contract.InstanceWorkflowID(instance)
	status, err = query[contract.InstanceStatus](ctx, c, id, contract.QueryInstance)
	if err != nil || status.Phase != contract.InstanceReset {
		return status, "", err
	}
	var runs []*workflowpb.WorkflowExecutionInfo
	err = c.pages(ctx, "WorkflowId = "+literal(id), func(page []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		runs = append(runs, page...)
		return false, nil
	})
	if err != nil {
		return contract.InstanceStatus{}, "", fmt.Errorf("find the runs of instance %s: %w", instance, err)
	}
	slices.SortFunc(runs, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return b.GetStartTime().AsTime().Compare(a.GetStartTime().AsTime())
	})
	for _, r := range runs {
		run = r.GetExecution().GetRunId()
		status, err = queryRun[contract.InstanceStatus](ctx, c, id, run, contract.QueryInstance)
		if !NotFound(err) && (err != nil || status.Phase != contract.InstanceReset) {
			return status, run, err
		}
	}
	return contract.InstanceStatus{}, "", serviceerror.NewNotFound("no run of " + id + " says what it has")
}

// startTries bounds how often an update is sent to an instance that ends at the same moment.
const startTries = 3

// instance sends an update to an instance. If its last run was terminated, a new one takes over what is known of its
// devices. Without any, it is NotFound, but for a bind, which starts the instance's first run.
//
// SAFETY F38
func (c *Client) instance(
	ctx context.Context, instance string, v contract.Verb, in contract.Input,
) (result contract.InstanceResult, err error) {
	_, binds := in.(contract.InstanceBindInput)
	for try := 1; ; try++ {
		start := contract.InstanceInput{UUID: instance}
		if binds {
			result, err = c.startInstance(ctx, start, false, v, in)
		} else {
			result, err = update[contract.InstanceResult](ctx, c, contract.InstanceWorkflowID(instance), v.Update(), in)
		}
		refusal, _ := contract.RefusalOf(err)
		reset := refusal.Fault.Code == device.Code(contract.InstanceReset)
		if !NotFound(err) && !reset && !errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
			return result, err
		}
		released, unknown := false, error(nil)
		if binds { // its devices are asked by a release alone
			released, unknown = c.released(ctx, instance)
		}
		if unknown == nil && !released {
			start.State, unknown = c.lost(ctx, instance)
		}
		switch {
		case unknown != nil:
			return result, unknown
		case !binds && start.State.Phase == contract.InstanceBinding:
			return result, err
		}
		result, err = c.startInstance(ctx, start, true, v, in)
		if !NotFound(err) || try == startTries { // its last run ended while the update arrived
			return result, err
		}
	}
}

// released says that an instance's last run has ended by its release.
func (c *Client) released(ctx context.Context, instance string) (bool, error) {
	answer, err := c.temporal.DescribeWorkflowExecution(ctx, contract.InstanceWorkflowID(instance), "")
	if NotFound(err) {
		return true, nil
	}
	return answer.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, err
}

// startInstance sends an update to an instance, whose workflow it starts if none runs. One that has run before is
// started again only if that is asked for.
func (c *Client) startInstance(
	ctx context.Context, start contract.InstanceInput, again bool, v contract.Verb, in contract.Input,
) (contract.InstanceResult, error) {
	id := contract.InstanceWorkflowID(start.UUID)
	options := startOptions(id)
	if options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE; again {
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	ctx, sent := watchSending(ctx)
	handle, err := c.temporal.UpdateWithStartWorkflow(ctx, sdkclient.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(options, contract.WorkflowInstance, start),
		UpdateOptions:          updateOptions(ctx, id, v.Update(), in),
	})
	if err != nil {
		return contract.InstanceResult{}, sent.unconfirmed(err)
	}
	return awaitResult[contract.InstanceResult](ctx, handle)
}
