package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"

	"burnish/workflows/contract"
)

// RequestClean asks for a clean by a signal, as any Temporal client may. It returns when
// the server has stored it; a clean that the state does not allow is recorded as the
// device's last refusal.
func (c *Client) RequestClean(ctx context.Context, name string, in contract.CleanInput) error {
	return c.temporal.SignalWorkflow(ctx, contract.WorkflowID(name), "", contract.SignalClean, in)
}

// Hint sends a hint by one of the signals observed, released and refresh. found is false
// if the device has no workflow.
func (c *Client) Hint(ctx context.Context, name, signal string, hint contract.Hint) (found bool, err error) {
	return reached(c.temporal.SignalWorkflow(ctx, contract.WorkflowID(name), "", signal, hint))
}

// reached says that there was a workflow to send something to.
func reached(err error) (found bool, _ error) {
	if NotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Recover sends a device's workflow its host's record. It starts the workflow from the
// record if there is none.
func (c *Client) Recover(ctx context.Context, record contract.HostDeviceRecord, observed time.Time) error {
	name := record.Enrollment.Name
	_, err := c.temporal.SignalWithStartWorkflow(ctx, contract.WorkflowID(name), contract.SignalObserved,
		contract.Hint{Source: "host start", Host: &record, Started: true, ObservedAt: observed.UTC().Format(time.RFC3339Nano)},
		DeviceStart(record.Enrollment, contract.HardwareOf(record.Identity)), contract.WorkflowDeviceLifecycle,
		contract.DeviceInput{Name: name, Recovered: &record})
	return err
}

// ScanNow asks a host's workflow for a scan, and starts the workflow if there is none.
func (c *Client) ScanNow(ctx context.Context, host string, in contract.ScanRequest) error {
	return c.signalStart(ctx, contract.HostScanWorkflowID(host), contract.SignalScanNow, in, contract.WorkflowHostScan,
		contract.HostScanInput{Host: host})
}

// Forgotten lists the devices that a host must forget, because they were forgotten while it
// was away. No worker needs to run.
func (c *Client) Forgotten(ctx context.Context, host string) ([]string, error) {
	answer, err := c.temporal.DescribeWorkflowExecution(ctx, contract.HostScanWorkflowID(host), "")
	if NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	if p, ok := answer.GetWorkflowExecutionInfo().GetMemo().GetFields()[contract.MemoForgotten]; ok {
		if err := converter.GetDefaultDataConverter().FromPayload(p, &names); err != nil {
			return nil, fmt.Errorf("the memo of %s cannot be read: %w", contract.HostScanWorkflowID(host), err)
		}
	}
	return names, nil
}

// ReconcileNow asks a cloud's workflow to reconcile, and starts the workflow if there is
// none. It then reconciles at this interval.
func (c *Client) ReconcileNow(ctx context.Context, cloud string, interval time.Duration,
	in contract.ReconcileRequest) error {
	return c.signalStart(ctx, contract.ReconcileWorkflowID(cloud), contract.SignalReconcileNow, in,
		contract.WorkflowInventoryReconcile, contract.InventoryReconcileInput{Cloud: cloud, Interval: interval})
}

// LookNow asks an appliance's workflow for a round of the polls, and starts the workflow if
// there is none.
func (c *Client) LookNow(ctx context.Context, appliance string, in contract.LookRequest) error {
	start := contract.OneViewInput{Appliance: appliance, TellAfter: in.TellAfter}
	if in.Interval != nil {
		start.Interval = *in.Interval
	}
	return c.signalStart(ctx, contract.OneViewWorkflowID(appliance), contract.SignalLookNow, in, contract.WorkflowOneView,
		start)
}

// signalStart sends a signal to a workflow, which it starts if it does not run.
func (c *Client) signalStart(ctx context.Context, id, signal string, in any, workflow string, start any) error {
	_, err := c.temporal.SignalWithStartWorkflow(ctx, id, signal, in, startOptions(id), workflow, start)
	return err
}

// FailAttempt ends the running attempt of an activity with failure, as its worker would.
// found is false if the attempt or its workflow has ended.
func (c *Client) FailAttempt(ctx context.Context, namespace, workflow, activity string,
	failure error) (found bool, err error) {
	return reached(c.temporal.CompleteActivityByID(ctx, namespace, workflow, "", activity, nil, failure))
}

// ReportWait reports to a device's workflow that one of its activities waits, or goes on. A run
// that has ended has no use for it.
func (c *Client) ReportWait(ctx context.Context, workflow, run string, in contract.WaitReport) error {
	_, err := reached(c.temporal.SignalWorkflow(ctx, workflow, run, contract.SignalObserved,
		contract.Hint{Source: "its activity", Wait: &in}))
	return err
}

// NotFound reports whether a workflow does not exist or has ended.
func NotFound(err error) bool {
	return errors.As(err, new(*serviceerror.NotFound)) || errors.As(err, new(NotFoundError))
}
