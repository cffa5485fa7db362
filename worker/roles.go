package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/config"
	"burnish/internal/doctor"
	port "burnish/internal/hardware"
	hardware "burnish/internal/hardware/all"
	"burnish/internal/host"
	stock "burnish/internal/inventory"
	inventory "burnish/internal/inventory/all"
	"burnish/internal/inventory/placement"
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

// clusterTimeout bounds the question which cluster this is.
const clusterTimeout = 10 * time.Second

// workflowTasks bounds the workflow tasks in hand at once, so that each ends well
// within contract.TaskTimeout also when a whole fleet wakes up.
const workflowTasks = 100

// check refuses settings by which no worker of this program can work, before any part
// of it begins: one line each.
func check(settings config.Worker) error {
	var wrong []error
	if kinds := inventory.Kinds(); !slices.Contains(kinds, settings.Inventory) {
		wrong = append(wrong, fmt.Errorf("BURNISH_INVENTORY: %q is none of %s", settings.Inventory, strings.Join(kinds, ", ")))
	}
	if err := hardware.Known(settings.Drivers); err != nil {
		wrong = append(wrong, fmt.Errorf("BURNISH_DRIVERS: %w", err))
	}
	if settings.Role.Controls() && settings.NovaBroker != "" && settings.Inventory != placementKind {
		wrong = append(wrong, errors.New("BURNISH_AMQP_URL: notifications say where to look in Placement: set BURNISH_INVENTORY=placement"))
	}
	return errors.Join(wrong...)
}

// startControl registers workflows and control activities. The stop that it returns
// may always be called.
func startControl(settings config.Worker, temporal client.Client, options worker.Options, logger *slog.Logger) (stop func() error, err error) {
	stop = func() error { return nil }
	planner, err := clean.NewPlanner(clean.Catalog(), settings.Policy())
	if err != nil {
		return stop, usageError{err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), initTimeout)
	defer cancel()
	store, err := inventory.Open(ctx, settings.Inventory, inventory.Options{
		Dir: inventoryDir(settings),
		Placement: placement.Settings{
			NovaHosts: settings.NovaHosts, Traits: settings.Traits, Log: logger,
		},
	})
	if err != nil {
		return stop, err
	}
	worker.SetStickyWorkflowCacheSize(settings.StickyCache)
	options.StickyScheduleToStartTimeout = stickyTimeout
	options.MaxConcurrentWorkflowTaskExecutionSize = workflowTasks
	w := worker.New(temporal, contract.Queue, options)
	lifecycle := &workflows.Lifecycle{Planner: planner}
	w.RegisterWorkflowWithOptions(lifecycle.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	w.RegisterWorkflowWithOptions(workflows.Host, workflow.RegisterOptions{Name: contract.WorkflowHost})
	w.RegisterWorkflowWithOptions(workflows.Placement, workflow.RegisterOptions{Name: contract.WorkflowPlacement})
	control := &activities.Control{Store: store, Client: temporal}
	all := control.Activities()
	if fleet, ok := store.(stock.Fleet); ok {
		control.Real = true
		maps.Copy(all, (&activities.Sweeper{Client: temporal, Fleet: fleet, Log: logger}).Activities())
	}
	for name, do := range all {
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		return stop, err
	}
	logger.Info("control worker polls", "queue", contract.Queue)
	return func() error { w.Stop(); return nil }, nil
}

// makeDrivers makes the drivers of a host by their names.
type makeDrivers func(names []string, h hardware.Host) (map[string]port.Driver, error)

// startHost becomes the one worker of its host, finds the host in order, and takes the
// host's steps. The stop that it returns may always be called. The surveyor is nil
// where no driver finds devices by itself.
func startHost(settings config.Worker, temporal client.Client, options worker.Options, logger *slog.Logger, drive makeDrivers) (this *host.Host, eyes *activities.Surveyor, stop func() error, err error) {
	stop = func() error { return nil }
	rules, err := host.WorkerRules(settings.HostFile, settings.StateDir, settings.Role == config.RoleAll)
	if err != nil {
		return nil, nil, stop, fmt.Errorf("BURNISH_HOST_FILE: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	cluster, err := temporal.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	if err != nil {
		return nil, nil, stop, fmt.Errorf("ask the server who it is: %w", err)
	}
	this, err = host.Open(settings.StateDir, settings.Host, rules, host.Within(cluster.GetClusterId()))
	if err != nil {
		return nil, nil, stop, err
	}
	stop = this.Close
	drivers, err := drive(settings.Drivers, hardware.Host{
		StateDir: this.Dir(), Paths: rules, PCI: rules.AllowPCI, Specs: rules.PCISpecs, Fake: rules.AllowFake, Scripts: rules.Scripts,
		NVMeHelper: settings.NVMeHelper,
	})
	if err != nil {
		return nil, nil, stop, usageError{err}
	}
	if err := inOrder(drivers); err != nil {
		return nil, nil, stop, err
	}
	if open := doctor.AutoActivationRisk("/"); open != "" && activities.Finders(drivers) {
		logger.Warn(open)
	}
	hands := &activities.Hardware{
		Host: this, Drivers: drivers, Steps: steps.All(), Slots: host.NewSlots(settings.MaxCleansPerHost), Log: logger,
		Confirm: temporal.RecordActivityHeartbeat,
	}
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityExecutionSize = hostSlots
	options.DefaultHeartbeatThrottleInterval = heartbeatThrottle
	options.MaxHeartbeatThrottleInterval = heartbeatThrottle
	w := worker.New(temporal, contract.HostQueue(settings.Host), options)
	w.RegisterActivityWithOptions(hands.Discover, activity.RegisterOptions{Name: contract.ActivityDiscover})
	w.RegisterActivityWithOptions(hands.Forget, activity.RegisterOptions{Name: contract.ActivityForget})
	for _, step := range hands.Steps {
		w.RegisterActivityWithOptions(hands.Step(step), activity.RegisterOptions{Name: step.Name})
	}
	if activities.Finders(drivers) {
		eyes = &activities.Surveyor{Client: temporal, Host: this, Drivers: drivers, Log: logger}
		w.RegisterActivityWithOptions(eyes.Survey, activity.RegisterOptions{Name: contract.ActivitySurvey})
	}
	if err := w.Start(); err != nil {
		return nil, nil, stop, err
	}
	logger.Info("host worker polls", "queue", contract.HostQueue(settings.Host))
	return this, eyes, func() error {
		w.Stop()
		return this.Close()
	}, nil
}

// initTimeout bounds what drivers, or an inventory, do before a worker starts.
const initTimeout = time.Minute

// inOrder has each driver find its host in order (init_host, S2.1, S2.3), and refuses
// two that find the same device (S2.30). The error is one line.
func inOrder(drivers map[string]port.Driver) error {
	ctx, cancel := context.WithTimeout(context.Background(), initTimeout)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if d, ok := drivers[name].(port.Initializer); ok {
			if err := d.Init(ctx); err != nil {
				return fmt.Errorf("driver %s: %w", name, err)
			}
		}
	}
	all, err := activities.Find(ctx, drivers)
	if err != nil {
		return err
	}
	return activities.Unambiguous(all)
}
