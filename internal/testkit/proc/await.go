package proc

import (
	"context"
	"fmt"
	"time"
)

// PollEvery is the usual pause between two polls of a condition.
const PollEvery = 50 * time.Millisecond

// Await polls a condition until it is true. It returns an error with the last state seen
// where that takes longer than within, or where ctx ends.
func Await(ctx context.Context, within, every time.Duration, what string, condition func() (done bool, state string)) error {
	deadline := time.Now().Add(within)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		done, state := condition()
		if done {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s in vain for %s; last seen: %s", within, what, state)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last seen: %s", what, ctx.Err(), state)
		case <-tick.C:
		}
	}
}
