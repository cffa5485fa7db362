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
// again. Retried: an inventory that does not answer.
func (c *Control) Publish(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	v, err := inventory.Publish(ctx, c.Store, inventory.Provider{UUID: in.UUID, Name: in.Name, Class: in.Class, Traits: in.Traits})
	return stockOf(v), asError(err, in.Name)
}

// Reserve burns the device for a bind and reads it back (S0.4). A second run whose
// first answer was lost finds its own write and is content. Final: in use, burned
// by somebody else, a generation that is newer than the workflow.
func (c *Control) Reserve(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	v, err := inventory.Burn(ctx, c.Store, in.UUID, in.Expect, activity.GetInfo(ctx).Attempt > 1)
	return stockOf(v), asError(err, in.Name)
}

// Observe looks at the device's provider and, with Raise, burns it first (F4). It may
// be repeated at will.
func (c *Control) Observe(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	if !in.Raise {
		v, err := inventory.Look(ctx, c.Store, in.UUID)
		return stockOf(v), asError(err, in.Name)
	}
	expect := in.Expect
	if earlier := activity.GetInfo(ctx).Attempt - 1; expect != nil && earlier > 0 {
		// Each earlier attempt may have written once before its answer was lost.
		most := *expect + int64(earlier)
		expect = &most
	}
	v, err := inventory.Raise(ctx, c.Store, in.UUID, expect)
	return stockOf(v), asError(err, in.Name)
}

// Release lowers the reservation with the one generation given, and reads it back
// (F5). It is never retried by the server, and reads no generation of its own.
func (c *Control) Release(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	v, err := inventory.Lower(ctx, c.Store, in.UUID, in.Generation)
	return stockOf(v), asError(err, in.Name)
}

// Withdraw takes the provider out of the inventory. A second run finds nothing to do.
func (c *Control) Withdraw(ctx context.Context, in contract.StockInput) (contract.Stock, error) {
	return contract.Stock{}, asError(c.Store.Delete(ctx, in.UUID), in.Name)
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

func stockOf(v inventory.View) contract.Stock {
	return contract.Stock{Generation: v.Generation, Total: v.Total, Reserved: v.Reserved, Used: v.Used, Consumers: v.Consumers}
}
