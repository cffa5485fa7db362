package client

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// LimitsStatus asks the workflow of the limits who waits for what: one device or, with "",
// all. found is false where nothing is limited.
func (c *Client) LimitsStatus(ctx context.Context, name string) (status contract.LimitsStatus, found bool, err error) {
	value, err := c.temporal.QueryWorkflow(ctx, contract.LimitsWorkflowID, "", contract.QueryLimits, name)
	if err == nil {
		err = value.Get(&status)
	}
	if NotFound(err) {
		return status, false, nil
	}
	return status, err == nil && status.Limits != nil, err
}

// Resume closes the breaker of a step on a model.
func (c *Client) Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error) {
	return update[contract.ResumeResult](ctx, c, contract.LimitsWorkflowID, contract.UpdateResume, in)
}

// ChangeLimits passes a policy's limits on to the workflow of the limits, which it starts if
// there are limits and it does not run.
func (c *Client) ChangeLimits(ctx context.Context, change contract.LimitsChange) error {
	if change.Limits == nil {
		err := c.temporal.SignalWorkflow(ctx, contract.LimitsWorkflowID, "", contract.SignalLimitsChanged, change)
		if NotFound(err) {
			return nil
		}
		return err
	}
	return c.signalLimits(ctx, change, contract.SignalLimitsChanged, change)
}

// KeepLimits starts the workflow of the limits if it does not run. One that runs is left
// alone: it costs no event.
func (c *Client) KeepLimits(ctx context.Context, change contract.LimitsChange) error {
	_, err := c.temporal.ExecuteWorkflow(ctx, startOptions(contract.LimitsWorkflowID), contract.WorkflowLimits,
		contract.LimitsInput{LimitsChange: change})
	return err
}

// RequestSlot passes a device's request on to the workflow of the limits, which it starts if
// it does not run.
func (c *Client) RequestSlot(ctx context.Context, change contract.LimitsChange, r contract.SlotRequest) error {
	return c.signalLimits(ctx, change, contract.SignalSlotRequest, r)
}

func (c *Client) signalLimits(ctx context.Context, change contract.LimitsChange, signal string, in any) error {
	_, err := c.temporal.SignalWithStartWorkflow(ctx, contract.LimitsWorkflowID, signal, in,
		startOptions(contract.LimitsWorkflowID), contract.WorkflowLimits, contract.LimitsInput{LimitsChange: change})
	return err
}

// AskAgain has a device ask once more for the slot that it has or waits for. One whose
// workflow has ended needs none.
func (c *Client) AskAgain(ctx context.Context, name string) error {
	err := c.temporal.SignalWorkflow(ctx, contract.WorkflowID(name), "", contract.SignalObserved,
		contract.Hint{Source: contract.LimitsWorkflowID, Slot: &contract.SlotAnswer{Again: true}})
	if NotFound(err) {
		return nil
	}
	return err
}

// CountInService counts the devices that are not retired.
func (c *Client) CountInService(ctx context.Context) (int, error) {
	f := Filter{NotState: device.Retired}
	answer, err := c.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: f.Query()})
	return int(answer.GetCount()), err
}
