package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/proof"
	"burnish/workflows/contract"
)

// Hardware holds the activities that a host's worker carries out on devices: Discover,
// Forget, and one for each step.
type Hardware struct {
	Host    *host.Host
	Drivers map[string]hardware.Driver
	Steps   steps.List
	Slots   *host.Slots
	// Key is the host's own, by which it signs what it did.
	Key   proof.HostKey
	Log   *slog.Logger
	trail trail

	enrolling sync.Mutex // held from the check of who has a device to its record
	opened    sync.Map   // by device, until when a step that has it open may cause events; zero: until it closes it
	// Confirm sends a heartbeat that fails unless the server still expects this attempt;
	// only tests leave it nil.
	Confirm func(ctx context.Context, token []byte, details ...any) error
	// Clock is the time since the machine's start, with that in suspension; nil is the
	// kernel's.
	Clock func() time.Duration
	// Report sends the device's workflow what its step waits for; only tests leave it nil.
	Report ReportWait
}

// confirmTimeout bounds the wait for the server's confirmation.
const confirmTimeout = 10 * time.Second

// retryNowDelay replaces the retry policy's interval where a longer one has no use.
const retryNowDelay = 20 * time.Millisecond

// eventsAfter is how long udev may take to report a disk as changed because a step that could write has closed it.
const eventsAfter = time.Second

// AtWork says that a step causes such an event of the device: what the kernel reports while the step has it open, and
// what a program requests after that.
func (h *Hardware) AtWork(name string, requested bool) bool {
	until, worked := h.opened.Load(name)
	end, _ := until.(time.Time)
	return worked && (end.IsZero() || requested && time.Now().Before(end))
}

// Step gives the activity of one step. It holds the device's fence as long as anything
// touches the device, waits for one of the host's slots, and runs the step from the
// journal's resume point, with heartbeats.
//
// A second attempt waits until the first one's last I/O has returned, and continues from
// the journal; that of a step that only reads begins again (F37). One that starts after a step
// that writes is done reads the device's identity and returns the recorded result. One that a
// later scheduling has superseded leaves the device alone. Retried: transient faults, a restarted
// or stopping worker, an unreachable server. Final: everything else.
//
// After a step that took a moment it begins the input's next step too: see follow.
func (h *Hardware) Step(step steps.Step) func(context.Context, contract.StepInput) (contract.StepAnswer, error) {
	return func(ctx context.Context, in contract.StepInput) (contract.StepAnswer, error) {
		a := &attempt{Hardware: h, step: step, in: in, info: activity.GetInfo(ctx), began: time.Now()}
		result, err := a.do(ctx)
		answer := contract.StepAnswer{StepResult: result, Statement: a.statement}
		if err == nil {
			answer.Next = a.follow(ctx, result)
			answer.SeenAt = a.info.StartedTime.Add(a.seen).UTC()
		}
		return answer, err
	}
}

// do runs the attempt and says how it ended.
func (a *attempt) do(ctx context.Context) (contract.StepResult, error) {
	result, err := a.run(ctx)
	if err == nil && a.in.Reservation != "" {
		a.statement, err = SignStep(a.Key, a.Host.Name(), a.in, result)
	}
	err = a.where(a.explain(ctx, err))
	a.dropSlot(err)
	a.reportFailure(ctx, err)
	a.meter(ctx, err)
	a.logEnd(result, err)
	return result, err
}

// attempt is one attempt of one scheduling of one step.
type attempt struct {
	*Hardware
	step       steps.Step
	in         contract.StepInput
	info       activity.Info
	heartbeats *heartbeater
	entry      host.Entry
	// began is when the activity did, here; the server's clock has info.StartedTime for it. seen is how long after it
	// the last step still had the device.
	began time.Time
	seen  time.Duration
	// since is when the running time of this attempt started (F8); used is that of
	// earlier attempts.
	since time.Time
	used  time.Duration
	// repeated: an earlier attempt had done the step.
	repeated bool
	// begun: an attempt of this clean had one of the host's slots. resumes: an earlier attempt
	// has worked at this step. seed is that of the step's samples, 0 if it took none.
	begun, resumes bool
	seed           uint64
	// statement is what the host signed of the step; "": it was not asked for.
	statement string
	// lease is the attempt's right to write.
	lease *lease
	// follows: the step follows another one in its activity, for a moment. before is that one's
	// lease, nil if it had none: the server's last answer is about the same activity.
	follows bool
	before  *lease
}

// meter counts the attempt by what became of it.
func (a *attempt) meter(ctx context.Context, err error) {
	result := contract.ResultDone
	switch {
	case temporal.IsCanceledError(err):
		result = contract.ResultStopped
	case retriedFault(err) != nil:
		result = contract.ResultRetried
	case err != nil:
		result = contract.ResultFailed
	case a.repeated:
		result = contract.ResultRepeated
	}
	activity.GetMetricsHandler(ctx).
		WithTags(map[string]string{contract.LabelStep: a.step.Name, contract.LabelResult: result}).
		Counter(contract.FigureStepAttempts).Inc(1)
}

