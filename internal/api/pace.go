package api

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"burnish/internal/device"
)

const (
	// maxRest bounds the pause after a read. maxHeld is how long a read of one device counts,
	// and maxPageHeld one of a page: one that waits for an answer that does not come costs
	// nothing.
	maxRest     = time.Second
	maxHeld     = 250 * time.Millisecond
	maxPageHeld = 5 * time.Second
	// deviceRest and pageRest are the pauses after a read, in times of the read. Temporal's
	// listing takes its database's time as well as the processor's.
	deviceRest = 2
	pageRest   = 5
)

// pace bounds what reads cost the server and the workers that changes need as well. A read has
// one of a few places; while others wait, it leaves the place empty afterwards for rest times
// as long as it has taken. So reads take a fixed share of the places' time at most, however
// many callers there are. They wait in the order of their arrival.
type pace struct {
	rest    time.Duration
	places  chan struct{}
	waiting atomic.Int64
}

// newPace has a place for every two processors.
func newPace(rest time.Duration) *pace {
	return &pace{rest: rest, places: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// read does one read. The error says that no place was free in time.
func (p *pace) read(ctx context.Context, held time.Duration, do func() error) error {
	p.waiting.Add(1)
	select {
	case p.places <- struct{}{}:
		p.waiting.Add(-1)
	case <-ctx.Done():
		p.waiting.Add(-1)
		return &device.Fault{Class: device.Transient, Code: device.CodeUnreachable,
			Message: fmt.Sprintf("Temporal does not answer as fast as it is asked: the reads before this one took all of its time, %d at once", cap(p.places)),
			Remedy:  "try again later, or read larger pages less often"}
	}
	began, ended := time.Now(), make(chan struct{})
	defer close(ended)
	go p.leave(began, held, ended)
	return do()
}

// leave makes a place free after a read, or when it has counted for long enough.
func (p *pace) leave(began time.Time, held time.Duration, ended <-chan struct{}) {
	timer := time.NewTimer(held)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	if p.waiting.Load() > 0 {
		timer.Reset(min(p.rest*time.Since(began), maxRest))
		<-timer.C
	}
	<-p.places
}
