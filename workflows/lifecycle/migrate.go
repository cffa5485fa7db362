package lifecycle

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

func (d operations) validateMigrate(contract.ReasonInput) error {
	switch {
	case d.State.Enrollment.Pool == nil:
		return d.Refuse(device.CodeRefused, "it is in no pool", "see server_hardware_uri of burnish enroll --help")
	case d.State.Device.Claim != nil:
		return d.Refuse(device.CodeConflict, "the device is being bound", "repeat it in a moment")
	}
	return nil
}

// migrate makes a pre-allocated device dynamic. In the model that it leaves, the profile on
// the server is Burnish's, whoever made it: it is recorded (S4.34), and an available device
// loses it (S4.35), out of the offer and switched off. A migration that ended halfway goes on
// where it stopped (S4.37).
func (d operations) migrate(ctx workflow.Context, in contract.ReasonInput) (contract.Result, error) {
	pool := d.State.Enrollment.Pool
	if pool.Dynamic {
		return d.endMigration(ctx, true, "")
	}
	found, err := d.pool.ReadProfile(ctx, d.poolQuestion(ctx))
	if err != nil {
		return contract.Result{}, calls.FaultOf(err)
	}
	if err := d.validateMigrate(in); err != nil {
		return contract.Result{}, err
	}
	idle := d.State.Device.State == device.Available
	note := "it had no profile"
	if found.Profile != "" {
		note = "its profile is recorded: " + found.Profile
	}
	if idle && found.Profile != "" {
		note = "its idle profile was removed: " + found.Profile
	}
	if idle && found.Profile != "" {
		// Offered with a profile, it would look as if others had it.
		validate := func() error { return d.Legal(device.Event{Kind: device.Manage}) }
		if err := d.reservation.ReserveThen(ctx, validate, device.Manage); err != nil {
			return contract.Result{}, err
		}
	}
	dynamic := *pool
	dynamic.Dynamic = true
	d.State.Enrollment.Pool = &dynamic
	d.State.Pool = &contract.PoolState{Profile: found.Profile, Migrating: idle && found.Profile != ""}
	d.State.Intent.Rediscover = true // so that its host records it too
	d.Publish()
	return d.endMigration(ctx, false, note)
}

// endMigration returns an idle device to the offer, which removes its profile.
func (d operations) endMigration(ctx workflow.Context, already bool, note string) (contract.Result, error) {
	known := d.State.Pool
	if known == nil || !known.Migrating {
		return contract.Result{Device: d.Status(), Already: already, Note: note}, nil
	}
	if d.State.Device.State == device.Manageable {
		if _, err := d.provide(ctx, contract.ReasonInput{Reason: "migrated"}); err != nil {
			return contract.Result{}, err
		}
	}
	d.pool.Update(func(s *contract.PoolState) { s.Migrating = false })
	if err := workflow.Await(ctx, func() bool { return !d.State.Device.Returning }); err != nil {
		return contract.Result{}, err
	}
	if f := d.State.Fault; f != nil && d.State.Device.State == device.Error {
		return contract.Result{}, f
	}
	return contract.Result{Device: d.Status(), Note: note}, nil
}
