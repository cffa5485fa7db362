package telemetry

import (
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"

	"burnish/workflows/contract"
)

// kind is how a figure is exported.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// figure is one of Burnish's own figures. Its name is without the suffix of its kind.
type figure struct {
	name   string
	kind   kind
	labels []string
	// roles are the workers that show it.
	roles string
	help  string
	// suffix completes the name: _total or _seconds.
	suffix string
}

// exported is the name at /metrics.
func (f figure) exported() string { return f.name + f.suffix }

const (
	everyRole = "every"
	control   = "control"
	hostRole  = "host"
)

// The figures that this package itself makes.
var (
	figureBuild = figure{"burnish_build_info", gauge, []string{"version", "go_version", "role"}, everyRole,
		"1; the release of this worker and its role are the labels.", ""}
	figureDevices = figure{"burnish_devices", gauge, []string{"state"}, control,
		"Devices of the fleet by state, as Temporal counts them. Each control worker shows all of them: do not add them up.",
		""}
	figureNeedsOperator = figure{"burnish_devices_needing_operator", gauge, nil, control,
		"Devices that wait for an operator.", ""}
	figureStuckWorkflows = figure{"burnish_workflows_needing_operator", gauge, []string{"workflow_type"}, control,
		"Workflows other than devices that wait for an operator: the limits, and the polls of appliances.", ""}
	figureReconciled = figure{"burnish_reconcile_last_success_timestamp", gauge, []string{"cloud"}, control,
		"When the last full reconciliation with Placement ended, in Unix time. 0: none has. Missing where they are off " +
			"(BURNISH_SWEEP_INTERVAL=0).", "_seconds"}
	figureHostPoll = figure{"burnish_host_last_poll_timestamp", gauge, []string{"host"}, control,
		"When a worker last polled the task queue of a host that has devices, in Unix time. 0: none is known.", "_seconds"}
	figurePolled = figure{"burnish_oneview_last_success_timestamp", gauge, []string{contract.LabelAppliance}, control,
		"When the last complete round of the polls of an appliance of OneView ended, in Unix time. 0: none has. Missing " +
			"where they are off.", "_seconds"}
	figureCollectErrors = figure{"burnish_collection_errors", counter, []string{"part"}, control,
		"Rounds in which a part of the figures of the fleet could not be read from Temporal; those figures are missing then.",
		"_total"}
	figureSlotWait = figure{"burnish_slot_wait", histogram, nil, hostRole,
		"How long cleans waited for one of the host's slots (BURNISH_MAX_CLEANS_PER_HOST).", "_seconds"}
	figureSlotsUsed   = figure{"burnish_slots_used", gauge, nil, hostRole, "Slots of the host that steps have.", ""}
	figureSlotsQueued = figure{"burnish_slots_queued", gauge, nil, hostRole,
		"Cleans that wait for one of the host's slots.", ""}
)

// ownFigures are all figures of Burnish's own.
var ownFigures = []figure{
	figureBuild, figureDevices, figureNeedsOperator, figureStuckWorkflows,
	{contract.FigureCleans, counter,
		[]string{contract.LabelOutcome, contract.LabelModel, contract.LabelOperation}, control,
		"Cleans that ended, by outcome, the device's model and how it is erased.", "_total"},
	{contract.FigureCleanDuration, histogram, []string{contract.LabelOutcome, contract.LabelOperation}, control,
		"How long cleans took, with their waits.", "_seconds"},
	{contract.FigureSteps, counter, []string{contract.LabelStep, contract.LabelResult, contract.LabelModel}, control,
		"Steps that ended. A step counts once, however many attempts it took.", "_total"},
	{contract.FigureStepDuration, histogram, []string{contract.LabelStep, contract.LabelModel}, control,
		"The running time of the steps that are done, over all attempts, without waits.", "_seconds"},
	{contract.FigureWipedBytes, counter, []string{contract.LabelStep, contract.LabelMethod}, control,
		"Bytes of the devices that the erasing steps wiped, by method, when the step is done.", "_total"},
	{contract.FigureLimitsWait, histogram, nil, control,
		"How long cleans, and requests to take a device out of the offer, waited for a slot in the limits of the policy.",
		"_seconds"},
	{contract.FigureStepAttempts, counter, []string{contract.LabelStep, contract.LabelResult}, hostRole,
		"Attempts at steps on this host, by what became of them.", "_total"},
	figureSlotWait, figureSlotsUsed, figureSlotsQueued, figureReconciled, figureHostPoll,
	{contract.FigureOneViewRounds, counter, []string{contract.LabelAppliance, contract.LabelResult}, control,
		"Rounds of the polls of an appliance of OneView.", "_total"},
	figurePolled, figureCollectErrors,
}

// The bounds of the histograms, in seconds: of what Burnish does to devices, and of what the
// SDK measures.
var (
	longBuckets = []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 57600, 86400}
	sdkBuckets  = []float64{0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 60, 600, 3600, 86400}
)

// sdkHelp says what the SDK's own figures are, which have no help of their own.
const sdkHelp = "Temporal's Go SDK: "

// describe gives each figure its help, labels and buckets.
func describe(i metric.Instrument) (metric.Stream, bool) {
	s := metric.Stream{Name: i.Name, Description: i.Description, Unit: i.Unit}
	buckets := sdkBuckets
	if at := slices.IndexFunc(ownFigures, func(f figure) bool { return f.name == i.Name }); at >= 0 {
		f := ownFigures[at]
		s.Description, buckets = f.help, longBuckets
		s.AttributeFilter = func(kv attribute.KeyValue) bool { return slices.Contains(f.labels, string(kv.Key)) }
	} else {
		s.Description = sdkHelp + strings.ReplaceAll(strings.TrimPrefix(i.Name, "temporal_"), "_", " ") + "."
	}
	if i.Kind == metric.InstrumentKindHistogram {
		s.Aggregation = metric.AggregationExplicitBucketHistogram{Boundaries: buckets}
	}
	return s, true
}
