package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/codec"
	"burnish/internal/config"
	"burnish/internal/doctor"
	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
	"burnish/internal/host"
	"burnish/internal/inventory"
	"burnish/internal/inventory/backends"
	"burnish/internal/inventory/placement"
	"burnish/internal/oneview"
	"burnish/internal/proof"
	"burnish/internal/telemetry"
	"burnish/internal/uevent"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/hostscan"
	"burnish/workflows/instance"
	"burnish/workflows/lifecycle"
	"burnish/workflows/limits"
	oneviewpoll "burnish/workflows/oneview"
	"burnish/workflows/reconcile"
)

// hostSlots is how many steps a host's worker accepts at once; those over
// MAX_CLEANS_PER_HOST wait inside it, so that a busy host never appears unreachable.
const hostSlots = 1000

// heartbeatThrottle must not be below 5 s: otherwise a server that is unreachable for
// seconds interrupts running steps (measured; F2).
const heartbeatThrottle = 5 * time.Second

// stickyTimeout is how long the workflows of a killed worker wait until another worker
// runs them.
const stickyTimeout = 2 * time.Second

// workflowTasks bounds the concurrent workflow tasks, so that each ends well within
// contract.TaskTimeout also when all devices of a fleet have one.
const workflowTasks = 100

// The polls of a control worker for workflow tasks, for each of its two queues: the task queue
// and its own sticky one. With the SDK's default the two share two polls, which all go to the
// sticky queue while that has a backlog. A task of the other one, as after stickyTimeout or a
// restart, then waited for minutes on a busy machine, and whoever asked its device read that no
// control worker answered.
const (
	workflowPollers    = 2
	maxWorkflowPollers = 20
)

// validate refuses settings with which no worker can start, one a line.
func validate(settings config.Worker) error {
	var wrong []error
	if kinds := backends.Kinds(); !slices.Contains(kinds, settings.Inventory) {
		wrong = append(wrong, fmt.Errorf("BURNISH_INVENTORY: %q is not one of %s", settings.Inventory,
			strings.Join(kinds, ", ")))
	}
	if err := drivers.Validate(settings.Drivers); err != nil {
		wrong = append(wrong, fmt.Errorf("BURNISH_DRIVERS: %w", err))
	}
	if settings.Role.Controls() && settings.NovaBroker != "" && settings.Inventory != placementKind {
		wrong = append(wrong,
			errors.New("BURNISH_AMQP_URL: notifications are about providers in Placement: set BURNISH_INVENTORY=placement"))
	}
	if settings.Role.Controls() && settings.OneView != "" {
		if _, err := oneview.CheckFile(settings.OneView); err != nil {
			wrong = append(wrong, fmt.Errorf("BURNISH_ONEVIEW: %w", err))
		}
	}
	if settings.CodecKeys != "" {
		if _, err := codec.Open(settings.CodecKeys, slog.New(slog.DiscardHandler)); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", config.VarCodecKeys, err))
		}
	}
	if _, err := overrideKey(settings); err != nil {
		wrong = append(wrong, fmt.Errorf("BURNISH_API_KEY: %w", err))
	}
	if _, err := openGate(settings); err != nil {
		wrong = append(wrong, fmt.Errorf("BURNISH_HOST_KEYS: %w", err))
	}
	if settings.Role.Controls() && settings.APIAddress != "" {
		if _, err := openAPI(settings, slog.New(slog.DiscardHandler)); err != nil {
			wrong = append(wrong, err)
		}
	}
	if settings.Role.Controls() && settings.MetadataAddress != "" {
		if _, err := metadataSecret(settings); err != nil {
			wrong = append(wrong, fmt.Errorf("BURNISH_METADATA_SECRET_FILE: %w", err))
		}
	}
	return errors.Join(wrong...)
}

// withWorkflows are the options of a worker that runs workflows.
func withWorkflows(options worker.Options) worker.Options {
	options.StickyScheduleToStartTimeout = stickyTimeout
	options.MaxConcurrentWorkflowTaskExecutionSize = workflowTasks
	options.WorkflowTaskPollerBehavior = worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: workflowPollers, MaximumNumberOfPollers: maxWorkflowPollers,
	})
	return options
}

