package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/planning"
)

// fleetPlan is the effect of a policy on every device, for programs.
type fleetPlan struct {
	Devices []devicePlan `json:"devices"`
	Changed int          `json:"changed"`
}

// devicePlan is the effect of a policy on one device.
type devicePlan struct {
	Name  string       `json:"name"`
	State device.State `json:"state"`
	// Operation and Steps are locked in now; the new ones are what the policy selects.
	// An operation is empty if there is none.
	Operation    device.Operation `json:"operation"`
	NewOperation device.Operation `json:"new_operation"`
	// Changes: the operation or the steps would differ, or the policy would exclude the
	// device, or include it again.
	Changes bool `json:"changes"`
	// Satisfied: the device can be erased as the policy requires.
	Satisfied bool     `json:"satisfied"`
	Steps     []string `json:"steps"`
	NewSteps  []string `json:"new_steps"`
	// Reason says why the policy cannot be satisfied, when a change would take effect, or
	// why the device's plan is unknown.
	Reason string `json:"reason"`
}

// planFleet says what the policy of a file, or the default one, would change. It only
// reads: the listing, and one query a device.
func (a *app) planFleet(ctx context.Context, file string) error {
	policy := clean.Policy{}
	if file != "" {
		var err error
		if policy, err = config.LoadPolicy(file); err != nil {
			return usagef("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	planner, err := clean.NewPlanner(steps.All().Planning(), policy)
	if err != nil {
		return usagef("%s: %s", file, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return a.devices(ctx, func(l deviceClient) error {
		views, err := a.find(ctx, l, &filter{})
		if err != nil {
			return err
		}
		plan := fleetPlan{Devices: make([]devicePlan, len(views))}
		parallel(len(views), parallelism, func(i int) {
			qctx, cancel := context.WithTimeout(ctx, min(client.QueryTimeout, a.timeout.limit))
			defer cancel()
			facts, err := l.Discovery(qctx, views[i].Name)
			plan.Devices[i] = planOf(planner, policy.NVMe, views[i], facts, err)
		})
		for _, d := range plan.Devices {
			if d.Changes {
				plan.Changed++
			}
		}
		return a.emit(plan, func() string { return plan.table(a) })
	})
}

// planOf makes a new plan for one device. If its driver has only one operation, that is kept;
// other priorities may still change the order of its steps.
func planOf(planner *clean.Planner, policy clean.ErasePolicy, v contract.DeviceStatus, facts contract.DiscoveryResult,
	asked error) devicePlan {
	p := devicePlan{Name: v.Name, State: v.DeviceState, Operation: v.Operation, NewOperation: v.Operation,
		Steps: []string{}, NewSteps: []string{}}
	for _, s := range v.Steps {
		p.Steps = append(p.Steps, s.Step)
	}
	if asked != nil {
		p.NewSteps, p.Reason = p.Steps, "unknown: "+oneLine(reason(asked))
		return p
	}
	subject := planning.Subject(contract.Enrollment{Name: v.Name, Type: v.Type, OneTimeUse: v.OneTimeUse}, facts)
	var erasure clean.Erasure
	var fault *device.Fault
	if can := facts.Capabilities; can == nil {
		erasure.Operation = facts.Operation
		erasure.Steps, fault = planner.Full(subject)
	} else {
		// A tenant may have changed the layout. It counts only if the device has no namespace and
		// cannot create one.
		if facts.Layout == device.LayoutNone && !can.ManageNamespaces {
			subject.Layout = facts.Layout
		}
		erasure, fault = planner.Erasure(policy.For(facts.ClearAction, facts.ClearStrategy), subject)
	}
	p.Operation, p.NewOperation, p.Satisfied = facts.Operation, erasure.Operation, fault == nil
	for _, s := range erasure.Steps {
		p.NewSteps = append(p.NewSteps, s.Step.Name)
	}
	others := p.Operation != p.NewOperation || !slices.Equal(p.Steps, p.NewSteps)
	if excluded := facts.Excluded != nil; fault == nil {
		p.Changes = others || excluded
	} else {
		p.Changes = others && !excluded
	}
	switch {
	case fault != nil:
		p.Reason = oneLine(fault.Error())
	case p.Operation != p.NewOperation && p.Operation != "" && v.DeviceState != device.Available &&
		v.DeviceState != device.Error:
		p.Reason = "locked in while " + string(v.DeviceState) + ": replaced only once it is available or in error"
	case facts.Excluded != nil:
		p.Reason = "excluded by the present policy: " + oneLine(facts.Excluded.Message)
	}
	return p
}

// table is the plan for people.
func (f fleetPlan) table(a *app) string {
	rows := [][]string{{"NAME", "STATE", "METHOD", "STEPS", "CHANGES", "REASON"}}
	for _, d := range f.Devices {
		rows = append(rows, []string{
			d.Name, string(d.State), fromTo(string(d.Operation), string(d.NewOperation)),
			fromTo(strings.Join(d.Steps, ","), strings.Join(d.NewSteps, ",")), yes(d.Changes), d.Reason,
		})
	}
	return a.columns(rows) + fmt.Sprintf("%d of %d devices would change\n", f.Changed, len(f.Devices))
}

// fromTo gives both values if they differ.
func fromTo(now, then string) string {
	now, then = cmp.Or(now, "none"), cmp.Or(then, "none")
	if now == then {
		return now
	}
	return now + " → " + then
}
