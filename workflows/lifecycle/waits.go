package lifecycle

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The first and the longest pause between two tries of work that failed.
const (
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

// backoff waits before failed work is tried again: longer each time, and at most until the
// next hint. The device shows the cause meanwhile.
func (d *run) backoff(ctx workflow.Context, f *device.Fault) {
	switch f.Code {
	case device.CodeHostUnreachable:
		d.Waiting(ctx, contract.WaitHost, f)
	case device.CodeProfileFailed:
		d.Waiting(ctx, contract.WaitAppliance, f)
	default:
		d.Waiting(ctx, contract.WaitInventory, f)
	}
	if d.backingOff {
		return
	}
	pause := maxBackoff
	if d.failures < 5 {
		pause = minBackoff << d.failures
	}
	d.failures++
	d.backingOff, d.hinted = true, false
	workflow.Go(ctx, func(ctx workflow.Context) {
		d.await(ctx, pause, "retry "+d.State.Name, func() bool { return d.hinted })
		d.backingOff = false
	})
}

// recovered ends what backoff began.
func (d *run) recovered(ctx workflow.Context) {
	d.failures = 0
	for _, waitsFor := range []string{contract.WaitInventory, contract.WaitHost, contract.WaitAppliance} {
		if !d.Calling(waitsFor) {
			d.EndWait(ctx, waitsFor)
		}
	}
}

// awaitFor waits until cond holds, at most for a time, and says whether it holds. Its timer is
// canceled then: one that fires for nothing costs a workflow task.
func (d *run) awaitFor(ctx workflow.Context, atMost time.Duration, summary string, cond func() bool) (bool, error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	return workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout: atMost, TimerOptions: workflow.TimerOptions{Summary: summary},
	}, cond)
}

// await waits until cond holds, at most for a time.
func (d *run) await(ctx workflow.Context, atMost time.Duration, summary string, cond func() bool) {
	if _, err := d.awaitFor(ctx, atMost, summary, cond); err != nil {
		workflow.GetLogger(ctx).Warn("timer ended early", "device", d.State.Name, "error", err)
	}
}

// callOperator waits until the operator is to be called because of a wait, and does so
// unless the wait has ended.
func (d *run) callOperator(ctx workflow.Context) {
	at := d.NextCall()
	d.await(ctx, at.Sub(workflow.Now(ctx)), "call the operator for "+d.State.Name,
		func() bool { return !d.NextCall().Equal(at) })
	if d.NextCall().Equal(at) {
		d.CallOperator(ctx)
	}
}

// The pauses between cleans that begin again because another client writes the provider
// (F5): none before the second clean, then longer each time. The count ends after a quiet
// time.
const (
	minForeignPause = 5 * time.Second
	maxForeignPause = 10 * time.Minute
	// callAfterForeignWrites is how many of them call the operator.
	callAfterForeignWrites = 3
)

// pauseClean puts off the next clean of a device whose provider another client wrote again
// and again. Its reservation is kept up meanwhile.
func (d *run) pauseClean(ctx workflow.Context) bool {
	w, begun := d.State.ForeignWrites, d.State.Device.State
	if w == nil || w.Count < 2 || !d.State.Device.BeingCleaned() {
		return false
	}
	end := w.At.Add(min(minForeignPause<<min(w.Count-2, 10), maxForeignPause))
	pause := end.Sub(workflow.Now(ctx))
	if pause <= 0 {
		return false
	}
	f := &device.Fault{Class: device.Transient, Code: device.CodeReservationChanged,
		Message: fmt.Sprintf("another client wrote its provider during %d cleans, which had to begin again; the next one "+
			"begins at %s", w.Count, end.UTC().Format(time.RFC3339)),
		Remedy: "find out which other client writes this provider, and stop it"}
	if d.pool.Shared() {
		f.Message = fmt.Sprintf("others changed its server, or its provider, %d times, and it had to be cleaned again; "+
			"the next clean begins at %s", w.Count, end.UTC().Format(time.RFC3339))
		f.Remedy = "find out who changes it; if the appliance changes idle servers by itself, set ignore_etags in " +
			"oneview.yaml"
	}
	if w.Count >= callAfterForeignWrites {
		d.WaitingUntil(ctx, contract.WaitPause, f, workflow.Now(ctx))
	} else {
		d.Waiting(ctx, contract.WaitPause, f)
	}
	d.pausing, d.State.Intent.EnsureReserved = true, true
	workflow.Go(ctx, func(ctx workflow.Context) {
		d.await(ctx, pause, "pause before the clean of "+d.State.Name, func() bool { return d.State.Device.State != begun })
		d.pausing = false
		d.EndWait(ctx, contract.WaitPause)
	})
	return true
}
