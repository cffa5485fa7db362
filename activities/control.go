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
		contract.ActivityEnsureProvider: c.EnsureProvider, contract.ActivityReserveForBind: c.ReserveForBind, contract.ActivityReadReservation: c.ReadReservation,
		contract.ActivityEnsureReserved: c.EnsureReserved, contract.ActivityUnreserve: c.Unreserve, contract.ActivityDeleteProvider: c.DeleteProvider,
		contract.ActivityFindPreviousRun: c.FindPreviousRun, contract.ActivityFindBySerial: c.FindBySerial,
	}
}

// EnsureProvider makes the device's provider, burned. A second run finds it and burns it
// again; another's provider is never made, only burned. Retried: an inventory that does
// not answer.
func (c *Control) EnsureProvider(ctx context.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	return c.withProvider(ctx, in, func(id string) (inventory.ReservationSnapshot, error) {
		if in.Owner == device.OwnerNova {
			return inventory.EnsureReserved(ctx, c.Store, id, nil)
		}
		return inventory.EnsureProvider(ctx, c.Store, inventory.Provider{UUID: id, Name: in.Name, Class: in.Class, Traits: in.Traits})
	})
}

// ReserveForBind burns the device for a bind and reads it back (S0.4). A second run whose
// first answer was lost finds its own write and is content. Final: in use, burned
// by somebody else, a generation that is newer than the workflow.
func (c *Control) ReserveForBind(ctx context.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	return c.withProvider(ctx, in, func(id string) (inventory.ReservationSnapshot, error) {
		return inventory.ReserveForBind(ctx, c.Store, id, in.Expect, activity.GetInfo(ctx).Attempt > 1)
	})
}

// ReadReservation reads the device's provider. It writes nothing and may be repeated at
// will.
func (c *Control) ReadReservation(ctx context.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	return c.withProvider(ctx, in, func(id string) (inventory.ReservationSnapshot, error) { return inventory.Read(ctx, c.Store, id) })
}

// EnsureReserved burns the device's provider where it is not, and reads it back (F4). It
// may be repeated at will.
func (c *Control) EnsureReserved(ctx context.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	return c.withProvider(ctx, in, func(id string) (inventory.ReservationSnapshot, error) {
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

// Unreserve lowers the reservation with the one generation given, and reads it back
// (F5). It is never retried by the server, reads no generation of its own, and writes to
// the very provider that the generation is of.
func (c *Control) Unreserve(ctx context.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	id := in.UUID
	if in.Owner == device.OwnerNova {
		id = in.Provider
	}
	v, err := inventory.Unreserve(ctx, c.Store, id, in.Generation)
	return snapshotOf(v, in.Provider), asError(err, in.Name)
}

// DeleteProvider takes the provider out of the inventory; another's stays as it is, burned. A
// second run finds nothing to do.
func (c *Control) DeleteProvider(ctx context.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	if in.Owner == device.OwnerNova {
		return contract.ReservationSnapshot{}, nil
	}
	return contract.ReservationSnapshot{}, asError(c.Store.Delete(ctx, in.UUID), in.Name)
}

// on makes calls on the device's provider: its own, or the one that another service made
// for it. Where that was re-created since it was found, it is looked for once more.
func (c *Control) withProvider(ctx context.Context, in contract.ReservationRequest, do func(id string) (inventory.ReservationSnapshot, error)) (contract.ReservationSnapshot, error) {
	if c.Real && in.Driver == "fake" { // SAFETY F13
		return contract.ReservationSnapshot{}, asError(&device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed,
			Message: "a fake device has no place in a real inventory", Remedy: "enrol it where BURNISH_INVENTORY=file"}, in.Name)
	}
	if in.Owner != device.OwnerNova {
		v, err := do(in.UUID)
		return snapshotOf(v, ""), asError(err, in.Name)
	}
	foreign, ok := c.Store.(inventory.NovaProviders)
	if !ok {
		return contract.ReservationSnapshot{}, asError(inventory.Invalid("this inventory holds no providers of Nova's",
			"set BURNISH_INVENTORY=placement, or enrol "+in.Name+" with owner=self"), in.Name)
	}
	for again := true; ; again = false {
		p, err := foreign.Find(ctx, in.Name)
		if err != nil {
			return contract.ReservationSnapshot{}, asError(err, in.Name)
		}
		if in.Provider != "" && p.UUID != in.Provider {
			return contract.ReservationSnapshot{}, asError(providerRecreated(in), in.Name)
		}
		v, err := do(p.UUID)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProvider && again {
			continue
		}
		return snapshotOf(v, p.UUID), asError(err, in.Name)
	}
}

// madeAnew: a device that was kept clean has another provider than the one that Burnish
// burned. That one was free; nothing is written to it.
func providerRecreated(in contract.ReservationRequest) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInventoryGenerationAhead,
		Message: "the provider of " + in.Name + " was re-created since Burnish burned it", Remedy: "none: somebody may have had it, and it is cleaned"}
}

