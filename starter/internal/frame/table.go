package frame

import (
	"fmt"
	"strings"
	"time"

	"burnish/starter/internal/terminal"
)

// table gives devices of one group as a table; all is how many the group has.
func table(g Group, devices []Device, all int, now time.Time) terminal.Table {
	name := terminal.Column{Title: fmt.Sprintf("%s %d", titles[g], all), Keep: 100, Least: 16}
	switch g {
	case Running:
		return running(name, devices, now)
	case Queued:
		t := terminal.Table{Columns: []terminal.Column{
			name, {Title: "HOST", Keep: 40, Least: 8}, {Title: "SINCE", Keep: 80, Right: true},
			{Title: "WAITS FOR", Keep: 90, Least: 10},
		}}
		for _, d := range devices {
			t.Rows = append(t.Rows, []string{d.Name, d.Host, terminal.Age(now, d.Since), d.Text})
		}
		return t
	}
	t := terminal.Table{Columns: []terminal.Column{
		name, {Title: "HOST", Keep: 40, Least: 8}, {Title: "SINCE", Keep: 80, Right: true},
		{Title: "FAULT", Keep: 90, Least: 10, Color: func(_ int, fault string) terminal.Color { return terminal.Fault(fault) }},
		{Title: "WHAT TO DO", Keep: 70, Least: 12},
	}}
	for _, d := range devices {
		t.Rows = append(t.Rows, []string{d.Name, d.Host, terminal.Age(now, d.Since), d.Fault, d.Text})
	}
	return t
}

// running gives the running devices, each with its bar.
func running(name terminal.Column, devices []Device, now time.Time) terminal.Table {
	bar := terminal.Column{Keep: 70, Least: leastBar, Most: mostBar, Fill: func(row, width int) string {
		return drawBar(devices[row], width)
	}}
	late := func(row int, _ string) terminal.Color {
		switch d := devices[row]; {
		case d.BudgetEnds.IsZero():
		case !d.BudgetEnds.After(now):
			return terminal.Bad
		case d.LeftKnown && d.BudgetEnds.Before(now.Add(d.Left)):
			return terminal.Warn
		}
		return terminal.Plain
	}
	t := terminal.Table{Columns: []terminal.Column{
		name,
		{Title: "HOST", Keep: 55, Least: 8},
		{Title: "STEP", Keep: 85},
		bar,
		{Title: "%", Keep: 95, Right: true},
		{Title: "LEFT", Keep: 90, Right: true},
		{Title: "RATE", Keep: 75, Right: true},
		{Title: "DONE", Keep: 40},
		{Title: "PROGRESS", Keep: 65, Right: true},
		{Title: "BUDGET", Keep: 60, Right: true, Color: late},
		{Title: "ATTEMPT", Keep: 30, Right: true},
	}}
	for _, d := range devices {
		var percent, left, rate, done, budget, attempt string
		progress := terminal.Age(now, d.ProgressAt)
		if d.Total > 0 || d.Percent > 0 {
			percent = fmt.Sprintf("%.1f", d.Percent)
		}
		if d.Total > 0 {
			done = terminal.Bytes(d.Done) + " of " + terminal.Bytes(d.Total)
		}
		if d.LeftKnown {
			left = terminal.Duration(d.Left)
		}
		if d.Rate > 0 {
			rate = terminal.Bytes(d.Rate) + "/s"
		}
		if progress != "" {
			progress += " ago"
		}
		if at := d.BudgetEnds; !at.IsZero() {
			if budget = "over"; at.After(now) {
				budget = terminal.Duration(at.Sub(now))
			}
		}
		if d.Attempt > 1 {
			attempt = fmt.Sprint(d.Attempt)
		}
		t.Rows = append(t.Rows, []string{d.Name, d.Host, d.Step, d.Doing, percent, left, rate, done, progress,
			budget, attempt})
	}
	return t
}

// drawBar gives the bar of a device in exactly width columns, or what the device does if it is not
// known how far it is.
func drawBar(d Device, width int) string {
	if d.Total <= 0 && d.Percent <= 0 {
		return terminal.Cut(terminal.Line(d.Doing), width)
	}
	inner := width - 2
	if inner < 1 {
		return ""
	}
	full := min(int(float64(inner)*max(d.Percent, 0)/100), inner)
	bar := strings.Repeat("=", full)
	if full > 0 && full < inner {
		bar = bar[:full-1] + ">"
	}
	return "[" + bar + strings.Repeat(" ", inner-full) + "]"
}
