// Package discovery asks a device's host what the hardware is, and records what follows:
// the device's identity, the operation that erases it (S2.25 to S2.29), and whether its
// hardware is known under another name (F23, F35). It owns the discovery result in the state.
package discovery

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/record"
)

// Discovery is the hardware of one device, as its host discovers it.
type Discovery struct {
	*record.Record
	// KnownToHost: the host had a record of the device before this run discovered it.
	KnownToHost bool
	// written: the host found at its last look that others have written to a clean device.
	written bool
}

// Discover has the host discover the device and keeps the result; opts are the activity's
// options.
func (d *Discovery) Discover(opts workflow.Context) error {
	var found contract.DiscoveryResult
	dev, began := d.State.Device, workflow.Now(opts).UTC()
	d.State.Intent.HardwareChanged = false
	err := workflow.ExecuteActivity(opts, contract.ActivityDiscover, contract.DiscoverInput{
		Enrollment: d.State.Enrollment, UUID: d.State.UUID, Known: d.State.Host.Identity, Binding: dev.Bindings,
		Accept: dev.Returning && dev.NotSanitized,
	}).Get(opts, &found)
	if err != nil {
		return err
	}
	d.Saw(began)
	d.Keep(opts, found)
	return nil
}

// Saw records that the host saw the enrolled device at that time. It does not count if the
// hardware may have changed since.
func (d *Discovery) Saw(at time.Time) {
	if !d.State.Intent.HardwareChanged {
		d.State.SeenAt = at
	}
}

// recentLook is how old the host's last look at a device may be when it is bound.
const recentLook = 5 * time.Second

// SeenLately says that the host has just seen the device, and reported no change of the hardware
// since: it need not look again before a bind.
func (d *Discovery) SeenLately(ctx workflow.Context) bool {
	return !d.State.Intent.HardwareChanged && workflow.Now(ctx).Sub(d.State.SeenAt) <= recentLook
}

// WhileClientWaits are the options of a Discover whose result a client waits for.
func (d *Discovery) WhileClientWaits(ctx workflow.Context) workflow.Context {
	return whileClientWaits(ctx, d.State.Enrollment)
}

func whileClientWaits(ctx workflow.Context, e contract.Enrollment) workflow.Context {
	return calls.LimitedRetries(calls.OnHost(ctx, e.Host, "discover "+e.Name, calls.HostResponseTimeout))
}

// At has the host of a slot discover the hardware in it. It does not keep the result.
func (d *Discovery) At(ctx workflow.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
	var found contract.DiscoveryResult
	opts := whileClientWaits(ctx, in.Enrollment)
	err := workflow.ExecuteActivity(opts, contract.ActivityDiscover, in).Get(opts, &found)
	if err != nil {
		d.NotifyOther(ctx, calls.FaultOf(err))
	}
	return found, err
}

// Keep records the result of a discovery. An operation that is locked in is replaced only
// if no clean can be running with it (S2.28, S2.29).
func (d *Discovery) Keep(ctx workflow.Context, found contract.DiscoveryResult) {
	s := d.State
	d.written, found.Written = found.Written && !s.Device.Dirty, false
	if r := found.Record; r != nil {
		s.Seq, s.Cleans = max(s.Seq, r.Seq), max(s.Cleans, r.Clean)
		s.Device.Bindings = max(s.Device.Bindings, r.Binding)
		d.KnownToHost = r.KnownBefore
		found.Record = nil
	}
	before := s.Host
	d.chooseOperation(ctx, &found)
	s.Host = found
	if s.Enrollment.Type == "" {
		s.Enrollment.Type = cmp.Or(found.Type, "DEVICE")
	}
	// A device with capabilities can be erased: one whose operations the policy does not
	// allow has a fault, and is not a device without an erase path (D4).
	s.Device.Cleanable = found.Operation != "" || found.Capabilities != nil
	d.excludeByPolicy(ctx, before)
	s.Device.Unit.Serial = found.Identity.Serial
	if serial := found.Identity.Serial; serial != "" && serial != before.Identity.Serial {
		s.Intent.ConfirmSerial = true
	}
	input, planner := d.PlanInput(), d.Planner
	var steps []contract.CleanStep
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return stepsOf(planner.Enabled(input)) }).Get(&steps)
	if err != nil {
		workflow.GetLogger(ctx).Error("recorded steps are unreadable", "device", s.Name, "error", err)
	}
	s.Steps = steps
}

