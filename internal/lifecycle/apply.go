package lifecycle

import (
	"log/slog"
	"strconv"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/workflows/contract"
	"burnish/workflows/planning"
)

func itoa(n int) string { return strconv.Itoa(n) }

// enrollAs makes the state of a device that has none yet.
func (d *State) enrollAs(e contract.Enrollment) {
	now := d.now.UTC()
	recent, acts := d.Recent, d.Acts
	*d.DeviceState = contract.DeviceState{
		Recent: recent, Acts: acts, // of the enrollment that begins
		Schema: contract.Schema, Name: e.Name, UUID: contract.DeviceUUID(e.Name),
		Enrollment: e, Enrolled: true, CreatedAt: now, UpdatedAt: now,
		Device: device.Device{Owner: e.Owner, OneTimeUse: e.OneTimeUse},
	}
}

// apply changes the device by the table, and records what follows from the change.
func (d *State) apply(e device.Event) error {
	was := d.Device
	next, err := device.Next(was, e)
	if err != nil {
		return err
	}
	d.Device = next
	if e.Kind == device.ClaimEvent {
		d.Claims++
	}
	d.UpdatedAt = d.now.UTC()
	if next.State != was.State {
		d.StateSince = d.UpdatedAt
	}
	d.tellInstance(was.Binding, e)
	d.keepMoments(was, e)
	d.updateOverride(was, e)
	if p := d.Enrollment.Pool; p != nil && p.Dynamic && (e.Kind == device.Invalidated || e.Kind == device.ObservedInUse) {
		// This memory is behind: Burnish may have applied a profile since.
		doubted := contract.PoolState{}
		if d.Pool != nil {
			doubted = *d.Pool
		}
		doubted.Applying = true
		d.Pool = &doubted
	}
	if p := d.Pool; p != nil && p.Applying && next.State == device.Allocated && was.State != device.Allocated {
		d.Intent.ReadPool = true // which of its profiles the tenant has is recorded again
	}
	if next.State == device.Retired {
		d.endWait(contract.WaitProvider) // a retired device needs none
	}
	if next.Binding != nil && (was.Binding == nil || was.Binding.Number != next.Binding.Number) {
		d.BoundAt = d.UpdatedAt
		d.BurnedFor = "" // an earlier burn's record is no more
		d.Requests = d.Requests.With(next.Binding.Instance, next.Binding.Request)
		// SAFETY F38: a record may name an instance that has left meanwhile.
		instance := next.Binding.Instance
		d.Intent.AskInstance = e.Kind != device.Burned && d.ownedByBurnish() && device.TenantUUID(instance) == instance
	}
	if e.Kind == device.BindRepeated { // only now is its request known
		d.History = d.History.Replaced(*next.Binding)
		d.Requests = d.Requests.With(next.Binding.Instance, next.Binding.Request)
		d.Intent.AskInstance = false
	}
	if next.Binding != nil || e.Kind == device.CleanStarted {
		d.Intent.HardwareChanged = false // its tenant has it, or its verify looks at it
	}
	d.logEvent(was, e.Kind)
	// The doubt about a tenant lasts as long as the binding does.
	rebound := next.Binding == nil || was.Binding == nil || was.Binding.Number != next.Binding.Number ||
		e.Kind == device.BindRepeated
	switch next.State {
	case device.Available, device.Allocated, device.Manageable:
		if rebound || d.tenantDoubt() == nil {
			d.Fault, d.LastError = nil, ""
		}
	}
	if next.AwaitingManualClean && !was.AwaitingManualClean && next.State == device.PendingCleaning {
		d.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeAutomatedCleanOff,
			Message: "automated cleaning is off", Remedy: "clean " + d.Name}
	}
	// While the device was claimed, what a read of the inventory showed was ignored.
	if was.Claim != nil && next.Claim == nil && next.State == device.Available {
		d.Intent.ReadInventory = true
	}
	if device.MustReserve(was, next, e.Kind) {
		d.Intent.EnsureReserved = true
	}
	return nil
}

