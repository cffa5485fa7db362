package activities

import (
	"context"
	"encoding/json"
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
	"burnish/workflows/contract"
)

// Hardware holds the activities that a host's worker carries out on devices: Discover,
// Forget, and one for each step.
type Hardware struct {
	Host    *host.Host
	Drivers map[string]hardware.Driver
	Steps   steps.List
	Slots   *host.FairSemaphore
	Log     *slog.Logger

	enrolling sync.Mutex // held from the check of who has a device to its record
	// Confirm sends a heartbeat that fails unless the server still expects this attempt;
	// only tests leave it nil.
	Confirm func(ctx context.Context, token []byte, details ...any) error
}

// maxSlotWait is how long one attempt waits for a slot. Then it ends, keeps its place in
// the queue and is retried. It is well below the margin that StartToClose has over the
// budget: a step that starts late still has its whole budget.
const maxSlotWait = 30 * time.Second

// confirmTimeout bounds the wait for the server's confirmation.
const confirmTimeout = 10 * time.Second

// retryNowDelay replaces the retry policy's interval where a longer one has no use.
const retryNowDelay = 20 * time.Millisecond

// Step gives the activity of one step. It holds the device's fence as long as anything
// touches the device, waits for one of the host's slots, and runs the step from the
// journal's resume point, with heartbeats.
//
// A second attempt waits until the first one's last I/O has returned, and continues from
// the journal. One that starts after the step is done returns the recorded result. One
// that a later scheduling has superseded leaves the device alone. Retried: transient
// faults, a restarted or stopping worker, an unreachable server. Final: everything else.
func (h *Hardware) Step(step steps.Step) func(context.Context, contract.StepInput) (contract.StepResult, error) {
	return func(ctx context.Context, in contract.StepInput) (contract.StepResult, error) {
		a := &attempt{Hardware: h, step: step, in: in, info: activity.GetInfo(ctx)}
		result, err := a.run(ctx)
		return result, a.explain(ctx, err)
	}
}