func stepsOf(plan []clean.Planned) []contract.CleanStep {
	steps := []contract.CleanStep{}
	for _, p := range plan {
		steps = append(steps, contract.CleanStep{Step: p.Step.Name, Priority: p.Priority, Interface: p.Step.Interface})
	}
	return steps
}

// operationChoice is recorded by a SideEffect: what the erase policy chose among a device's
// capabilities.
type operationChoice struct {
	Operation device.Operation `json:"operation,omitempty"`
	Fault     *device.Fault    `json:"fault,omitempty"`
}

// chooseOperation sets the device's operation: the locked-in one or, if that may be
// replaced (S2.28, S2.29), the one that the policy chooses now. A policy that the device
// cannot satisfy excludes the device and replaces nothing (S2.25).
func (d *Discovery) chooseOperation(ctx workflow.Context, found *contract.DiscoveryResult) {
	s, locked := d.State.Device.State, d.State.Host.Operation
	if s != device.Absent && s != device.Available && s != device.Error && locked != "" {
		found.Operation, found.Excluded = locked, d.State.Host.Excluded
		return
	}
	if found.Capabilities == nil {
		return
	}
	can, planner := *found.Capabilities, d.Planner
	action, strategy := found.ClearAction, found.ClearStrategy
	var made operationChoice
	err := workflow.SideEffect(ctx, func(workflow.Context) any {
		operation, fault := planner.Policy().NVMe.For(action, strategy).Resolve(can)
		return operationChoice{operation, fault}
	}).Get(&made)
	if err != nil {
		made = operationChoice{Fault: &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal,
			Message: "the recorded choice is unreadable: " + err.Error()}}
	}
	found.Operation, found.Excluded = cmp.Or(made.Operation, locked), made.Fault
	if found.Excluded != nil {
		found.Excluded.Remedy += "; then refresh " + d.State.Name
		workflow.GetLogger(ctx).Error("the erase policy excludes the device", "device", d.State.Name, "error",
			found.Excluded.Message)
	}
}

// excludeByPolicy takes an available device out of the offer if the erase policy excludes
// it, or if it no longer has one whole namespace (S2.25).
func (d *Discovery) excludeByPolicy(ctx workflow.Context, before contract.DiscoveryResult) {
	if d.State.Device.State != device.Available {
		return
	}
	f := d.unfit(before)
	if f == nil {
		return
	}
	if d.conclude(ctx, device.AskHost, device.HostUnfit, false, f).Event != "" {
		d.State.LastError = f.Message
	}
}

// unfit is the fault of a device that its host found, and that may not be offered: the erase
// policy excludes it, or it no longer has one whole namespace. before is the result of the
// discovery before.
func (d *Discovery) unfit(before contract.DiscoveryResult) *device.Fault {
	now := d.State.Host
	if now.Excluded != nil || before.Layout != device.LayoutWhole || now.Layout == device.LayoutWhole {
		return now.Excluded
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNamespaceLayoutMismatch,
		Message: "the namespace layout changed although the device was not allocated: it no longer has one whole namespace",
		Remedy:  "find out who changed it, then clean " + d.State.Name}
}

