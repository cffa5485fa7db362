// Package record owns the state of one device's workflow, which changes only as the pure
// table (internal/device) allows. The packages above read the state and ask Record to
// change it.
package record

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/status"
	"burnish/workflows/planning"
	"burnish/workflows/updates"
)

// Record is the state of one device. State is never nil and never another pointer.
type Record struct {
	State   *contract.DeviceState
	Planner *clean.Planner
	// Published is what was last written to the server.
	Published status.Publisher
	// Retry is why the work that the state requires must be tried again after a pause; nil
	// if it need not. The run takes it.
	Retry *device.Fault

	// due: something is to be published. stepDue: only another step of the running clean is.
	// inTask counts the calls under way in this task.
	due, stepDue bool
	inTask       int
	// calling is what the calls under way wait for. interrupted is the wait of the last call
	// that failed.
	calling     []string
	interrupted *endedWait
	// leaving are the signals under way to instances whose bindings ended; nil if there are none.
	leaving []workflow.Future
}

// Begin makes the state of a device that has none yet.
func (r *Record) Begin(ctx workflow.Context, e contract.Enrollment) {
	now := workflow.Now(ctx).UTC()
	recent, acts := r.State.Recent, r.State.Acts
	*r.State = contract.DeviceState{
		Recent: recent, Acts: acts, // of the enrollment that begins
		Schema: contract.Schema, Name: e.Name, UUID: contract.DeviceUUID(e.Name),
		Enrollment: e, Enrolled: true, CreatedAt: now, UpdatedAt: now,
		Device: device.Device{Owner: e.Owner, OneTimeUse: e.OneTimeUse},
	}
}

// Apply changes the state by the table, and records what follows from the change.
func (r *Record) Apply(ctx workflow.Context, e device.Event) error {
	s := r.State
	was := s.Device
	next, err := device.Next(was, e)
	if err != nil {
		return err
	}
	s.Device = next
	s.UpdatedAt = workflow.Now(ctx).UTC()
	if next.State != was.State {
		s.StateSince = s.UpdatedAt
	}
	r.notifyLeft(ctx, was.Binding, e)
	r.keepMoments(ctx, was, e)
	r.updateOverride(was, e)
	if p := s.Enrollment.Pool; p != nil && p.Dynamic && (e.Kind == device.Invalidated || e.Kind == device.ObservedInUse) {
		// This memory is behind: Burnish may have applied a profile since.
		doubted := contract.PoolState{}
		if s.Pool != nil {
			doubted = *s.Pool
		}
		doubted.Applying = true
		s.Pool = &doubted
	}
	if p := s.Pool; p != nil && p.Applying && next.State == device.Allocated && was.State != device.Allocated {
		s.Intent.ReadPool = true // which of its profiles the tenant has is recorded again
	}
	if next.State == device.Retired {
		r.EndWait(ctx, contract.WaitProvider) // a retired device needs none
	}
	if next.Binding != nil && (was.Binding == nil || was.Binding.Number != next.Binding.Number) {
		s.BoundAt = s.UpdatedAt
		s.BurnedFor = "" // an earlier burn's record is no more
		s.Requests = s.Requests.With(next.Binding.Instance, next.Binding.Request)
		// SAFETY F38: a record may name an instance that has left meanwhile.
		instance := next.Binding.Instance
		s.Intent.AskInstance = e.Kind != device.Burned && r.OwnedByBurnish() && device.TenantUUID(instance) == instance
	}
	if e.Kind == device.BindRepeated { // only now is its request known
		s.History = s.History.Replaced(*next.Binding)
		s.Requests = s.Requests.With(next.Binding.Instance, next.Binding.Request)
		s.Intent.AskInstance = false
	}
	if next.Binding != nil || e.Kind == device.CleanStarted {
		s.Intent.HardwareChanged = false // its tenant has it, or its verify looks at it
	}
	r.logEvent(ctx, was, e.Kind)
	if next.State == device.Available || next.State == device.Allocated || next.State == device.Manageable {
		s.Fault, s.LastError = nil, ""
	}
	if next.AwaitingManualClean && !was.AwaitingManualClean && next.State == device.PendingCleaning {
		s.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeAutomatedCleanOff,
			Message: "automated cleaning is off", Remedy: "clean " + s.Name}
	}
	// While the device was claimed, what a read of the inventory showed was ignored.
	if was.Claim != nil && next.Claim == nil && next.State == device.Available {
		s.Intent.ReadInventory = true
	}
	if device.MustReserve(was, next, e.Kind) {
		s.Intent.EnsureReserved = true
	}
	return nil
}

// ApplyOrReport is Apply for events that the caller has checked already. An illegal one
// is a defect of Burnish, which is logged and shown.
func (r *Record) ApplyOrReport(ctx workflow.Context, e device.Event) {
	if err := r.Apply(ctx, e); err != nil {
		workflow.GetLogger(ctx).Error("illegal event: this is a defect of Burnish", "device", r.State.Name, "error", err)
		r.State.LastError = err.Error()
	}
}

// Legal asks the table whether the event is allowed, and changes nothing.
func (r *Record) Legal(e device.Event) error {
	_, err := device.Next(r.State.Device, e)
	return err
}

// Fail moves the device to state error, with the fault that an operator reads.
func (r *Record) Fail(ctx workflow.Context, f *device.Fault) {
	s, kind := r.State, device.CleanFailed
	switch f.Code {
	case device.CodeWearLimitExceeded:
		kind = device.WearLimitExceeded
	case device.CodeServerTaken:
		kind = device.LostRace
	}
	r.ApplyOrReport(ctx, device.Event{Kind: kind})
	if f.Remedy == "" {
		f.Remedy = "clean " + s.Name + " to try again"
	}
	s.Fault, s.LastError = f, f.Message
	r.logFailure(ctx, f)
}