// attempt is one attempt of one scheduling of one step.
type attempt struct {
	*Hardware
	step       steps.Step
	in         contract.StepInput
	info       activity.Info
	heartbeats *heartbeater
	entry      host.Entry
	// since is when the running time of this attempt started (F8); used is that of
	// earlier attempts.
	since time.Time
	used  time.Duration
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
	progress, ok := a.lastHeartbeat(ctx)
	if !ok {
		progress = contract.Progress{Step: a.step.Name, Size: a.in.Identity.Size}
	}
	progress.Seq = a.in.Seq
	a.heartbeats = startHeartbeats(ctx, progress)
	defer a.heartbeats.stop()

	waitCtx, stopWaiting := cancelOnStop(ctx)
	defer stopWaiting()
	fence, err := a.Host.Fence(waitCtx, fenceKey(a.in.Identity, a.in.Enrollment.Name), func(holder string) {
		a.heartbeats.wait("waiting for the device's last I/O to end: " + holder)
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
	if result, done, err := a.admit(ctx); done || err != nil {
		return result, err
	}
	release, err := a.acquireSlot(waitCtx)
	if err != nil {
		return contract.StepResult{}, err
	}
	defer func() {
		if !handedOver {
			release()
		}
	}()
	if err := fence.Describe(a.step.Name + " of " + a.in.Enrollment.Name); err != nil {
		return contract.StepResult{}, err
	}
	handedOver = true
	return a.work(ctx, driver, fence, func() { release(); a.close(fence) })
}

// admit asks the journal, under the fence, whether this attempt may touch the device. It
// returns the recorded result of a step that is already done.
func (a *attempt) admit(ctx context.Context) (contract.StepResult, bool, error) {
	stored, found, err := a.Host.Journal(a.in.Enrollment.Name).Load()
	corrupt := errors.As(err, new(*host.CorruptError))
	if corrupt {
		a.Log.Warn("the journal is unreadable: the step starts over", "device", a.in.Enrollment.Name, "error", err)
	} else if err != nil {
		return contract.StepResult{}, false, err
	}
	if !found {
		// With the entry its Seq is lost; the host's record has that too.
		record, known, err := a.Host.LoadRecord(a.in.Enrollment.Name)
		if err != nil {
			return contract.StepResult{}, false, err
		}
		stored, found = host.Entry{Seq: record.Seq}, known && record.Seq > a.in.Seq
	}
	verdict := host.Admit(stored, found, a.in.Seq, a.info.Attempt)
	switch {
	case verdict.Fault != nil:
		return contract.StepResult{}, false, verdict.Fault
	case verdict.Done:
		var result contract.StepResult
		if err := json.Unmarshal(verdict.Result, &result); err != nil {
			return result, false, fmt.Errorf("recorded result of %s: %w", a.step.Name, err)
		}
		return result, true, nil
	}
	sameStep := found && stored.Clean == a.clean() && stored.Step == a.step.Name
	crashed := sameStep && stored.Working && !stored.Done
	if crashed && a.in.Settings.OnInterrupt == device.InterruptError {
		return contract.StepResult{}, false, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInterrupted,
			Message: a.step.Name + " was interrupted by a crash", Remedy: "clean " + a.in.Enrollment.Name + " (BURNISH_ON_INTERRUPT=error)"}
	}
	offset := host.ResumeOffset(stored, found, a.clean(), a.step.Name, a.in.Identity.Serial, a.in.Identity.Size)
	redone := int64(0)
	if sameStep && !stored.Done { // a finished step has reported its own
		a.used = stored.RunTime
		redone = stored.Reprocessed
	}
	if !found {
		// The last heartbeat replaces a lost journal (F2). Of one that is there and
		// unreadable it does not replace the offset, which may not be trusted.
		if last, ok := a.lastHeartbeat(ctx); ok {
			a.used = last.RunTime
			if !corrupt {
				offset = last.Offset
			}
		}
	}
	if crashed {
		again := a.in.Identity.Size - offset
		if a.in.Operation != device.Script { // a program starts over
			again = min(again, steps.Chunk)
		}
		redone += again
	}
	a.entry = host.Entry{
		Seq: a.in.Seq, Attempt: a.info.Attempt, Clean: a.clean(), Step: a.step.Name,
		Serial: a.in.Identity.Serial, Size: a.in.Identity.Size, Offset: offset, RunTime: a.used,
		Reprocessed: redone, EvidenceOf: a.in.Clean,
	}
	if found && stored.EvidenceOf == a.in.Clean {
		a.entry.Evidence = stored.Evidence
	}
	a.heartbeats.start(offset, a.used)
	return contract.StepResult{}, false, nil
}

// clean is the journal's key of this clean: work of an older version of the step does not
// count for this one (S3.16).
func (a *attempt) clean() string { return fmt.Sprintf("%s v%d", a.in.Clean, a.step.Version) }

// lastHeartbeat gives the progress that an earlier attempt of this step last reported, if
// it describes this device.
func (a *attempt) lastHeartbeat(ctx context.Context) (contract.Progress, bool) {
	last := a.in.Resume
	if activity.HasHeartbeatDetails(ctx) {
		var p contract.Progress
		if err := activity.GetHeartbeatDetails(ctx, &p); err == nil {
			last = &p
		}
	}
	if last == nil || last.Step != a.step.Name || last.Offset < 0 || last.Offset > a.in.Identity.Size || last.Size != a.in.Identity.Size {
		return contract.Progress{}, false
	}
	return *last, true
}

// acquireSlot waits for one of the host's slots, at most maxSlotWait. The wait spends no
// budget.
func (a *attempt) acquireSlot(ctx context.Context) (func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(maxSlotWait, func() { cancel(host.ErrWillRetry) })
	defer timeout.Stop()
	return a.Slots.Acquire(ctx, a.in.Enrollment.Name, a.heartbeats.queue)
}

// cancelOnStop gives a context that also ends when the worker stops, for an attempt that
// still waits.
func cancelOnStop(ctx context.Context) (context.Context, func()) {
	waitCtx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			cancel(errStopping)
		case <-waitCtx.Done():
		}
	}()
	return waitCtx, func() { cancel(nil) }
}

