package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/hardware/drivers"
	"burnish/internal/host"
	"burnish/internal/inventory"
	"burnish/internal/inventory/backends"
	"burnish/internal/telemetry"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/instance"
	"burnish/workflows/lifecycle"
	"burnish/workflows/limits"
)

// crew is a control worker and workers of hosts, which run in this process with the options of
// burnish-worker (worker/roles.go).
type crew struct {
	// queue of the control worker; "" means that there is none.
	queue string
	// plain: the control worker runs the baseline's Entity, not Burnish's workflows.
	plain bool
	// store is the inventory; scheduled where schedulers allocate what is in it.
	store     inventory.Store
	scheduled bool
	limits    *device.Limits
	hosts     []string
	steps     map[string]any // activities of the hosts
	// signaled is the activity whose end is signaled for each device.
	signaled string
}

// start starts a crew until the end of the part, or until the stop that it returns.
func (b *bench) start(p *place, c crew) (stop func() error, err error) {
	logger := slog.New(slog.DiscardHandler)
	options := sdkclient.Options{
		HostPort: p.Server.Address, Namespace: p.Namespace,
		Logger: log.NewStructuredLogger(logger), MetricsHandler: sdkclient.MetricsNopHandler,
	}
	config.ForWorkers(&options)
	if !c.plain {
		counted, err := telemetry.New("bench", "all", logger)
		if err != nil {
			return nil, err
		}
		counted.Options(&options)
	}
	temporal, err := sdkclient.Dial(options)
	if err != nil {
		return nil, err
	}
	b.atEnd(func() error { temporal.Close(); return nil })
	p.ends.expected = c.signaled != ""
	var all []worker.Worker
	add := func(queue string, o worker.Options) worker.Worker {
		o.WorkerStopTimeout, o.DisableRegistrationAliasing = time.Second, true
		o.Interceptors = []interceptor.WorkerInterceptor{&observer{activity: c.signaled, ends: &p.ends}}
		w := worker.New(temporal, queue, o)
		all = append(all, w)
		return w
	}
	for _, host := range c.hosts {
		register(add(contract.HostQueue(host), worker.Options{
			DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: 1000,
			DefaultHeartbeatThrottleInterval: 5 * time.Second, MaxHeartbeatThrottleInterval: 5 * time.Second,
		}), c.steps)
	}
	if c.queue != "" {
		control := add(c.queue, worker.Options{
			StickyScheduleToStartTimeout: 2 * time.Second, MaxConcurrentWorkflowTaskExecutionSize: 100,
			WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
				InitialNumberOfPollers: 2, MaximumNumberOfPollers: 20,
			}),
		})
		if err := c.control(control, client.New(temporal)); err != nil {
			return nil, err
		}
	}
	started := 0
	stop = sync.OnceValue(func() error {
		// At once, as each waits for its polls to end.
		err := parallel(len(all), started, func(i int) error { all[i].Stop(); return nil })
		worker.PurgeStickyWorkflowCache()
		return err
	})
	b.atEnd(stop)
	for _, w := range all {
		if err := w.Start(); err != nil {
			return nil, err
		}
		started++
	}
	return stop, nil
}

// control registers the workflows, and the activities of a control worker.
func (c crew) control(w worker.Worker, burnish *client.Client) error {
	register(w, (&activities.Control{Store: c.store, Client: burnish, Real: c.scheduled}).Activities())
	if c.plain {
		w.RegisterWorkflowWithOptions(Entity, workflow.RegisterOptions{Name: entityWorkflow})
		return nil
	}
	change := c.limitsChange()
	planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{
		Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute, Limits: change.Limits,
		StepSettings: device.StepSettings{TellAfter: change.TellAfter},
	})
	if err != nil {
		return err
	}
	for name, run := range map[string]any{
		contract.WorkflowDeviceLifecycle: (&lifecycle.Lifecycle{Planner: planner}).DeviceLifecycle,
		contract.WorkflowInstance:        instance.InstanceLifecycle, contract.WorkflowLimits: limits.Limits,
	} {
		w.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: name})
	}
	register(w, (&activities.Instances{Client: burnish}).Activities())
	register(w, (&activities.Limits{Client: burnish, Policy: change}).Activities())
	return nil
}

