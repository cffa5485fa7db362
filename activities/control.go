package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/workflows/contract"
)

// Control is what a control worker does: the inventory, and what the server itself
// remembers.
type Control struct {
	Store  inventory.Store
	Client client.Client
	// Real: schedulers give out what the Store has, so that nothing made up may be in it.
	Real bool
}

// Activities are all activities of a control worker, by name.
func (c *Control) Activities() map[string]any {
	return map[string]any{
		contract.ActivityPublish: c.Publish, contract.ActivityReserve: c.Reserve, contract.ActivityObserve: c.Observe,
		contract.ActivityRelease: c.Release, contract.ActivityWithdraw: c.Withdraw,
		contract.ActivityRecall: c.Recall, contract.ActivityElsewhere: c.Elsewhere,
	}
}

// Publish makes the device's provider, burned. A second run finds it and burns it
// again; another's provider is never made, only burned. Retried: an inventory that does
// not answer.
func (c *Control) Publish(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	return c.on(ctx, in, func(id string) (inventory.ReservationSnapshot, error) {
		if in.Owner == device.OwnerNova {
			return inventory.EnsureReserved(ctx, c.Store, id, nil)
		}
		return inventory.EnsureProvider(ctx, c.Store, inventory.Provider{UUID: id, Name: in.Name, Class: in.Class, Traits: in.Traits})
	})
}

// Reserve burns the device for a bind and reads it back (S0.4). A second run whose
// first answer was lost finds its own write and is content. Final: in use, burned
// by somebody else, a generation that is newer than the workflow.
func (c *Control) Reserve(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	return c.on(ctx, in, func(id string) (inventory.ReservationSnapshot, error) {
		return inventory.ReserveForBind(ctx, c.Store, id, in.Expect, activity.GetInfo(ctx).Attempt > 1)
	})
}

// Observe looks at the device's provider and, with Raise, burns it first (F4). It may
// be repeated at will.
func (c *Control) Observe(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	return c.on(ctx, in, func(id string) (inventory.ReservationSnapshot, error) {
		if !in.Raise {
			return inventory.Read(ctx, c.Store, id)
		}
		expect := in.Expect
		if earlier := activity.GetInfo(ctx).Attempt - 1; expect != nil && earlier > 0 && in.Provider == "" {
			// Each earlier attempt may have written once before its answer was lost. To a
			// provider of Nova's others write too: there the doubt stays, and it is cleaned.
			most := *expect + int64(earlier)
			expect = &most
		}
		return inventory.EnsureReserved(ctx, c.Store, id, expect)
	})
}

// Release lowers the reservation with the one generation given, and reads it back
// (F5). It is never retried by the server, reads no generation of its own, and writes to
// the very provider that the generation is of.
func (c *Control) Release(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	id := in.UUID
	if in.Owner == device.OwnerNova {
		id = in.Provider
	}
	v, err := inventory.Unreserve(ctx, c.Store, id, in.Generation)
	return stockOf(v, in.Provider), asError(err, in.Name)
}

// Withdraw takes the provider out of the inventory; another's stays as it is, burned. A
// second run finds nothing to do.
func (c *Control) Withdraw(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	if in.Owner == device.OwnerNova {
		return contract.Stock{}, nil
	}
	return contract.Stock{}, asError(c.Store.Delete(ctx, in.UUID), in.Name)
}