// work runs the step in its own goroutine: I/O that no context can stop must not keep the
// workflow waiting past the budget. It calls done when the last I/O has returned.
func (a *attempt) work(ctx context.Context, driver hardware.Driver, fence *host.Fence, done func()) (contract.StepResult, error) {
	remaining := a.in.Budget - a.used
	if remaining <= 0 {
		done()
		return contract.StepResult{}, a.timeout()
	}
	if err := a.saveRecord(); err != nil {
		done()
		return contract.StepResult{}, err
	}
	// Only a reason to stop at once ends the step's context (F3).
	workCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	timer := time.AfterFunc(remaining, func() { stop(a.timeout()) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() {
		if stopNow(context.Cause(ctx)) {
			stop(context.Cause(ctx))
		}
	})()

	a.entry.Working = true
	a.since = time.Now()
	type end struct {
		result contract.StepResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		// The fence stays closed until the journal is written: then it may be another's.
		defer done()
		outcome, err := a.perform(ctx, workCtx, driver, fence)
		result, err := a.journalResult(workCtx, outcome, err)
		ended <- end{result, err}
	}()
	select {
	case e := <-ended:
		return e.result, e.err
	case <-workCtx.Done():
	}
	if !errors.As(context.Cause(workCtx), new(*device.Fault)) {
		// Canceled: wait for the step (F9).
		e := <-ended
		return e.result, e.err
	}
	// The budget is spent. The hardware may still be working: the fence stays held, and
	// the next clean waits for it.
	grace := time.NewTimer(5 * time.Second)
	defer grace.Stop()
	select {
	case e := <-ended:
		return e.result, e.err
	case <-grace.C:
		return contract.StepResult{}, a.timeout()
	}
}

// busyTimeout is how long a device may be in use by another process until an operator is
// needed: a guest takes a while to shut down.
const busyTimeout = 20 * time.Second

// open opens the device. While another process uses it, open waits, at most busyTimeout:
// a mount does not end by itself.
func (a *attempt) open(ctx context.Context, driver hardware.Driver, target hardware.Target) (hardware.Handle, error) {
	deadline := time.Now().Add(busyTimeout)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		handle, err := driver.Open(ctx, target, a.in.Identity, a.step.Writes)
		f, isFault := device.AsFault(err)
		if err == nil || !isFault || f.Code != device.CodeTargetBusy {
			return handle, err
		}
		if !time.Now().Before(deadline) {
			return nil, busyFault(f, a.in.Enrollment.Name)
		}
		a.heartbeats.wait("waiting until the device is not in use: " + f.Message)
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-activity.GetWorkerStopChannel(ctx):
			return nil, errStopping
		}
	}
}

// perform opens the device and runs the step; a panic in it becomes its error.
func (a *attempt) perform(ctx, workCtx context.Context, driver hardware.Driver, fence *host.Fence) (outcome steps.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("step %s panicked: %v", a.step.Name, p)
		}
	}()
	target := targetOf(a.in.Enrollment)
	target.Step, target.Fence = a.step.Name, fence.File()
	handle, err := a.open(workCtx, driver, target)
	if err != nil {
		return outcome, err
	}
	defer func() {
		if closeErr := handle.Close(); err == nil && closeErr != nil {
			err = closeErr
		}
	}()
	if err := a.confirm(ctx); err != nil {
		return outcome, err
	}
	if err := a.checkpoint(ctx, workCtx, fence, a.entry.Offset); err != nil {
		return outcome, err
	}
	return a.step.Run(workCtx, &steps.Work{
		Device: handle, Operation: a.in.Operation, Enrolled: a.in.Identity, Resume: a.entry.Offset,
		Settings:     a.in.Settings,
		SaveEvidence: a.saveEvidence, LoadEvidence: a.loadEvidence,
		Checkpoint: func(offset int64) error { return a.checkpoint(ctx, workCtx, fence, offset) },
	})
}

func (a *attempt) runTime() time.Duration {
	if a.since.IsZero() {
		return a.used
	}
	return a.used + time.Since(a.since)
}

func (a *attempt) timeout() error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeTimeout,
		Message: fmt.Sprintf("%s did not end within its budget of %s", a.step.Name, a.in.Budget),
		Remedy:  "look at the device, then clean " + a.in.Enrollment.Name + " again; BURNISH_CLEANUP_TIMEOUT sets the budget"}
}

func (a *attempt) close(fence *host.Fence) {
	if err := fence.Close(); err != nil {
		a.Log.Warn("fence", "device", a.in.Enrollment.Name, "error", err)
	}
}

var (
	errStopping    = errors.New("this worker is stopping")
	errLostContact = errors.New("contact to the server was lost")
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
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	switch {
	case temporal.IsCanceledError(cause):
		return temporal.NewCanceledError()
	case errors.Is(err, host.ErrWillRetry):
		return retryNow(device.CodeWaitingForSlot, "still waiting for a slot of this host")
	case errors.Is(err, errStopping), errors.Is(cause, worker.ErrWorkerShutdown):
		return retryNow(device.CodeWorkerStopping, "this worker is stopping; the next attempt continues")
	case errors.Is(cause, activity.ErrActivityPaused), errors.Is(cause, activity.ErrActivityReset):
		return retryNow(device.CodeInterrupted, "the activity was paused or reset")
	case errors.Is(err, errLostContact), ctx.Err() != nil:
		return retryNow(device.CodeServerUnreachable, "contact to the server was lost")
	}
	return asError(err, a.in.Enrollment.Name)
}

// retryNow is a transient fault that the server retries without a pause.
func retryNow(code device.Code, message string) error {
	return temporal.NewApplicationErrorWithOptions(message, string(code), temporal.ApplicationErrorOptions{
		NextRetryDelay: retryNowDelay,
		Details:        []any{contract.Refusal{Fault: device.Fault{Class: device.Transient, Code: code, Message: message}}},
	})
}
