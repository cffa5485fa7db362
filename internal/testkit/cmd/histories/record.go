package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/hostscan"
	"burnish/workflows/reconcile"
)

// recorder is the name of the host and of the cloud whose workflows are recorded.
const recorder = "recorder"

// scans is how many scans of the host are recorded: enough for a continue-as-new.
const scans = 30

// record has a host's and a cloud's workflow live for a while.
func record(ctx context.Context, temporal client.Client) error {
	control := sdkworker.New(temporal, contract.Queue, sdkworker.Options{})
	control.RegisterWorkflowWithOptions(hostscan.HostScan, workflow.RegisterOptions{Name: contract.WorkflowHostScan})
	control.RegisterWorkflowWithOptions(reconcile.InventoryReconcile, workflow.RegisterOptions{Name: contract.WorkflowInventoryReconcile})
	control.RegisterActivityWithOptions(reconcileInventory, activity.RegisterOptions{Name: contract.ActivityReconcileInventory})
	control.RegisterActivityWithOptions(candidates, activity.RegisterOptions{Name: contract.ActivityCandidates})
	host := sdkworker.New(temporal, contract.HostQueue(recorder), sdkworker.Options{DisableWorkflowWorker: true})
	host.RegisterActivityWithOptions(scanHost, activity.RegisterOptions{Name: contract.ActivityScanHost})
	if err := errors.Join(control.Start(), host.Start()); err != nil {
		return err
	}
	defer host.Stop()
	defer control.Stop()
	return errors.Join(recordHost(ctx, temporal), recordCloud(ctx, temporal))
}

func recordHost(ctx context.Context, temporal client.Client) error {
	id := contract.HostScanWorkflowID(recorder)
	options := client.StartWorkflowOptions{ID: id, TaskQueue: contract.Queue}
	for n := range scans {
		_, err := temporal.SignalWithStartWorkflow(ctx, id, contract.SignalScanNow, contract.ScanRequest{Source: "recorder", WorkerStarted: n == 0},
			options, contract.WorkflowHostScan, contract.HostScanInput{Host: recorder})
		if err != nil {
			return err
		}
		var state contract.HostScanState
		err = await(ctx, temporal, id, contract.QueryHostScan, &state, func() bool { return state.Scans > n })
		if err != nil {
			return err
		}
	}
	return nil
}

func recordCloud(ctx context.Context, temporal client.Client) error {
	id := contract.ReconcileWorkflowID(recorder)
	options := client.StartWorkflowOptions{ID: id, TaskQueue: contract.Queue}
	input := contract.InventoryReconcileInput{Cloud: recorder, Interval: 3 * time.Second}
	var state contract.InventoryReconcileState
	for _, step := range []struct {
		in   contract.ReconcileRequest
		done func() bool
	}{
		{contract.ReconcileRequest{Source: "recorder"}, func() bool { return state.FullRuns > 0 }},
		{contract.ReconcileRequest{Hosts: []string{"h1"}}, func() bool { return state.PartialRuns > 0 }},
		{contract.ReconcileRequest{Instances: []string{"i1", "i2"}}, func() bool { return state.PartialRuns > 1 }},
		{contract.ReconcileRequest{Hosts: []string{"h2"}, Full: true}, func() bool { return state.PartialRuns > 2 && state.FullRuns > 1 }},
		{contract.ReconcileRequest{Hosts: []string{"fails"}}, func() bool { return state.Fault != nil || state.FullRuns > 2 }},
	} {
		if _, err := temporal.SignalWithStartWorkflow(ctx, id, contract.SignalReconcileNow, step.in, options, contract.WorkflowInventoryReconcile, input); err != nil {
			return err
		}
		if err := await(ctx, temporal, id, contract.QueryReconcile, &state, step.done); err != nil {
			return err
		}
	}
	update, err := temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: contract.UpdateCandidates, Args: []any{contract.CandidatesInput{Host: "h1", Limit: 10}},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	if err := update.Get(ctx, nil); err != nil {
		return err
	}
	return await(ctx, temporal, id, contract.QueryReconcile, &state, func() bool { return state.FullRuns > 3 })
}

// await queries a workflow until its state is as wanted.
func await(ctx context.Context, temporal client.Client, id, query string, state any, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		value, err := temporal.QueryWorkflow(ctx, id, "", query)
		if err != nil {
			return err
		}
		if err := value.Get(state); err != nil {
			return err
		}
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", id, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// scanHost finds one more device at each scan, of the first few.
func scanHost(_ context.Context, in contract.ScanInput) (contract.ScanResult, error) {
	n := len(in.KnownDigests) + 1
	result := contract.ScanResult{Counts: contract.ScanCounts{Found: n}}
	if n <= 5 {
		result.NewDigests = map[string]string{fmt.Sprintf("%s_d%d", recorder, n): fmt.Sprint("digest ", n)}
	} else {
		result.RemovedDigests = []string{recorder + "_d1"}
		result.Missing = result.RemovedDigests
	}
	return result, nil
}

func reconcileInventory(_ context.Context, in contract.ReconcileInput) (contract.ReconcileResult, error) {
	if len(in.Hosts) > 0 && in.Hosts[len(in.Hosts)-1] == "fails" {
		return contract.ReconcileResult{}, contract.Refuse(contract.Refusal{Fault: device.Fault{
			Class: device.NeedsOperator, Code: device.CodeInventoryInvalid, Message: "scripted", Remedy: "none",
		}})
	}
	return contract.ReconcileResult{
		Missing: []string{"h1_d2"}, Mismatches: []contract.Mismatch{{Name: "h1_d1", What: "scripted"}},
		Counts: contract.ReconcileCounts{Providers: 2, Devices: 3, Hinted: 1, Missing: 1, Mismatch: 1},
	}, nil
}

func candidates(_ context.Context, in contract.CandidatesInput) (contract.Candidates, error) {
	return contract.Candidates{Devices: []contract.Candidate{{Name: in.Host + "_d3", Host: in.Host, Total: 1}}}, nil
}
