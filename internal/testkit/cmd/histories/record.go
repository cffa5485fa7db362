package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/hostscan"
	"burnish/workflows/oneview"
	"burnish/workflows/reconcile"
)

// recorder is the name of the host, the cloud and the appliance whose workflows are recorded.
const recorder = "recorder"

// scans is how many scans of the host are recorded: enough for a continue-as-new.
const scans = 30

// record has the workflows of a host, a cloud, an appliance and an instance live for a while.
func record(ctx context.Context, temporal sdkclient.Client) {
	control := sdkworker.New(temporal, contract.Queue, sdkworker.Options{})
	control.RegisterWorkflowWithOptions(hostscan.HostScan, workflow.RegisterOptions{Name: contract.WorkflowHostScan})
	control.RegisterWorkflowWithOptions(reconcile.InventoryReconcile,
		workflow.RegisterOptions{Name: contract.WorkflowInventoryReconcile})
	control.RegisterActivityWithOptions(reconcileInventory,
		activity.RegisterOptions{Name: contract.ActivityReconcileInventory})
	control.RegisterActivityWithOptions(candidates, activity.RegisterOptions{Name: contract.ActivityCandidates})
	rack := &recordedRack{}
	control.RegisterWorkflowWithOptions(oneview.OneViewPoll, workflow.RegisterOptions{Name: contract.WorkflowOneView})
	control.RegisterActivityWithOptions(rack.pollPage, activity.RegisterOptions{Name: contract.ActivityPollPage})
	(&recordedDevices{}).register(control)
	host := sdkworker.New(temporal, contract.HostQueue(recorder), sdkworker.Options{DisableWorkflowWorker: true})
	host.RegisterActivityWithOptions(scanHost, activity.RegisterOptions{Name: contract.ActivityScanHost})
	must.Do(errors.Join(control.Start(), host.Start()))
	defer host.Stop()
	defer control.Stop()
	c := client.New(temporal)
	recordHost(ctx, c)
	recordCloud(ctx, c)
	rack.record(ctx, c)
	recordInstance(ctx, temporal)
}

func recordHost(ctx context.Context, c *client.Client) {
	for n := range scans {
		must.Do(c.ScanNow(ctx, recorder, contract.ScanRequest{Source: "recorder", WorkerStarted: n == 0}))
		await(ctx, c.HostScanState, func(s contract.HostScanState) bool { return s.Scans > n })
	}
}

func recordCloud(ctx context.Context, c *client.Client) {
	type state = contract.InventoryReconcileState
	for _, step := range []struct {
		in   contract.ReconcileRequest
		done func(state) bool
	}{
		{contract.ReconcileRequest{Source: "recorder"}, func(s state) bool { return s.FullRuns > 0 }},
		{contract.ReconcileRequest{Hosts: []string{"h1"}}, func(s state) bool { return s.PartialRuns > 0 }},
		{contract.ReconcileRequest{Instances: []string{"i1", "i2"}}, func(s state) bool { return s.PartialRuns > 1 }},
		{contract.ReconcileRequest{Hosts: []string{"h2"}, Full: true}, func(s state) bool { return s.PartialRuns > 2 && s.FullRuns > 1 }},
		{contract.ReconcileRequest{Hosts: []string{"fails"}}, func(s state) bool { return s.Fault != nil || s.FullRuns > 2 }},
	} {
		must.Do(c.ReconcileNow(ctx, recorder, 3*time.Second, step.in))
		await(ctx, c.ReconcileState, step.done)
	}
	must.Get(c.Candidates(ctx, recorder, contract.CandidatesInput{Host: "h1", Limit: 10}))
	await(ctx, c.ReconcileState, func(s state) bool { return s.FullRuns > 3 })
}

// await queries the recorder's workflow until its state is as wanted.
func await[S any](ctx context.Context, query func(context.Context, string) (S, error), done func(S) bool) {
	must.Do(proc.Await(ctx, time.Minute, proc.PollEvery, "the workflow to be recorded", func() (bool, string) {
		state, err := query(ctx, recorder)
		return err == nil && done(state), fmt.Sprintf("%+v %v", state, err)
	}))
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
