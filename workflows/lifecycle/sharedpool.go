package lifecycle

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// This file is what a server of a shared pool does beside all other devices. Polls send only
// hints: the device asks the appliance itself, and the table decides (F6).

// receivePool has the hints of the polls received.
func (d *run) receivePool(ctx workflow.Context) {
	for _, name := range []string{contract.SignalTaken, contract.SignalFreed} {
		calls.Receive(ctx, d.signals, name, func(contract.Hint) {
			if d.State.Enrollment.Pool != nil {
				d.hinted, d.State.Intent.ReadPool = true, true
			}
		})
	}
}

// asksPool says that the appliance must be asked because of a hint, or because the profile of a
// device in use is not known. In other states the device asks before it uses the server.
func (d *run) asksPool() bool {
	if !d.State.Intent.ReadPool || !d.pool.Shared() {
		return false
	}
	switch d.State.Device.State {
	case device.Available:
		return d.State.Device.Claim == nil
	case device.Manageable, device.Error:
		return true
	case device.Allocated:
		return d.pool.Applying()
	}
	return false
}

// askPool asks the appliance who has the server, and does what follows: others took it while
// it was available (S4.8) or lost to them (S4.11), or they have left it (S4.9).
func (d *run) askPool(ctx workflow.Context) {
	d.State.Intent.ReadPool = false
	found, err := d.readPool(ctx)
	if err != nil {
		d.State.LastError = "pool: " + calls.FaultOf(err).Message
		return // the next poll gives the hint again
	}
	o := d.pool.Observe(device.AskPool, found, nil)
	if o.Event != device.Taken {
		d.pool.Conclude(ctx, device.AskPool, found, nil)
		return
	}
	// It leaves the offer as for its operator: reserved first.
	stillTaken := func() error { return d.Legal(device.Event{Kind: device.Taken}) }
	if err := d.reservation.ReserveThen(ctx, stillTaken, device.Taken); err != nil && stillTaken() == nil {
		d.State.Intent.ReadPool = true
		d.backoff(ctx, calls.FaultOf(err))
		return
	}
	d.recovered(ctx)
}

// readPool asks who has the server while a client, or a hint, waits.
func (d *parts) readPool(ctx workflow.Context) (contract.PoolSnapshot, error) {
	return d.pool.Read(ctx, d.poolQuestion(ctx))
}

// poolQuestion is how the appliance is asked who has the server while a client waits.
func (d *parts) poolQuestion(ctx workflow.Context) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(calls.WithAppliance(ctx, "who has "+d.State.Name), poolDeadline)
}

// poolDeadline bounds such a question: a claim must outlast it.
const poolDeadline = calls.ClientDeadline / 2

// returnToOffer removes the server's profile before the device is returned (S4.21): a device
// that is available has none. A server that others took meanwhile is not returned.
func (d *run) returnToOffer(ctx workflow.Context) error {
	if !d.pool.Shared() {
		return d.reservation.ReturnToOffer(ctx)
	}
	found, err := d.pool.Remove(ctx, calls.WithProfile(ctx, "remove the profile of "+d.State.Name))
	if !d.State.Device.Returning {
		return nil // retired, or unknown since
	}
	o := d.pool.Observe(device.AskPoolReturn, found, err)
	switch {
	case o.Needs(device.Proceed):
		d.pool.Update(func(s *contract.PoolState) { s.Tag = found.Tag })
		return d.reservation.ReturnToOffer(ctx)
	case o.Event == device.LostRace:
		d.State.Clean = nil
		d.Fail(ctx, d.pool.TakenFault())
	case o.Event == device.ReservationChanged: // SAFETY F34: what others may have used is not offered
		d.State.Clean = nil
		d.pool.Conclude(ctx, device.AskPoolReturn, found, nil)
	case err != nil:
		d.State.Clean = nil
		d.Fail(ctx, calls.FaultOf(err))
	default:
		d.Retry = d.pool.FailedFault(nil)
	}
	return nil
}

// checkServer asks who has the server before a burn (S4.22). Where others have it, the device
// lost the race (S4.13). Where the appliance does not answer, nothing has changed.
func (d binding) checkServer(ctx workflow.Context, in contract.BindInput) error {
	if !d.pool.Shared() {
		return nil
	}
	found, err := d.readPool(ctx)
	if !d.claimedFor(in.Instance) {
		return d.errTakenMeanwhile()
	}
	switch o := d.pool.Conclude(ctx, device.AskPoolBind, found, err); {
	case o.Needs(device.Proceed):
		return nil
	case o.Event == device.LostRace:
		return d.pool.TakenFault()
	case o.Event == device.ObservedUnused:
		return d.pool.UsedFault()
	case err != nil && o.Event == device.Unclaim:
		return calls.FaultOf(err)
	}
	if d.State.Device.Claim.Burning {
		return nil // the same request's burn: it is joined
	}
	return d.errTakenMeanwhile()
}