// must is apply for events that the caller has checked already. An illegal one is a defect of Burnish, which is logged
// and shown.
func (d *State) must(e device.Event) {
	if err := d.apply(e); err != nil {
		d.by.Log(slog.LevelError, "illegal event: this is a defect of Burnish", "device", d.Name, "error", err)
		d.LastError = err.Error()
	}
}

// legal asks the table whether the event is allowed, and changes nothing.
func (d *State) legal(e device.Event) error {
	_, err := device.Next(d.Device, e)
	return err
}

// fail moves the device to state error, with the fault that an operator reads.
func (d *State) fail(f *device.Fault) {
	kind := device.CleanFailed
	switch f.Code {
	case device.CodeWearLimitExceeded:
		kind = device.WearLimitExceeded
	case device.CodeServerTaken:
		kind = device.LostRace
	}
	d.must(device.Event{Kind: kind})
	if f.Remedy == "" {
		f.Remedy = "clean " + d.Name + " to try again"
	}
	d.Fault, d.LastError = f, f.Message
	d.logFailure(f)
}

// invalidate makes the device unknown because its host or inventory is ahead of this workflow. One that an operator
// holds stays with its operator, dirty: what it is now, a read of the inventory says (F43). Counters that must never
// decrease are taken from the host's record.
func (d *State) invalidate(known *contract.HostDeviceRecord, why string) {
	if known != nil {
		d.Cleans = max(d.Cleans, known.Clean)
		d.Seq = max(d.Seq, known.Seq)
		d.Device.Bindings = max(d.Device.Bindings, known.Binding)
		d.Host.Identity = known.Identity
	}
	if d.waits(contract.WaitHold) { // an operator holds the clean: nothing begins it again
		d.must(device.Event{Kind: device.CleanFailed})
	}
	d.must(device.Event{Kind: device.Invalidated})
	d.Clean, d.Intent.Rediscover, d.Intent.Import = nil, true, false // from now on the inventory alone proves nothing
	if d.Device.State == device.Unknown {
		d.GenerationUncertain = true
		d.LastError = "state unknown: " + why
	} else {
		d.Intent.ReadInventory = true
		d.LastError = "dirty, and still its operator's: " + why
	}
	d.accept(contract.Act{Verb: string(device.Invalidated), By: contract.ByBurnish, Reason: why})
	d.by.Log(slog.LevelWarn, "device invalidated", d.about(logs.Error, why)...)
}

// endBinding applies unbind or released; D4 and D7 decide the next state.
func (d *State) endBinding(e device.Event) error {
	e.Automated = d.by.Policy().Automated
	was := d.Fault
	if err := d.apply(e); err != nil {
		return err
	}
	if was != nil && d.Fault == was {
		d.Fault, d.LastError = nil, ""
	}
	d.showNoErasePath()
	return nil
}

// showNoErasePath sets the fault of a device that is now in state error because it has no erase operation (D4).
func (d *State) showNoErasePath() {
	if d.Device.State != device.Error {
		return
	}
	d.Fault = d.noErasePath("the device is one-time-use and has no erase operation")
	d.LastError = d.Fault.Message
}

func (d *State) noErasePath(message string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeNoErasePath, Message: message,
		Remedy: "retire " + d.Name + " --reason R, then forget " + d.Name + ", and enroll it with a driver that can erase it",
	}
}

// ownedByBurnish says that no other service creates or changes the device's provider.
func (d *State) ownedByBurnish() bool { return d.Device.Owner != device.OwnerNova }

// subject is the planner's input for the device.
func (d *State) subject() clean.Subject { return planning.Subject(d.Enrollment, d.Host) }

// duplicateSerial is the fault of a device whose serial was discovered in a second slot. Only an operator can find out
// which of the two has the hardware.
func (d *State) duplicateSerial() *device.Fault {
	other := d.Intent.DuplicateAt
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: other,
		Message: "its serial was also discovered at " + other,
		Remedy:  "find out which device has which hardware; then clean " + d.Name + ", or retire it"}
}

