package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// Recovery is what a worker does when it starts. The server knows which attempts run, and
// on which worker; a worker that starts ends those of processes that have exited, so that
// the server schedules them again at once instead of waiting for a time-out (F2).
type Recovery struct {
	Client    client.Client
	Namespace string
	// Identity is this process's, as the server sees it.
	Identity host.Identity
	Log      *slog.Logger
}

// ReportHostStart sends each device of a host the host's record of it, and that the host
// started. A workflow that does not exist is started with that record; a device whose
// workflow has completed was forgotten, and the host forgets it too. The error joins what
// failed; a second call does it again.
func (r *Recovery) ReportHostStart(ctx context.Context, h *host.Host) error {
	records, err := h.ListRecords()
	if err != nil {
		r.Log.Error("some records are unreadable: their devices are not managed until an operator acts", "error", err)
	}
	return forEach(records, func(record host.Record) error {
		if record.Forgotten {
			return nil
		}
		if err := r.reportTo(ctx, h, record); err != nil {
			return fmt.Errorf("report the host start to %s: %w", record.Name, err)
		}
		return nil
	})
}

// EndHostOrphans ends the attempts that an earlier worker process of this host has left,
// each once the device's fence is free. A host has one worker: an attempt of another
// process is an orphan.
func (r *Recovery) EndHostOrphans(ctx context.Context, h *host.Host) error {
	records, err := h.ListRecords()
	if err != nil {
		r.Log.Warn("some records are unreadable", "error", err)
	}
	known := map[string]bool{contract.ActivityDiscover: true, contract.ActivityForget: true}
	for _, s := range steps.All() {
		known[s.Name] = true
	}
	return forEach(records, func(record host.Record) error {
		if record.Forgotten {
			return nil
		}
		return r.endOrphans(ctx, contract.WorkflowID(record.Name), func(a *workflowpb.PendingActivityInfo) bool {
			return known[a.GetActivityType().GetName()] && a.GetLastWorkerIdentity() != r.Identity.String()
		}, func() error { return r.waitForFence(ctx, h, record) })
	})
}

// EndOrphanedScan ends a scan that an earlier worker process of this host has left.
func (r *Recovery) EndOrphanedScan(ctx context.Context, h *host.Host) error {
	return r.endOrphans(ctx, contract.HostScanWorkflowID(h.Name()), func(a *workflowpb.PendingActivityInfo) bool {
		return a.GetActivityType().GetName() == contract.ActivityScanHost && a.GetLastWorkerIdentity() != r.Identity.String()
	}, func() error { return nil })
}

// EndControlOrphans ends the control attempts of processes of this machine that have
// exited. It checks the devices that are between two states; any other attempt of a killed
// worker ends by its own short time-out.
func (r *Recovery) EndControlOrphans(ctx context.Context) error {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND %s IN ('%s','%s','%s')",
		contract.WorkflowDeviceLifecycle, contract.AttrState.GetName(), device.PendingCleaning, device.Cleaning, device.Unknown)
	var ids, failed = []string{}, []error{}
	for token := []byte(nil); ; {
		page, err := r.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 500, NextPageToken: token})
		if err != nil {
			failed = append(failed, err)
			break
		}
		for _, run := range page.GetExecutions() {
			ids = append(ids, run.GetExecution().GetWorkflowId())
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			break
		}
	}
	mine := (&Control{}).Activities()
	return errors.Join(append(failed, forEach(ids, func(id string) error {
		return r.endOrphans(ctx, id, func(a *workflowpb.PendingActivityInfo) bool {
			_, control := mine[a.GetActivityType().GetName()]
			return control && r.Identity.Exited(a.GetLastWorkerIdentity())
		}, func() error { return nil })
	}))...)
}

func (r *Recovery) waitForFence(ctx context.Context, h *host.Host, record host.Record) error {
	fence, err := h.Fence(ctx, fenceKey(record.Identity, record.Name), func(holder string) {
		r.Log.Info("waiting for the last I/O of a killed worker", "device", record.Name, "holder", holder)
	})
	if err != nil {
		return err
	}
	return fence.Close()
}

func (r *Recovery) endOrphans(ctx context.Context, id string, orphaned func(*workflowpb.PendingActivityInfo) bool, ready func() error) error {
	all, err := r.findOrphans(ctx, id, orphaned)
	if err == nil && len(all) > 0 {
		if err = ready(); err == nil {
			// List them again: during a long wait the attempt may have timed out, and the
			// next attempt has the same ID.
			all, err = r.findOrphans(ctx, id, orphaned)
		}
	}
	if err != nil {
		return fmt.Errorf("orphans of %s: %w", id, err)
	}
	for _, a := range all {
		err := r.Client.CompleteActivityByID(ctx, r.Namespace, id, "", a.GetActivityId(), nil,
			retryNow(device.CodeWorkerRestarted, "the worker was restarted"))
		if err != nil && !errors.As(err, new(*serviceerror.NotFound)) {
			return fmt.Errorf("orphans of %s: %w", id, err)
		}
		r.Log.Info("an orphaned attempt was ended and is retried", "workflow", id, "activity", a.GetActivityType().GetName())
	}
	return nil
}

// findOrphans lists the orphaned attempts of a workflow that the server still takes for
// running.
func (r *Recovery) findOrphans(ctx context.Context, id string, orphaned func(*workflowpb.PendingActivityInfo) bool) ([]*workflowpb.PendingActivityInfo, error) {
	run, err := r.Client.DescribeWorkflowExecution(ctx, id, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*workflowpb.PendingActivityInfo
	for _, a := range run.GetPendingActivities() {
		if a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED && orphaned(a) {
			all = append(all, a)
		}
	}
	return all, nil
}

// forEach calls do for each element, up to 64 at once, and joins the errors.
func forEach[T any](all []T, do func(T) error) error {
	failed := make([]error, len(all))
	places := make(chan struct{}, 64)
	var wait sync.WaitGroup
	for i, one := range all {
		places <- struct{}{}
		wait.Go(func() {
			failed[i] = do(one)
			<-places
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

func (r *Recovery) reportTo(ctx context.Context, h *host.Host, record host.Record) error {
	id := contract.WorkflowID(record.Name)
	run, err := r.Client.DescribeWorkflowExecution(ctx, id, "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
	case err != nil:
		return err
	case run.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return forget(h, record.Name)
	}
	known := recordOf(record, h.Name())
	_, err = r.Client.SignalWithStartWorkflow(ctx, id, contract.SignalObserved,
		contract.Hint{Source: "host start", Host: &known, ObservedAt: time.Now().UTC().Format(time.RFC3339Nano)},
		contract.StartOptions(record.Name),
		contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: record.Name, Recovered: &known})
	return err
}
