package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Recovery is what a worker does when it starts. The server knows which attempts run, and
// on which worker; a worker that starts ends those of processes that have exited, so that
// the server schedules them again at once instead of waiting for a time-out (F2).
type Recovery struct {
	Client    *client.Client
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
	if err := r.forgetLeft(ctx, h); err != nil {
		return err // without it a forgotten device would come back
	}
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

// forgetLeft forgets the devices that were forgotten while this host was away, and says so to
// the host's workflow (F25). A device of which a workflow runs here was enrolled again since.
func (r *Recovery) forgetLeft(ctx context.Context, h *host.Host) error {
	names, err := r.Client.Forgotten(ctx, h.Name())
	if err != nil || len(names) == 0 {
		return err
	}
	var mu sync.Mutex
	var settled []string
	err = forEach(names, func(name string) error {
		run, found, err := r.Client.LastRun(ctx, name)
		ending := found && run.Running && (run.Absent() || run.Status.DeviceState == device.Retired)
		if err != nil || ending { // it is being forgotten just now: at the next start
			return err
		}
		mu.Lock()
		settled = append(settled, name)
		mu.Unlock()
		if at := run.Status.Hostname; found && run.Running && (at == "" || strings.EqualFold(at, h.Name())) {
			return nil
		}
		r.Log.Info("a device that was forgotten while this host was away is forgotten here", "device", name)
		return forget(h, name)
	})
	if err != nil {
		return fmt.Errorf("forget what was left for host %s: %w", h.Name(), err)
	}
	if len(settled) == 0 {
		return nil
	}
	return r.Client.ScanNow(ctx, h.Name(), contract.ScanRequest{Source: "host start", ForgottenNow: settled})
}

// RecoverLost brings back the devices that this host knows and for which no workflow runs
// any more: its workflow was terminated, or failed, and nothing else starts it again. A workflow
// whose published numbers are lower than the host's has an older memory: it is told the host's
// (F36). The error joins what failed; a second call does it again.
func (r *Recovery) RecoverLost(ctx context.Context, h *host.Host) error {
	records, err := h.ListRecords()
	if err != nil {
		r.Log.Warn("some records are unreadable: their devices are not managed until an operator acts", "error", err)
	}
	running, err := newest(ctx, r.Client, client.Filter{client.ByHost: {h.Name()}})
	if err != nil {
		return fmt.Errorf("list the devices of host %s: %w", h.Name(), err)
	}
	return forEach(records, func(record host.Record) error {
		if record.Forgotten {
			return nil
		}
		if published, runs := running[record.Name]; runs {
			if record.Binding <= published.Memo.Bindings && record.Clean <= published.Memo.Cleans {
				return nil
			}
			return r.sendNumbers(ctx, recordOf(record, h.Name()))
		}
		if err := r.recoverLost(ctx, h, record); err != nil {
			return fmt.Errorf("bring back %s: %w", record.Name, err)
		}
		return nil
	})
}

// sendNumbers sends a workflow the host's record of its device. One whose memory is not older drops it.
func (r *Recovery) sendNumbers(ctx context.Context, known contract.HostDeviceRecord) error {
	_, err := r.Client.Hint(ctx, known.Enrollment.Name, contract.SignalObserved,
		contract.Hint{Source: "host sweep", Host: &known, Numbers: true})
	return err
}

// recoverLost asks the server for the device's workflow itself: a listing lags behind. A run that was reset to before
// the enrollment knows no device: it gets the record.
func (r *Recovery) recoverLost(ctx context.Context, h *host.Host, record host.Record) error {
	run, found, err := r.Client.LastRun(ctx, record.Name)
	if err != nil || found && run.Running && !run.Absent() {
		return err
	}
	if moving, err := r.moving(ctx, record, found && !run.Forgotten); err != nil || moving {
		return err
	}
	known := recordOf(record, h.Name())
	switch {
	case found && run.Running: // or it is being enrolled, or forgotten, and drops this
		return r.sendNumbers(ctx, known)
	case found && run.Forgotten:
		return forget(h, record.Name)
	case found:
		if known.Ended, err = r.Client.HowEnded(ctx, run); err != nil {
			return err
		}
	}
	r.Log.Warn("no workflow runs for a device of this host: it is brought back", "device", record.Name,
		"ended", known.Ended)
	return r.Client.Recover(ctx, known, time.Now())
}

// moving says that the record was made by a move that has not started its workflow: that starts
// it, or has it forgotten, and nobody else may (F23). began: a workflow of this name was started.
func (r *Recovery) moving(ctx context.Context, record host.Record, began bool) (bool, error) {
	if record.MovedFrom == "" || began {
		return false, nil
	}
	former, found, err := r.Client.LastRun(ctx, record.MovedFrom)
	return found && former.Running, err
}

// EndHostOrphans ends the attempts that an earlier worker process of this host has left,
// each once the device's fence is free. A host has one worker: an attempt of another
// process is an orphan.
func (r *Recovery) EndHostOrphans(ctx context.Context, h *host.Host) error {
	records, err := h.ListRecords()
	if err != nil {
		r.Log.Warn("some records are unreadable", "error", err)
	}
	known := map[string]bool{contract.ActivityDiscover: true, contract.ActivityForget: true, contract.ActivityPower: true}
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
	between := client.Filter{
		client.ByState: client.States(device.PendingCleaning, device.Cleaning, device.Unknown)}
	listed, err := newest(ctx, r.Client, between)
	mine := (&Control{}).Activities()
	return errors.Join(err, forEach(slices.Collect(maps.Keys(listed)), func(name string) error {
		return r.endOrphans(ctx, contract.WorkflowID(name), func(a *workflowpb.PendingActivityInfo) bool {
			_, control := mine[a.GetActivityType().GetName()]
			return control && r.Identity.Exited(a.GetLastWorkerIdentity())
		}, func() error { return nil })
	}))
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

func (r *Recovery) endOrphans(ctx context.Context, id string, orphaned func(*workflowpb.PendingActivityInfo) bool,
	ready func() error) error {
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
		failure := retryNow(device.CodeWorkerRestarted, "the worker was restarted")
		if _, err := r.Client.FailAttempt(ctx, r.Namespace, id, a.GetActivityId(), failure); err != nil {
			return fmt.Errorf("orphans of %s: %w", id, err)
		}
		r.Log.Info("an orphaned attempt was ended and is retried", "workflow", id, "activity", a.GetActivityType().GetName())
	}
	return nil
}

// findOrphans lists the orphaned attempts of a workflow that the server still takes for
// running.
func (r *Recovery) findOrphans(ctx context.Context, id string,
	orphaned func(*workflowpb.PendingActivityInfo) bool) ([]*workflowpb.PendingActivityInfo, error) {
	running, err := r.Client.PendingActivities(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []*workflowpb.PendingActivityInfo
	for _, a := range running {
		if a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED && orphaned(a) {
			all = append(all, a)
		}
	}
	return all, nil
}

// forEach calls do for each element, up to 64 at once, and joins the errors.
func forEach[T any](all []T, do func(T) error) error { return forEachOf(64, all, do) }

// forEachOf is forEach with up to atOnce calls at once.
func forEachOf[T any](atOnce int, all []T, do func(T) error) error {
	failed := make([]error, len(all))
	places := make(chan struct{}, atOnce)
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
	run, found, err := r.Client.LastRun(ctx, record.Name)
	if err != nil {
		return err
	}
	if moving, err := r.moving(ctx, record, found && !run.Forgotten); err != nil || moving {
		return err
	}
	if found && run.Forgotten {
		return forget(h, record.Name)
	}
	return r.Client.Recover(ctx, recordOf(record, h.Name()), time.Now())
}