// BeforeOffer has the host look at a clean device right before its reservation is lowered
// (F27), and records what it found. It returns nil if the host saw the enrolled device as it
// was; otherwise the fault, and whether the same call may succeed later.
func (d *Discovery) BeforeOffer(ctx workflow.Context) (f *device.Fault, again bool) {
	d.State.Intent.Rediscover = false
	before := d.State.Host
	f = d.see(ctx)
	if f != nil && f.Code == device.CodeHostUnreachable {
		f = d.silentHostFault()
	}
	o, f := d.looked(ctx, device.AskLook, before, f)
	if f == nil && o.Event != device.Seen {
		f = d.changedMeanwhile()
	}
	return f, o.Needs(device.RetryLater)
}

// BeforeBind has the host look at a device that is claimed, right before it is burned (F39). It
// returns nil if the host saw the enrolled device as Burnish left it and the claim still holds.
// What else it saw is recorded, as by a discovery. Without an answer nothing is known: the claim
// ends, and the device stays as it is.
func (d *Discovery) BeforeBind(ctx workflow.Context) *device.Fault {
	before := d.State.Host
	f := calls.FaultIn(d.Discover(workflow.WithScheduleToCloseTimeout(d.WhileClientWaits(ctx), bindLookDeadline)))
	if f != nil && (f.Code == device.CodeHostUnreachable || f.Code == device.CodeTimeout) {
		host := d.State.Enrollment.Host
		f = &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
			Message: "no worker of host " + host + " looked at the device: it is not bound unseen",
			Remedy:  "take another device, or start burnish-worker on " + host + " and bind again"}
	}
	o, f := d.looked(ctx, device.AskBindLook, before, f)
	if f == nil && !o.Needs(device.Proceed) {
		f = d.changedMeanwhile()
	}
	return f
}

// bindLookDeadline bounds such a look: the claim outlasts it, after a question to an appliance
// too.
const bindLookDeadline = calls.HostResponseTimeout + 5*time.Second

// looked concludes from a discovery before the device is offered or bound. f is its fault, before
// what was known until then; it returns the fault of what was found, too.
func (d *Discovery) looked(ctx workflow.Context, q device.Question, before contract.DiscoveryResult,
	f *device.Fault) (device.Observation, *device.Fault) {
	if f == nil && d.written {
		f = d.writtenFault()
	}
	result := device.HostResultOf(f)
	if f == nil {
		if f = d.unfit(before); f != nil {
			result = device.HostUnfit
		}
	}
	duplicate := d.State.Intent.DuplicateAt != ""
	if duplicate && f == nil {
		f = d.DuplicateSerialFault()
	}
	return d.conclude(ctx, q, result, duplicate, f), f
}

func (d *Discovery) changedMeanwhile() *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
		Message: "the device changed while its host looked at it", Remedy: "show " + d.State.Name}
}

// writtenFault is the fault of a device that others have written to (F39).
func (d *Discovery) writtenFault() *device.Fault {
	f := &device.Fault{Class: device.Permanent, Code: device.CodeForeignWrite,
		Message: "others have written to the device since Burnish did, or changed its file",
		Remedy:  "take another device; this one is cleaned automatically"}
	if d.State.Device.InMaintenance() {
		f.Class, f.Remedy = device.NeedsOperator, "find out who it was, then clean "+d.State.Name
	}
	return f
}

// see has the host discover the device while a client waits. Hardware that is new here is asked
// for under every other name, until a search that found this device itself has confirmed it: that
// of an imported device was never seen before (F35).
func (d *Discovery) see(ctx workflow.Context) *device.Fault {
	f := calls.FaultIn(d.Discover(d.WhileClientWaits(ctx)))
	if f == nil && d.State.Intent.ConfirmSerial {
		f = calls.FaultIn(d.CheckUnique(ctx, d.State.Host.Identity))
	}
	return f
}

// silentHostFault is the fault of a device that is clean, and is not offered because its
// host does not answer.
func (d *Discovery) silentHostFault() *device.Fault {
	host := d.State.Enrollment.Host
	remedy := "start burnish-worker on " + host + ", then repeat this"
	if d.State.Device.Returning {
		remedy = "start burnish-worker on " + host + "; the device is then returned automatically"
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
		Message: "no worker of host " + host + " looked at the device: it is not offered unseen", Remedy: remedy}
}

