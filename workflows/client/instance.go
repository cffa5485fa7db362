package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	start := contract.InstanceInput{UUID: instance}
	if _, binds := in.(contract.InstanceBindInput); binds {
		return c.startInstance(ctx, start, v, in)
	}
	result, err := c.instance(ctx, instance, v, in)
	if !NotFound(err) {
		return result, err
	}
	switch v.Name {
	case contract.VerbInstanceDetach.Name:
		return c.startInstance(ctx, start, v, in)
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

// lost is the state of an instance whose workflow does not run: it was terminated, is past the
// server's retention, or was released while a device says that it is bound to it. It has what its
// last run had or was about to get or to give back, and the devices that say they are bound to it;
// nil if there is none.
func (c *Client) lost(ctx context.Context, instance string) (*contract.InstanceState, error) {
	last, err := c.Instance(ctx, instance)
	if err != nil && !NotFound(err) {
		return nil, err
	}
	now := time.Now().UTC()
	state := &contract.InstanceState{
		Schema: contract.InstanceSchema, UUID: instance, Phase: contract.InstanceActive, CreatedAt: now, UpdatedAt: now,
	}
	if last.Phase != contract.InstanceReleased {
		state.Project, state.Addresses, state.Devices, state.Move = last.Project, last.Addresses, last.Devices, last.Move
	}
	if state.Move != nil {
		state.Phase = contract.InstanceMigrating
	}
	bound, err := c.BoundTo(ctx, instance)
	for _, d := range slices.Concat(last.Unsettled, bound) {
		ofName := func(has contract.HeldDevice) bool { return has.Name == d.Name }
		source := state.Move != nil && slices.ContainsFunc(state.Move.Source, ofName)
		if !source && !slices.ContainsFunc(state.Devices, ofName) {
			state.Devices = append(state.Devices, d)
		}
	}
	if len(state.Devices) == 0 && state.Move == nil {
		return nil, err
	}
	return state, err
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
		e, found, err := c.LastRun(ctx, name)
		if err != nil {
			return nil, err
		}
		v := e.Status
		if e.Running { // it says so itself, if it answers
			if now, err := c.Query(ctx, name); err == nil {
				v = now
			}
		}
		if found && !e.Forgotten && v.InstanceUUID != nil && device.SameTenant(*v.InstanceUUID, instance) {
			bound = append(bound, contract.HeldDevice{Name: name, Type: v.Type, Host: v.Hostname, Binding: v.Binding})
		}
	}
	return bound, nil
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
	id := contract.InstanceWorkflowID(instance)
	status, err := query[contract.InstanceStatus](ctx, c, id, contract.QueryInstance)
	if err != nil || status.Doing == "" {
		return status, err
	}
	pending, err := c.PendingActivities(ctx, id)
	for _, a := range pending {
		if failure := a.GetLastFailure().GetMessage(); failure != "" {
			status.LastError = fmt.Sprintf("%s is tried again, after attempt %d: %s", status.Doing, a.GetAttempt()-1,
				strings.Join(strings.Fields(failure), " "))
		}
	}
	return status, err
}

// instance sends an update to an instance that has devices. If its workflow does not run, a new run
// takes over what is known of them; NotFound if nothing is.
//
// SAFETY F38
func (c *Client) instance(
	ctx context.Context, instance string, v contract.Verb, in contract.Input,
) (contract.InstanceResult, error) {
	result, err := update[contract.InstanceResult](ctx, c, contract.InstanceWorkflowID(instance), v.Update(), in)
	if !NotFound(err) {
		return result, err
	}
	state, unknown := c.lost(ctx, instance)
	switch {
	case unknown != nil:
		return result, unknown
	case state == nil:
		return result, err
	}
	return c.startInstance(ctx, contract.InstanceInput{UUID: instance, State: state}, v, in)
}

// startTries bounds how often an update is sent to an instance that ends at the same moment.
const startTries = 3

// startInstance sends an update to an instance, whose workflow it starts if none runs.
func (c *Client) startInstance(
	ctx context.Context, start contract.InstanceInput, v contract.Verb, in contract.Input,
) (contract.InstanceResult, error) {
	id := contract.InstanceWorkflowID(start.UUID)
	options := updateOptions(ctx, id, v.Update(), in)
	ctx, sent := watchSending(ctx)
	for try := 1; ; try++ {
		handle, err := c.temporal.UpdateWithStartWorkflow(ctx, sdkclient.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(startOptions(id), contract.WorkflowInstance, start),
			UpdateOptions:          options,
		})
		switch {
		case err == nil:
			return awaitResult[contract.InstanceResult](ctx, handle)
		case !NotFound(err) || try == startTries: // its last run ended while the update arrived
			return contract.InstanceResult{}, sent.unconfirmed(err)
		}
	}
}