// tellInstance signals the end of a binding to the instance whose workflow holds it, unless that workflow ends it
// itself.
func (d *State) tellInstance(was *device.Binding, e device.Event) {
	now := d.Device.Binding
	if was == nil || !was.Managed || e.ByInstance || now != nil && now.Number == was.Number {
		return
	}
	d.Mail = append(d.Mail, Mail{To: contract.InstanceWorkflowID(was.Instance), Signal: contract.SignalDeviceLeft,
		In:   contract.DeviceLeft{Device: d.Name, Binding: was.Number},
		Name: "an instance was not signaled that a device left it", MayBeGone: true})
}

// accept keeps an act that was accepted, and when.
func (d *State) accept(a contract.Act) {
	a.At = d.now.UTC().Truncate(time.Millisecond)
	d.Acts = d.Acts.With(a)
}

// observed are the events that no request causes, with what shows them. The others are of the act at hand, or else
// Burnish's own.
var observed = map[device.EventKind]string{
	device.ObservedInUse:    "the inventory shows it in use",
	device.ObservedUnused:   "the inventory shows it unused",
	device.ObservedFree:     "the inventory shows it unused",
	device.Released:         "the inventory shows that its instance has left",
	device.BindingEnded:     "the inventory records that its instance has left",
	device.BindingMissing:   "no binding is recorded",
	device.PreviousRunFound: "an earlier run of its workflow says so",
	device.NoWitness:        "nothing records who has it",
	device.Invalidated:      "its state is unknown",
	device.IdentityChanged:  "its host found other hardware",
	device.Taken:            "a poll of its pool found that others took its server",
	device.Freed:            "a poll of its pool found that others left its server",
	device.LostRace:         "others took its server first",
}

// own are the observed events that are acts of their own: nothing else in the history shows them.
var own = map[device.EventKind]bool{
	device.Taken: true, device.Freed: true, device.LostRace: true, device.IdentityChanged: true,
	device.BindingMissing: true,
}

// keepMoments records what an event changed of the device's bindings and of its clean, and an act of Burnish itself:
// who, when and why, for the history alone.
func (d *State) keepMoments(was device.Device, e device.Event) {
	next, m := d.Device, d.momentOf(e)
	if own[e.Kind] {
		d.accept(contract.Act{Verb: m.Verb, By: m.By, Reason: m.Reason})
	}
	if next.State == device.PendingCleaning &&
		(was.State != device.PendingCleaning || was.AwaitingManualClean && !next.AwaitingManualClean) {
		d.Intent.By = contract.ByBurnish
		if e.Kind == device.Provide || e.Kind == device.Clean || e.Kind == device.CleanSteps {
			d.Intent.By = m.By
		}
	}
	if was.Binding != nil && (next.Binding == nil || next.Binding.Number != was.Binding.Number) {
		d.History = d.History.Over(was.Binding.Number, m)
	}
	if next.Binding != nil && (was.Binding == nil || was.Binding.Number != next.Binding.Number) {
		d.History = d.History.With(*next.Binding, m)
	}
}

// momentOf says when an event happened, by whom and why.
func (d *State) momentOf(e device.Event) device.Moment {
	m := device.Moment{At: d.now.UTC().Truncate(time.Millisecond), Verb: string(e.Kind), By: contract.ByBurnish}
	if why, ok := observed[e.Kind]; ok {
		m.Reason = why
	} else if a := d.acting; a.Verb != "" {
		m.Verb, m.By, m.Reason = a.Verb, a.By, a.Reason
	}
	return m
}

// dropOverride ends the pending request of an override.
func (d *State) dropOverride() {
	if o := d.Override; o != nil && o.Pending != nil {
		d.Override = &contract.OverrideState{Number: o.Number, Approved: o.Approved}
	}
}

// updateOverride keeps what is known of overrides true after an event. Whoever approves a request approves the return
// of the device as it was when it was requested. An approved one is why the device is not sanitized until a full plan
// ends, or another rule returns it.
func (d *State) updateOverride(was device.Device, e device.Event) {
	o, next := d.Override, d.Device
	if o == nil {
		return
	}
	switch e.Kind {
	case device.Maintain, device.MaintainOff, device.Power:
	default:
		d.dropOverride()
	}
	if o.Approved != nil && (!next.NotSanitized || was.Dirty && next.Returning) {
		d.Override = &contract.OverrideState{Number: o.Number, Pending: d.Override.Pending}
	}
}
