// Package telemetry counts what a worker does and says whether it is ready: the figures of
// Burnish, of Temporal's SDK and of the Go runtime in Prometheus' form at /metrics, and
// /healthz and /readyz. A figure never has a device, an instance or a workflow's ID as a
// label, and the values of each label are bounded.
package telemetry

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// maxSeries bounds the label sets of one figure; further ones are counted together.
const maxSeries = 5000

// Telemetry is what one worker counts, and whether it is ready.
type Telemetry struct {
	*Readiness
	registry *prometheus.Registry
	handler  *handler
	slotWait sdkclient.MetricsTimer
	log      *slog.Logger
}

// New makes the figures of one worker.
func New(version, role string, logger *slog.Logger) (*Telemetry, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("figures: %w", err)
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter), metric.WithView(describe),
		metric.WithResource(resource.Empty()),
		metric.WithExemplarFilter(exemplar.AlwaysOffFilter), metric.WithCardinalityLimit(maxSeries))
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: figureBuild.exported(), Help: figureBuild.help,
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version(), "role": role},
	})
	build.Set(1)
	for _, c := range []prometheus.Collector{build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("figures: %w", err)
		}
	}
	t := &Telemetry{Readiness: &Readiness{}, registry: registry, log: logger}
	t.handler = newHandler(opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: provider.Meter("burnish"), UseMonotonicCounters: true,
		OnError: func(err error) { logger.Warn("a figure is not counted", "error", err) },
	}))
	t.slotWait = t.handler.Timer(figureSlotWait.name)
	return t, nil
}

// Options has a connection to Temporal count what it does.
func (t *Telemetry) Options(options *sdkclient.Options) { options.MetricsHandler = t.handler }

// SlotWait counts how long a clean waited for one of the host's slots.
func (t *Telemetry) SlotWait(waited time.Duration) { t.slotWait.Record(waited) }

// Slots shows how many of a host's slots are in use, and how many cleans wait for one.
func (t *Telemetry) Slots(load func() (used, queued int)) error {
	used := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: figureSlotsUsed.name, Help: figureSlotsUsed.help},
		func() float64 { used, _ := load(); return float64(used) })
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: figureSlotsQueued.name, Help: figureSlotsQueued.help},
		func() float64 { _, queued := load(); return float64(queued) })
	if err := t.registry.Register(used); err != nil {
		return err
	}
	return t.registry.Register(queued)
}

// maxScrapes bounds the answers of /metrics that are made at once.
const maxScrapes = 4

// Metrics answers /metrics.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: errorLog{t.log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	})
}

// errorLog logs what a scrape could not collect.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(v ...any) { l.log.Warn("figures: " + fmt.Sprint(v...)) }
