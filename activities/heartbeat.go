package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// heartbeater sends the latest progress until it is stopped. The SDK throttles what it
// sends; its own goroutine keeps a server that does not answer from slowing the step.
// Progress is sent with the next one, within a second: a step that takes a moment sends none,
// each of which costs the server as much as a start. A wait is sent at once. It also watches
// whether the step waits or makes no progress.
type heartbeater struct {
	mu       sync.Mutex
	progress contract.Progress
	waits    *stepWaits
	changed  chan struct{} // capacity 1: the step waits, or waits no longer
	stop     func()        // ends the heartbeats; it is called once
}

// finalTimeout bounds how long stop waits for a heartbeat that is being sent.
const finalTimeout = time.Second

func startHeartbeats(ctx context.Context, p contract.Progress, waits *stepWaits) *heartbeater {
	h := &heartbeater{progress: p, waits: waits, changed: make(chan struct{}, 1)}
	h.stop = beatWhileItRuns(time.Second, h.changed, func() {
		h.watch(ctx)
		activity.RecordHeartbeat(ctx, h.now())
	})
	return h
}

// beatWhileItRuns calls beat after each interval and each change, in its own goroutine, until
// stop is called; that is once. stop waits, at most finalTimeout, for a heartbeat that is
// being sent: the activity's end would break it off, which the SDK logs as a warning.
func beatWhileItRuns(every time.Duration, changed <-chan struct{}, beat func()) (stop func()) {
	stopped, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-changed:
			case <-tick.C:
			}
			select {
			case <-stopped: // of two that are ready, select takes either
				return
			default:
			}
			beat()
		}
	}()
	return func() {
		close(stopped)
		select {
		case <-finished:
		case <-time.After(finalTimeout):
		}
	}
}

func (h *heartbeater) now() contract.Progress {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.progress
}

// start sets the progress without a heartbeat: the first wait or checkpoint follows, and
// says more.
func (h *heartbeater) start(offset int64, ran time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress.Offset, h.progress.RunTime = offset, ran
}

// budget sets when the step's budget ends.
func (h *heartbeater) budget(ends time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress.BudgetEnds = ends.UTC().Truncate(time.Second)
}

func (h *heartbeater) set(offset int64, ran time.Duration) {
	h.update(func(to *contract.Progress) {
		h.waits.worked(to, offset > to.Offset)
		to.Offset, to.RunTime, to.Waiting = offset, ran, ""
	})
}

// percent shows how far a step is that counts no bytes, and what it does. Either is progress
// when it changes.
func (h *heartbeater) percent(done int, doing string) {
	h.update(func(to *contract.Progress) {
		h.waits.worked(to, done > to.Percent || doing != to.Doing)
		to.Percent, to.Doing, to.Waiting = done, doing, ""
	})
}

// wait shows what the step waits for; code is its fault if that lasts. With "" it waits no
// longer.
func (h *heartbeater) wait(code device.Code, what string) {
	h.update(func(to *contract.Progress) {
		h.waits.waiting(to, code, what)
		to.Waiting = what
	})
	select {
	case h.changed <- struct{}{}:
	default: // the heartbeat that is due sends the latest anyway
	}
}

// watch reports a wait that lasts, and its end.
func (h *heartbeater) watch(ctx context.Context) {
	h.mu.Lock()
	h.waits.check(&h.progress)
	h.mu.Unlock()
	h.send(ctx)
}

func (h *heartbeater) update(change func(*contract.Progress)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.progress)
}
