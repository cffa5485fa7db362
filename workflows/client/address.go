package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"

	"burnish/workflows/contract"
)

// InstanceByAddress finds the living instance that has a guest's address, which is given in its
// canonical form. NotFound if none has it.
func (c *Client) InstanceByAddress(ctx context.Context, address string) (contract.InstanceStatus, error) {
	l, err := c.lease(ctx, address)
	if err != nil {
		return contract.InstanceStatus{}, err
	}
	none := serviceerror.NewNotFound("no instance has the address " + address)
	if l.instance == "" {
		return contract.InstanceStatus{}, none
	}
	status, err := c.Instance(ctx, l.instance)
	if err != nil {
		return contract.InstanceStatus{}, err
	}
	// The instance's own record decides: its lease may be about to end.
	if status.Phase == contract.InstanceReleasing || status.Phase == contract.InstanceReleased ||
		!slices.Contains(status.Addresses, address) {
		return contract.InstanceStatus{}, none
	}
	return status, nil
}

// leaseTries bounds how often an address is tried again that others take and return meanwhile.
const leaseTries = 5

// LeaseAddress takes a guest's address for an instance. holder is the living instance that has
// it; "" if it is leased. That of an instance whose workflow has ended is taken over.
func (c *Client) LeaseAddress(ctx context.Context, address, instance string) (holder string, err error) {
	id := contract.GuestAddressWorkflowID(address)
	in := contract.GuestAddressInput{Instance: instance}
	options := startOptions(id)
	options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	options.Memo = map[string]any{contract.MemoInstance: instance}
	for range leaseTries {
		_, err := c.temporal.ExecuteWorkflow(ctx, options, contract.WorkflowGuestAddress, in)
		if !errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
			return "", err
		}
		l, err := c.lease(ctx, address)
		switch {
		case err != nil:
			return "", err
		case l.instance == instance:
			return "", nil
		case l.instance == "": // it was returned meanwhile
			continue
		}
		living, err := c.InstanceRuns(ctx, l.instance)
		if err != nil {
			return "", err
		}
		if living {
			return l.instance, nil
		}
		// Exactly this run: another instance may take the address meanwhile.
		err = c.temporal.TerminateWorkflow(ctx, id, l.run, "instance "+l.instance+" has ended; instance "+instance+
			" takes the address")
		if err != nil && !NotFound(err) {
			return "", err
		}
	}
	return "", serviceerror.NewUnavailable("the address " + address + " changes hands all the time")
}

// ReturnAddress gives an address back, if the instance has it, and waits until another instance
// can take it. A control worker must answer.
func (c *Client) ReturnAddress(ctx context.Context, address, instance string) error {
	l, err := c.lease(ctx, address)
	if err != nil || l.instance != instance {
		return err
	}
	id := contract.GuestAddressWorkflowID(address)
	err = c.temporal.SignalWorkflow(ctx, id, l.run, contract.SignalReturnAddress,
		contract.GuestAddressInput{Instance: instance})
	if NotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.temporal.GetWorkflow(ctx, id, l.run).Get(ctx, nil)
	if err == nil || NotFound(err) {
		return nil
	}
	if now, unread := c.lease(ctx, address); unread == nil && now.run != l.run {
		return nil // it has ended, by whatever
	}
	return err
}

// InstanceRuns says whether an instance's workflow runs, or ended otherwise than by itself: then its
// guest may have the address still, until the instance is released. No worker needs to run.
func (c *Client) InstanceRuns(ctx context.Context, instance string) (bool, error) {
	answer, err := c.temporal.DescribeWorkflowExecution(ctx, contract.InstanceWorkflowID(instance), "")
	if NotFound(err) {
		return false, nil
	}
	return answer.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, err
}

// lease is who holds an address, by which run; "" if no instance does.
type lease struct{ instance, run string }

// lease reads who holds an address. The holder's workflow may have ended. No worker needs to
// run.
func (c *Client) lease(ctx context.Context, address string) (lease, error) {
	id := contract.GuestAddressWorkflowID(address)
	answer, err := c.temporal.DescribeWorkflowExecution(ctx, id, "")
	info := answer.GetWorkflowExecutionInfo()
	if NotFound(err) || err == nil && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return lease{}, nil
	}
	if err != nil {
		return lease{}, err
	}
	l := lease{run: info.GetExecution().GetRunId()}
	if err := converter.GetDefaultDataConverter().FromPayload(info.GetMemo().GetFields()[contract.MemoInstance],
		&l.instance); err != nil {
		return lease{}, fmt.Errorf("the memo of %s cannot be read: %w", id, err)
	}
	return l, nil
}
