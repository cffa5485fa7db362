package telemetry

import (
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
	other     = "other"
	none      = "none"
)

// maxText bounds the length of a label's value, in bytes.
const maxText = 100

// allowed are the labels of the SDK's own figures and of Burnish's. Anything else that names
// a workflow, a run or a device never becomes one.
var allowed = []string{
	"namespace", "client_name", "poller_type", "worker_type", "workflow_type", "activity_type", "nexus_service",
	"nexus_operation",
	"failure_reason", "task_queue", "operation", "cause", "status_code",
	contract.LabelOutcome, contract.LabelModel, contract.LabelStep, contract.LabelResult, contract.LabelMethod,
	contract.LabelAppliance,
}

// handler is the SDK's metrics handler with bounded labels. One set of labels has one handler,
// which all workflows share: a device costs no memory for it.
type handler struct {
	sdkclient.MetricsHandler
	values *values
	tagged sync.Map // by the labels
}

func newHandler(inner sdkclient.MetricsHandler) *handler {
	return &handler{MetricsHandler: inner, values: &values{known: map[string]map[string]bool{}}}
}

// WithTags gives the handler with further labels.
func (h *handler) WithTags(tags map[string]string) sdkclient.MetricsHandler {
	kept := make(map[string]string, len(tags))
	key := ""
	for _, name := range allowed {
		if value, ok := tags[name]; ok {
			kept[name] = h.values.bounded(name, value)
			key += name + "\x00" + kept[name] + "\x00"
		}
	}
	if found, ok := h.tagged.Load(key); ok {
		return found.(sdkclient.MetricsHandler)
	}
	found, _ := h.tagged.LoadOrStore(key, &handler{MetricsHandler: h.MetricsHandler.WithTags(kept), values: h.values})
	return found.(sdkclient.MetricsHandler)
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
