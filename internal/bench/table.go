package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// measure is one line of the result.
type measure struct {
	Name     string   `json:"measure"`
	Unit     string   `json:"unit,omitempty"`
	Product  *float64 `json:"product,omitempty"`
	Baseline *float64 `json:"baseline,omitempty"`
	// Ratio is product to baseline.
	Ratio *float64 `json:"ratio,omitempty"`
	Bound string   `json:"bound,omitempty"`
	// OK says whether the bound holds; nil where there is none.
	OK *bool `json:"ok,omitempty"`
}

// result is what the program writes.
type result struct {
	// Notes say what was measured on what.
	Notes    []string  `json:"notes"`
	Measures []measure `json:"measures"`
}

// compared is a measure of both sides.
func compared(name, unit string, product, baseline, ratio float64) measure {
	return measure{Name: name, Unit: unit, Product: &product, Baseline: &baseline, Ratio: &ratio}
}

func (m measure) bounded(text string, ok bool) measure {
	m.Bound, m.OK = text, &ok
	return m
}

func (m measure) ratioAtMost(limit float64) measure {
	return m.bounded(fmt.Sprintf("ratio ≤ %.2f", limit), *m.Ratio <= limit)
}

func (m measure) ratioAtLeast(limit float64) measure {
	return m.bounded(fmt.Sprintf("ratio ≥ %.2f", limit), *m.Ratio >= limit)
}

func (m measure) atMost(limit float64) measure {
	return m.bounded(fmt.Sprintf("≤ %g %s", limit, m.Unit), *m.Product <= limit)
}

// broken names the measures whose bounds do not hold.
func (r result) broken() []string {
	var names []string
	for _, m := range r.Measures {
		if m.OK != nil && !*m.OK {
			names = append(names, m.Name)
		}
	}
	return names
}

func (r result) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r result) writeTable(w io.Writer) error {
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tproduct\tbaseline\tratio\tbound\t")
	for _, m := range r.Measures {
		verdict := ""
		if m.OK != nil {
			verdict = map[bool]string{true: "ok", false: "FAIL"}[*m.OK]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name,
			number(m.Product, m.Unit), number(m.Baseline, m.Unit), number(m.Ratio, ""), m.Bound, verdict)
	}
	return t.Flush()
}

// number writes what is there with three figures or so.
func number(v *float64, unit string) string {
	if v == nil {
		return ""
	}
	digits := 2
	switch {
	case *v >= 1000:
		digits = 0
	case *v >= 10 && unit != "":
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, *v)
	if unit != "" {
		text += " " + unit
	}
	return text
}
