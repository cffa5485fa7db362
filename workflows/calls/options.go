// Package calls contains what all workflows share: the options of activities by their
// purpose, the faults of their errors, and the length of history from which a workflow
// continues as new.
package calls

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

const (
	// HeartbeatTimeout ends a step whose host died. F2 requires it to be at least
	// 30 s and more than twice the longest chunk of work.
	HeartbeatTimeout = 30 * time.Second
	// ClientDeadline bounds calls for which a client waits.
	ClientDeadline = time.Minute
	// callTimeout bounds one attempt of an inventory call: a slow Placement needs some
	// seconds for each of its requests. callHeartbeatTimeout is how long a killed worker
	// delays the call.
	callTimeout          = time.Minute
	callHeartbeatTimeout = 10 * time.Second
	// localTimeout bounds an inventory call in a workflow task: the task, and with it the answer
	// to the update that began it, waits for so long. It is well below contract.TaskTimeout.
	localTimeout = time.Second
	// pageTimeout bounds one attempt to read a page of an appliance's servers.
	pageTimeout = 2 * time.Minute
	// devicesTimeout bounds one attempt to ask several devices: the next one joins what they do.
	devicesTimeout = 10 * time.Minute
	// HostNotice is how long a step may wait for its host until the wait is recorded.
	HostNotice = 20 * time.Second
	// HostResponseTimeout bounds the wait for a host's worker while a client waits.
	HostResponseTimeout = 20 * time.Second
	// powerTimeout bounds a change of a device's power.
	powerTimeout = 10 * time.Minute
	// profileTimeout bounds one application or removal of a server's profile.
	profileTimeout = 24 * time.Hour
	// startToCloseSlack is added to a step's own budget for StartToClose (F8).
	startToCloseSlack = time.Minute
)

// ContinueAsNewThreshold is the length, in events, from which an idle workflow
// continues as new.
const ContinueAsNewThreshold = 200

// NotRegistered is the error type of an activity that the worker does not have, because
// it is older than the plan. By default Temporal retries it without limit (measured).
const NotRegistered = "ActivityNotRegisteredError"

// NewRunDue says that a new run should begin: the history is long enough, or another version of the control
// workers is current now. A run stays with the version that began it, the next one goes to the current one.
func NewRunDue(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > ContinueAsNewThreshold ||
		info.GetTargetWorkerDeploymentVersionChanged()
}

// ContinueAsNew ends a run with its successor, which goes to the current version of the control workers.
func ContinueAsNew(ctx workflow.Context, workflowType string, in any) error {
	return workflow.NewContinueAsNewErrorWithOptions(ctx, workflow.ContinueAsNewErrorOptions{
		InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade,
	}, workflowType, in)
}

// WithInventory is for inventory calls that are retried without limit, as those of a clean.
func WithInventory(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           contract.Queue,
		StartToCloseTimeout: callTimeout,
		HeartbeatTimeout:    callHeartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
		Summary: summary,
	})
}

// Locally is for one attempt of an inventory call in the workflow task itself, which costs a
// thirtieth of an activity (measured). What fails or takes longer is made as the activity
// whose options ctx has.
func Locally(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localTimeout,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                workflow.GetActivityOptions(ctx).Summary,
	})
}

// WithClientDeadline is for inventory calls that are retried for as long as a client waits.
func WithClientDeadline(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(WithInventory(ctx, summary), ClientDeadline)
}

// NoRetry is for the one write that lowers a reservation: the workflow reads the result
// before it writes again (F5). It must also begin soon: what the host saw last would be old
// otherwise (F27).
func NoRetry(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithRetryPolicy(WithClientDeadline(ctx, summary), temporal.RetryPolicy{MaximumAttempts: 1})
}

