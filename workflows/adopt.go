package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file is what the host's look at a device makes of it: who it is, and how it is
// erased (S2.25 to S2.29).

// discover has the host look at the device; opts are the activity's.
func (d *lifecycle) discover(opts workflow.Context) error {
	var facts contract.DiscoveryResult
	err := workflow.ExecuteActivity(opts, contract.ActivityDiscover, contract.DiscoverInput{
		Enrollment: d.state.Enrollment, UUID: d.state.UUID, Known: d.state.Host.Identity, Binding: d.state.Device.Bindings,
	}).Get(opts, &facts)
	if err != nil {
		return err
	}
	d.applyDiscovery(opts, facts)
	return nil
}

// adopt keeps what the host found. The operation, once locked in, is replaced only
// where nothing can be under way with it (S2.28, S2.29).
func (d *lifecycle) applyDiscovery(ctx workflow.Context, facts contract.DiscoveryResult) {
	if r := facts.Record; r != nil {
		d.state.Seq, d.state.Cleans = max(d.state.Seq, r.Seq), max(d.state.Cleans, r.Clean)
		d.state.Device.Bindings = max(d.state.Device.Bindings, r.Binding)
		d.knownToHost = r.KnownBefore
		facts.Record = nil
	}
	before := d.state.Host
	d.chooseOperation(ctx, &facts)
	d.state.Host = facts
	if d.state.Enrollment.Type == "" {
		d.state.Enrollment.Type = cmp.Or(facts.Type, "DEVICE")
	}
	// Where the policy chooses, something could always erase the device: what the policy
	// does not let is a fault, and never a device that nothing can clean (D4).
	d.state.Device.Cleanable = facts.Operation != "" || facts.Capabilities != nil
	d.excludeByPolicy(ctx, before)
	d.state.Device.Unit.Serial = facts.Identity.Serial
	subject, planner := d.planInput(), d.planner
	var steps []contract.CleanStep
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return stepsOf(planner.Enabled(subject)) }).Get(&steps)
	if err != nil {
		d.log.Error("recorded steps are unreadable", "device", d.state.Name, "error", err)
	}
	d.state.Steps = steps
}

// chosen is what the erase policy makes of a device's capabilities, as recorded.
type operationChoice struct {
	Operation device.Operation `json:"operation,omitempty"`
	Fault     *device.Fault    `json:"fault,omitempty"`
}

// chooseOperation gives the facts the device's one operation: the locked-in one, or,
// where it may be replaced (S2.28, S2.29), what the policy chooses now. A policy that
// the device cannot satisfy excludes it, and replaces nothing (S2.25).
func (d *lifecycle) chooseOperation(ctx workflow.Context, facts *contract.DiscoveryResult) {
	s, locked := d.state.Device.State, d.state.Host.Operation
	if s != device.Absent && s != device.Available && s != device.Error && locked != "" {
		facts.Operation, facts.Excluded = locked, d.state.Host.Excluded
		return
	}
	if facts.Capabilities == nil {
		return
	}
	can, planner := *facts.Capabilities, d.planner
	var made operationChoice
	err := workflow.SideEffect(ctx, func(workflow.Context) any {
		operation, fault := planner.Policy().NVMe.Resolve(can)
		return operationChoice{operation, fault}
	}).Get(&made)
	if err != nil {
		made = operationChoice{Fault: &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal, Message: "the recorded choice is unreadable: " + err.Error()}}
	}
	facts.Operation, facts.Excluded = cmp.Or(made.Operation, locked), made.Fault
	if facts.Excluded != nil {
		facts.Excluded.Remedy += "; then refresh " + d.state.Name
		d.log.Error("the erase policy excludes the device", "device", d.state.Name, "error", facts.Excluded.Message)
	}
}

// exclude takes a device that is offered out of the pool where the policy excludes it,
// or where it is no longer cut as it was (S2.25, DESIGN: Dirty).
func (d *lifecycle) excludeByPolicy(ctx workflow.Context, before contract.DiscoveryResult) {
	if d.state.Device.State != device.Available {
		return
	}
	now := d.state.Host
	f := now.Excluded
	if f == nil && before.Layout == device.LayoutWhole && now.Layout != device.LayoutWhole {
		f = &device.Fault{Class: device.NeedsOperator, Code: device.CodeNamespaceLayoutMismatch,
			Message: "the device was one whole namespace and is not any more, although nobody had it", Remedy: "find out who changed it, then clean " + d.state.Name}
	}
	if f == nil {
		return
	}
	if illegal := d.apply(ctx, device.Event{Kind: device.IdentityChanged}); illegal == nil {
		d.state.Fault, d.state.LastError = f, f.Message
	}
}
