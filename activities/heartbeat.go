package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/workflows/contract"
)

// pulse heartbeats the latest progress until it is stopped. The SDK throttles what is
// sent; a goroutine of its own keeps a server that does not answer from slowing the
// step. The first beat waits a moment for something to tell, because the next one
// that is sent comes a throttle's length later.
type heartbeater struct {
	mu       sync.Mutex
	progress contract.Progress
	changed  chan struct{} // capacity 1: there is something to tell
	stopped  chan struct{} // closed by stop
	finished chan struct{} // closed after the last beat
}

// lastBeat bounds how long stop waits for a beat that is on its way.
const finalTimeout = time.Second

func startHeartbeats(ctx context.Context, p contract.Progress) *heartbeater {
	beat := &heartbeater{progress: p, changed: make(chan struct{}, 1), stopped: make(chan struct{}), finished: make(chan struct{})}
	go func() {
		defer close(beat.finished)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-beat.stopped:
				return
			case <-beat.changed:
			case <-tick.C:
			}
			select {
			case <-beat.stopped: // between two that are ready, select does not choose
				return
			default:
			}
			activity.RecordHeartbeat(ctx, beat.now())
		}
	}()
	return beat
}

func (p *heartbeater) now() contract.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress
}

// start is set without a beat: what comes next, a wait or the first checkpoint, has
// more to tell.
func (p *heartbeater) start(offset int64, ran time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.Offset, p.progress.RunTime = offset, ran
}

func (p *heartbeater) set(offset int64, ran time.Duration) {
	p.update(func(to *contract.Progress) { to.Offset, to.RunTime, to.Waiting = offset, ran, "" })
}

func (p *heartbeater) wait(what string) {
	p.update(func(to *contract.Progress) { to.Waiting = what })
}

func (p *heartbeater) update(change func(*contract.Progress)) {
	p.mu.Lock()
	change(&p.progress)
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default: // it will tell the latest anyway
	}
}

// stop ends the beats, once. One that is on its way is waited for, within bounds: the end of
// the activity would cut it off, which the SDK tells the operator as a warning.
func (p *heartbeater) stop() {
	close(p.stopped)
	select {
	case <-p.finished:
	case <-time.After(finalTimeout):
	}
}
