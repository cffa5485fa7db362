package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdkclient "go.temporal.io/sdk/client"

	"burnish/workflows/contract"
)

// InstanceBind binds devices to an instance: all, or none. It starts the instance's workflow
// if there is none.
func (c *Client) InstanceBind(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	return c.startInstance(ctx, contract.InstanceInput{UUID: instance}, contract.UpdateInstanceBind, in)
}

// InstanceAttach binds further devices to an instance: all, or none. It starts the instance's
// workflow if there is none.
func (c *Client) InstanceAttach(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	return c.startInstance(ctx, contract.InstanceInput{UUID: instance}, contract.UpdateInstanceAttach, in)
}

// InstanceDetach ends the bindings of some of an instance's devices.
func (c *Client) InstanceDetach(ctx context.Context, instance string, in contract.InstanceDetachInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceDetach, in)
}

// InstanceRelease ends the bindings of all devices of an instance, and its workflow. An
// instance whose workflow has completed is released already; for one whose workflow was lost,
// see lost.
func (c *Client) InstanceRelease(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	result, err := c.instance(ctx, instance, contract.UpdateInstanceRelease, in)
	if !NotFound(err) {
		return result, err
	}
	// The query finds a completed run too.
	status, known := c.Instance(ctx, instance)
	switch {
	case known == nil && status.Phase == contract.InstanceReleased:
		return contract.InstanceResult{Instance: status, Already: true}, nil
	case known != nil && !NotFound(known):
		return result, known
	}
	state, found := c.lost(ctx, instance, status)
	switch {
	case found != nil:
		return result, found
	case known != nil && len(state.Devices) == 0:
		return result, err
	}
	return c.startInstance(ctx, contract.InstanceInput{UUID: instance, State: state}, contract.UpdateInstanceRelease, in)
}

// lost is the state of an instance whose workflow was terminated, or is past the server's
// retention: what its last run says, and the devices that say they are bound to it. A new run
// releases it.
func (c *Client) lost(ctx context.Context, instance string, last contract.InstanceStatus) (*contract.InstanceState, error) {
	now := time.Now().UTC()
	state := &contract.InstanceState{
		Schema: contract.InstanceSchema, UUID: instance, Phase: contract.InstanceActive, Project: last.Project, Addresses: last.Addresses,
		Devices: last.Devices, Move: last.Move, CreatedAt: now, UpdatedAt: now,
	}
	listed, err := c.List(ctx, Filter{Instances: []string{instance}})
	for _, e := range listed {
		ofName := func(d contract.HeldDevice) bool { return d.Name == e.Name }
		if !slices.ContainsFunc(state.Devices, ofName) && (last.Move == nil || !slices.ContainsFunc(last.Move.Source, ofName)) {
			state.Devices = append(state.Devices, contract.HeldDevice{Name: e.Name, Type: e.Status.Type, Host: e.Status.Hostname, Binding: e.Status.Binding})
		}
	}
	return state, err
}

// InstanceRebuild keeps the devices bound while their instance is rebuilt.
func (c *Client) InstanceRebuild(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceRebuild, in)
}

// InstanceMigrate binds devices on another host, until InstanceConfirm or InstanceRevert.
func (c *Client) InstanceMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceMigrate, in)
}

// InstanceLiveMigrate is InstanceMigrate for devices that are marked live-migratable.
func (c *Client) InstanceLiveMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceLiveMigrate, in)
}

// InstanceConfirm ends a migration: the devices of the source are unbound.
func (c *Client) InstanceConfirm(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceConfirm, in)
}

// InstanceRevert takes a migration back: the devices of the destination are unbound.
func (c *Client) InstanceRevert(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceRevert, in)
}

// InstanceEvacuate binds devices on another host and unbinds those of the present one.
func (c *Client) InstanceEvacuate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceEvacuate, in)
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
			status.LastError = fmt.Sprintf("%s is tried again, after attempt %d: %s", status.Doing, a.GetAttempt()-1, strings.Join(strings.Fields(failure), " "))
		}
	}
	return status, err
}

// Claim holds a device for an instance until a deadline.
func (c *Client) Claim(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error) {
	return c.bindBy(ctx, name, contract.UpdateClaim, in)
}

// Burn burns a claimed device and binds it to its instance.
func (c *Client) Burn(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error) {
	return c.bindBy(ctx, name, contract.UpdateBurn, in)
}

// Unclaim ends a claim whose burn has not begun.
func (c *Client) Unclaim(ctx context.Context, name string, in contract.BindInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateUnclaim, in)
}

func (c *Client) bindBy(ctx context.Context, name, verb string, in contract.BindInput) (contract.BindResult, error) {
	result, err := updateDevice[contract.BindResult](ctx, c, name, verb, in)
	result.Device = normalize(result.Device)
	return result, err
}

// instance sends an update to an instance that has devices.
func (c *Client) instance(ctx context.Context, instance, name string, in any) (contract.InstanceResult, error) {
	return update[contract.InstanceResult](ctx, c, contract.InstanceWorkflowID(instance), name, in)
}

// startTries bounds how often an update is sent to an instance that ends at the same moment.
const startTries = 3

// startInstance sends an update to an instance, whose workflow it starts if none runs.
func (c *Client) startInstance(ctx context.Context, start contract.InstanceInput, name string, in any) (contract.InstanceResult, error) {
	id := contract.InstanceWorkflowID(start.UUID)
	options := updateOptions(ctx, id, name, in)
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
