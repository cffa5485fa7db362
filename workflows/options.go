package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

const (
	// heartbeatTimeout is the net under a host that does not come back; SAFETY F2
	// wants it ≥ 30 s and more than twice the worst chunk.
	heartbeatTimeout = 30 * time.Second
	// answerWithin bounds inventory calls that somebody waits for.
	clientDeadline = time.Minute
	// callWithin bounds one inventory call: what a call costs whose worker is killed.
	callTimeout = 10 * time.Second
	// hostAnswersWithin bounds the wait for a host's worker at enrolment.
	hostResponseTimeout = 20 * time.Second
	// budgetNet is what StartToClose adds to a step's own budget (F8).
	startToCloseSlack = time.Minute
	// lookAgainAfter spaces repeated looks at an inventory that does not answer.
	backoffInterval = 30 * time.Second
)

// notRegistered is retried for ever by default (measured): it means that the
// worker is older than the plan.
const notRegistered = "ActivityNotRegisteredError"

// withInventory is for calls that may be repeated and have no end: a clean waits
// for its inventory.
func withInventory(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           contract.Queue,
		StartToCloseTimeout: callTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
		Summary: summary,
	})
}

// withAnswer is for calls that may be repeated while somebody waits for the answer.
func withClientDeadline(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(withInventory(ctx, summary), clientDeadline)
}

// once is for the one write that lowers a reservation: never repeated unseen (F5).
func noRetry(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithRetryPolicy(withInventory(ctx, summary), temporal.RetryPolicy{MaximumAttempts: 1})
}

// onHost is for looks at the device by its host. silentAfter bounds the wait for a
// worker to take it; 0 is without limit.
func onHost(ctx workflow.Context, host, summary string, silentAfter time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.HostQueue(host),
		ScheduleToStartTimeout: silentAfter,
		StartToCloseTimeout:    clientDeadline,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
			NonRetryableErrorTypes: []string{notRegistered},
		},
		Summary: summary,
	})
}

// seldom bounds the attempts of a call that somebody waits for.
func limitedRetries(ctx workflow.Context) workflow.Context {
	return workflow.WithRetryPolicy(ctx, temporal.RetryPolicy{
		InitialInterval: time.Second, MaximumAttempts: 3, NonRetryableErrorTypes: []string{notRegistered},
	})
}

// withStep is for one hardware step with its budget of running time. Cancelling
// waits for the step (F9); a crash is retried without end, each attempt going on
// from its journal.
func withStep(ctx workflow.Context, host, summary string, silentAfter, budget time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.HostQueue(host),
		ScheduleToStartTimeout: silentAfter,
		StartToCloseTimeout:    budget + startToCloseSlack,
		HeartbeatTimeout:       heartbeatTimeout,
		WaitForCancellation:    true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
			NonRetryableErrorTypes: []string{notRegistered},
		},
		Summary: summary,
	})
}
