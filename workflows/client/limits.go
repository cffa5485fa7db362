package client

import (
	"context"

	"burnish/workflows/contract"
)

// LimitsStatus asks the workflow of the limits who waits for what: one device or, with "",
// all. found is false where nothing is limited.
func (c *Client) LimitsStatus(ctx context.Context, name string) (status contract.LimitsStatus, found bool, err error) {
	status, err = query[contract.LimitsStatus](ctx, c, contract.LimitsWorkflowID, contract.QueryLimits, name)
	found, err = reached(err)
	return status, found && status.Limits != nil, err
}

// Resume closes the breaker of a step on a model.
func (c *Client) Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error) {
	return update[contract.ResumeResult](ctx, c, contract.LimitsWorkflowID, contract.VerbResume.Update(), in)
}

// ChangeLimits passes a policy's limits on to the workflow of the limits, which it starts if
// there are limits and it does not run.
func (c *Client) ChangeLimits(ctx context.Context, change contract.LimitsChange) error {
	if change.Limits == nil {
		_, err := reached(c.temporal.SignalWorkflow(ctx, contract.LimitsWorkflowID, "", contract.SignalLimitsChanged, change))
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
	return c.signalStart(ctx, contract.LimitsWorkflowID, signal, in, contract.WorkflowLimits,
		contract.LimitsInput{LimitsChange: change})
}

// AskAgain has a device ask once more for the slot that it has or waits for. One whose
// workflow has ended needs none.
func (c *Client) AskAgain(ctx context.Context, name string) error {
	_, err := c.Hint(ctx, name, contract.SignalObserved,
		contract.Hint{Source: contract.LimitsWorkflowID, Slot: &contract.SlotAnswer{Again: true}})
	return err
}
