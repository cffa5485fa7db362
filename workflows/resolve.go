package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// resolve finds out what an unknown device is: burn it, ask what an ended run of its
// workflow knew, and go on from there (D8, DESIGN: Recovery).
func (d *lifecycle) resolveUnknown(ctx workflow.Context) error {
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	defer d.lock.Unlock()
	d.publishStatus(ctx)
	if d.state.Intent.Import {
		return d.resolveImport(ctx)
	}
	stock, err := d.ensureProvider(ctx)
	if d.state.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	if err != nil {
		d.state.Fault, d.state.LastError = faultOf(err), faultOf(err).Message
		d.backoff(ctx)
		return nil
	}
	known, err := d.findPreviousRun(ctx)
	if err != nil {
		d.state.Fault, d.state.LastError = faultOf(err), faultOf(err).Message
		d.backoff(ctx)
		return nil
	}
	if d.state.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	if known.RunID != "" && known.RunID != d.state.PreviousRunID {
		d.state.PreviousRunID = known.RunID
		d.applyOrReport(ctx, device.Event{Kind: device.PreviousRunFound, Instance: known.Instance})
	}
	d.state.Fault = nil
	if stock.Used > 0 {
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: first(stock.Consumers)})
	} else {
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.settings(ctx).Automated})
	}
	return nil
}

// believe takes the inventory's word for what an imported device is (D8): in use, used
// and not clean since, or free. It is the word of the very provider that was imported:
// Nova makes one anew as free, whoever had the device before.
func (d *lifecycle) resolveImport(ctx workflow.Context) error {
	in := d.reservationRequest()
	in.Expect, in.Provider = nil, ""
	imported := d.state.Intent.ImportProvider
	var stock contract.ReservationSnapshot
	if f := faultIn(d.inventory(ctx, withClientDeadline(ctx, "look at "+d.state.Name), contract.ActivityReadReservation, in, &stock)); f != nil {
		if f.Code == device.CodeNoProvider {
			d.state.Intent.Import = false
		}
		d.state.Fault, d.state.LastError = f, f.Message
		d.backoff(ctx)
		return nil
	}
	if d.state.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	d.state.Fault, d.state.Intent.Import = nil, false
	automated := d.settings(ctx).Automated
	switch {
	case stock.Used > 0:
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedInUse, Instance: first(stock.Consumers)})
	case stock.Reserved == 0 && stock.Total == 1 && stock.Provider != imported:
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: automated})
		d.state.LastError = "its provider was made anew while it was imported: it is cleaned"
	case stock.Reserved == 0 && stock.Total == 1:
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedFree, Automated: automated})
	default:
		d.applyOrReport(ctx, device.Event{Kind: device.ObservedUnused, Automated: automated})
	}
	// What is given back is burned by that first; all else must not stay free.
	d.state.Intent.EnsureReserved = stock.Reserved < stock.Total && !d.state.Device.Returning
	return nil
}

// recall asks for the ended run of this device's workflow, more than once before it
// takes none for an answer: a listing lags behind, and a tenant's data hangs on it.
func (d *lifecycle) findPreviousRun(ctx workflow.Context) (known contract.PreviousRun, err error) {
	for range 3 {
		err = workflow.ExecuteActivity(withInventory(ctx, "recall "+d.state.Name), contract.ActivityFindPreviousRun, d.state.Name).Get(ctx, &known)
		if err != nil || known.RunID != "" {
			return known, err
		}
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return known, err
		}
	}
	return known, nil
}
