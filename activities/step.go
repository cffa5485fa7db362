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

// Hardware is what a host worker does to devices: Discover, Forget, and one activity
// a step.
type Hardware struct {
	Host    *host.Host
	Drivers map[string]hardware.Driver
	Steps   steps.List
	Slots   *host.FairSemaphore
	Log     *slog.Logger

	enrolling sync.Mutex // between the look whether a piece is taken and the taking
	// Confirm asks the server whether an attempt is still the one, with a heartbeat;
	// only tests leave it out.
	Confirm func(ctx context.Context, token []byte, details ...any) error
}

// slotPatience is how long an attempt waits for a slot before it leaves, keeps its
// place and is retried: well below what StartToClose has over the budget, which a
// step that began late would otherwise not be given whole.
const maxSlotWait = 30 * time.Second

// confirmWithin bounds the wait for the server's word.
const confirmTimeout = 10 * time.Second

// retryAtOnce overrides the retry policy's pause where nothing is gained by one.
const retryNowDelay = 20 * time.Millisecond

// Step gives the activity of one step. It holds the device's fence for as long as
// anything touches the device, waits for a slot of the host, and runs the step from
// the journal's resume point, heartbeating.
//
// A second attempt waits for the first's last I/O and goes on from the journal; one
// that comes after the step was done returns what was recorded; one that was
// overtaken by a later scheduling leaves the device alone. Retried: transient
// faults, a restarted or stopping worker, lost contact. Final: everything else.
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
	// since is when the running time of this attempt began (F8).
	since time.Time
	used  time.Duration // by earlier attempts
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
	// Whoever does I/O closes the fence, after its last I/O returned.
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

// admit asks the journal, under the fence, whether this attempt may touch the device.
func (a *attempt) admit(ctx context.Context) (contract.StepResult, bool, error) {
	stored, found, err := a.Host.Journal(a.in.Enrollment.Name).Load()
	corrupt := errors.As(err, new(*host.CorruptError))
	if corrupt {
		a.Log.Warn("journal is unreadable: the step begins again", "device", a.in.Enrollment.Name, "error", err)
	} else if err != nil {
		return contract.StepResult{}, false, err
	}
	if !found {
		// The entry is gone and its Seq with it; the record has that too.
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
	if sameStep && !stored.Done { // what was done has been reported and counted
		a.used = stored.RunTime
		redone = stored.Reprocessed
	}
	if !found {
		// The journal is gone; what the server was last told is the fallback (F2), but
		// for the offset of one that is there and cannot be trusted.
		if last, ok := a.lastHeartbeat(ctx); ok {
			a.used = last.RunTime
			if !corrupt {
				offset = last.Offset
			}
		}
	}
	if crashed {
		again := a.in.Identity.Size - offset
		if a.in.Operation != device.Script { // whose program begins again
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

// clean is what the journal calls this clean: what an older version of the step did
// half does not count for this one (S3.16).
func (a *attempt) clean() string { return fmt.Sprintf("%s v%d", a.in.Clean, a.step.Version) }

// lastHeartbeat is how far an earlier attempt of this same step told the server it
// had got.
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

// slot waits for one of the host's slots. A wait spends no budget, so that an
// attempt whose StartToClose comes near leaves, keeps its place, and is retried.
func (a *attempt) acquireSlot(ctx context.Context) (func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(maxSlotWait, func() { cancel(host.ErrWillRetry) })
	defer patience.Stop()
	return a.Slots.Acquire(ctx, a.in.Enrollment.Name, func(place int) {
		a.heartbeats.wait(fmt.Sprintf("waiting, place %d", place))
	})
}

// untilStop ends with the worker's stop too: what only waits need not be waited for.
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

// work does the step in a goroutine of its own, so that I/O that no context can stop
// cannot keep the workflow waiting past the budget; done is called when the last
// I/O has returned.
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
	// Only what must stop the step at once ends its context (F3).
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
		// Under the fence to the last: once it is free the journal is another's.
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
		// Cancelled: wait for the step (F9).
		e := <-ended
		return e.result, e.err
	}
	// The budget ended. The hardware may still work; the fence stays with it, and the
	// next clean waits for that.
	grace := time.NewTimer(5 * time.Second)
	defer grace.Stop()
	select {
	case e := <-ended:
		return e.result, e.err
	case <-grace.C:
		return contract.StepResult{}, a.timeout()
	}
}

// busyPatience is how long a device may be in use by somebody else before that needs an
// operator: a guest that was told to go takes a while.
const busyTimeout = 20 * time.Second

// open opens the device. While somebody else uses it, it waits for the end of that, but
// not for ever: a mount does not end by itself.
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
		a.heartbeats.wait("waiting for another use to end: " + f.Message)
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-activity.GetWorkerStopChannel(ctx):
			return nil, errStopping
		}
	}
}

// perform does the step; a panic in it is its error.
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

// atOnce says whether the end of an activity's context must stop the step in the
// middle of a chunk: what the operator or the worker's end asks for. Lost contact
// lets it finish its chunk (F3).
func stopNow(cause error) bool {
	return temporal.IsCanceledError(cause) || errors.Is(cause, activity.ErrActivityPaused) ||
		errors.Is(cause, activity.ErrActivityReset) || errors.Is(cause, context.DeadlineExceeded) ||
		errors.Is(cause, worker.ErrWorkerShutdown)
}

// explain gives an attempt's error the form that says whether and when it is retried.
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
		return retryNow(device.CodeWorkerStopping, "this worker stops; the next one goes on")
	case errors.Is(cause, activity.ErrActivityPaused), errors.Is(cause, activity.ErrActivityReset):
		return retryNow(device.CodeInterrupted, "paused or reset from outside")
	case errors.Is(err, errLostContact), ctx.Err() != nil:
		return retryNow(device.CodeServerUnreachable, "contact to the server was lost")
	}
	return asError(err, a.in.Enrollment.Name)
}

// soon is a fault that the server retries at once.
func retryNow(code device.Code, message string) error {
	return temporal.NewApplicationErrorWithOptions(message, string(code), temporal.ApplicationErrorOptions{
		NextRetryDelay: retryNowDelay,
		Details:        []any{contract.Refusal{Fault: device.Fault{Class: device.Transient, Code: code, Message: message}}},
	})
}