// Invalidate makes the device unknown because its host or inventory is ahead of this
// workflow. One that an operator holds stays with its operator, dirty: what it is now, a read of
// the inventory says (F43). Counters that must never decrease are taken from the host's record.
func (r *Record) Invalidate(ctx workflow.Context, known *contract.HostDeviceRecord, why string) {
	s := r.State
	if known != nil {
		s.Cleans = max(s.Cleans, known.Clean)
		s.Seq = max(s.Seq, known.Seq)
		s.Device.Bindings = max(s.Device.Bindings, known.Binding)
		s.Host.Identity = known.Identity
	}
	if r.Waits(contract.WaitHold) { // an operator holds the clean: nothing begins it again
		r.ApplyOrReport(ctx, device.Event{Kind: device.CleanFailed})
	}
	r.ApplyOrReport(ctx, device.Event{Kind: device.Invalidated})
	s.Clean, s.Intent.Rediscover, s.Intent.Import = nil, true, false // from now on the inventory alone proves nothing
	if s.Device.State == device.Unknown {
		s.GenerationUncertain = true
		s.LastError = "state unknown: " + why
	} else {
		s.Intent.ReadInventory = true
		s.LastError = "dirty, and still its operator's: " + why
	}
	r.Updates().Accept(ctx, contract.Act{Verb: string(device.Invalidated), By: contract.ByBurnish, Reason: why})
	workflow.GetLogger(ctx).Warn("device invalidated", r.about(logs.Error, why)...)
}

// EndBinding applies unbind or released; D4 and D7 decide the next state.
func (r *Record) EndBinding(ctx workflow.Context, e device.Event) error {
	e.Automated = r.Policy(ctx).Automated
	was := r.State.Fault
	if err := r.Apply(ctx, e); err != nil {
		return err
	}
	if was != nil && r.State.Fault == was {
		r.State.Fault, r.State.LastError = nil, ""
	}
	r.ShowNoErasePath()
	return nil
}

// ShowNoErasePath sets the fault of a device that is now in state error because it has no
// erase operation (D4).
func (r *Record) ShowNoErasePath() {
	s := r.State
	if s.Device.State != device.Error {
		return
	}
	s.Fault = noErasePath(s, "the device is one-time-use and has no erase operation")
	s.LastError = s.Fault.Message
}

func noErasePath(s *contract.DeviceState, message string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeNoErasePath, Message: message,
		Remedy: "retire " + s.Name + " --reason R, then forget " + s.Name + ", and enroll it with a driver that can erase it",
	}
}

// OwnedByBurnish says that no other service creates or changes the device's provider.
func (r *Record) OwnedByBurnish() bool { return r.State.Device.Owner != device.OwnerNova }

// CleanUnderWay says that the device is being cleaned or waits for its clean.
func (r *Record) CleanUnderWay() bool { return status.CleanUnderWay(r.State) }

// Status is the device as clients read it.
func (r *Record) Status() contract.DeviceStatus { return status.Of(r.State) }

// Policy records this worker's policy, so that a replay sees the same one.
func (r *Record) Policy(ctx workflow.Context) clean.Policy {
	var p clean.Policy
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return r.Planner.Policy().WithoutLists() }).
		Get(&p); err != nil {
		workflow.GetLogger(ctx).Error("recorded settings are unreadable: the safe ones are used", "device", r.State.Name,
			"error", err)
		return clean.Policy{Automated: true, OnEnroll: true}
	}
	return p
}

// PlanInput is the planner's input for the device.
func (r *Record) PlanInput() clean.Subject {
	return planning.Subject(r.State.Enrollment, r.State.Host)
}

// DuplicateSerialFault is the fault of a device whose serial was discovered in a second
// slot. Only an operator can find out which of the two has the hardware.
func (r *Record) DuplicateSerialFault() *device.Fault {
	other := r.State.Intent.DuplicateAt
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: other,
		Message: "its serial was also discovered at " + other,
		Remedy:  "find out which device has which hardware; then clean " + r.State.Name + ", or retire it"}
}

// Refuse makes the error of a request that is not carried out.
func (r *Record) Refuse(code device.Code, message, remedy string) error {
	return contract.Refuse(contract.Refusal{
		Fault:  device.Fault{Class: device.Permanent, Code: code, Message: message, Remedy: remedy},
		Device: r.State.Name, State: r.State.Device.State,
	})
}

// Refusal converts any error of an update to the form that clients read.
func (r *Record) Refusal(update string, err error) error {
	var illegal *device.IllegalError
	if errors.As(err, &illegal) {
		if illegal.Event == device.Clean && r.State.Device.State == device.Error && !r.State.Device.Cleanable {
			f := noErasePath(r.State, "the device has no erase operation") // S2.74
			return r.Refuse(f.Code, f.Message, f.Remedy)
		}
		return r.Refuse(device.CodeRefused, fmt.Sprintf("cannot %s a device %s", update, status.Phrase(r.State)),
			status.SuggestRemedy(r.State, update, illegal))
	}
	if f, ok := device.AsFault(err); ok {
		return contract.Refuse(contract.Refusal{Fault: *f, Device: r.State.Name, State: r.State.Device.State})
	}
	return err
}

// Updates are the updates that were carried out, and who asked for them.
func (r *Record) Updates() updates.Log {
	return updates.Log{Recent: &r.State.Recent, Acts: &r.State.Acts}
}
