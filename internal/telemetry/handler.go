package telemetry

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	sdkclient "go.temporal.io/sdk/client"

	"burnish/workflows/contract"
)

// The values that a label may have; further ones count as other.
const (
	maxModels = 100
	maxValues = 200
	maxGiven  = 500 // sets of labels that a handler knows as they were given,
	maxKey    = 256 // of so many bytes each
	other     = "other"
	none      = "none"
)

// maxText bounds the length of a label's value, in bytes.
const maxText = 100

// allowed are the labels of the SDK's own figures and of Burnish's. Anything else that names
// a workflow, a run or a device never becomes one.
var allowed = []string{
	"namespace", "client_name", "poller_type", "worker_type", "workflow_type", "activity_type", "nexus_service", "nexus_operation",
	"failure_reason", "task_queue", "operation", "cause", "status_code",
	contract.LabelOutcome, contract.LabelModel, contract.LabelStep, contract.LabelResult, contract.LabelMethod, contract.LabelAppliance,
}

// handler is the SDK's metrics handler with bounded labels. One set of labels has one handler,
// which all workflows share: a device costs no memory for it.
type handler struct {
	inner  sdkclient.MetricsHandler
	values *values

	mu       sync.Mutex
	tagged   map[string]*handler
	given    map[string]*handler // by labels as they were given, of which there are maxGiven at most
	counters map[string]sdkclient.MetricsCounter
	gauges   map[string]sdkclient.MetricsGauge
	timers   map[string]sdkclient.MetricsTimer
}

func newHandler(inner sdkclient.MetricsHandler) *handler {
	return tagged(inner, &values{known: map[string]map[string]bool{}})
}

func tagged(inner sdkclient.MetricsHandler, known *values) *handler {
	return &handler{
		inner: inner, values: known, tagged: map[string]*handler{}, given: map[string]*handler{}, counters: map[string]sdkclient.MetricsCounter{},
		gauges: map[string]sdkclient.MetricsGauge{}, timers: map[string]sdkclient.MetricsTimer{},
	}
}

// WithTags gives the handler with further labels. The SDK asks for the same ones with each call.
func (h *handler) WithTags(tags map[string]string) sdkclient.MetricsHandler {
	var room [maxKey]byte
	given := room[:0]
	for i, name := range allowed {
		if value, ok := tags[name]; ok {
			given = append(binary.AppendUvarint(append(given, byte(i)), uint64(len(value))), value...)
		}
	}
	h.mu.Lock()
	found, ok := h.given[string(given)]
	h.mu.Unlock()
	if ok {
		return found
	}
	found = h.bounded(tags)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.given) < maxGiven && len(given) <= maxKey {
		h.given[string(given)] = found
	}
	return found
}

// bounded is WithTags for labels that were not given before.
func (h *handler) bounded(tags map[string]string) *handler {
	kept := make(map[string]string, len(tags))
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if !slices.Contains(allowed, name) {
			continue
		}
		value := h.values.bounded(name, tags[name])
		kept[name] = value
		key.WriteString(name + "\x00" + value + "\x00")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.tagged[key.String()]
	if !ok {
		found = tagged(h.inner.WithTags(kept), h.values)
		h.tagged[key.String()] = found
	}
	return found
}

// Counter gives the counter of this name.
func (h *handler) Counter(name string) sdkclient.MetricsCounter {
	return once(h, h.counters, name, h.inner.Counter)
}

// Gauge gives the gauge of this name.
func (h *handler) Gauge(name string) sdkclient.MetricsGauge {
	return once(h, h.gauges, name, h.inner.Gauge)
}

// Timer gives the histogram of this name.
func (h *handler) Timer(name string) sdkclient.MetricsTimer {
	return once(h, h.timers, name, h.inner.Timer)
}

func once[F any](h *handler, made map[string]F, name string, make func(string) F) F {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := made[name]
	if !ok {
		f = make(name)
		made[name] = f
	}
	return f
}

// values bounds the values of each label.
type values struct {
	mu    sync.Mutex
	known map[string]map[string]bool
}

// bounded is the value as a label may show it: text without control characters, not too long,
// and one of the first ones of its label.
func (v *values) bounded(label, value string) string {
	value = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(value, "?"))
	value = strings.Join(strings.Fields(value), " ")
	if len(value) > maxText {
		value = strings.ToValidUTF8(value[:maxText], "")
	}
	if value == "" {
		return none
	}
	limit := maxValues
	if label == contract.LabelModel {
		limit = maxModels
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.known[label]
	switch {
	case known[value]:
		return value
	case known == nil:
		known = map[string]bool{}
		v.known[label] = known
	case len(known) >= limit:
		return other
	}
	known[value] = true
	return value
}
