package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/api/workflowservice/v1"
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
	"burnish/internal/inventory/backends"
	"burnish/internal/inventory/placement"
	"burnish/internal/telemetry"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle"
)

// task is what a worker process runs: one workflow with its activities.
type task struct {
	// Product means DeviceLifecycle, otherwise the baseline's Entity.
	Product bool `json:"product,omitempty"`
	// Real means the product's activities, otherwise activities that do nothing.
	Real  bool   `json:"real,omitempty"`
	Queue string `json:"queue"`
	// Namespace is the server's; "" means the default one.
	Namespace string `json:"namespace,omitempty"`
	Host      string `json:"host"`
	Address   string `json:"address"`
	Dir       string `json:"dir"`
	// Cache is the size of the workflow cache, Slots how many steps the host runs
	// concurrently.
	Cache int `json:"cache"`
	Slots int `json:"slots"`
	// Confirm: a step asks the server before it writes, as a real worker's does (F32).
	Confirm bool `json:"confirm,omitempty"`
	// Placement is the URL of the inventory; "" means a file inventory.
	Placement string `json:"placement,omitempty"`
	// Files for profiles: of the processor until the end, of all allocations at the end, of the
	// heap at each garbage collection that is asked for. "" means none.
	CPUProfile   string `json:"cpu_profile,omitempty"`
	AllocProfile string `json:"alloc_profile,omitempty"`
	HeapProfile  string `json:"heap_profile,omitempty"`
}

