package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"burnish/workflows/contract"
)

// cleanForecast is what a clean of one device would do, for programs.
type cleanForecast struct {
	contract.CleanPlan
	Steps []stepForecast `json:"steps"`
	// Estimate is the sum of the steps' estimates, Unknown how many have none.
	Estimate time.Duration `json:"estimate"`
	Unknown  int           `json:"unknown"`
}

// stepForecast is one step with the time that it probably takes, and where that is known from;
// 0: it is not known.
type stepForecast struct {
	contract.Planned
	Estimate time.Duration `json:"estimate"`
	Basis    string        `json:"basis"`
}

// planDevice shows what a clean of one device would do, by the policy of the control worker
// that answers. It changes nothing.
func (a *app) planDevice(ctx context.Context, l deviceClient, name string, in contract.CleanInput) error {
	v, plan, found, err := a.planned(ctx, l, name, in)
	if err != nil {
		return err
	}
	if f := plan.Fault; f != nil {
		g := ofFault(*f).about(name, v.DeviceState)
		g.message = "no clean is possible: " + g.message
		return g
	}
	f := forecast(plan, v.Cleans, found)
	return a.emit(f, func() string { return f.table(a) })
}

// forecast estimates a plan's steps by the device's cleans before, the newest of which counts,
// and else by what the device itself says of its erase.
func forecast(plan contract.CleanPlan, cleans []contract.CleanSummary, found contract.DiscoveryResult) cleanForecast {
	f := cleanForecast{CleanPlan: plan, Steps: []stepForecast{}}
	own := found.Estimates[plan.Operation] // of one step: the one that erases
	for _, step := range plan.Steps {
		s := stepForecast{Planned: step}
		for i := len(cleans) - 1; i >= 0 && s.Estimate == 0; i-- {
			if step.Phase == "erase" && cleans[i].Operation != plan.Operation {
				continue
			}
			for _, r := range cleans[i].Steps {
				if r.Step == step.Step && r.RunTime > 0 {
					s.Estimate, s.Basis = r.RunTime, fmt.Sprintf("clean %d", cleans[i].Number)
				}
			}
		}
		if erases := step.Phase == "erase" && step.Step != "consolidate_namespaces"; erases && own > 0 {
			if s.Estimate == 0 {
				s.Estimate, s.Basis = own, "the device"
			}
			own = 0
		}
		if s.Estimate == 0 {
			f.Unknown++
		}
		f.Estimate += s.Estimate
		f.Steps = append(f.Steps, s)
	}
	return f
}

// table is the forecast for people.
func (f cleanForecast) table(a *app) string {
	rows := [][]string{{"STEP", "PRIORITY", "INTERFACE", "ESTIMATE", "BY", "BUDGET", "ARGUMENTS"}}
	for _, s := range f.Steps {
		var estimate, budget string
		if s.Estimate > 0 {
			estimate = roundDuration(s.Estimate).String()
		}
		if s.Timeout > 0 {
			budget = roundDuration(s.Timeout).String()
		}
		rows = append(rows, []string{s.Step, strconv.FormatFloat(s.Priority, 'f', -1, 64), s.Interface, estimate, s.Basis,
			budget, argsText(s.Args)})
	}
	total := "estimated run time " + roundDuration(f.Estimate).String()
	switch {
	case f.Unknown == len(f.Steps):
		total = "the run time is not known: the device was not cleaned this way yet"
	case f.Unknown > 0:
		total += fmt.Sprintf(", and that of %d of %d steps, which is not known", f.Unknown, len(f.Steps))
	}
	head := ""
	if f.Operation != "" {
		head = fmt.Sprintf("method %s\n", f.Operation)
	}
	if f.Runbook != "" {
		head += oneLine(fmt.Sprintf("runbook %s (%s)", f.Runbook, f.RunbookDigest)) + "\n"
	}
	return head + a.columns(rows) + total + "\n"
}
