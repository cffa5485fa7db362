package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// Recovery is what a worker does once when it starts (DESIGN: Recovery).
type Recovery struct {
	// Host is nil in a worker that serves no host.
	Host   *host.Host
	Client client.Client
	Log    *slog.Logger
}

// Orphans ends the attempts that killed workers left behind below dir, a step's once
// its fence is free, so that the server schedules them again at once instead of
// waiting for a time-out (F2). An attempt that the server no longer knows is nobody's
// any more. It returns when each was dealt with or ctx ended.
func (r *Recovery) Orphans(ctx context.Context, dir string) error {
	return host.Orphans(dir, func(o host.Orphan) error {
		if err := r.endOrphan(ctx, o); err != nil {
			return fmt.Errorf("orphaned attempt of %s: %w", o.What, err)
		}
		return nil
	})
}

func (r *Recovery) endOrphan(ctx context.Context, o host.Orphan) error {
	if o.Key != "" && r.Host != nil {
		fence, err := r.Host.Fence(ctx, o.Key, func(holder string) {
			r.Log.Info("waiting for the last I/O of a killed worker", "attempt", o.What, "holder", holder)
		})
		if err != nil {
			return err
		}
		if err := fence.Close(); err != nil {
			return err
		}
	}
	err := r.Client.CompleteActivity(ctx, o.Token, nil, soon(device.CodeWorkerRestarted, "the worker was restarted"))
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	if err == nil {
		r.Log.Info("an orphaned attempt goes on", "attempt", o.What)
	}
	return err
}

// Devices tells the workflow of each device of this host that the host started, and
// what it remembers; a workflow that is gone is started again with that. A device
// whose workflow ended by itself was forgotten, and is forgotten here too.
func (r *Recovery) Devices(ctx context.Context) error {
	records, err := r.Host.ListRecords()
	if err != nil {
		r.Log.Error("some records are unreadable: their devices are not looked after until an operator acts", "error", err)
	}
	var failed []error
	for _, record := range records {
		if record.Forgotten {
			continue
		}
		if err := r.tell(ctx, record); err != nil {
			failed = append(failed, fmt.Errorf("telling %s: %w", record.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (r *Recovery) tell(ctx context.Context, record host.Record) error {
	id := contract.WorkflowID(record.Name)
	run, err := r.Client.DescribeWorkflowExecution(ctx, id, "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
	case err != nil:
		return err
	case run.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return forget(r.Host, record.Name)
	}
	known := recordOf(record, r.Host.Name())
	_, err = r.Client.SignalWithStartWorkflow(ctx, id, contract.SignalObserved,
		contract.Hint{Source: "host start", Host: &known, Seen: time.Now().UTC().Format(time.RFC3339Nano)},
		contract.StartOptions(record.Name),
		contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: record.Name, Recovered: &known})
	return err
}