// report is a line that a worker process writes to its parent.
type report struct {
	Ready bool `json:"ready,omitempty"`
	// Released is the workflow whose device has just been released.
	Released string  `json:"released,omitempty"`
	Memory   *memory `json:"memory,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// memory is what a worker process uses. Objects and Bytes are what it has allocated since its
// start, and may have freed.
type memory struct {
	Heap    uint64 `json:"heap"`
	Live    uint64 `json:"live"`
	Stack   uint64 `json:"stack"`
	Cached  int64  `json:"cached"`
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
}

// workerMain is the worker process. It runs until stdin ends and answers each line there,
// true or false, with its memory, after garbage collection or not.
func workerMain(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	text := flags.String("task", "", "the task, as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var t task
	if err := json.Unmarshal([]byte(*text), &t); err != nil {
		return fmt.Errorf("the task: %w", err)
	}
	reports := &publisher{to: json.NewEncoder(out)}
	if err := t.serve(in, reports); err != nil {
		return errors.Join(err, reports.publish(report{Error: err.Error()}))
	}
	return nil
}

// publisher writes reports one at a time.
type publisher struct {
	mu sync.Mutex
	to *json.Encoder
}

func (p *publisher) publish(r report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to.Encode(r)
}

func (t task) serve(in io.Reader, out *publisher) (err error) {
	if t.CPUProfile != "" {
		file, err := os.Create(t.CPUProfile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return errors.Join(err, file.Close())
		}
		defer func() { pprof.StopCPUProfile(); err = errors.Join(err, file.Close()) }()
	}
	if t.AllocProfile != "" {
		runtime.MemProfileRate = 4 << 10 // bytes a sample: a turnover allocates little
		defer func() { err = errors.Join(err, writeProfile("allocs", t.AllocProfile)) }()
	}
	config.SetDefaultGOGC()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var cached atomic.Int64
	options := sdkclient.Options{HostPort: t.Address, Namespace: t.Namespace, Logger: log.NewStructuredLogger(logger), MetricsHandler: sdkclient.MetricsNopHandler}
	config.ForWorkers(&options)
	if t.Product {
		counted, err := telemetry.New("bench", "all", logger)
		if err != nil {
			return err
		}
		counted.Options(&options)
	}
	options.MetricsHandler = cacheMetrics{options.MetricsHandler, &cached}
	c, err := sdkclient.Dial(options)
	if err != nil {
		return err
	}
	defer c.Close()
	stop, err := t.start(c, out, logger)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	if err := out.publish(report{Ready: true}); err != nil {
		return err
	}
	for {
		var gc bool
		if _, err := fmt.Fscanln(in, &gc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		m := usedMemory(gc)
		m.Cached = cached.Load()
		if err := out.publish(report{Memory: &m}); err != nil {
			return err
		}
		if gc {
			if err := writeProfile("heap", t.HeapProfile); err != nil {
				return err
			}
		}
	}
}

// writeProfile writes one of Go's profiles to a file; "" writes none.
func writeProfile(name, path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(file, 0), file.Close())
}

// usedMemory measures this process. gc collects garbage first, so often that stacks have
// shrunk.
func usedMemory(gc bool) memory {
	if gc {
		for range 5 {
			runtime.GC()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{Heap: m.HeapInuse, Live: m.HeapAlloc, Stack: m.StackInuse, Objects: m.Mallocs, Bytes: m.TotalAlloc}
}

// start starts the two workers of a burnish-worker in role all, with its options
// (worker/roles.go).
func (t task) start(c sdkclient.Client, out *publisher, logger *slog.Logger) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var failed []error
		for i := len(stops) - 1; i >= 0; i-- {
			failed = append(failed, stops[i]())
		}
		return errors.Join(failed...)
	}
	run := func(w worker.Worker) error {
		err := w.Start()
		if err == nil {
			stops = append(stops, func() error { w.Stop(); return nil })
		}
		return err
	}
	worker.SetStickyWorkflowCacheSize(t.Cache)
	base := worker.Options{
		WorkerStopTimeout: time.Second, DisableRegistrationAliasing: true,
		Interceptors: []interceptor.WorkerInterceptor{&observer{out: out}},
	}
	controlOptions, hostOptions := base, base
	controlOptions.StickyScheduleToStartTimeout = 2 * time.Second
	controlOptions.MaxConcurrentWorkflowTaskExecutionSize = 100
	controlOptions.WorkflowTaskPollerBehavior = worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: 2, MaximumNumberOfPollers: 20,
	})
	hostOptions.DisableWorkflowWorker = true
	hostOptions.MaxConcurrentActivityExecutionSize = 1000
	hostOptions.DefaultHeartbeatThrottleInterval = 5 * time.Second
	hostOptions.MaxHeartbeatThrottleInterval = 5 * time.Second
	control, hardware := worker.New(c, t.Queue, controlOptions), worker.New(c, contract.HostQueue(t.Host), hostOptions)

	if err := t.registerWorkflow(control); err != nil {
		return stop, err
	}
	all := noops
	if t.Real {
		var closeHost func() error
		if all, closeHost, err = t.real(c, logger); err != nil {
			return stop, err
		}
		stops = append(stops, closeHost)
	}
	register(control, all.control)
	register(hardware, all.host)
	if err := run(hardware); err != nil {
		return stop, err
	}
	return stop, run(control)
}

func (t task) registerWorkflow(w worker.Worker) error {
	if !t.Product {
		w.RegisterWorkflowWithOptions(Entity, workflow.RegisterOptions{Name: entityWorkflow})
		return nil
	}
	planner, err := clean.NewPlanner(steps.All().Planning(),
		clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute, StepSettings: device.StepSettings{TellAfter: 5 * time.Minute}})
	if err != nil {
		return err
	}
	devices := &lifecycle.Lifecycle{Planner: planner}
	w.RegisterWorkflowWithOptions(devices.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	return nil
}

// activitySet is the activities of the two queues by name.
type activitySet struct{ control, host map[string]any }

func register(w worker.Worker, all map[string]any) {
	for name, do := range all {
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
}

// real is the product's activities, with a file inventory or Placement, a host's journal on
// stable storage, and simulated devices or files.
func (t task) real(c sdkclient.Client, logger *slog.Logger) (activitySet, func() error, error) {
	kind, options := "file", backends.Options{Dir: filepath.Join(t.Dir, "inventory")}
	if t.Placement != "" {
		kind, options = "placement", backends.Options{Placement: placement.Settings{Getenv: openstack.Noauth(t.Placement), Log: logger}}
	}
	store, err := backends.Open(context.Background(), kind, options)
	if err != nil {
		return activitySet{}, nil, err
	}
	this, err := host.Open(t.Dir, t.Host, host.DefaultRules(t.Dir), host.WithCluster(t.Address))
	if err != nil {
		return activitySet{}, nil, err
	}
	drivers, err := drivers.New([]string{"fake", "block"}, drivers.Host{StateDir: this.Dir(), Paths: this.Rules(), Fake: this.Rules().AllowFake})
	if err != nil {
		return activitySet{}, nil, errors.Join(err, this.Close())
	}
	control := &activities.Control{Store: store, Client: client.New(c), Real: t.Placement != ""}
	hardware := &activities.Hardware{Host: this, Drivers: drivers, Steps: steps.All(), Slots: host.NewFairSemaphore(t.Slots), Log: logger}
	if t.Confirm { // as worker/server.go does
		cluster := func(ctx context.Context) error {
			_, err := c.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
			return err
		}
		hardware.Confirm = func(ctx context.Context, token []byte, details ...any) error {
			if err := cluster(ctx); err != nil {
				return err
			}
			return c.RecordActivityHeartbeat(ctx, token, details...)
		}
	}
	b := activitySet{
		control: control.Activities(),
		host:    map[string]any{contract.ActivityDiscover: hardware.Discover},
	}
	for _, step := range hardware.Steps {
		b.host[step.Name] = hardware.Step(step)
	}
	return b, this.Close, nil
}

// noops do nothing and return what the real activities would.
var noops = activitySet{
	control: map[string]any{
		contract.ActivityEnsureProvider: noopInventory, contract.ActivityReserveForBind: noopInventory,
		contract.ActivityReadReservation: noopInventory, contract.ActivityEnsureReserved: noopInventory, contract.ActivityUnreserve: noopInventory,
	},
	host: map[string]any{
		contract.ActivityDiscover: func(_ context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
			return contract.DiscoveryResult{
				Identity:  device.Identity{Serial: in.Enrollment.Name, Vendor: "Burnish", Model: "fake", Size: deviceSize},
				Operation: device.Shred, Steps: map[string]int{"zero": 1, "verify": 1},
			}, nil
		},
		"zero": noopSteps, "verify": noopStep,
	},
}

func noopInventory(_ context.Context, in contract.ReservationRequest) (device.Inventory, error) {
	return device.Inventory{Generation: in.Generation + 1, Total: 1}, nil
}

func noopStep(_ context.Context, in contract.StepInput) (contract.StepResult, error) {
	return contract.StepResult{Step: in.Step, Clean: in.Clean, Seq: in.Seq, Bytes: in.Identity.Size, Method: "none"}, nil
}

// noopSteps begins the next step too, as a host does after a step that takes no time.
func noopSteps(ctx context.Context, in contract.StepInput) (contract.StepAnswer, error) {
	did, err := noopStep(ctx, in)
	result := contract.StepAnswer{StepResult: did}
	if err != nil || in.Next == nil {
		return result, err
	}
	next, err := noopStep(ctx, in.Following(0))
	result.Next = &contract.NextResult{Result: &next}
	return result, err
}

// observer reports each release of a device to the parent, which need not poll for it.
type observer struct {
	interceptor.WorkerInterceptorBase
	out *publisher
}

// InterceptWorkflow returns next: a wrapper would add to the stack of each workflow.
func (*observer) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return next
}

// InterceptActivity is called by the SDK for each attempt.
func (o *observer) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &observedActivity{out: o.out}
	i.Next = next
	return i
}

type observedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	out *publisher
}

// ExecuteActivity reports each successful Release.
func (w *observedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := w.Next.ExecuteActivity(ctx, in)
	if info := activity.GetInfo(ctx); err == nil && info.ActivityType.Name == contract.ActivityUnreserve {
		err = w.out.publish(report{Released: info.WorkflowExecution.ID})
	}
	return result, err
}

// cacheMetrics notes the size of the workflow cache, and passes all other figures on.
type cacheMetrics struct {
	sdkclient.MetricsHandler
	cached *atomic.Int64
}

// WithTags is sdkclient.MetricsHandler's.
func (m cacheMetrics) WithTags(tags map[string]string) sdkclient.MetricsHandler {
	return cacheMetrics{m.MetricsHandler.WithTags(tags), m.cached}
}

// Gauge is sdkclient.MetricsHandler's.
func (m cacheMetrics) Gauge(name string) sdkclient.MetricsGauge {
	if name == "temporal_sticky_cache_size" {
		return gaugeFunc(func(v float64) { m.cached.Store(int64(v)) })
	}
	return m.MetricsHandler.Gauge(name)
}

type gaugeFunc func(float64)

// Update is sdkclient.MetricsGauge's.
func (f gaugeFunc) Update(v float64) { f(v) }
