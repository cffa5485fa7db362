package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// verdict says whether a bound holds.
type verdict string

const (
	holds  verdict = "ok"
	broken verdict = "FAIL"
	// unsure: the figure is beyond the bound, but it may be the noise.
	unsure verdict = "unsure"
)

// measure is one line of the result. Ratio is product to baseline, Low and High what
// the noise leaves of it. Where Baseline is 0 there is none, and no Ratio.
type measure struct {
	Name     string   `json:"measure"`
	Unit     string   `json:"unit,omitempty"`
	Product  float64  `json:"product"`
	Baseline float64  `json:"baseline"`
	Ratio    float64  `json:"ratio"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	Bound    string   `json:"bound,omitempty"`
	Verdict  verdict  `json:"verdict,omitempty"`

	sure bool // that Ratio is between Low and High
}

// result is what the program writes.
type result struct {
	// Notes say what was measured on what.
	Notes    []string  `json:"notes"`
	Measures []measure `json:"measures"`
}

// counted is a measure without noise.
func counted(name, unit string, product, baseline float64) measure {
	return measure{Name: name, Unit: unit, Product: product, Baseline: baseline, Ratio: product / baseline}
}

// alone is a measure without noise and without a baseline.
func alone(name, unit string, product float64) measure {
	return measure{Name: name, Unit: unit, Product: product}
}

// timed is a measure with noise.
func timed(name, unit string, product, baseline float64, r ratio) measure {
	return measure{Name: name, Unit: unit, Product: product, Baseline: baseline, Ratio: r.value, Low: &r.low, High: &r.high, sure: r.sure}
}

func (m measure) bounded(text string, isBroken, isSure bool) measure {
	m.Bound, m.Verdict = text, holds
	switch {
	case isBroken && isSure:
		m.Verdict = broken
	case isBroken:
		m.Verdict = unsure
	}
	return m
}

func (m measure) ratioAtMost(limit float64) measure {
	return m.bounded(fmt.Sprintf("ratio ≤ %.2f", limit), m.Ratio > limit, m.sure && *m.Low > limit)
}

func (m measure) ratioAtLeast(limit float64) measure {
	return m.bounded(fmt.Sprintf("ratio ≥ %.2f", limit), m.Ratio < limit, m.sure && *m.High < limit)
}

func (m measure) atMost(limit float64) measure {
	return m.bounded(strings.TrimSpace(fmt.Sprintf("≤ %g %s", limit, m.Unit)), m.Product > limit, true)
}

// broken names the measures whose bounds are broken.
func (r result) broken() []string {
	var names []string
	for _, m := range r.Measures {
		if m.Verdict == broken {
			names = append(names, m.Name)
		}
	}
	return names
}

func (r result) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r result) writeTable(w io.Writer) error {
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tproduct\tbaseline\tratio\tnoise\tbound\t")
	for _, m := range r.Measures {
		noise := ""
		if m.Low != nil {
			noise = fmt.Sprintf("%.2f–%.2f", *m.Low, *m.High)
		}
		baseline, ratio := "", ""
		if m.Baseline != 0 {
			baseline, ratio = number(m.Baseline, m.Unit), fmt.Sprintf("%.2f", m.Ratio)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name,
			number(m.Product, m.Unit), baseline, ratio, noise, m.Bound, m.Verdict)
	}
	return t.Flush()
}

// number writes three figures or so.
func number(v float64, unit string) string {
	digits := 2
	switch {
	case v >= 100, unit == "" && v == float64(int(v)):
		digits = 0
	case v >= 10:
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if unit != "" {
		text += " " + unit
	}
	return text
}
