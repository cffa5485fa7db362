package activities

import (
	"context"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	"burnish/internal/host"
	"burnish/workflows/contract"
)

// InHand notes every attempt of this worker for as long as it runs, for the worker
// that follows should this one be killed (SAFETY F2).
type InHand struct {
	interceptor.WorkerInterceptorBase
	Attempts *host.Attempts
	Log      *slog.Logger
}

// InterceptActivity is called by the SDK for each attempt.
func (h *InHand) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &inHand{InHand: h}
	i.Next = next
	return i
}

type inHand struct {
	interceptor.ActivityInboundInterceptorBase
	*InHand
}

// ExecuteActivity runs the attempt between its note and the note's end.
func (i *inHand) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	orphan := host.Orphan{Token: info.TaskToken, What: info.ActivityType.Name + " of " + info.WorkflowExecution.ID}
	for _, arg := range in.Args {
		if step, ok := arg.(contract.StepInput); ok {
			orphan.Key = fenceKey(step.Identity, step.Enrolment.Name)
		}
	}
	end, err := i.Attempts.Begin(orphan)
	if err != nil {
		i.Log.Warn("an attempt could not be noted: a crash now would cost its time-out", "attempt", orphan.What, "error", err)
	}
	defer end()
	return i.Next.ExecuteActivity(ctx, in)
}