// applyProfile gives the server its profile during a burn; nil without a pool. Its fault has
// been recorded.
func (d binding) applyProfile(ctx workflow.Context, changed func() bool) func() *device.Fault {
	if !d.pool.Shared() {
		return nil
	}
	return func() *device.Fault {
		opts := calls.WhileClientWaits(calls.WithProfile(ctx, "apply the profile of "+d.State.Name))
		found, err := d.pool.Apply(ctx, opts, true)
		if changed() {
			return nil // which its caller finds too
		}
		switch o := d.pool.Conclude(ctx, device.AskPoolApplied, found, err); {
		case o.Needs(device.Proceed):
			return nil
		case o.Event == device.LostRace:
			return d.pool.TakenFault()
		case err == nil && found.Gap:
			return d.pool.UsedFault()
		}
		return d.pool.FailedFault(err)
	}
}

// doubtShared makes a manageable server Dirty before it is provided: no poll looks at it, so
// that others may have used and left it unnoticed (S4.28). A pre-allocated one was Burnish's
// all the time, also while it is being migrated.
func (d *parts) doubtShared(ctx workflow.Context) {
	if p := d.State.Pool; d.pool.Shared() && !d.State.Device.Dirty && (p == nil || !p.Migrating) {
		d.ApplyOrReport(ctx, device.Event{Kind: device.IdentityChanged})
	}
}

// checkPower refuses a change of the power of a server that others have, or that may be
// theirs (S4.26).
func (d operations) checkPower(ctx workflow.Context, in contract.PowerInput) error {
	if !d.pool.Shared() {
		return nil
	}
	_, used, err := d.checkNotTaken(ctx)
	if err != nil {
		return err
	}
	if used {
		d.State.Intent.ReadPool = true
		f := d.pool.UsedFault()
		f.Remedy = "wait until it is cleaned again, or end its maintenance"
		return f
	}
	return d.validatePower(in)
}

// checkNotTaken refuses a request for a server that others have; what follows from that the
// device finds out by itself. used: it was changed since it was returned.
func (d *parts) checkNotTaken(ctx workflow.Context) (found contract.PoolSnapshot, used bool, err error) {
	if !d.pool.Shared() {
		return found, false, nil
	}
	found, err = d.readPool(ctx)
	switch {
	case err != nil:
		return found, false, calls.FaultOf(err)
	case found.Ownership == device.PoolTaken:
		d.State.Intent.ReadPool = true
		return found, false, d.pool.TakenFault()
	}
	known := d.State.Pool
	return found, known != nil && d.State.Device.State == device.Available && known.ChangedBy(found.Tag), nil
}

// noteTag records how the appliance shows an idle server whose power Burnish has changed, so that
// the change is not taken for another user's. In a change that has lasted for longer than a blink
// since the server was found unchanged, another user may have had it: it is cleaned (F34).
func (d operations) noteTag(ctx workflow.Context, unchanged time.Time) {
	if !d.pool.Shared() || d.State.Device.State != device.Available {
		return
	}
	found, err := d.readPool(ctx)
	if err == nil && found.Ownership != device.PoolTaken && workflow.Now(ctx).Sub(unchanged) <= device.Blink &&
		d.State.Device.State == device.Available {
		d.pool.Update(func(s *contract.PoolState) { s.Tag = found.Tag })
	}
	d.State.Intent.ReadPool = true
}

// removeProfile removes the server's profile while a client waits.
func (d *parts) removeProfile(ctx workflow.Context) error {
	if !d.pool.Owes() {
		return nil
	}
	_, err := d.pool.Remove(ctx, calls.WhileClientWaits(calls.WithProfile(ctx, "remove the profile of "+d.State.Name)))
	if err != nil {
		return calls.FaultOf(err)
	}
	return nil
}

// removeAfterRetire removes the profile of a retired device, and says if that failed: it can be
// forgotten only without one, or if it is lost.
func (d *parts) removeAfterRetire(ctx workflow.Context, lost bool) (note string) {
	if !d.pool.Owes() {
		return ""
	}
	d.pool.Stop() // of a clean, or of its return
	err := d.removeProfile(ctx)
	if err == nil {
		return "its server profile was removed"
	}
	if lost {
		d.pool.Update(func(s *contract.PoolState) { s.Abandoned = true })
		return "its server profile was not removed: " + calls.FaultOf(err).Message + "; remove it on " +
			d.State.Enrollment.Pool.Appliance
	}
	return "its server profile was not removed: " + calls.FaultOf(err).Message + "; forget tries again"
}

// validatePool refuses an enrollment whose pool cannot be used.
func (d enrollment) validatePool(e contract.Enrollment) error {
	p := e.Pool
	refuse := func(message, remedy string) error { return d.Refuse(device.CodeInvalid, message, remedy) }
	switch {
	case p == nil:
		return nil
	case e.Owner == device.OwnerNova:
		return refuse("a server of a shared pool cannot have owner=nova", "enroll it with owner=self")
	case e.Type != "" && e.Type != contract.TypeNode:
		return refuse("only whole servers can be in a shared pool, and the type is "+e.Type, "give --type "+contract.TypeNode+
			", or no pool")
	}
	if err := p.Check(); err != nil {
		return refuse(err.Error(), "enroll it with the right setting")
	}
	return nil
}

// samePool compares the pools of two enrollments.
func samePool(a, b *contract.Pool) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// formatPool writes a pool as an operator reads it.
func formatPool(p *contract.Pool) string {
	if p == nil {
		return "none"
	}
	model := "pre-allocated"
	if p.Dynamic {
		model = "dynamic"
	}
	return p.Appliance + " " + p.Hardware + " " + p.Template + " " + model
}
