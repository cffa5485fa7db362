package lifecycle

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// needsReconcile says that inventory or host must be read.
func (d *run) needsReconcile() bool {
	i, s := d.State.Intent, d.State.Device.State
	if s == device.Retired || !d.State.Enrolled || d.backingOff {
		return (i.EnsureReserved || i.ReadInventory) && d.State.Enrolled && !d.backingOff
	}
	return d.reservation.Wanted() || d.asksPool() || i.AskInstance ||
		i.Rediscover && !d.CleanUnderWay() && s != device.Unknown
}

// reconcile compares the device with its inventory or, if nothing is wanted of that, with
// its host. It runs beside a clean, which it stops if the inventory shows the device in
// use.
func (d *run) reconcile(ctx workflow.Context) {
	switch {
	case d.reservation.Wanted():
		if err := d.reservation.Reconcile(ctx); err != nil {
			d.backoff(ctx, calls.FaultOf(err))
		} else {
			d.recovered(ctx)
		}
	case d.asksPool():
		d.askPool(ctx)
	case d.State.Intent.AskInstance:
		d.askInstance(ctx)
	default:
		d.discovery.Rediscover(ctx) // without the lock: it may take long and makes no inventory call
	}
	d.Publish()
}

// resolveUnknown decides the state of an unknown device (D8): it reserves the device, asks
// which instance an ended run of its workflow was bound to, and concludes from both.
func (d *run) resolveUnknown(ctx workflow.Context) error {
	if err := d.reservation.Lock(ctx); err != nil {
		return err
	}
	defer d.reservation.Unlock()
	d.Publish()
	if d.State.Intent.Import {
		d.resolveImport(ctx)
		return nil
	}
	asked := d.reservation.Ask(device.AskResolve)
	found, err := d.reservation.EnsureProvider(ctx)
	if d.State.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	var previous contract.PreviousRun
	if err == nil {
		previous, err = d.findPreviousRun(ctx)
	}
	if err != nil {
		d.Retry = calls.FaultOf(err)
		return nil
	}
	if d.State.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	if previous.RunID != "" && previous.RunID != d.State.PreviousRunID {
		d.State.PreviousRunID = previous.RunID
		d.restoreBinding(ctx, previous)
		// Nova's provider records none, and a write may not have come (F43)
		if found.Hold == device.HoldNone && found.Witness != device.WitnessNone {
			found.Hold = previous.Hold
		}
	}
	d.State.Fault = nil
	if d.reservation.Conclude(ctx, asked, found, nil).Event == device.NoWitness {
		d.State.Fault = d.tenantUnrecorded(previous)
		d.State.LastError = d.State.Fault.Message
	}
	return nil
}

// tenantUnrecorded is the fault of a device for which nothing outside Temporal records who
// has it (F24, D16). It says what else is known of its last instance.
func (d *run) tenantUnrecorded(previous contract.PreviousRun) *device.Fault {
	s := d.State
	known := "its bindings are not known"
	bindings := s.History
	switch {
	case len(bindings) > 0:
		known = fmt.Sprintf("the last instance that this workflow knows of was %s", bindings[len(bindings)-1].Instance)
	case previous.RunID != "":
		known = fmt.Sprintf("an earlier workflow ended at %s in state %s without an instance",
			previous.EndedAt.Format(time.RFC3339), previous.State)
	}
	if n := s.Device.Bindings; n > 0 {
		known += fmt.Sprintf("; it was bound %d times", n)
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeTenantUnrecorded,
		Message: "the inventory does not record who has the device: " + known,
		Remedy:  "find out whether an instance uses it; if none does, clean " + s.Name + ", manage it, or retire it"}
}

// restoreBinding takes over the binding of an ended run, unless the present one is younger:
// the listing may show a run long after it ended (F25).
func (d *run) restoreBinding(ctx workflow.Context, previous contract.PreviousRun) {
	s, before := d.State, d.State.Device.Bindings
	d.ApplyOrReport(ctx, device.Event{
		Kind: device.PreviousRunFound, Instance: previous.Instance,
		BoundSince: s.Device.Binding != nil && s.BoundAt.After(previous.EndedAt),
	})
	if s.Device.Bindings != before {
		s.BoundAt = previous.EndedAt // a run that ended later still counts
	}
}

// resolveImport decides the state of an imported device by its reservation (D8): in use,
// used and not cleaned since, or free. Only the provider that was imported counts: Nova
// re-creates a provider as free, even if the device was used before.
func (d *run) resolveImport(ctx workflow.Context) {
	asked := d.reservation.Ask(device.AskImport)
	asked.Imported = d.State.Intent.ImportProvider
	found, err := d.reservation.Read(ctx)
	if err == nil && d.State.Device.State == device.Unknown { // not retired meanwhile
		d.State.Fault, d.State.Intent.Import = nil, false
	}
	if d.reservation.Conclude(ctx, asked, found, err).Needs(device.RetryLater) {
		d.Retry = calls.FaultOf(err)
	}
}

// findPreviousRun asks for the ended run of this device's workflow, more than once before
// it concludes that there is none: a listing lags behind, and a tenant's data depends on it.
func (d *run) findPreviousRun(ctx workflow.Context) (found contract.PreviousRun, err error) {
	for range 3 {
		err = d.During(ctx, contract.WaitInventory, func() error {
			opts := calls.WithInventory(ctx, "previous run of "+d.State.Name)
			return workflow.ExecuteActivity(opts, contract.ActivityFindPreviousRun, d.State.Name).Get(ctx, &found)
		})
		if err != nil || found.RunID != "" {
			return found, err
		}
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return found, err
		}
	}
	return found, nil
}
