package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// verdict is whether a bound holds.
type verdict string

const (
	holds  verdict = "ok"
	broken verdict = "FAIL"
	// unsure: the figure is beyond the bound, but within the noise.
	unsure verdict = "unsure"
)

// figure is one line of the result. Ratio is product to baseline, Low and High are its
// confidence interval. Baseline 0 means that there is none.
type figure struct {
	Name     string   `json:"measure"`
	Unit     string   `json:"unit,omitempty"`
	Product  float64  `json:"product"`
	Baseline float64  `json:"baseline"`
	Ratio    float64  `json:"ratio"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	Bound    string   `json:"bound,omitempty"`
	Verdict  verdict  `json:"verdict,omitempty"`

	reliable bool // the confidence interval
}

// result is what the program writes.
type result struct {
	// Notes say how the figures were measured.
	Notes   []string `json:"notes"`
	Figures []figure `json:"measures"`
}

// single is a figure without a baseline.
func single(name, unit string, product float64) figure {
	return figure{Name: name, Unit: unit, Product: product}
}

// compared is a figure whose noise is known: the medians of the same rounds, and their ratio.
func compared(name, unit string, product, baseline []float64) figure {
	r := ratioOf(product, baseline)
	return figure{
		Name: name, Unit: unit, Product: median(product), Baseline: median(baseline),
		Ratio: r.value, Low: &r.low, High: &r.high, reliable: r.reliable,
	}
}

// beyond is what the product takes longer than its baseline, in milliseconds. The bound is broken
// only beyond the noise of both.
func beyond(name string, product, baseline []float64, limit float64) figure {
	f := compared(name, "ms", product, baseline)
	more, sure := f.Product-f.Baseline, f.reliable && f.Baseline*(*f.Low-1) > limit
	return single(name, "ms", more).bounded(fmt.Sprintf("≤ %g ms", limit), more > limit, sure)
}

func (f figure) bounded(text string, isBroken, isSure bool) figure {
	f.Bound, f.Verdict = text, holds
	switch {
	case isBroken && isSure:
		f.Verdict = broken
	case isBroken:
		f.Verdict = unsure
	}
	return f
}

func (f figure) ratioAtMost(limit float64) figure {
	return f.bounded(fmt.Sprintf("ratio ≤ %.2f", limit), f.Ratio > limit, f.reliable && *f.Low > limit)
}

func (f figure) ratioAtLeast(limit float64) figure {
	return f.bounded(fmt.Sprintf("ratio ≥ %.2f", limit), f.Ratio < limit, f.reliable && *f.High < limit)
}

func (f figure) atLeast(limit float64) figure {
	return f.bounded(strings.TrimSpace(fmt.Sprintf("≥ %g %s", limit, f.Unit)), f.Product < limit, true)
}

func (f figure) atMost(limit float64) figure {
	return f.bounded(strings.TrimSpace(fmt.Sprintf("≤ %g %s", limit, f.Unit)), f.Product > limit, true)
}

// broken are the names of the figures whose bounds are broken.
func (r result) broken() []string {
	var names []string
	for _, m := range r.Figures {
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
	for _, m := range r.Figures {
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

// number writes about three digits.
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