func (c crew) limitsChange() contract.LimitsChange {
	return contract.LimitsChange{Limits: c.limits, TellAfter: 5 * time.Minute}
}

func register(w worker.Worker, all map[string]any) {
	for name, do := range all {
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
}

// fileStore is an inventory of files.
func fileStore(ctx context.Context, dir string) (inventory.Store, error) {
	return backends.Open(ctx, "file", backends.Options{Dir: filepath.Join(dir, "inventory")})
}

// realSteps are the activities of a host with its journal on stable storage, for simulated devices
// and files, so many at a time.
func (b *bench) realSteps(p *place, name, dir string, slots int) (map[string]any, error) {
	this, err := host.Open(dir, name, host.DefaultRules(dir), host.WithCluster(p.Server.Address))
	if err != nil {
		return nil, err
	}
	b.atEnd(this.Close)
	drivers, err := drivers.New([]string{"fake", "block"},
		drivers.Host{StateDir: this.Dir(), Rules: this.Rules()})
	if err != nil {
		return nil, err
	}
	hardware := &activities.Hardware{
		Host: this, Drivers: drivers, Steps: steps.All(),
		Slots: host.NewSlots(slots), Log: slog.New(slog.DiscardHandler),
	}
	all := map[string]any{contract.ActivityDiscover: hardware.Discover}
	for _, step := range hardware.Steps {
		all[step.Name] = hardware.Step(step)
	}
	return all, nil
}

// noSteps do nothing and answer what a host's activities would.
func noSteps() map[string]any {
	return map[string]any{contract.ActivityDiscover: noDiscover, "zero": noZero, "verify": noStep}
}

func noDiscover(_ context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
	return contract.DiscoveryResult{
		Identity:  device.Identity{Serial: in.Enrollment.Name, Vendor: "Burnish", Model: "fake", Size: 4096},
		Operation: device.Shred, Steps: map[string]int{"zero": 1, "verify": 1},
	}, nil
}

func noStep(_ context.Context, in contract.StepInput) (contract.StepResult, error) {
	return contract.StepResult{Step: in.Step, Clean: in.Clean, Seq: in.Seq, Bytes: in.Identity.Size, Method: "none"}, nil
}

// noZero begins the next step too, as a host does after a step that takes no time.
func noZero(ctx context.Context, in contract.StepInput) (contract.StepAnswer, error) {
	did, err := noStep(ctx, in)
	answer := contract.StepAnswer{StepResult: did, SeenAt: activity.GetInfo(ctx).StartedTime}
	if err != nil || in.Next == nil {
		return answer, err
	}
	next, err := noStep(ctx, in.Following(0))
	answer.Next = &contract.NextResult{Result: &next}
	return answer, err
}

// signals are those of devices by workflow ID.
type signals struct {
	expected bool
	mu       sync.Mutex
	all      map[string]chan struct{}
}

func (s *signals) of(id string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]chan struct{}{}
	}
	if s.all[id] == nil {
		s.all[id] = make(chan struct{}, 1)
	}
	return s.all[id]
}

// observer signals the end of one activity, so that the server need not be polled for it.
type observer struct {
	interceptor.WorkerInterceptorBase
	activity string
	ends     *signals
}

// InterceptWorkflow returns next: a wrapper would add to the stack of each workflow.
func (*observer) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return next
}

// InterceptActivity is called by the SDK for each attempt.
func (o *observer) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &observed{observer: o}
	i.Next = next
	return i
}

type observed struct {
	interceptor.ActivityInboundInterceptorBase
	observer *observer
}

// ExecuteActivity signals each success.
func (w *observed) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := w.Next.ExecuteActivity(ctx, in)
	if info := activity.GetInfo(ctx); err == nil && info.ActivityType.Name == w.observer.activity {
		select {
		case w.observer.ends.of(info.WorkflowExecution.ID) <- struct{}{}:
		default: // nothing waits for it
		}
	}
	return result, err
}
