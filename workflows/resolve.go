package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// resolve finds out what an unknown device is: burn it, ask what an ended run of its
// workflow knew, and go on from there (D8, DESIGN: Recovery).
func (d *lifecycle) resolve(ctx workflow.Context) error {
	if err := d.lock.Lock(ctx); err != nil {
		return err
	}
	defer d.lock.Unlock()
	d.show(ctx)
	if d.state.Intent.Import {
		return d.believe(ctx)
	}
	stock, err := d.publish(ctx)
	if d.state.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	if err != nil {
		d.state.Fault, d.state.LastError = faultOf(err), faultOf(err).Message
		d.rest(ctx)
		return nil
	}
	known, err := d.recall(ctx)
	if err != nil {
		d.state.Fault, d.state.LastError = faultOf(err), faultOf(err).Message
		d.rest(ctx)
		return nil
	}
	if d.state.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	if known.RunID != "" && known.RunID != d.state.Recalled {
		d.state.Recalled = known.RunID
		d.must(ctx, device.Event{Kind: device.PreviousRunFound, Instance: known.Instance})
	}
	d.state.Fault = nil
	if stock.Used > 0 {
		d.must(ctx, device.Event{Kind: device.ObservedInUse, Instance: first(stock.Consumers)})
	} else {
		d.must(ctx, device.Event{Kind: device.ObservedUnused, Automated: d.settings(ctx).Automated})
	}
	return nil
}

// believe takes the inventory's word for what an imported device is (D8): in use, used
// and not clean since, or free. It is the word of the very provider that was imported:
// Nova makes one anew as free, whoever had the device before.
func (d *lifecycle) believe(ctx workflow.Context) error {
	in := d.stockInput()
	in.Expect, in.Provider = nil, ""
	// A run of an older worker knows the import's provider as the last one it saw.
	imported := cmp.Or(d.state.Intent.ImportProvider, d.state.Provider)
	var stock contract.Stock
	if f := faultIn(d.inventory(ctx, withAnswer(ctx, "look at "+d.state.Name), contract.ActivityObserve, in, &stock)); f != nil {
		if f.Code == device.CodeNoProvider && since(ctx, missingEndsImport) {
			d.state.Intent.Import = false
		}
		d.state.Fault, d.state.LastError = f, f.Message
		d.rest(ctx)
		return nil
	}
	if d.state.Device.State != device.Unknown {
		return nil // retired meanwhile
	}
	d.state.Fault, d.state.Intent.Import = nil, false
	automated := d.settings(ctx).Automated
	switch {
	case stock.Used > 0:
		d.must(ctx, device.Event{Kind: device.ObservedInUse, Instance: first(stock.Consumers)})
	case stock.Reserved == 0 && stock.Total == 1 && stock.Provider != imported && since(ctx, importBelievesItsOwn):
		d.must(ctx, device.Event{Kind: device.ObservedUnused, Automated: automated})
		d.state.LastError = "its provider was made anew while it was imported: it is cleaned"
	case stock.Reserved == 0 && stock.Total == 1:
		d.must(ctx, device.Event{Kind: device.ObservedFree, Automated: automated})
	default:
		d.must(ctx, device.Event{Kind: device.ObservedUnused, Automated: automated})
	}
	// What is given back is burned by that first; all else must not stay free.
	d.state.Intent.Raise = stock.Reserved < stock.Total && !d.state.Device.Returning
	return nil
}

// recall asks for the ended run of this device's workflow, more than once before it
// takes none for an answer: a listing lags behind, and a tenant's data hangs on it.
func (d *lifecycle) recall(ctx workflow.Context) (known contract.Recalled, err error) {
	for range 3 {
		err = workflow.ExecuteActivity(withInventory(ctx, "recall "+d.state.Name), contract.ActivityRecall, d.state.Name).Get(ctx, &known)
		if err != nil || known.RunID != "" {
			return known, err
		}
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return known, err
		}
	}
	return known, nil
}
