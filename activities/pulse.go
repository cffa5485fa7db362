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
type pulse struct {
	mu       sync.Mutex
	progress contract.Progress
	told     chan struct{} // capacity 1: there is something to tell
	ended    chan struct{} // closed by stop
	quiet    chan struct{} // closed after the last beat
}

// lastBeat bounds how long stop waits for a beat that is on its way.
const lastBeat = time.Second

func startPulse(ctx context.Context, p contract.Progress) *pulse {
	beat := &pulse{progress: p, told: make(chan struct{}, 1), ended: make(chan struct{}), quiet: make(chan struct{})}
	go func() {
		defer close(beat.quiet)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-beat.ended:
				return
			case <-beat.told:
			case <-tick.C:
			}
			select {
			case <-beat.ended: // between two that are ready, select does not choose
				return
			default:
			}
			activity.RecordHeartbeat(ctx, beat.now())
		}
	}()
	return beat
}

func (p *pulse) now() contract.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress
}

// start is set without a beat: what comes next, a wait or the first checkpoint, has
// more to tell.
func (p *pulse) start(offset int64, ran time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.Offset, p.progress.RunTime = offset, ran
}

func (p *pulse) set(offset int64, ran time.Duration) {
	p.tell(func(to *contract.Progress) { to.Offset, to.RunTime, to.Waiting = offset, ran, "" })
}

func (p *pulse) wait(what string) {
	p.tell(func(to *contract.Progress) { to.Waiting = what })
}

func (p *pulse) tell(change func(*contract.Progress)) {
	p.mu.Lock()
	change(&p.progress)
	p.mu.Unlock()
	select {
	case p.told <- struct{}{}:
	default: // it will tell the latest anyway
	}
}

// stop ends the beats, once. One that is on its way is waited for, within bounds: the end of
// the activity would cut it off, which the SDK tells the operator as a warning.
func (p *pulse) stop() {
	close(p.ended)
	select {
	case <-p.quiet:
	case <-time.After(lastBeat):
	}
}
