package proof

import (
	"encoding/json"
	"fmt"
	"reflect"

	"burnish/internal/clean"
	"burnish/internal/device"
)

// Found is what a host found of a device, as far as a clean is planned by it. The erase policy of its own entry in
// host.yaml is with it, where it has one.
type Found struct {
	clean.Subject
	ClearAction, ClearStrategy string
}

// planned says why the steps that were done are not the full clean that the policy plans for what the host found.
func (g *Gate) planned(discovery Statement, done []Statement) error {
	name := discovery.Device
	var found Found
	if err := json.Unmarshal(discovery.Result, &found); err != nil {
		return notProved(name, "what its host found cannot be read")
	}
	policy := g.planner.Policy()
	own := policy.NVMe.For(found.ClearAction, found.ClearStrategy)
	for _, s := range done {
		switch {
		case s.Operation != done[0].Operation:
			return notProved(name, "its steps are of several ways to erase it")
		case found.NVMe && !own.Accepts(found.Capabilities, s.Operation), !found.NVMe && s.Operation != found.Operation:
			return notPlanned(name, fmt.Sprintf("it was to be erased by %q", s.Operation))
		}
		found.Operation = s.Operation
	}
	plan, fault := g.planner.Full(found.Subject)
	if fault != nil {
		return notPlanned(name, "it plans none: "+fault.Message)
	}
	for _, p := range plan {
		switch {
		case clean.OfWorkflow(p.Step.Name):
			continue
		case len(done) == 0 || done[0].Step != p.Step.Name:
			return notPlanned(name, p.Step.Name+" was left out, or not done in its place")
		case !sameJSON(done[0].Args, p.Args):
			return notPlanned(name, p.Step.Name+" was done with other arguments")
		case !sameProof(done[0].Obeys, policy.StepSettings):
			return notPlanned(name, p.Step.Name+" was done by other settings")
		}
		done = done[1:]
	}
	if len(done) > 0 {
		return notPlanned(name, done[0].Step+" is not a part of it")
	}
	return nil
}

// sameProof compares the settings that decide what a clean proves.
func sameProof(a, b device.StepSettings) bool { return a.Verify == b.Verify && a.Wear == b.Wear }

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return len(a) == 0 && len(b) == 0 ||
		json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// notPlanned is the fault of a clean that the policy of this control worker does not plan.
func notPlanned(name, why string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotProved,
		Message: "the clean of " + name + " was not the one that the policy plans: " + why,
		Remedy: "if the policy has changed since, or not all control workers have the same, clean " + name +
			" again; if not, somebody else had it cleaned"}
}