// OnHost is for calls to a host's worker, which are retried without limit. silentAfter
// bounds the wait for a worker to start one; 0 is no bound.
func OnHost(ctx workflow.Context, host, summary string, silentAfter time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.HostQueue(host),
		ScheduleToStartTimeout: silentAfter,
		StartToCloseTimeout:    ClientDeadline,
		RetryPolicy:            hostRetries(30 * time.Second),
		Summary:                summary,
	})
}

// WithDevices is for a call that asks several devices at once, and waits until each has given
// a definite answer: it is retried without limit. within bounds it as a whole; 0 is no bound.
func WithDevices(ctx workflow.Context, summary string, within time.Duration) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(workflow.WithStartToCloseTimeout(WithInventory(ctx, summary),
		devicesTimeout), within)
}

// LimitedRetries bounds the attempts of a call for which a client waits.
func LimitedRetries(ctx workflow.Context) workflow.Context {
	return workflow.WithRetryPolicy(ctx, temporal.RetryPolicy{
		InitialInterval: time.Second, MaximumAttempts: 3, NonRetryableErrorTypes: []string{NotRegistered},
	})
}

// WithPower is for a change of a device's power, for which a client waits. once: it is
// attempted only once. Servers take minutes to shut down.
func WithPower(ctx workflow.Context, host, summary string, once bool) workflow.Context {
	ctx = workflow.WithHeartbeatTimeout(OnHost(ctx, host, summary, HostResponseTimeout), HeartbeatTimeout)
	ctx = LimitedRetries(workflow.WithStartToCloseTimeout(ctx, powerTimeout))
	if once {
		ctx = workflow.WithRetryPolicy(ctx,
			temporal.RetryPolicy{MaximumAttempts: 1, NonRetryableErrorTypes: []string{NotRegistered}})
	}
	return ctx
}

// WithStep is for one hardware step with its budget of running time. Canceling it waits
// until the step has stopped (F9). A crash is retried without limit; each attempt resumes
// from the host's journal.
func WithStep(ctx workflow.Context, host, summary string, silentAfter, budget time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.HostQueue(host),
		ScheduleToStartTimeout: silentAfter,
		StartToCloseTimeout:    budget + startToCloseSlack,
		HeartbeatTimeout:       HeartbeatTimeout,
		WaitForCancellation:    true,
		RetryPolicy:            hostRetries(30 * time.Second),
		Summary:                summary,
	})
}

// WithLongCall is for one long call on a task queue. Each attempt may take timeout, and
// ends if it does not heartbeat for heartbeat; 0 is no bound.
func WithLongCall(ctx workflow.Context, queue, summary string, timeout, heartbeat time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: timeout,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         hostRetries(time.Minute),
		Summary:             summary,
	})
}

// WithPage is for one page of the polls. It is tried a few times only: the next round reads
// the page again.
func WithPage(ctx workflow.Context, summary string) workflow.Context {
	return LimitedRetries(workflow.WithStartToCloseTimeout(WithInventory(ctx, summary), pageTimeout))
}

// WithAppliance is for one read of a shared pool's appliance, which is retried without limit.
func WithAppliance(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithRetryPolicy(WithInventory(ctx, summary), *hostRetries(time.Minute))
}

// WithProfile is for the application or the removal of a server's profile, which is retried
// without limit. The appliance's file bounds each attempt; profileTimeout is only the net.
func WithProfile(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithWaitForCancellation(WithLongCall(ctx, contract.Queue, summary, profileTimeout, HeartbeatTimeout),
		true)
}

// WhileClientWaits bounds the attempts at an appliance for which a client waits: about three
// minutes if it does not answer. An attempt that goes on is not bounded.
func WhileClientWaits(ctx workflow.Context) workflow.Context {
	limited := hostRetries(30 * time.Second)
	limited.MaximumAttempts = 9
	return workflow.WithRetryPolicy(ctx, *limited)
}

func hostRetries(maximum time.Duration) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: maximum,
		NonRetryableErrorTypes: []string{NotRegistered},
	}
}
