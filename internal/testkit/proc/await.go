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
func Await(ctx context.Context, within, every time.Duration, what string,
	condition func() (done bool, state string)) error {
	return poll(ctx, within, func(time.Duration) time.Duration { return every }, what, condition)
}

// AwaitSlowly is Await for a condition that takes processor time itself, such as a program: the
// longer it was waited for, the rarer it is polled.
func AwaitSlowly(ctx context.Context, within time.Duration, what string,
	condition func() (done bool, state string)) error {
	pause := func(waited time.Duration) time.Duration { return min(max(PollEvery, waited/20), 5*PollEvery) }
	return poll(ctx, within, pause, what, condition)
}

func poll(ctx context.Context, within time.Duration, pause func(waited time.Duration) time.Duration, what string,
	condition func() (done bool, state string)) error {
	began := time.Now()
	for {
		done, state := condition()
		if done {
			return nil
		}
		waited := time.Since(began)
		if waited > within {
			return fmt.Errorf("waited %s in vain for %s; last seen: %s", within, what, state)
		}
		again := time.NewTimer(pause(waited))
		select {
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("wait for %s: %w; last seen: %s", what, ctx.Err(), state)
		case <-again.C:
		}
	}
}
