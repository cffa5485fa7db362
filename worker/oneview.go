package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"burnish/internal/config"
	"burnish/internal/oneview"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	// poolFileInterval is the pause between two looks at oneview.yaml for another interval of
	// the polls, or another appliance.
	poolFileInterval = 30 * time.Second
	// logoutTimeout bounds the end of the sessions with the appliances.
	logoutTimeout = 10 * time.Second
)

// openPools opens the appliances of oneview.yaml; there are none without it.
func openPools(settings config.Worker, logger *slog.Logger) (pools oneview.Pools, stop func() error, err error) {
	if pools, err = oneview.Open(settings.OneView); err != nil {
		return nil, nil, usageError{fmt.Errorf("BURNISH_ONEVIEW: %w", err)}
	}
	return pools, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), logoutTimeout)
		defer cancel()
		if err := pools.Close(ctx); err != nil {
			logger.Warn("a session with an appliance stays until the appliance ends it", "error", err)
		}
		return nil
	}, nil
}

// pollTasks are the tasks for the appliances of oneview.yaml: a round of the polls at the
// start, which finds what happened while no worker ran, and another one when the file has
// another interval or another appliance. Without the file there is none. The workflow of an
// appliance is started if it does not run; one that was canceled since stays so.
func pollTasks(settings config.Worker, pools oneview.Pools, devices *client.Client, every time.Duration) []task {
	if settings.OneView == "" {
		return nil
	}
	sent := map[string]time.Duration{}
	return []task{{"requesting a round of the polls", nil, func(ctx context.Context) error {
		for {
			var failed []error
			for _, name := range pools.Names() {
				failed = append(failed, requestPolls(ctx, pools, devices, name, settings.Policy.TellAfter, sent))
			}
			if err := errors.Join(failed...); err != nil {
				return err
			}
			if !wait(ctx, every) {
				return ctx.Err()
			}
		}
	}}}
}

// requestPolls asks the workflow of an appliance for a round, unless it has the file's
// interval from this worker already.
func requestPolls(ctx context.Context, pools oneview.Pools, devices *client.Client, appliance string,
	tellAfter time.Duration, sent map[string]time.Duration) error {
	settings, err := pools.Settings(appliance)
	if err != nil {
		return fmt.Errorf("the settings of %s: %w", appliance, err)
	}
	if before, ok := sent[appliance]; ok && before == settings.Interval {
		return nil
	}
	err = devices.LookNow(ctx, appliance, contract.LookRequest{Source: "worker start", Interval: &settings.Interval,
		TellAfter: tellAfter})
	if err != nil {
		return fmt.Errorf("signal %s: %w", contract.OneViewWorkflowID(appliance), err)
	}
	sent[appliance] = settings.Interval
	return nil
}
