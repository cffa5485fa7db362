package api

import (
	"context"
	"fmt"
	"time"

	"burnish/internal/device"
)

const (
	// readsAtOnce is how many reads of one process ask Temporal at once.
	readsAtOnce = 2
	// maxRest bounds the pause after a read. maxHeld is how long a read of one device counts,
	// and maxPageHeld one of a page: one that waits for an answer that does not come costs
	// nothing.
	maxRest     = time.Second
	maxHeld     = 250 * time.Millisecond
	maxPageHeld = 5 * time.Second
)

// pace bounds what reads cost the server and the workers that changes need as well: a read has
// one of a few places, and leaves it empty for as long as it has taken. So reads take half of
// the places' time at most, however many callers there are, and wait for each other in the
// order of their arrival. A caller that reads alone finds another place free.
type pace struct {
	places chan struct{}
}

func newPace() *pace { return &pace{places: make(chan struct{}, readsAtOnce)} }

// read does one read. The error says that no place was free in time.
func (p *pace) read(ctx context.Context, held time.Duration, do func() error) error {
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return &device.Fault{Class: device.Transient, Code: device.CodeUnreachable,
			Message: fmt.Sprintf("Temporal does not answer as fast as it is asked: the reads before this one took all of its time, %d at once", readsAtOnce),
			Remedy:  "try again later, or read larger pages less often"}
	}
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		timer := time.NewTimer(held)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
		time.AfterFunc(min(time.Since(began), maxRest), func() { <-p.places })
	}()
	defer close(ended)
	return do()
}
