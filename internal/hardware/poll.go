package hardware

import (
	"context"
	"time"
)

// pollInterval is how often Until tries.
const pollInterval = 50 * time.Millisecond

// Poll waits for the kernel: it calls try until that has no wish to be asked again, or
// patience is spent, and returns what the last call did, or ctx's cause where that ends
// first.
func Poll(ctx context.Context, patience time.Duration, try func() (again bool, err error)) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	pause := time.NewTicker(pollInterval)
	defer pause.Stop()
	for {
		again, err := try()
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return err
		case <-pause.C:
		}
	}
}
