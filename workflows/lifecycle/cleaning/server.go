package cleaning

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// This file makes a server of a shared pool ready for the steps of a clean.

// prepareServer makes sure that Burnish has the server before anything works at it: a server
// that others have is not touched (S4.18), one without a profile gets a temporary one (S4.19),
// and Burnish's own is used again (S4.20).
func (d *Cleaning) prepareServer(runCtx, ctx workflow.Context, run *contract.CleanRun) error {
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
	if found.Ownership == device.PoolFree && worked(run) {
		// SAFETY F34: others may have used it since the steps that are done.
		d.again = "its profile was removed during the clean, which begins again: another user may have had the server"
		return nil
	}
	found, err = d.Pool.Apply(ctx, calls.WithProfile(runCtx, "apply the profile of "+name), false)
	if err == nil && found.Ownership != device.PoolOurs {
		return d.Pool.FailedFault(nil)
	}
	return err
}

// worked says that a step of the clean was done at the server.
func worked(run *contract.CleanRun) bool {
	return slices.ContainsFunc(run.Plan[:run.Next], func(s contract.Planned) bool { return !clean.OfWorkflow(s.Step) })
}

// releaseServer removes the profile after steps that an operator named: the device does not
// go through its return to the offer.
func (d *Cleaning) releaseServer(runCtx, ctx workflow.Context) error {
	if !d.Pool.Owes() {
		return nil
	}
	_, err := d.Pool.Remove(ctx, calls.WithProfile(runCtx, "remove the profile of "+d.State.Name))
	return err
}