// startControl starts the control worker: workflows and control activities.
func startControl(settings config.Worker, server *serverGuard, pools oneview.Pools, options worker.Options,
	logger *slog.Logger) (stop func() error, err error) {
	temporal := server.temporal
	planner, err := clean.NewPlanner(steps.All().Planning(), settings.Policy)
	if err != nil {
		return nil, usageError{err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), initTimeout)
	defer cancel()
	store, err := backends.Open(ctx, settings.Inventory, backends.Options{
		Dir: filepath.Join(settings.StateDir, "inventory"),
		Placement: placement.Settings{
			NovaHosts: settings.NovaHosts, Traits: settings.Traits, Log: logger,
		},
	})
	if err != nil {
		return nil, err
	}
	worker.SetStickyWorkflowCacheSize(settings.StickyCache)
	options = withWorkflows(options)
	if settings.Versioned {
		options.DeploymentOptions = worker.DeploymentOptions{
			UseVersioning: true, DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
			Version: worker.WorkerDeploymentVersion{DeploymentName: contract.Deployment, BuildID: version},
		}
	}
	options.Interceptors =
		[]interceptor.WorkerInterceptor{&activities.WaitReporter{Report: client.New(temporal).ReportWait, Log: logger}}
	w := worker.New(temporal, contract.Queue, options)
	devices := &lifecycle.Lifecycle{Planner: planner}
	key, err := overrideKey(settings)
	if err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_API_KEY: %w", err)}
	}
	if key != nil {
		devices.Signatures = key
	}
	for name, do := range map[string]any{
		contract.WorkflowDeviceLifecycle: devices.DeviceLifecycle, contract.WorkflowHostScan: hostscan.HostScan,
		contract.WorkflowInventoryReconcile: reconcile.InventoryReconcile, contract.WorkflowLimits: limits.Limits,
		contract.WorkflowInstance: instance.InstanceLifecycle, contract.WorkflowGuestAddress: instance.GuestAddress,
		contract.WorkflowOneView: oneviewpoll.OneViewPoll,
	} {
		registered := workflow.RegisterOptions{Name: name}
		if settings.Versioned && name == contract.WorkflowGuestAddress {
			registered.VersioningBehavior = workflow.VersioningBehaviorAutoUpgrade // it has one run, as long as its guest
		}
		w.RegisterWorkflowWithOptions(do, registered)
	}
	asks := client.New(temporal)
	gate, err := openGate(settings)
	if err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_HOST_KEYS: %w", err)}
	}
	control := &activities.Control{Store: store, Client: asks, Real: settings.Inventory == placementKind, Gate: gate}
	all := control.Activities()
	if fleet, ok := store.(inventory.Lister); ok {
		maps.Copy(all, (&activities.Reconciler{Client: asks, Fleet: fleet, Log: logger}).Activities())
	}
	maps.Copy(all, (&activities.Limits{Client: asks, Policy: limitsOf(settings)}).Activities())
	maps.Copy(all, (&activities.Instances{Client: asks, Store: store}).Activities())
	maps.Copy(all, (&activities.Poller{Client: asks, Pools: pools, Log: logger}).Activities())
	maps.Copy(all, (&activities.Pools{Pools: pools, Confirm: server.confirm, Log: logger}).Activities())
	maps.Copy(all, (&activities.PoolServers{Client: asks, Pools: pools}).Activities())
	for name, do := range all {
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		return nil, err
	}
	logger.Info("control worker polls", "queue", contract.Queue)
	return func() error { w.Stop(); return nil }, nil
}

// openGate gives what has hosts prove their cleans; nil: they are believed.
func openGate(settings config.Worker) (*proof.Gate, error) {
	if settings.HostKeys == "" || !settings.Role.Controls() {
		return nil, nil
	}
	if settings.APIKey == "" {
		return nil, errors.New("set BURNISH_API_KEY, too: control workers sign the receipts of reservations with it")
	}
	secret, err := host.ReadPrivate(settings.APIKey)
	if err != nil {
		return nil, err
	}
	planner, err := clean.NewPlanner(steps.All().Planning(), settings.Policy)
	if err != nil {
		return nil, err
	}
	return proof.OpenGate(settings.HostKeys, proof.NewReceipts(secret), planner)
}

// newDrivers makes the drivers of a host by their names.
type newDrivers func(names []string, h drivers.Host) (map[string]hardware.Driver, error)

// hostWorker is the worker of a host. The scanner is nil where no driver finds devices, stop if
// there is nothing to stop.
type hostWorker struct {
	host    *host.Host
	scanner *activities.HostScanner
	offered *activities.Offered
	stop    func() error
}