func (a *attempt) run(ctx context.Context) (contract.StepResult, error) {
	driver, err := a.driver(a.in.Enrollment)
	if err != nil {
		return contract.StepResult{}, err
	}
	if a.in.Version != a.step.Version {
		return contract.StepResult{}, &device.Fault{Class: device.Permanent, Code: device.CodePlanOutdated,
			Message: fmt.Sprintf("the plan has version %d of %s, this host %d", a.in.Version, a.step.Name, a.step.Version)}
	}
	if err := a.step.Args.CheckRecorded(a.in.Args); err != nil {
		return contract.StepResult{}, &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
			Message: a.step.Name + ": " + err.Error(), Remedy: "check that the workers are of one release, then clean " +
				a.in.Enrollment.Name + " again"}
	}
	progress, ok := a.lastHeartbeat(ctx)
	if !ok {
		progress = contract.Progress{Step: a.step.Name, Size: a.in.Identity.Size}
	}
	progress.Seq = a.in.Seq
	a.heartbeats = startHeartbeats(ctx, progress, a.newWaits(&progress))
	defer a.heartbeats.stop()

	waitCtx, stopWaiting := cancelOnStop(ctx)
	defer stopWaiting()
	fence, err := a.Host.Fence(waitCtx, fenceKey(a.in.Identity, a.in.Enrollment.Name), func(holder string) {
		a.heartbeats.wait(device.CodeFenceHeld, "waiting for the device's last I/O to end: "+holder)
	})
	if err != nil {
		return contract.StepResult{}, err
	}
	// Once the step's goroutine runs, it closes the fence after its last I/O.
	handedOver := false
	defer func() {
		if !handedOver {
			a.close(fence)
		}
	}()
	result, done, err := a.admit(ctx)
	if err != nil {
		return contract.StepResult{}, err
	}
	if a.repeated = done; done {
		return result, a.inspectAgain(waitCtx, driver, fence)
	}
	release, err := a.acquireSlot(waitCtx)
	if err != nil {
		return contract.StepResult{}, err
	}
	defer func() {
		if !handedOver {
			release(false)
		}
	}()
	if err := fence.Describe(a.step.Name + " of " + a.in.Enrollment.Name); err != nil {
		return contract.StepResult{}, err
	}
	a.logStart()
	handedOver = true
	return a.work(ctx, driver, fence, func(keep bool) { release(keep); a.close(fence) })
}

var (
	errStopping    = errors.New("this worker is stopping")
	errLostContact = errors.New("contact to the server was lost")
	errStillQueued = errors.New("no slot became free in time")
)

// stopNow says whether the cause that ended an activity's context stops the step in the
// middle of a chunk: a cancellation, a pause, a time-out or the end of the worker. An
// unreachable server lets it finish its chunk (F3).
func stopNow(cause error) bool {
	return temporal.IsCanceledError(cause) || errors.Is(cause, activity.ErrActivityPaused) ||
		errors.Is(cause, activity.ErrActivityReset) || errors.Is(cause, context.DeadlineExceeded) ||
		errors.Is(cause, worker.ErrWorkerShutdown)
}

// explain turns an attempt's error into the one that says whether and when the server
// retries it.
func (a *attempt) explain(ctx context.Context, err error) error {
	return explain(ctx, err, a.in.Enrollment.Name)
}

// where adds to the fault of a step that failed for good how far it was, and in which attempt.
func (a *attempt) where(err error) error {
	refusal, ok := contract.RefusalOf(err)
	if !ok || a.heartbeats == nil || refusal.Fault.Class == device.Transient {
		return err
	}
	now := a.heartbeats.now()
	refusal.Progress, refusal.Attempt = &now, a.info.Attempt
	return contract.Refuse(refusal)
}

// explain says why an attempt at the named device ended, from its error and the end of its
// context.
func explain(ctx context.Context, err error, name string) error {
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	switch {
	case temporal.IsCanceledError(cause):
		return temporal.NewCanceledError()
	case errors.Is(err, errStillQueued):
		return retryNow(device.CodeWaitingForSlot, "still waiting for a slot of this host")
	case errors.Is(err, errNotAMoment):
		return retryNow(device.CodeInterrupted, "the step takes longer than a moment: it continues in an activity of its own")
	case errors.Is(err, errStopping), errors.Is(cause, worker.ErrWorkerShutdown):
		return retryNow(device.CodeWorkerStopping, "this worker is stopping; the next attempt continues")
	case errors.Is(cause, activity.ErrActivityPaused), errors.Is(cause, activity.ErrActivityReset):
		return retryNow(device.CodeInterrupted, "the activity was paused or reset")
	case errors.Is(err, errLostContact), ctx.Err() != nil:
		return retryNow(device.CodeServerUnreachable, "contact to the server was lost")
	}
	return asError(err, name)
}

// retryNow is a transient fault that the server retries without a pause.
func retryNow(code device.Code, message string) error {
	return temporal.NewApplicationErrorWithOptions(message, string(code), temporal.ApplicationErrorOptions{
		NextRetryDelay: retryNowDelay,
		Details:        []any{contract.Refusal{Fault: device.Fault{Class: device.Transient, Code: code, Message: message}}},
	})
}
