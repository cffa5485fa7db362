package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/config"
	hardware "burnish/internal/hardware/all"
	"burnish/internal/host"
	inventory "burnish/internal/inventory/all"
	"burnish/workflows"
	"burnish/workflows/contract"
)

// hostSlots is how many steps a host's worker takes at once; those over
// MAX_CLEANS_PER_HOST wait inside it, so that a busy host never looks silent.
const hostSlots = 1000

// heartbeatThrottle must not be lower than 5 s: a server that is away for seconds
// would break running wipes (measured; SAFETY F2).
const heartbeatThrottle = 5 * time.Second

// stickyTimeout is how long a killed worker's devices wait before another worker
// takes them up.
const stickyTimeout = 2 * time.Second

// startControl registers workflows and control activities. The stop that it returns
// may always be called.
func startControl(settings config.Worker, temporal client.Client, logger *slog.Logger, fatal func(error)) (stop func() error, err error) {
	stop = func() error { return nil }
	planner, err := clean.NewPlanner(steps.Catalog(steps.All()), settings.Policy())
	if err != nil {
		return stop, usageError{err}
	}
	if err := steps.ValidVerify(settings.Verify); err != nil {
		return stop, usageError{err}
	}
	store, err := inventory.Open(settings.Inventory, inventoryDir(settings))
	if err != nil {
		return stop, err
	}
	worker.SetStickyWorkflowCacheSize(settings.StickyCache)
	w := worker.New(temporal, contract.Queue, worker.Options{
		WorkerStopTimeout:            settings.GracefulStop,
		DisableRegistrationAliasing:  true,
		StickyScheduleToStartTimeout: stickyTimeout,
		OnFatalError:                 fatal,
	})
	lifecycle := &workflows.Lifecycle{Planner: planner}
	w.RegisterWorkflowWithOptions(lifecycle.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	control := &activities.Control{Store: store, Client: temporal}
	for name, do := range map[string]any{
		contract.ActivityPublish:  control.Publish,
		contract.ActivityReserve:  control.Reserve,
		contract.ActivityObserve:  control.Observe,
		contract.ActivityRelease:  control.Release,
		contract.ActivityWithdraw: control.Withdraw,
		contract.ActivityRecall:   control.Recall,
	} {
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		return stop, err
	}
	logger.Info("control worker polls", "queue", contract.Queue)
	return func() error { w.Stop(); return nil }, nil
}

// startHost becomes the one worker of its host, ends what an earlier worker left
// behind, and takes the host's steps. The stop that it returns may always be called.
func startHost(ctx context.Context, settings config.Worker, temporal client.Client, logger *slog.Logger, fatal func(error)) (stop func() error, err error) {
	stop = func() error { return nil }
	rules, err := hostRules(settings)
	if err != nil {
		return stop, err
	}
	this, err := host.Open(settings.StateDir, settings.Host, rules)
	if err != nil {
		return stop, err
	}
	stop = this.Close
	drivers, err := hardware.Drivers(settings.Drivers, hardware.Host{StateDir: this.Dir(), Paths: rules, Fake: rules.AllowFake})
	if err != nil {
		return stop, usageError{err}
	}
	hands := &activities.Hardware{
		Host: this, Drivers: drivers, Steps: steps.All(), Slots: host.NewSlots(settings.MaxCleansPerHost), Log: logger,
	}
	w := worker.New(temporal, contract.HostQueue(settings.Host), worker.Options{
		WorkerStopTimeout:                  settings.GracefulStop,
		DisableRegistrationAliasing:        true,
		DisableWorkflowWorker:              true,
		MaxConcurrentActivityExecutionSize: hostSlots,
		DefaultHeartbeatThrottleInterval:   heartbeatThrottle,
		MaxHeartbeatThrottleInterval:       heartbeatThrottle,
		OnFatalError:                       fatal,
	})
	w.RegisterActivityWithOptions(hands.Discover, activity.RegisterOptions{Name: contract.ActivityDiscover})
	w.RegisterActivityWithOptions(hands.Forget, activity.RegisterOptions{Name: contract.ActivityForget})
	for _, step := range hands.Steps {
		w.RegisterActivityWithOptions(hands.Step(step), activity.RegisterOptions{Name: step.Name})
	}
	if err := w.Start(); err != nil {
		return stop, err
	}
	logger.Info("host worker polls", "queue", contract.HostQueue(settings.Host))
	recovering, endRecovery := context.WithCancel(ctx)
	recovery := &activities.Recovery{Host: this, Client: temporal, Log: logger}
	var done sync.WaitGroup
	done.Go(func() { again(recovering, logger, "ending orphaned attempts", recovery.Orphans) })
	done.Go(func() { again(recovering, logger, "telling the devices that the host started", recovery.Devices) })
	return func() error {
		endRecovery()
		w.Stop()
		done.Wait()
		return this.Close()
	}, nil
}

// again repeats what failed until it works or ctx ends: a server that is away while
// a host starts must not leave its devices behind.
func again(ctx context.Context, logger *slog.Logger, what string, do func(context.Context) error) {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		logger.Warn(what+" failed and is tried again", "error", err, "in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func hostRules(settings config.Worker) (*host.Rules, error) {
	switch {
	case settings.HostFile != "":
		return host.LoadRules(settings.HostFile)
	case settings.Role == config.RoleAll:
		return host.DefaultRules(settings.StateDir), nil
	default:
		return &host.Rules{}, nil
	}
}
