package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	// roundInterval is the least time between two rounds of questions to Temporal, however
	// often the figures are read. A figure is never older than that.
	roundInterval = 15 * time.Second
	// roundTimeout bounds a round: what has not been answered by then is missing.
	roundTimeout = 5 * time.Second
)

// Fleet is what a control worker shows of all devices, hosts and appliances.
type Fleet struct {
	Client *client.Client
	// Cloud is the cloud whose Placement is reconciled; "" if there is none.
	Cloud string
	// Appliances names the appliances of OneView.
	Appliances func() []string
	Log        *slog.Logger
}

// ShowFleet adds the figures of the fleet, which are read from Temporal when somebody reads
// them. After stop nothing is read any more.
func (t *Telemetry) ShowFleet(fleet Fleet) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &collector{fleet: fleet, ctx: ctx, hosts: &hosts{client: fleet.Client}}
	c.parts = []part{{"devices", c.devices}, {"operator", c.stuck}, {"hosts", c.hosts.read}}
	if fleet.Cloud != "" {
		c.parts = append(c.parts, part{"reconcile", c.reconciled})
	}
	if fleet.Appliances != nil {
		c.parts = append(c.parts, part{"oneview", c.polled})
	}
	c.failures = make([]float64, len(c.parts))
	return func() error { cancel(); return nil }, t.registry.Register(c)
}

// part is a group of figures that is read, and fails, as a whole.
type part struct {
	name string
	read func(context.Context) ([]sample, error)
}

// sample is one value of a figure.
type sample struct {
	figure figure
	value  float64
	labels []string
}

// collector reads the figures of a fleet.
type collector struct {
	fleet Fleet
	ctx   context.Context
	parts []part
	hosts *hosts

	mu      sync.Mutex
	readAt  time.Time
	samples []sample
	// failures counts the failed reads of each part.
	failures []float64
}

// collected are the figures that a collector may give.
var collected = []figure{figureDevices, figureNeedsOperator, figureStuckWorkflows, figureReconciled, figureHostPoll,
	figurePolled, figureCollectErrors}

func (f figure) desc() *prometheus.Desc {
	return prometheus.NewDesc(f.exported(), f.help, f.labels, nil)
}

// Describe gives the figures' descriptions.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range collected {
		out <- f.desc()
	}
}

// Collect gives the figures of the last round, and begins a round if that is not a new one.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round()
	for _, s := range c.samples {
		out <- prometheus.MustNewConstMetric(s.figure.desc(), prometheus.GaugeValue, s.value, s.labels...)
	}
	for i, p := range c.parts {
		out <- prometheus.MustNewConstMetric(figureCollectErrors.desc(), prometheus.CounterValue, c.failures[i], p.name)
	}
}

// round reads each part, unless the last round is new. All that wait for it get its figures.
func (c *collector) round() {
	if !c.readAt.IsZero() && time.Since(c.readAt) < roundInterval {
		return
	}
	c.samples = nil
	if c.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, roundTimeout)
	defer cancel()
	found := make([][]sample, len(c.parts))
	failed := make([]error, len(c.parts))
	var reading sync.WaitGroup
	for i, p := range c.parts {
		reading.Go(func() { found[i], failed[i] = p.read(ctx) })
	}
	reading.Wait()
	c.readAt = time.Now()
	for i, p := range c.parts {
		if failed[i] == nil {
			c.samples = append(c.samples, found[i]...)
			continue
		}
		c.failures[i]++
		c.fleet.Log.Warn("figures of the fleet are missing", "part", p.name, "error", failed[i])
	}
}

func (c *collector) devices(ctx context.Context) ([]sample, error) {
	var all []sample
	for _, state := range device.States() {
		n, err := c.fleet.Client.Count(ctx, client.Filter{client.ByState: {string(state)}})
		if err != nil {
			return nil, err
		}
		all = append(all, sample{figureDevices, float64(n), []string{string(state)}})
	}
	return all, nil
}

func (c *collector) stuck(ctx context.Context) ([]sample, error) {
	var all []sample
	for _, kind := range []string{contract.WorkflowDeviceLifecycle, contract.WorkflowLimits, contract.WorkflowOneView} {
		n, err := c.fleet.Client.CountStuck(ctx, kind)
		if err != nil {
			return nil, err
		}
		if kind == contract.WorkflowDeviceLifecycle {
			all = append(all, sample{figureNeedsOperator, float64(n), nil})
			continue
		}
		all = append(all, sample{figureStuckWorkflows, float64(n), []string{kind}})
	}
	return all, nil
}

func (c *collector) reconciled(ctx context.Context) ([]sample, error) {
	state, err := c.fleet.Client.ReconcileState(ctx, c.fleet.Cloud)
	if err != nil && !client.NotFound(err) {
		return nil, err
	}
	if err == nil && state.Interval == 0 {
		return nil, nil // on request only
	}
	return []sample{{figureReconciled, unix(state.ReconciledAt), []string{c.fleet.Cloud}}}, nil
}

func (c *collector) polled(ctx context.Context) ([]sample, error) {
	var all []sample
	for _, appliance := range c.fleet.Appliances() {
		state, err := c.fleet.Client.OneViewState(ctx, appliance)
		if err != nil && !client.NotFound(err) {
			return nil, err
		}
		if err == nil && state.Interval == 0 {
			continue // the polls are off
		}
		all = append(all, sample{figurePolled, unix(state.LastGood), []string{appliance}})
	}
	return all, nil
}

// unix is a time as Prometheus counts it; 0 for none.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
