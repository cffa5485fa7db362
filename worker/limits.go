package main

import (
	"context"
	"fmt"

	"burnish/internal/config"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// limitsOf is what the policy limits.
func limitsOf(settings config.Worker) contract.LimitsChange {
	return contract.LimitsChange{Limits: settings.Policy.Limits, TellAfter: settings.Policy.TellAfter}
}

// limitsTask passes this worker's policy on to the workflow of the limits. It exists only
// where the policy has limits; then it is started again at each sweep if it was terminated.
// One that runs is not touched.
func limitsTask(settings config.Worker, devices *client.Client) task {
	policy := limitsOf(settings)
	return task{"passing the policy's limits on", nil, func(ctx context.Context) error {
		if err := devices.ChangeLimits(ctx, policy); err != nil {
			return fmt.Errorf("signal %s: %w", contract.LimitsWorkflowID, err)
		}
		if policy.Limits == nil || settings.SweepInterval == 0 {
			return ctx.Err()
		}
		err := repeat(ctx, settings.SweepInterval, func(ctx context.Context) error { return devices.KeepLimits(ctx, policy) })
		return fmt.Errorf("start %s: %w", contract.LimitsWorkflowID, err)
	}}
}