// startHost starts the one worker of its host: it locks the host, initializes the drivers and
// polls for the host's steps.
//
// The kernel's events are received from before the host's start is reported, upon which each device
// is looked at.
func startHost(settings config.Worker, server *serverGuard, figures *telemetry.Telemetry, options worker.Options,
	logger *slog.Logger, drive newDrivers) (h hostWorker, err error) {
	rules, err := host.WorkerRules(settings.HostFile, settings.StateDir, settings.Role == config.RoleAll)
	if err != nil {
		return h, fmt.Errorf("BURNISH_HOST_FILE: %w", err)
	}
	thisHost, err := host.Open(settings.StateDir, settings.Host, rules, host.WithCluster(server.server.Cluster))
	if err != nil {
		return h, err
	}
	h.host, h.stop = thisHost, thisHost.Close
	key, err := proof.OpenHostKey(settings.HostKeyFile())
	if err != nil {
		return h, err
	}
	drivers, err := drive(settings.Drivers, drivers.Host{
		StateDir: thisHost.Dir(), Rules: rules, NVMeHelper: settings.NVMeHelper, Policy: settings.Policy,
	})
	if err != nil {
		return h, usageError{err}
	}
	if err := initDrivers(drivers); err != nil {
		return h, err
	}
	if open := doctor.AutoActivationRisk("/"); open != "" && activities.AnyFinder(drivers) {
		logger.Warn(open)
	}
	slots := host.NewSlots(settings.MaxCleansPerHost)
	slots.OnGrant = figures.SlotWait
	if err := activities.ExpectSlots(thisHost, slots); err != nil {
		logger.Warn("which cleans had a slot of this host is not completely known: others may begin before they go on",
			"error", err)
	}
	if err := figures.Slots(slots.Load); err != nil {
		return h, err
	}
	hardwareActivities := &activities.Hardware{
		Host: thisHost, Drivers: drivers, Steps: steps.All(), Slots: slots, Log: logger,
		Confirm: server.confirm, Report: client.New(server.temporal).ReportWait, Key: key,
	}
	reporter := &activities.WaitReporter{Report: hardwareActivities.Report, Log: logger}
	for _, step := range hardwareActivities.Steps {
		reporter.Except = append(reporter.Except, step.Name)
	}
	options.Interceptors = []interceptor.WorkerInterceptor{reporter}
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityExecutionSize = hostSlots
	options.DefaultHeartbeatThrottleInterval = heartbeatThrottle
	options.MaxHeartbeatThrottleInterval = heartbeatThrottle
	temporal := server.temporal
	w := worker.New(temporal, contract.HostQueue(settings.Host), options)
	w.RegisterActivityWithOptions(hardwareActivities.Discover, activity.RegisterOptions{Name: contract.ActivityDiscover})
	w.RegisterActivityWithOptions(hardwareActivities.Forget, activity.RegisterOptions{Name: contract.ActivityForget})
	w.RegisterActivityWithOptions(hardwareActivities.Power, activity.RegisterOptions{Name: contract.ActivityPower})
	for _, step := range hardwareActivities.Steps {
		w.RegisterActivityWithOptions(hardwareActivities.Step(step), activity.RegisterOptions{Name: step.Name})
	}
	if activities.AnyFinder(drivers) {
		h.scanner = &activities.HostScanner{Client: client.New(temporal), Host: thisHost, Drivers: drivers, Log: logger,
			CheckServer: server.check}
		w.RegisterActivityWithOptions(h.scanner.ScanHost, activity.RegisterOptions{Name: contract.ActivityScanHost})
	}
	if err := w.Start(); err != nil {
		return h, err
	}
	logger.Info("host worker polls", "queue", contract.HostQueue(settings.Host))
	h.offered = &activities.Offered{Client: client.New(temporal), Host: thisHost, Drivers: drivers, Log: logger,
		AtWork: hardwareActivities.AtWork}
	if events, err := uevent.Open(); err == nil {
		h.offered.Events = events
	} else {
		logger.Warn("the kernel's events cannot be received: a change of an offered device is found when it is bound, or "+
			"compared", "error", err)
	}
	h.stop = func() error {
		w.Stop()
		return thisHost.Close()
	}
	return h, nil
}

// initTimeout bounds the initialization of drivers, or of an inventory.
const initTimeout = time.Minute

// initDrivers initializes each driver on its host (init_host, S2.1, S2.3), and refuses two
// drivers that find the same device (S2.30). The error is one line.
func initDrivers(drivers map[string]hardware.Driver) error {
	ctx, cancel := context.WithTimeout(context.Background(), initTimeout)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if d, ok := drivers[name].(hardware.Initializer); ok {
			if err := d.Init(ctx); err != nil {
				return fmt.Errorf("driver %s: %w", name, err)
			}
		}
	}
	all, err := activities.FindDevices(ctx, drivers)
	if err != nil {
		return err
	}
	return activities.CheckUnambiguous(all)
}