// Rediscover has the host discover the device again, because it may have changed.
func (d *Discovery) Rediscover(ctx workflow.Context) {
	d.State.Intent.Rediscover = false
	f := calls.FaultIn(d.Discover(d.WhileClientWaits(ctx)))
	if f == nil && d.written {
		f = d.writtenFault()
	}
	result := device.HostResultOf(f)
	// An unreachable host, or one that finds the device, does not prove that its serial is
	// unique.
	duplicate := d.State.Intent.DuplicateAt != ""
	if duplicate && result != device.HostOther && result != device.HostAbsent {
		f = d.DuplicateSerialFault()
	}
	if f == nil {
		return
	}
	d.conclude(ctx, device.AskHost, result, duplicate, f)
	d.State.LastError = "discovery on the host: " + f.Message
}

// conclude decides by the table of observations what a discovery means, and records it; f is
// its fault.
func (d *Discovery) conclude(ctx workflow.Context, q device.Question, result device.HostResult, duplicate bool,
	f *device.Fault) device.Observation {
	asked := device.Ask(q, d.State.Device, device.Known{})
	asked.Host, asked.Duplicate = result, duplicate
	o, _ := device.Observe(d.State.Device, asked)
	switch o.Event {
	case "":
	case device.CleanFailed:
		d.Fail(ctx, f)
	case device.Seen, device.Unclaim:
		d.ApplyOrReport(ctx, o.EventOf(false))
	case device.ObservedUnused, device.ReservationChanged: // it is cleaned
		d.ApplyOrReport(ctx, o.EventOf(o.Event.UsesAutomated() && d.Policy(ctx).Automated))
		d.State.LastError, d.State.Clean = f.Message, nil
		d.CountForeignWrite(ctx)
	default:
		d.ApplyOrReport(ctx, device.Event{Kind: o.Event})
		d.State.Fault, d.State.LastError = f, f.Message
	}
	d.State.Intent.EnsureReserved = d.State.Intent.EnsureReserved || o.Needs(device.EnsureReserved)
	return o
}

// CheckUnique refuses hardware that another device has, and notifies that device: two slots
// with one serial need an operator (F23), and so does hardware that is recorded under another
// name (F35). A listing may miss a device, but a host never accepts the same hardware twice.
func (d *Discovery) CheckUnique(ctx workflow.Context, i device.Identity) error {
	return d.checkUnique(ctx, calls.WithClientDeadline(ctx, "serial of "+d.State.Name), i, i.Serial)
}

// CheckRecords is CheckUnique before a clean, until there is an answer or opts is canceled. The
// inventory tells which other device has the hardware, but for those of Nova's: for them the
// listing is asked.
func (d *Discovery) CheckRecords(ctx, opts workflow.Context) error {
	i, serial := d.State.Host.Identity, ""
	if !d.OwnedByBurnish() {
		serial = i.Serial
	}
	return d.During(ctx, contract.WaitInventory, func() error {
		return d.checkUnique(ctx, calls.WithInventory(opts, "records of the hardware of "+d.State.Name), i, serial)
	})
}

func (d *Discovery) checkUnique(ctx, opts workflow.Context, i device.Identity, serial string) error {
	if i.Serial == "" {
		return nil
	}
	var known contract.DeviceBySerial
	in := contract.FindBySerialInput{
		Name: d.State.Name, MovedFrom: d.State.MovedFrom, Serial: serial, Hardware: i.Hardware(),
	}
	if err := d.Look(ctx, opts, contract.ActivityFindBySerial, in, &known); err != nil {
		return err
	}
	f := known.Fault
	switch {
	case known.Name == "":
		return nil
	case f == nil:
		f = &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: known.Name,
			Message: "serial " + i.Serial + " belongs to " + known.Name + " already",
			Remedy: "if the hardware was moved, move " + known.Name + " " + d.State.Name +
				"; if not, find out which device has which hardware"}
	}
	d.NotifyOther(ctx, f)
	return f
}

