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

// Recovery is what a worker does when it starts (DESIGN: Recovery). The server says
// which attempts it believes to be running and by whom; a worker that starts ends
// those of processes that are gone, so that the server schedules them again at once
// instead of waiting for a time-out (F2).
type Recovery struct {
	Client    client.Client
	Namespace string
	// Identity is this process's, as the server sees it.
	Identity host.Identity
	Log      *slog.Logger
}

// Host tells the workflow of each device of a host that the host started and what it
// remembers. A workflow that is gone is started again with what the host remembers; a device
// whose workflow ended by itself was forgotten, and is forgotten here too. What
// failed is in the error; call again.
func (r *Recovery) ReportHostStart(ctx context.Context, h *host.Host) error {
	records, err := h.ListRecords()
	if err != nil {
		r.Log.Error("some records are unreadable: their devices are not looked after until an operator acts", "error", err)
	}
	return forEach(records, func(record host.Record) error {
		if record.Forgotten {
			return nil
		}
		if err := r.reportTo(ctx, h, record); err != nil {
			return fmt.Errorf("telling %s: %w", record.Name, err)
		}
		return nil
	})
}

// HostOrphans ends the attempts on a host's queue that another process of this host
// left behind, each once the device's fence is free. There is one worker a host, so
// that every attempt that is not this process's own is nobody's.
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

// SurveyOrphan ends a survey of a host that another process of this host left behind.
func (r *Recovery) EndOrphanedScan(ctx context.Context, h *host.Host) error {
	return r.endOrphans(ctx, contract.HostScanWorkflowID(h.Name()), func(a *workflowpb.PendingActivityInfo) bool {
		return a.GetActivityType().GetName() == contract.ActivityScanHost && a.GetLastWorkerIdentity() != r.Identity.String()
	}, func() error { return nil })
}

// ControlOrphans ends the control attempts that processes of this machine left behind
// which are gone. It looks at devices that are between two states; what else a
// killed worker had in hand costs its short time-out.
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
			// Once more: what was waited for may have taken longer than the attempt's
			// time-out, and then the one that followed has its ID.
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
		r.Log.Info("an orphaned attempt goes on", "workflow", id, "activity", a.GetActivityType().GetName())
	}
	return nil
}

// orphans are the attempts of a workflow that the server believes to be running and
// that are orphaned.
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

// sideBySide calls do for each, a few at a time: one that waits must not keep all
// others waiting.
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
