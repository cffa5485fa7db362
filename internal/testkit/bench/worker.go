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

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	tlog "go.temporal.io/sdk/log"
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
	"burnish/internal/testkit/openstack"
	"burnish/workflows"
	"burnish/workflows/contract"
)

// task is what a worker process is started for: which workflow it runs over which
// activities.
type task struct {
	// Product: DeviceLifecycle; otherwise the baseline's Entity.
	Product bool `json:"product,omitempty"`
	// Real: the product's activities; otherwise such as do nothing.
	Real    bool   `json:"real,omitempty"`
	Queue   string `json:"queue"`
	Host    string `json:"host"`
	Address string `json:"address"`
	Dir     string `json:"dir"`
	// Cache is how many workflows are kept in memory, Slots how many steps the host
	// runs at once.
	Cache int `json:"cache"`
	Slots int `json:"slots"`
	// Placement is the URL of the inventory, a file's where it is empty.
	Placement string `json:"placement,omitempty"`
	// Where profiles go, none if it is empty: of the processor until the end, of the
	// heap with each sweep.
	CPUProfile  string `json:"cpu_profile,omitempty"`
	HeapProfile string `json:"heap_profile,omitempty"`
}

// report is a line that a worker process writes to its parent.
type report struct {
	Ready bool `json:"ready,omitempty"`
	// Released is the workflow whose device has just been given back.
	Released string  `json:"released,omitempty"`
	Memory   *memory `json:"memory,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// memory is what a worker process has in use.
type memory struct {
	Heap   uint64 `json:"heap"`
	Live   uint64 `json:"live"`
	Stack  uint64 `json:"stack"`
	Cached int64  `json:"cached"`
}

// workerMain is a worker process: it works until stdin ends, and answers each line
// that it reads there, true or false, with its memory, swept or not.
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
	say := &speaker{to: json.NewEncoder(out)}
	if err := t.serve(in, say); err != nil {
		return errors.Join(err, say.say(report{Error: err.Error()}))
	}
	return nil
}

// speaker writes reports one at a time.
type speaker struct {
	mu sync.Mutex
	to *json.Encoder
}

func (s *speaker) say(r report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Encode(r)
}

func (t task) serve(in io.Reader, out *speaker) (err error) {
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
	config.SetDefaultGOGC()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var cached gauge
	c, err := client.Dial(client.Options{HostPort: t.Address, Logger: tlog.NewStructuredLogger(logger), MetricsHandler: metrics{cached: &cached}})
	if err != nil {
		return err
	}
	defer c.Close()
	stop, err := t.start(c, out, logger)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	if err := out.say(report{Ready: true}); err != nil {
		return err
	}
	for {
		var swept bool
		if _, err := fmt.Fscanln(in, &swept); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		m := inUse(swept)
		m.Cached = cached.value.Load()
		if err := out.say(report{Memory: &m}); err != nil {
			return err
		}
		if swept {
			if err := t.writeHeapProfile(); err != nil {
				return err
			}
		}
	}
}

func (t task) writeHeapProfile() error {
	if t.HeapProfile == "" {
		return nil
	}
	file, err := os.Create(t.HeapProfile)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("heap").WriteTo(file, 0), file.Close())
}

// inUse is what the process uses, swept: after garbage was collected as often as it
// takes stacks to shrink to what they need.
func inUse(swept bool) memory {
	if swept {
		for range 5 {
			runtime.GC()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{Heap: m.HeapInuse, Live: m.HeapAlloc, Stack: m.StackInuse}
}

// start starts the two workers of a burnish-worker in role all, with its options
// (worker/roles.go), whichever workflow and activities they serve.
func (t task) start(c client.Client, out *speaker, logger *slog.Logger) (stop func() error, err error) {
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
		Interceptors: []interceptor.WorkerInterceptor{&witness{out: out}},
	}
	controlOptions, hostOptions := base, base
	controlOptions.StickyScheduleToStartTimeout = 2 * time.Second
	controlOptions.MaxConcurrentWorkflowTaskExecutionSize = 100
	hostOptions.DisableWorkflowWorker = true
	hostOptions.MaxConcurrentActivityExecutionSize = 1000
	hostOptions.DefaultHeartbeatThrottleInterval = 5 * time.Second
	hostOptions.MaxHeartbeatThrottleInterval = 5 * time.Second
	control, hands := worker.New(c, t.Queue, controlOptions), worker.New(c, contract.HostQueue(t.Host), hostOptions)

	if err := t.registerWorkflow(control); err != nil {
		return stop, err
	}
	bodies := idle
	if t.Real {
		var closeHost func() error
		if bodies, closeHost, err = t.real(c, logger); err != nil {
			return stop, err
		}
		stops = append(stops, closeHost)
	}
	register(control, bodies.control)
	register(hands, bodies.host)
	if err := run(hands); err != nil {
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
		clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute})
	if err != nil {
		return err
	}
	lifecycle := &workflows.Lifecycle{Planner: planner}
	w.RegisterWorkflowWithOptions(lifecycle.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	return nil
}

// bodies are activities by name, for the two queues.
type bodies struct{ control, host map[string]any }

func register(w worker.Worker, all map[string]any) {
	for name, do := range all {
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
}

// real is what the product does: a file inventory, or a Placement, and a host's journal,
// each write on stable storage, and simulated devices or files.
func (t task) real(c client.Client, logger *slog.Logger) (bodies, func() error, error) {
	kind, options := "file", backends.Options{Dir: filepath.Join(t.Dir, "inventory")}
	if t.Placement != "" {
		kind, options = "placement", backends.Options{Placement: placement.Settings{Getenv: openstack.Noauth(t.Placement), Log: logger}}
	}
	store, err := backends.Open(context.Background(), kind, options)
	if err != nil {
		return bodies{}, nil, err
	}
	this, err := host.Open(t.Dir, t.Host, host.DefaultRules(t.Dir), host.WithCluster(t.Address))
	if err != nil {
		return bodies{}, nil, err
	}
	drivers, err := drivers.New([]string{"fake", "block"}, drivers.Host{StateDir: this.Dir(), Paths: this.Rules(), Fake: this.Rules().AllowFake})
	if err != nil {
		return bodies{}, nil, errors.Join(err, this.Close())
	}
	control := &activities.Control{Store: store, Client: c, Real: t.Placement != ""}
	hands := &activities.Hardware{Host: this, Drivers: drivers, Steps: steps.All(), Slots: host.NewFairSemaphore(t.Slots), Log: logger}
	b := bodies{
		control: control.Activities(),
		host:    map[string]any{contract.ActivityDiscover: hands.Discover},
	}
	for _, step := range hands.Steps {
		b.host[step.Name] = hands.Step(step)
	}
	return b, this.Close, nil
}

// idle are activities that do nothing but answer as the real ones do.
var idle = bodies{
	control: map[string]any{
		contract.ActivityEnsureProvider: idleStock, contract.ActivityReserveForBind: idleStock,
		contract.ActivityReadReservation: idleStock, contract.ActivityEnsureReserved: idleStock, contract.ActivityUnreserve: idleStock,
	},
	host: map[string]any{
		contract.ActivityDiscover: func(_ context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
			return contract.DiscoveryResult{
				Identity:  device.Identity{Serial: in.Enrollment.Name, Vendor: "Burnish", Model: "fake", Size: deviceSize},
				Operation: device.Shred, Steps: map[string]int{"zero": 1, "verify": 1},
			}, nil
		},
		"zero": idleStep, "verify": idleStep,
	},
}

func idleStock(_ context.Context, in contract.ReservationRequest) (contract.ReservationSnapshot, error) {
	return contract.ReservationSnapshot{Generation: in.Generation + 1, Total: 1}, nil
}

func idleStep(_ context.Context, in contract.StepInput) (contract.StepResult, error) {
	return contract.StepResult{Step: in.Step, Bytes: in.Identity.Size, Method: "none"}, nil
}

// witness tells the parent when a device is given back, so that it need not ask all
// the time.
type witness struct {
	interceptor.WorkerInterceptorBase
	out *speaker
}

// InterceptWorkflow leaves workflows alone: what wraps them would add to the stack that
// each keeps.
func (*witness) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return next
}

// InterceptActivity is called by the SDK for each attempt.
func (w *witness) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &witnessed{out: w.out}
	i.Next = next
	return i
}

type witnessed struct {
	interceptor.ActivityInboundInterceptorBase
	out *speaker
}

// ExecuteActivity tells after a Release that worked.
func (w *witnessed) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := w.Next.ExecuteActivity(ctx, in)
	if info := activity.GetInfo(ctx); err == nil && info.ActivityType.Name == contract.ActivityUnreserve {
		err = w.out.say(report{Released: info.WorkflowExecution.ID})
	}
	return result, err
}

// gauge keeps the last value of a metric.
type gauge struct{ value atomic.Int64 }

// Update is client.MetricsGauge's.
func (g *gauge) Update(v float64) { g.value.Store(int64(v)) }

// metrics drops what the SDK measures, but for the size of the workflow cache.
type metrics struct{ cached *gauge }

// WithTags is client.MetricsHandler's.
func (m metrics) WithTags(map[string]string) client.MetricsHandler { return m }

// Counter is client.MetricsHandler's.
func (metrics) Counter(name string) client.MetricsCounter {
	return client.MetricsNopHandler.Counter(name)
}

// Timer is client.MetricsHandler's.
func (metrics) Timer(name string) client.MetricsTimer { return client.MetricsNopHandler.Timer(name) }

// Gauge is client.MetricsHandler's.
func (m metrics) Gauge(name string) client.MetricsGauge {
	if name == "temporal_sticky_cache_size" {
		return m.cached
	}
	return client.MetricsNopHandler.Gauge(name)
}
