package main

import (
	"context"
	"fmt"
	"time"
)

// watchEvery is the pause between two looks at what is waited for.
const watchEvery = time.Second

// within bounds do, which waits for what, by time and by ended: that gives the reason why it will
// not come any more, or "". The error says what was waited for, for how long and why in vain,
// and what evidence knows about it.
func within(ctx context.Context, limit time.Duration, what string, ended, evidence func() string, do func(ctx context.Context) error) error {
	began := time.Now()
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		tick := time.NewTicker(min(watchEvery, limit))
		defer tick.Stop()
		for {
			select {
			case <-bounded.Done():
				return
			case <-tick.C:
			}
			if why := ended(); why != "" {
				cancel(fmt.Errorf("%s", why))
			} else if time.Since(began) >= limit {
				cancel(fmt.Errorf("it takes longer than %s", limit))
			}
		}
	}()
	err := do(bounded)
	if err == nil {
		return nil
	}
	why := ""
	if cause := context.Cause(bounded); cause != nil {
		why = fmt.Sprintf(" (%v)", cause)
	}
	return fmt.Errorf("waited %.0f s in vain for %s%s: %w; %s", time.Since(began).Seconds(), what, why, err, evidence())
}