// ConfirmSerialUnique searches once more for another device with a serial that is new here,
// and fails the device if there is one. Of two devices that are enrolled at the same moment,
// neither finds the other before it is listed itself. This search waits until the device is
// listed, so that the one that is listed last finds the other and notifies it: an operator
// decides about both before either is cleaned or returned (F23).
func (d *Discovery) ConfirmSerialUnique(ctx workflow.Context) error {
	s := d.State
	d.Publish()
	var known contract.DeviceBySerial
	in := contract.FindBySerialInput{Name: s.Name, MovedFrom: s.MovedFrom, Serial: s.Device.Unit.Serial, Listed: true}
	if err := workflow.ExecuteActivity(calls.WithInventory(ctx, "serial of "+s.Name), contract.ActivityFindBySerial, in).
		Get(ctx, &known); err != nil {
		return calls.FaultOf(err)
	}
	s.Intent.ConfirmSerial = in.Serial != s.Device.Unit.Serial // replaced meanwhile
	if known.Name == "" {
		return nil
	}
	s.Intent.DuplicateAt = known.Name
	f := known.Fault
	if f == nil {
		f = d.DuplicateSerialFault()
	}
	d.NotifyOther(ctx, f)
	if state := s.Device.State; state == device.PendingCleaning || state == device.Cleaning {
		s.Clean = nil
		d.Fail(ctx, f)
	}
	return nil
}

// NotifyOther makes the other device of a duplicate serial rediscover its hardware now.
func (d *Discovery) NotifyOther(ctx workflow.Context, f *device.Fault) {
	if f.Other == "" || f.Code != device.CodeDuplicateSerial {
		return
	}
	hint := contract.Hint{Source: "duplicate serial", DuplicateAt: d.State.Name}
	if err := workflow.SignalExternalWorkflow(ctx, contract.WorkflowID(f.Other), "", contract.SignalRefresh, hint).
		Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("the other device was not notified", "device", d.State.Name, "other", f.Other,
			"error", err)
	}
}

// ForgetOnHost has the host forget its record of the device, so that its hardware may be
// enrolled again. For a host that does not answer the name is left with its workflow: the
// host's worker reads it when it starts, so that the device does not come back (F25). The
// error is that of a name that could not be left.
func (d *Discovery) ForgetOnHost(ctx workflow.Context, e contract.Enrollment) error {
	opts := calls.LimitedRetries(calls.OnHost(ctx, e.Host, "forget "+e.Name, calls.HostResponseTimeout))
	in := contract.DiscoverInput{Enrollment: e, UUID: contract.DeviceUUID(e.Name)}
	err := workflow.ExecuteActivity(opts, contract.ActivityForget, in).Get(opts, nil)
	if err == nil {
		return nil
	}
	workflow.GetLogger(ctx).Warn("the host did not forget the device; it will at its next start", "device", e.Name,
		"error", err)
	later := calls.WithInventory(ctx, "leave "+e.Name+" for "+e.Host)
	if err := workflow.ExecuteActivity(later, contract.ActivityForgetLater,
		contract.ForgetLaterInput{Host: e.Host, Name: e.Name}).Get(later, nil); err != nil {
		return calls.FaultOf(err)
	}
	return nil
}

// ForgetRefused is ForgetOnHost for a request that is refused for another reason, which the
// client reads.
func (d *Discovery) ForgetRefused(ctx workflow.Context, e contract.Enrollment) {
	if err := d.ForgetOnHost(ctx, e); err != nil {
		workflow.GetLogger(ctx).Error("the host keeps its record of a refused device", "device", e.Name, "error", err)
	}
}