// FindBySerial looks among the running devices for another one with a serial; a retired
// one has it no more. A listing lags behind: that it finds none proves nothing.
func (c *Control) FindBySerial(ctx context.Context, in contract.FindBySerialInput) (contract.DeviceBySerial, error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND %s = %s AND %s != %s AND WorkflowId != %s",
		contract.WorkflowDeviceLifecycle, contract.AttrSerial.GetName(), quoted(in.Serial),
		contract.AttrState.GetName(), quoted(string(device.Retired)), quoted(contract.WorkflowID(in.Name)))
	found, err := c.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1})
	if err != nil {
		return contract.DeviceBySerial{}, fmt.Errorf("look for serial %q: %w", in.Serial, err)
	}
	if len(found.GetExecutions()) == 0 {
		return contract.DeviceBySerial{}, nil
	}
	return contract.DeviceBySerial{Name: strings.TrimPrefix(found.GetExecutions()[0].GetExecution().GetWorkflowId(), contract.WorkflowID(""))}, nil
}

// quoted is a string of the server's query language.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// FindPreviousRun asks the server for the newest run of this device's workflow that was ended
// from outside (terminated or reset), and who had the device then. It may be
// repeated at will; without such a run, or where the device was forgotten in order
// since, the answer is empty.
func (c *Control) FindPreviousRun(ctx context.Context, name string) (contract.PreviousRun, error) {
	query := fmt.Sprintf("WorkflowId = %s AND ExecutionStatus IN ('Terminated','Canceled','TimedOut','Completed')", quoted(contract.WorkflowID(name)))
	found, err := c.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 100})
	if err != nil {
		return contract.PreviousRun{}, fmt.Errorf("find the previous run of %s: %w", name, err)
	}
	runs := found.GetExecutions()
	slices.SortFunc(runs, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return b.GetCloseTime().AsTime().Compare(a.GetCloseTime().AsTime())
	})
	for _, run := range runs {
		if run.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
			break // the device was forgotten in order
		}
		known := contract.PreviousRun{RunID: run.GetExecution().GetRunId()}
		var state string
		for key, into := range map[string]*string{contract.AttrInstance.GetName(): &known.Instance, contract.AttrState.GetName(): &state} {
			if p := run.GetSearchAttributes().GetIndexedFields()[key]; p != nil {
				if err := converter.GetDefaultDataConverter().FromPayload(p, into); err != nil {
					return contract.PreviousRun{}, fmt.Errorf("find the previous run of %s: %w", name, err)
				}
			}
		}
		if known.Instance == "" && state == string(device.Unknown) {
			continue // it had not found out anything itself
		}
		return known, nil
	}
	return contract.PreviousRun{}, nil
}

// stockOf is what the workflow is told; provider is the UUID of another's, else "".
func snapshotOf(v inventory.ReservationSnapshot, provider string) contract.ReservationSnapshot {
	return contract.ReservationSnapshot{Generation: v.Generation, Total: v.Total, Reserved: v.Reserved, Used: v.Used, Consumers: v.Consumers, Provider: provider}
}