// on makes calls on the device's provider: its own, or the one that another service made
// for it. Where that was made anew since it was found, it is looked for once more.
func (c *Control) on(ctx context.Context, in contract.StockInput, do func(id string) (inventory.ReservationSnapshot, error)) (contract.Stock, error) {
	if c.Real && in.Driver == "fake" { // SAFETY F13
		return contract.Stock{}, asError(&device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed,
			Message: "a fake device has no place in a real inventory", Remedy: "enrol it where BURNISH_INVENTORY=file"}, in.Name)
	}
	if in.Owner != device.OwnerNova {
		v, err := do(in.UUID)
		return stockOf(v, ""), asError(err, in.Name)
	}
	foreign, ok := c.Store.(inventory.NovaProviders)
	if !ok {
		return contract.Stock{}, asError(inventory.Invalid("this inventory holds no providers of Nova's",
			"set BURNISH_INVENTORY=placement, or enrol "+in.Name+" with owner=self"), in.Name)
	}
	for again := true; ; again = false {
		p, err := foreign.Find(ctx, in.Name)
		if err != nil {
			return contract.Stock{}, asError(err, in.Name)
		}
		if in.Provider != "" && p.UUID != in.Provider {
			return contract.Stock{}, asError(madeAnew(in), in.Name)
		}
		v, err := do(p.UUID)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProvider && again {
			continue
		}
		return stockOf(v, p.UUID), asError(err, in.Name)
	}
}

// madeAnew: a device that was kept clean has another provider than the one that Burnish
// burned. That one was free; nothing is written to it.
func madeAnew(in contract.StockInput) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInventoryGenerationAhead,
		Message: "the provider of " + in.Name + " was made anew since Burnish burned it", Remedy: "none: somebody may have had it, and it is cleaned"}
}

// Elsewhere looks among the running devices for another one with a serial; a retired
// one has it no more. A listing lags behind: that it finds none proves nothing.
func (c *Control) Elsewhere(ctx context.Context, in contract.ElsewhereInput) (contract.Elsewhere, error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND %s = %s AND %s != %s AND WorkflowId != %s",
		contract.WorkflowDeviceLifecycle, contract.AttrSerial.GetName(), quoted(in.Serial),
		contract.AttrState.GetName(), quoted(string(device.Retired)), quoted(contract.WorkflowID(in.Name)))
	found, err := c.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1})
	if err != nil {
		return contract.Elsewhere{}, fmt.Errorf("look for serial %q: %w", in.Serial, err)
	}
	if len(found.GetExecutions()) == 0 {
		return contract.Elsewhere{}, nil
	}
	return contract.Elsewhere{Name: strings.TrimPrefix(found.GetExecutions()[0].GetExecution().GetWorkflowId(), contract.WorkflowID(""))}, nil
}

// quoted is a string of the server's query language.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Recall asks the server for the newest run of this device's workflow that was ended
// from outside (terminated or reset), and who had the device then. It may be
// repeated at will; without such a run, or where the device was forgotten in order
// since, the answer is empty.
func (c *Control) Recall(ctx context.Context, name string) (contract.Recalled, error) {
	query := fmt.Sprintf("WorkflowId = %s AND ExecutionStatus IN ('Terminated','Canceled','TimedOut','Completed')", quoted(contract.WorkflowID(name)))
	found, err := c.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 100})
	if err != nil {
		return contract.Recalled{}, fmt.Errorf("recall %s: %w", name, err)
	}
	runs := found.GetExecutions()
	slices.SortFunc(runs, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return b.GetCloseTime().AsTime().Compare(a.GetCloseTime().AsTime())
	})
	for _, run := range runs {
		if run.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
			break // the device was forgotten in order
		}
		known := contract.Recalled{RunID: run.GetExecution().GetRunId()}
		var state string
		for key, into := range map[string]*string{contract.AttrInstance.GetName(): &known.Instance, contract.AttrState.GetName(): &state} {
			if p := run.GetSearchAttributes().GetIndexedFields()[key]; p != nil {
				if err := converter.GetDefaultDataConverter().FromPayload(p, into); err != nil {
					return contract.Recalled{}, fmt.Errorf("recall %s: %w", name, err)
				}
			}
		}
		if known.Instance == "" && state == string(device.Unknown) {
			continue // it had not found out anything itself
		}
		return known, nil
	}
	return contract.Recalled{}, nil
}

// stockOf is what the workflow is told; provider is the UUID of another's, else "".
func stockOf(v inventory.ReservationSnapshot, provider string) contract.Stock {
	return contract.Stock{Generation: v.Generation, Total: v.Total, Reserved: v.Reserved, Used: v.Used, Consumers: v.Consumers, Provider: provider}
}
