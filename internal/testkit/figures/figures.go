// Package figures reads what a worker shows at /metrics.
package figures

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Figures are samples by name and labels, as burnish_devices{state=error}; of a histogram
// there are the _count and the _sum.
type Figures map[string]float64

// Parse reads a text in Prometheus' format. A figure without a help text is an error.
func Parse(text []byte) (Figures, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	all := Figures{}
	for name, f := range families {
		if f.GetHelp() == "" {
			return nil, fmt.Errorf("%s has no help text", name)
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetCounter() != nil:
				all[name+key] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				all[name+key] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				all[name+"_count"+key] = float64(m.GetHistogram().GetSampleCount())
				all[name+"_sum"+key] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return all, nil
}

// Of asks a handler of /metrics.
func Of(h http.Handler) (Figures, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %d", w.Code)
	}
	return Parse(w.Body.Bytes())
}

// With gives the samples of the figures whose names begin so.
func (f Figures) With(prefix string) Figures {
	some := Figures{}
	for name, value := range f {
		if strings.HasPrefix(name, prefix) {
			some[name] = value
		}
	}
	return some
}

// Without leaves out the figures whose names begin so.
func (f Figures) Without(prefix string) Figures {
	some := maps.Clone(f)
	maps.DeleteFunc(some, func(name string, _ float64) bool { return strings.HasPrefix(name, prefix) })
	return some
}
