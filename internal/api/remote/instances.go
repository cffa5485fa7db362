package remote

import (
	"context"

	"burnish/workflows/contract"
)

const instances = "instances"

// Instance returns an instance that has devices.
func (c *Client) Instance(ctx context.Context, instance string) (contract.InstanceStatus, error) {
	return get[contract.InstanceStatus](ctx, c, nil, instances, instance)
}

// instanceAct asks for a change of one instance, as act does of one device.
func (c *Client) instanceAct(ctx context.Context, instance, verb string, in any) (contract.InstanceResult, error) {
	return change[contract.InstanceResult](ctx, c, in, instances, instance, verb)
}

// InstanceBind binds devices to an instance: all, or none.
func (c *Client) InstanceBind(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "bind", in)
}

// InstanceAttach binds further devices to an instance: all, or none.
func (c *Client) InstanceAttach(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "attach", in)
}

// InstanceDetach ends the bindings of some of an instance's devices.
func (c *Client) InstanceDetach(ctx context.Context, instance string, in contract.InstanceDetachInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "detach", in)
}

// InstanceRelease ends the bindings of all devices of an instance.
func (c *Client) InstanceRelease(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "release", in)
}

// InstanceRebuild keeps the devices bound while their instance is rebuilt.
func (c *Client) InstanceRebuild(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "rebuild", in)
}

// InstanceMigrate binds devices on another host, until InstanceConfirm or InstanceRevert.
func (c *Client) InstanceMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "migrate", in)
}

// InstanceLiveMigrate is InstanceMigrate for devices that are marked live-migratable.
func (c *Client) InstanceLiveMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "live-migrate", in)
}

// InstanceConfirm ends a migration: the devices of the source are unbound.
func (c *Client) InstanceConfirm(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "confirm", in)
}

// InstanceRevert takes a migration back: the devices of the destination are unbound.
func (c *Client) InstanceRevert(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "revert", in)
}

// InstanceEvacuate binds devices on another host and unbinds those of the present one.
func (c *Client) InstanceEvacuate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	in.Caller = contract.Caller{}
	return c.instanceAct(ctx, instance, "evacuate", in)
}

// AttachDevice binds one device to an instance by way of the instance's workflow: the API's
// bind does so.
func (c *Client) AttachDevice(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error) {
	return c.Bind(ctx, name, in)
}

// DetachDevice ends the binding of one device: the API's unbind asks the instance's workflow.
func (c *Client) DetachDevice(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error) {
	return c.Unbind(ctx, name, in)
}
