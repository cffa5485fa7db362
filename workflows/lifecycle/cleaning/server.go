package cleaning

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
)

// This file makes a server of a shared pool ready for the steps of a clean.

// prepareServer makes sure that Burnish has the server before anything works at it: a server
// that others have is not touched (S4.18), one without a profile gets a temporary one (S4.19),
// and Burnish's own is used again (S4.20).
func (d *Cleaning) prepareServer(runCtx, ctx workflow.Context) error {
	if !d.Pool.Shared() {
		return nil
	}
	name := d.State.Name
	found, err := d.Pool.Read(ctx, calls.WithAppliance(runCtx, "who has "+name))
	if err != nil || !d.CleanUnderWay() {
		return err
	}
	o := d.Pool.Observe(device.AskPoolClean, found, nil)
	if o.Event == device.LostRace {
		return d.Pool.TakenFault() // which Fail records as the lost race
	}
	if o.Event != "" {
		d.ApplyOrReport(ctx, device.Event{Kind: o.Event})
	}
	if !o.Needs(device.Proceed) {
		return d.Pool.FailedFault(nil)
	}
	if found.Ownership == device.PoolOurs && !d.Pool.Applying() {
		return nil
	}
	found, err = d.Pool.Apply(ctx, calls.WithProfile(runCtx, "apply the profile of "+name))
	if err == nil && found.Ownership != device.PoolOurs {
		return d.Pool.FailedFault(nil)
	}
	return err
}

// releaseServer removes the profile after steps that an operator named: the device does not
// go through its return to the pool.
func (d *Cleaning) releaseServer(runCtx, ctx workflow.Context) error {
	if !d.Pool.Owes() {
		return nil
	}
	_, err := d.Pool.Remove(ctx, calls.WithProfile(runCtx, "remove the profile of "+d.State.Name))
	return err
}
