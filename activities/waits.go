package activities

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file reports to a device's workflow what the workflow cannot see (F29): that the
// attempts of an activity fail, or that one takes long. Nothing is reported while all goes
// well.

// ReportWait sends a report to a workflow's run.
type ReportWait func(ctx context.Context, workflow, run string, in contract.WaitReport) error

const (
	// reportTimeout bounds the sending of a report.
	reportTimeout = 3 * time.Second
	// slowCall is how long one attempt of a call may take until it is reported.
	slowCall = 10 * time.Second
	// callHeartbeat is the interval at which a control call shows that its worker lives.
	callHeartbeat = 3 * time.Second
)

// WaitReporter is an interceptor of activities. It reports each activity of a device's
// workflow whose attempts fail and are retried: the second failure, and then fewer and
// fewer. It also sends the heartbeats of all calls that have a heartbeat time-out, so that no
// activity does which has nothing to say by them.
type WaitReporter struct {
	interceptor.WorkerInterceptorBase
	Report ReportWait
	Log    *slog.Logger
	// Except are the activities that do both by themselves.
	Except []string
}

// InterceptActivity wraps one attempt.
func (r *WaitReporter) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &reportedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, r}
}

type reportedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	*WaitReporter
}

// ExecuteActivity runs one attempt, and reports that it takes long or failed.
func (a *reportedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if slices.Contains(a.Except, info.ActivityType.Name) {
		return a.Next.ExecuteActivity(ctx, in)
	}
	reports := info.WorkflowType != nil && info.WorkflowType.Name == contract.WorkflowDeviceLifecycle
	value, err := func() (any, error) {
		if !changesProfile(info.ActivityType.Name) {
			defer a.whileItRuns(ctx, info, reports)() // also after a panic
		}
		return a.Next.ExecuteActivity(ctx, in)
	}()
	if f := retriedFault(err); f != nil && reports && WorthReporting(info.Attempt) {
		a.report(ctx, info, f)
	}
	return value, err
}

// whileItRuns sends heartbeats, and reports an attempt that takes long.
func (a *reportedActivity) whileItRuns(ctx context.Context, info activity.Info, reports bool) (stop func()) {
	began := time.Now()
	return beatWhileItRuns(callHeartbeat, nil, func() {
		if info.HeartbeatTimeout > 0 {
			activity.RecordHeartbeat(ctx)
		}
		if reports && time.Since(began) >= slowCall && WorthReporting(info.Attempt+1) {
			reports = false
			a.report(ctx, info, &device.Fault{Class: device.Transient, Code: device.CodeTimeout,
				Message: info.ActivityType.Name + " has not been answered for " + slowCall.String(),
				Remedy:  "it is waited for, and tried again"})
		}
	})
}

// changesProfile says that an activity takes minutes, and sends its own heartbeats.
func changesProfile(activity string) bool {
	return activity == contract.ActivityApplyProfile || activity == contract.ActivityRemoveProfile
}

func (a *reportedActivity) report(ctx context.Context, info activity.Info, f *device.Fault) {
	in := contract.WaitReport{For: contract.WaitInventory, Fault: *f}
	switch name := info.ActivityType.Name; {
	case changesProfile(name), name == contract.ActivityReadPool:
		in.For = contract.WaitAppliance
	case info.TaskQueue != contract.Queue:
		in.For = contract.WaitHost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	if err := a.Report(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, in); err != nil {
		a.Log.Warn("a wait was not reported to its device", "workflow", info.WorkflowExecution.ID, "cause", f.Message,
			"error", err)
	}
}

// WorthReporting says that a failure of this attempt is reported: of the second one, which
// follows at once, and then of fewer and fewer, so that a wait of days costs little history.
func WorthReporting(attempt int32) bool { return attempt > 1 && bits.OnesCount32(uint32(attempt)) == 1 }

// retriedFault is the fault of an attempt that the server retries; nil for any other end.
func retriedFault(err error) *device.Fault {
	if app := (*temporal.ApplicationError)(nil); errors.As(err, &app) && app.NonRetryable() {
		return nil
	}
	return faultIn(err)
}

// faultIn is the fault of an activity's error; nil for none, and for a cancellation.
func faultIn(err error) *device.Fault {
	if err == nil || temporal.IsCanceledError(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	f := &device.Fault{Class: device.Transient, Code: device.CodeInternal, Message: err.Error()}
	if refusal, ok := contract.RefusalOf(err); ok {
		f = &refusal.Fault
	} else if own, ok := device.AsFault(err); ok {
		f = own
	}
	f.Message = strings.Join(strings.Fields(f.Message), " ")
	return f
}
