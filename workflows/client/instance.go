package client

import (
	"context"

	sdkclient "go.temporal.io/sdk/client"

	"burnish/workflows/contract"
)

// InstanceBind binds devices to an instance: all, or none. It starts the instance's workflow
// if there is none.
func (c *Client) InstanceBind(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	return c.startInstance(ctx, instance, contract.UpdateInstanceBind, in)
}

// InstanceAttach binds further devices to an instance: all, or none. It starts the instance's
// workflow if there is none.
func (c *Client) InstanceAttach(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	return c.startInstance(ctx, instance, contract.UpdateInstanceAttach, in)
}

// InstanceDetach ends the bindings of some of an instance's devices.
func (c *Client) InstanceDetach(ctx context.Context, instance string, in contract.InstanceDetachInput) (contract.InstanceResult, error) {
	return c.instance(ctx, instance, contract.UpdateInstanceDetach, in)
}

// InstanceRelease ends the bindings of all devices of an instance, and its workflow. An
// instance whose workflow has completed is released already.
func (c *Client) InstanceRelease(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	result, err := c.instance(ctx, instance, contract.UpdateInstanceRelease, in)
	if !NotFound(err) {
		return result, err
	}
	// The query finds a completed run too.
	status, known := c.Instance(ctx, instance)
	if known == nil && status.Phase == contract.InstanceReleased {
		return contract.InstanceResult{Instance: status, Already: true}, nil
	}
	return result, err
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
// completed run has the phase released; NotFound where no run is known.
func (c *Client) Instance(ctx context.Context, instance string) (contract.InstanceStatus, error) {
	return query[contract.InstanceStatus](ctx, c, contract.InstanceWorkflowID(instance), contract.QueryInstance)
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
	result, err := update[contract.BindResult](ctx, c, contract.WorkflowID(name), verb, in)
	result.Device = normalize(result.Device)
	return result, err
}

// instance sends an update to an instance that has devices.
func (c *Client) instance(ctx context.Context, instance, name string, in any) (contract.InstanceResult, error) {
	return update[contract.InstanceResult](ctx, c, contract.InstanceWorkflowID(instance), name, in)
}

// startTries bounds how often an update is sent to an instance that ends at the same moment.
const startTries = 3

// startInstance sends an update to an instance, which need not have devices yet.
func (c *Client) startInstance(ctx context.Context, instance, name string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	id := contract.InstanceWorkflowID(instance)
	options := updateOptions(ctx, id, name, in)
	for try := 1; ; try++ {
		handle, err := c.temporal.UpdateWithStartWorkflow(ctx, sdkclient.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(startOptions(id), contract.WorkflowInstance, contract.InstanceInput{UUID: instance}),
			UpdateOptions:          options,
		})
		switch {
		case err == nil:
			return awaitResult[contract.InstanceResult](ctx, handle)
		case !NotFound(err) || try == startTries: // its last run ended while the update arrived
			return contract.InstanceResult{}, unconfirmed(err)
		}
	}
}
