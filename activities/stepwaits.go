package activities

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// reportAfter is how long a step waits until its device's workflow gets a report.
const reportAfter = 3 * time.Second

// stepWaits decides what one attempt of a step reports of its waits. What was reported stands
// in the progress, so that the next attempt neither repeats nor forgets it. Its owner holds
// a lock, except for send.
type stepWaits struct {
	device    string
	tellAfter time.Duration
	// report sends one report; nil in tests.
	report func(context.Context, contract.WaitReport) error
	log    *slog.Logger
	// retried: an earlier attempt may have reported a wait that this one must end.
	retried bool

	// code and what are the wait under way, since a time.
	code  device.Code
	what  string
	since time.Time
	// quiet is since when there was no progress, as far as this attempt can tell.
	quiet time.Time

	next    contract.WaitReport // to be sent
	pending bool
	sending chan struct{} // closed when the report under way was sent; nil if none is
}

// newWaits begins the watch over an attempt, which continues from the progress of the last
// one.
func (a *attempt) newWaits(progress *contract.Progress) *stepWaits {
	now := time.Now()
	w := &stepWaits{
		device: a.in.Enrollment.Name, tellAfter: a.in.Settings.TellAfter, log: a.Log,
		retried: a.info.Attempt > 1 || a.in.ReportStart, quiet: now,
	}
	if a.Report != nil {
		w.report = a.sendReport
	}
	if progress.ProgressAt.IsZero() {
		progress.ProgressAt = now.UTC()
	}
	if progress.Waiting != "" { // attempts that wait for a slot end soon, and are one wait
		w.quiet, w.what = progress.ProgressAt, progress.Waiting
	}
	if a.in.ReportStart {
		w.post(contract.WaitReport{})
	}
	return w
}

func (a *attempt) sendReport(ctx context.Context, in contract.WaitReport) error {
	in.For, in.Seq = contract.WaitHost, a.in.Seq
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	return a.Report(ctx, a.info.WorkflowExecution.ID, a.info.WorkflowExecution.RunID, in)
}

func (w *stepWaits) post(in contract.WaitReport) { w.next, w.pending = in, true }

// waiting notes a wait. Another place in a queue is progress.
func (w *stepWaits) waiting(p *contract.Progress, code device.Code, what string) {
	now := time.Now()
	if w.code != code {
		w.since = now
	}
	if code == device.CodeWaitingForSlot && what != w.what {
		w.quiet, p.ProgressAt = now, now.UTC()
	}
	w.code, w.what = code, what
	if code == "" && isWait(p.Reported) {
		w.post(contract.WaitReport{})
		p.Reported = ""
	}
}

// worked notes that the step works; further: it has made progress.
func (w *stepWaits) worked(p *contract.Progress, further bool) {
	now, waited := time.Now(), w.code != ""
	w.code, w.what = "", ""
	switch {
	case further:
		if p.Reported != "" || w.retried {
			w.post(contract.WaitReport{})
		}
		w.retried, p.Reported = false, ""
	case waited && p.Reported == device.CodeNoProgress || isWait(p.Reported):
		w.post(contract.WaitReport{})
		p.Reported = ""
	case !waited:
		return
	}
	w.quiet, p.ProgressAt = now, now.UTC()
}

// isWait says that a reported fault is a wait, which is over when the step works.
func isWait(code device.Code) bool {
	return code == device.CodeWaitingForSlot || code == device.CodeFenceHeld || code == device.CodeTargetBusy ||
		code == device.CodeServerUnreachable
}

// check posts a report if the step waits for a while, or makes no progress for long.
func (w *stepWaits) check(p *contract.Progress) {
	now := time.Now()
	stalled := w.tellAfter > 0 && now.Sub(w.quiet) >= w.tellAfter
	switch {
	case w.code != "" && p.Reported == "" && now.Sub(w.since) >= reportAfter:
		p.Reported = w.code
		w.post(contract.WaitReport{Fault: w.fault(), Moving: w.code == device.CodeWaitingForSlot, Stalled: stalled})
	case stalled && p.Reported != device.CodeNoProgress && w.code != "":
		p.Reported = device.CodeNoProgress
		w.post(contract.WaitReport{Fault: w.fault(), Stalled: true})
	case stalled && p.Reported != device.CodeNoProgress:
		p.Reported = device.CodeNoProgress
		w.post(contract.WaitReport{Stalled: true, Fault: device.Fault{
			Class: device.NeedsOperator, Code: device.CodeNoProgress,
			Message: fmt.Sprintf("the step %s has made no progress since %s, at %d of %d bytes; it goes on, and its budget "+
				"ends at %s",
				p.Step, w.quiet.UTC().Format(time.RFC3339), p.Offset, p.Size, p.BudgetEnds.Format(time.RFC3339)),
			Remedy: "check the device and its host's log; abort " + w.device + " ends the clean"}})
	}
}

func (w *stepWaits) fault() device.Fault {
	f := device.Fault{Class: device.Transient, Code: w.code, Message: w.what}
	switch w.code {
	case device.CodeWaitingForSlot:
		f.Message = "queued: the host runs as many cleans as BURNISH_MAX_CLEANS_PER_HOST allows"
		f.Remedy = "wait, or raise BURNISH_MAX_CLEANS_PER_HOST on the host"
	case device.CodeTargetBusy:
		f.Remedy = "end that use; the step then continues automatically"
	default:
		f.Remedy = "none, if it ends soon; see the host's log"
	}
	return f
}

// send sends what was posted, in its own goroutine: a server that does not answer must not
// delay the heartbeats. What could not be sent is sent again by the next call.
func (h *heartbeater) send(ctx context.Context) {
	w := h.waits
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.pending || w.sending != nil || w.report == nil {
		return
	}
	in := w.next
	w.pending, w.sending = false, make(chan struct{})
	go func() {
		err := w.report(ctx, in)
		h.mu.Lock()
		defer h.mu.Unlock()
		if err != nil {
			w.log.Warn("a wait was not reported to its device, and is reported again", "device", w.device, "error", err)
			if !w.pending {
				w.post(in)
			}
		}
		close(w.sending)
		w.sending = nil
	}()
}

// reportFailure reports a failed attempt that the server retries, once for each cause: what
// the next attempt finds there, and what was reported, go on in the heartbeat. Ends that a
// restart or a lost connection brings are reported only if they come again, and those of a step
// that follows another one when it has an activity of its own.
func (a *attempt) reportFailure(ctx context.Context, err error) {
	f := retriedFault(err)
	if f == nil || a.Report == nil || a.follows {
		return
	}
	switch f.Code {
	case device.CodeWaitingForSlot: // the heartbeats report it
		return
	case device.CodeWorkerStopping, device.CodeInterrupted, device.CodeServerUnreachable:
		if a.info.Attempt < 2 {
			return
		}
	}
	progress := contract.Progress{Step: a.step.Name, Seq: a.in.Seq, Size: a.in.Identity.Size}
	if a.heartbeats != nil {
		progress = a.heartbeats.now()
	}
	if progress.Reported == f.Code {
		return
	}
	if err := a.sendReport(ctx, contract.WaitReport{Fault: *f}); err != nil {
		a.Log.Warn("a wait was not reported to its device", "device", a.in.Enrollment.Name, "error", err)
		return
	}
	progress.Reported = f.Code
	activity.RecordHeartbeat(ctx, progress)
}
