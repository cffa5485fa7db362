package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// work runs the step in its own goroutine: I/O that no context can stop must not keep the
// workflow waiting past the budget. It calls done when the last I/O has returned, with whether the clean
// keeps its slot.
func (a *attempt) work(ctx context.Context, driver hardware.Driver, fence *host.Fence,
	done func(keep bool)) (contract.StepResult, error) {
	remaining := a.in.Budget - a.used
	if remaining <= 0 {
		done(false)
		return contract.StepResult{}, a.timeout()
	}
	a.since = time.Now()
	a.heartbeats.budget(a.since.Add(remaining))
	a.lease = a.newLease(ctx)
	a.lease.begin()
	if err := a.saveRecord(); err != nil {
		done(false)
		return contract.StepResult{}, err
	}
	// Only a reason to stop at once ends the step's context (F3).
	workCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	timer := time.AfterFunc(remaining, func() { stop(a.timeout()) })
	defer timer.Stop()
	if a.follows {
		moment := time.AfterFunc(followsFor, func() { stop(errNotAMoment) })
		defer moment.Stop()
	}
	defer context.AfterFunc(ctx, func() {
		if stopNow(context.Cause(ctx)) {
			stop(context.Cause(ctx))
		}
	})()

	a.entry.Working, a.entry.Slot = true, true
	type end struct {
		result contract.StepResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		outcome, err := a.perform(ctx, workCtx, driver, fence)
		result, err := a.journalResult(ctx, workCtx, outcome, err)
		done(a.entry.Slot) // the journal is written: the fence may be another's
		ended <- end{result, err}
	}()
	select {
	case e := <-ended:
		return e.result, e.err
	case <-workCtx.Done():
	}
	if !budgetSpent(workCtx) && !errors.Is(context.Cause(workCtx), errNotAMoment) {
		// Canceled: wait for the step (F9).
		e := <-ended
		return e.result, e.err
	}
	// The time is spent. The hardware may still be working: the fence stays held, and the next
	// clean or the step's own activity waits for it.
	grace := time.NewTimer(5 * time.Second)
	defer grace.Stop()
	select {
	case e := <-ended:
		return e.result, e.err
	case <-grace.C:
		return contract.StepResult{}, context.Cause(workCtx)
	}
}

// budgetSpent says whether the step's context ended because its budget is spent.
func budgetSpent(workCtx context.Context) bool {
	return errors.As(context.Cause(workCtx), new(*device.Fault))
}

// busyTimeout is how long a device may be in use by another process until an operator is
// needed: a guest takes a while to shut down.
const busyTimeout = 20 * time.Second

// open opens the device. While another process uses it, open waits, at most busyTimeout:
// a mount does not end by itself.
func (a *attempt) open(ctx context.Context, driver hardware.Driver, target hardware.Target,
	writable bool) (hardware.Handle, error) {
	deadline := time.Now().Add(busyTimeout)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		handle, err := driver.Open(ctx, target, a.in.Identity, writable)
		f, isFault := device.AsFault(err)
		if err == nil || !isFault || f.Code != device.CodeTargetBusy {
			return handle, err
		}
		if !time.Now().Before(deadline) {
			return nil, busyFault(f, a.in.Enrollment.Name)
		}
		a.heartbeats.wait(device.CodeTargetBusy, "waiting until the device is not in use: "+f.Message)
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
func (a *attempt) perform(ctx, workCtx context.Context, driver hardware.Driver,
	fence *host.Fence) (outcome steps.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("step %s panicked: %v", a.step.Name, p)
		}
	}()
	target := targetOf(a.in.Enrollment)
	target.Step, target.Fence = a.step.Name, fence.File()
	record, _, err := a.Host.LoadRecord(a.in.Enrollment.Name)
	if err != nil {
		return outcome, err
	}
	target.Reflashed = record.Reflashed.For(a.in.Identity.Serial, a.in.Binding)
	if a.follows { // the journal does not say whether a newer attempt has replaced this one
		if err := a.lease.check(workCtx); err != nil {
			return outcome, err
		}
	}
	handle, err := a.open(workCtx, driver, target, a.step.Writes)
	if err != nil {
		return outcome, err
	}
	a.opened.Store(a.in.Enrollment.Name, time.Time{})
	defer func() { a.opened.Store(a.in.Enrollment.Name, time.Now().Add(eventsAfter)) }()
	defer func() {
		if closeErr := handle.Close(); err == nil && closeErr != nil {
			err = closeErr
		}
	}()
	// Before the first write: the context is as old as the last heartbeat, and a process that was
	// frozen meanwhile could erase the device of a later binding.
	if err := a.lease.check(workCtx); err != nil {
		return outcome, err
	}
	if err := a.recordOffset(fence, a.entry.Offset); err != nil {
		return outcome, err
	}
	if err := a.mayGoOn(ctx, workCtx, fence); err != nil {
		return outcome, err
	}
	before, err := markOf(workCtx, handle)
	if err != nil {
		return outcome, err
	}
	outcome, err = a.step.Run(hardware.WithLease(workCtx, a.lease.check), &steps.Work{
		Device: handle, Operation: a.in.Operation, Enrolled: a.in.Identity, Resume: a.entry.Offset,
		Settings: a.in.Settings, Args: a.in.Args, Rest: a.in.Rest,
		Progress: a.heartbeats.percent, Reflash: a.recordReflash,
		SaveEvidence: a.saveEvidence, LoadEvidence: a.loadEvidence,
		Record:  func(offset int64) error { return a.recordOffset(fence, offset) },
		MayGoOn: func() error { return a.mayGoOn(ctx, workCtx, fence) },
	})
	if handle, ok := handle.(hardware.UserSearcher); ok && err == nil {
		if unseen := handle.Unseen(); unseen != "" { // the record says what was not looked into (F40)
			says := "the worker does not see all processes that may have the device: not " + unseen
			outcome.Note = strings.TrimPrefix(outcome.Note+"; "+says, "; ")
		}
	}
	a.seen = time.Since(a.began)
	switch {
	case err != nil:
	case a.step.Writes:
		err = a.recordMark(workCtx, handle)
	default:
		err = a.requireUnchanged(workCtx, handle, before)
	}
	return outcome, err
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
		Remedy:  "check the device, then clean " + a.in.Enrollment.Name + " again; BURNISH_CLEANUP_TIMEOUT sets the budget"}
}

func (a *attempt) close(fence *host.Fence) {
	if err := fence.Close(); err != nil {
		a.Log.Warn("fence", "device", a.in.Enrollment.Name, "error", err)
	}
}
