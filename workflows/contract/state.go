package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
)

// DeviceInput starts DeviceLifecycle. With a State it continues an earlier run, with
// Recovered it recovers from its host's record, with neither it waits for the update
// enroll.
type DeviceInput struct {
	Name      string            `json:"name"`
	State     *DeviceState      `json:"state,omitempty"`
	Recovered *HostDeviceRecord `json:"recovered,omitempty"`
}

// Schema is the version of DeviceState that this build writes.
const Schema = 3

// Bounds of what DeviceState keeps.
const (
	KeptBindings = 20
	KeptCleans   = 20
	KeptUpdates  = 40
)

// DeviceState survives continue-as-new. Add fields, never rename one.
type DeviceState struct {
	Schema     int             `json:"schema"`
	Name       string          `json:"name"`
	UUID       string          `json:"uuid"`
	Enrollment Enrollment      `json:"enrollment"`
	Enrolled   bool            `json:"enrolled,omitempty"`
	Host       DiscoveryResult `json:"host"`
	Device     device.Device   `json:"device"`
	// Steps are those of a full clean, by the policy at the last discovery.
	Steps []CleanStep `json:"steps,omitempty"`
	// History contains the last bindings, the present one last.
	History Bindings `json:"history,omitempty"`
	// Requests are the last requests that were granted a binding: none gets a second one
	// (KeptRequests).
	Requests Requests `json:"requests,omitempty"`
	// Generation is the provider's after this workflow's last call. GenerationUncertain says
	// that the result of the last write is unknown, so that Generation proves nothing.
	Generation          int64 `json:"generation,omitempty"`
	GenerationUncertain bool  `json:"generation_uncertain,omitempty"`
	// BurnedFor is the instance of the last burn while it runs, and after it failed until
	// the provider's record is cleared: it may be recorded there.
	BurnedFor string `json:"burned_for,omitempty"`
	// Provider is the UUID of the provider that has this Generation, if Nova owns it.
	Provider string `json:"provider,omitempty"`
	// Receipt is that of the last write that reserved the device, where hosts prove what they did. Statements are
	// those of the last full clean under it.
	Receipt    string   `json:"receipt,omitempty"`
	Statements []string `json:"statements,omitempty"`
	// Recent contains the last updates by ID with their outcome, so that a repeated one
	// changes nothing, also after a continue-as-new (KeptUpdates).
	Recent RecentUpdates `json:"recent,omitempty"`
	// Acts are the last acts, for the history alone.
	Acts ActLog `json:"acts,omitempty"`
	// Cleans counts the cleans, Seq the scheduled host steps. The host refuses a Seq lower
	// than the last one.
	Cleans        int           `json:"cleans,omitempty"`
	Seq           int64         `json:"seq,omitempty"`
	Clean         *CleanRun     `json:"clean,omitempty"`
	Archive       Archive       `json:"archive,omitempty"`
	Intent        Intent        `json:"intent"`
	Fault         *device.Fault `json:"fault,omitempty"`
	PreviousRunID string        `json:"previous_run_id,omitempty"` // the ended run whose binding was read last
	// MovedFrom is the name that the device had in the slot before this one (D10): what is
	// still recorded under it is its own.
	MovedFrom string `json:"moved_from,omitempty"`

	LastError   string    `json:"last_error,omitempty"`
	LastRefusal string    `json:"last_refusal,omitempty"`
	HoldReason  string    `json:"hold_reason,omitempty"`
	BoundAt     time.Time `json:"bound_at,omitzero"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	// SeenAt is when the device's host began its last look at it that found the enrolled device;
	// zero if none did lately.
	SeenAt time.Time `json:"seen_at,omitzero"`
	// StateSince is when the device got its state; zero if an earlier version did not record it.
	StateSince time.Time `json:"state_since,omitzero"`
	// Waits are the waits of the device that have not ended; nil if it waits for nothing.
	Waits []Wait `json:"waits,omitempty"`
	// ForeignWrites counts writes of other clients to the device's provider; nil if there
	// were none lately.
	ForeignWrites *ForeignWrites `json:"foreign_writes,omitempty"`
	// Pool is what is known of the device's pool; nil if it has none.
	Pool *PoolState `json:"pool,omitempty"`
	// Override is what is known of overrides; nil if none was ever requested.
	Override *OverrideState `json:"override,omitempty"`
	// ContinueAsNew asks for a new run as soon as nothing is under way. It is set by a
	// Cancel, because Temporal ignores further Cancels of the same run.
	ContinueAsNew bool `json:"continue_as_new,omitempty"`
}

// Reservation is the number of the reservation that the receipt is of, under which its host signs what it does.
func (s *DeviceState) Reservation() string {
	number, _, _ := strings.Cut(s.Receipt, ".")
	return number
}

// Left is the instance of the last binding that ended, or of a later burn that failed and
// may have recorded it; "" if there is none.
func (s *DeviceState) Left() string {
	if s.BurnedFor != "" {
		return s.BurnedFor
	}
	ended := s.History
	if s.Device.Binding != nil {
		ended = ended[:max(len(ended)-1, 0)]
	}
	if len(ended) == 0 {
		return ""
	}
	return ended[len(ended)-1].Instance
}

// Knows says that the instance has or had one of the last bindings, or a burn that failed.
func (s *DeviceState) Knows(instance string) bool {
	return device.SameTenant(instance, s.BurnedFor) ||
		slices.ContainsFunc(s.History, func(b device.Binding) bool { return device.SameTenant(instance, b.Instance) })
}

// Intent is the work that was requested and is not done, beyond what the state implies.
type Intent struct {
	// ReadInventory: the reservation must be read. Rediscover: the host must discover the
	// device again.
	ReadInventory bool `json:"read_inventory,omitempty"`
	Rediscover    bool `json:"rediscover,omitempty"`
	// HardwareChanged: the host reported that the hardware may have changed, and has not looked at
	// the device since.
	HardwareChanged bool `json:"hardware_changed,omitempty"`
	// AskInstance: the binding is by a record, and its instance must be asked whether it has the
	// device.
	AskInstance bool `json:"ask_instance,omitempty"`
	// ReadPool: the pool's appliance must be asked who has the server.
	ReadPool bool `json:"read_pool,omitempty"`
	// Steps are the named steps of the requested clean.
	Steps []string `json:"steps,omitempty"`
	// Args are their arguments. Runbook is the runbook of a clean by hand.
	Args    map[string]json.RawMessage `json:"args,omitempty"`
	Runbook string                     `json:"runbook,omitempty"`
	// Reason is the operator's reason for the requested clean.
	Reason string `json:"reason,omitempty"`
	// By is who requested it: ByBurnish if it is due by itself, "" if that is not known.
	By string `json:"by,omitempty"`
	// Abort: the running clean must end.
	Abort bool `json:"abort,omitempty"`
	// EnsureReserved: reserved may be below total and must be raised.
	EnsureReserved bool `json:"ensure_reserved,omitempty"`
	// EnsureProvider: the provider must be created, and reserved.
	EnsureProvider bool `json:"ensure_provider,omitempty"`
	// Import: the reservation decides what state the device is in (D8).
	Import bool `json:"import,omitempty"`
	// ImportProvider is the UUID of the one provider whose reservation counts for that.
	ImportProvider string `json:"import_provider,omitempty"`
	// DuplicateAt is another device with the same serial. Until an operator cleans, provides
	// or replaces this one, it is not returned to the offer (F23).
	DuplicateAt string `json:"duplicate_at,omitempty"`
	// ConfirmSerial: the serial is new here, and other devices must be searched for it once
	// more before this one is cleaned or returned (F23).
	ConfirmSerial bool `json:"confirm_serial,omitempty"`
}

// DiscoveryResult is the result of a discovery on the device's host.
type DiscoveryResult struct {
	Identity  device.Identity  `json:"identity"`
	Operation device.Operation `json:"operation,omitempty"`
	Type      string           `json:"type,omitempty"`
	// Capabilities are the operations from which the erase policy chooses; nil if the driver
	// has only one. Layout is the namespace layout at the discovery.
	Capabilities *device.Capabilities `json:"capabilities,omitempty"`
	Layout       device.Layout        `json:"layout,omitempty"`
	// ClearAction and ClearStrategy are the erase policy of the device's entry of device_spec;
	// what is empty is the policy's (S2.105).
	ClearAction   string `json:"clear_action,omitempty"`
	ClearStrategy string `json:"clear_strategy,omitempty"`
	// LiveMigratable: an instance with the device can be migrated while it runs.
	LiveMigratable bool `json:"live_migratable,omitempty"`
	// SupportedSteps are the steps that the device's driver implements itself.
	SupportedSteps []string `json:"supported_steps,omitempty"`
	// Priorities replaces steps' own priorities in the plans of the driver's devices.
	Priorities map[string]float64 `json:"priorities,omitempty"`
	// Power: the driver can switch the device on and off.
	Power bool `json:"power,omitempty"`
	// Estimates are the device's own estimates of the operations' durations.
	Estimates map[device.Operation]time.Duration `json:"estimates,omitempty"`
	// Excluded says why the erase policy excludes the device from the offer (S2.25).
	Excluded *device.Fault `json:"excluded,omitempty"`
	Note     string        `json:"note,omitempty"`
	// Steps are the steps that the host's worker has, with their versions.
	Steps      map[string]int `json:"steps,omitempty"`
	ObservedAt time.Time      `json:"observed_at,omitzero"`
	// Written: others have written to the device since Burnish did (F39). The state does not keep it.
	Written bool `json:"written,omitempty"`
	// Statement is what the host signed of it, if it was asked under a reservation. The state does not keep it.
	Statement string `json:"statement,omitempty"`
	// Record is the host's record of the device, for counters that must never decrease.
	Record *HostDeviceRecord `json:"record,omitempty"`
}

// HostDeviceRecord is a host's record of a device. It survives the device's workflow.
type HostDeviceRecord struct {
	Enrollment Enrollment      `json:"enrollment"`
	Identity   device.Identity `json:"identity"`
	Binding    int             `json:"binding,omitempty"`
	Generation int64           `json:"generation,omitempty"`
	Clean      int             `json:"clean,omitempty"`
	Seq        int64           `json:"seq,omitempty"`
	// KnownBefore: the host had a record of the device before this discovery.
	KnownBefore bool `json:"known_before,omitempty"`
	// Ended says how the device's last workflow ended, where the host found that none runs.
	Ended string `json:"ended,omitempty"`
}

// HostNumbers are the highest numbers that a host knows of a device. They never decrease.
type HostNumbers struct {
	Seq     int64 `json:"seq,omitempty"`
	Clean   int   `json:"clean,omitempty"`
	Binding int   `json:"binding,omitempty"`
}

// Planned is one step of a recorded plan.
type Planned struct {
	Step      string        `json:"step"`
	Interface string        `json:"interface"`
	Phase     string        `json:"phase"`
	Priority  float64       `json:"priority"`
	Version   int           `json:"version"`
	Timeout   time.Duration `json:"timeout"` // budget of running time (F8)
	// Args are its arguments, a JSON object.
	Args json.RawMessage `json:"args,omitempty"`
}

// CleanRun is the clean under way.
type CleanRun struct {
	Number int    `json:"number"`
	ID     string `json:"id"`
	Reason string `json:"reason,omitempty"`
	// By is as in Intent.
	By           string           `json:"by,omitempty"`
	Full         bool             `json:"full"`
	Operation    device.Operation `json:"operation,omitempty"`
	Plan         []Planned        `json:"plan,omitempty"`
	PolicyDigest string           `json:"policy_digest,omitempty"`
	// Runbook is the runbook that the plan follows; "": none. RunbookDigest identifies its
	// content.
	Runbook       string `json:"runbook,omitempty"`
	RunbookDigest string `json:"runbook_digest,omitempty"`
	// ReleasedBy ends the step hold: the operator who released it, and why.
	ReleasedBy string `json:"released_by,omitempty"`
	Next       int    `json:"next"` // index of the step that runs or comes next
	// HostSilentAfter, Budget and Settings are those of the worker that made the plan, and
	// are kept for the whole clean. Budget is the running time of the whole clean, 0 if each
	// step has its own (D5).
	HostSilentAfter time.Duration       `json:"host_silent_after,omitempty"`
	Budget          time.Duration       `json:"budget,omitempty"`
	Settings        device.StepSettings `json:"settings"`
	// RunTime is the running time of all finished steps. Replans counts how often the clean
	// began again.
	RunTime time.Duration `json:"run_time,omitempty"`
	Replans int           `json:"replans,omitempty"`
	// Resume is the last known progress of the running step.
	Resume    *Progress `json:"resume,omitempty"`
	StartedAt time.Time `json:"started_at"`
	StepAt    time.Time `json:"step_at,omitzero"` // when the present step was scheduled
	// Seq is the number of the present step. NextAllowed: its host may begin the next one too,
	// which has the number after it.
	Seq         int64 `json:"seq,omitempty"`
	NextAllowed bool  `json:"next_allowed,omitempty"`
	// Results are those of the finished steps, in the plan's order. Statements are what their host signed: of what it
	// found, and of each of them.
	Results    []StepResult `json:"results,omitempty"`
	Statements []string     `json:"statements,omitempty"`
	// Generation is the provider's when this clean reserved it: the later unreserve uses it
	// (F5). Provider is that provider's UUID if Nova owns it.
	Generation int64  `json:"generation,omitempty"`
	Provider   string `json:"provider,omitempty"`
	// Slot is the clean's slot in the limits; nil if nothing is limited.
	Slot *CleanSlot `json:"slot,omitempty"`
}

// CleanSummary is the archived summary of a clean that ended.
type CleanSummary struct {
	Number int    `json:"number"`
	Reason string `json:"reason,omitempty"`
	// By is who requested it, ByBurnish if it was due by itself.
	By      string `json:"by,omitempty"`
	Outcome string `json:"outcome"` // cleaned, steps_done, failed, aborted, in_use, overridden
	// Runbook and RunbookDigest are those of the plan.
	Runbook       string           `json:"runbook,omitempty"`
	RunbookDigest string           `json:"runbook_digest,omitempty"`
	Operation     device.Operation `json:"operation,omitempty"`
	Fault         device.Code      `json:"fault,omitempty"`
	// Failure is where and why it failed; nil if it did not.
	Failure *CleanFailure `json:"failure,omitempty"`
	// Override is set instead of Steps where the clean was skipped.
	Override  *Override     `json:"override,omitempty"`
	Steps     []StepResult  `json:"steps,omitempty"`
	RunTime   time.Duration `json:"run_time"`
	StartedAt time.Time     `json:"started_at"`
	EndedAt   time.Time     `json:"ended_at"`
}

// CleanFailure is where and why a clean ended before its end. Step is "" where none had begun.
// Offset, of Size bytes, and Attempt are what the host knew of the step; 0 if it does not say.
type CleanFailure struct {
	Step    string `json:"step,omitempty"`
	Offset  int64  `json:"offset,omitempty"`
	Size    int64  `json:"size,omitempty"`
	Attempt int32  `json:"attempt,omitempty"`
	Message string `json:"message,omitempty"`
}

// Progress is a step's heartbeat: bytes done (Offset) of all (Size), running time so far,
// and what the step waits for.
type Progress struct {
	Step    string        `json:"step"`
	Seq     int64         `json:"seq"`
	Offset  int64         `json:"offset"`
	Size    int64         `json:"size"`
	RunTime time.Duration `json:"run_time"`
	Waiting string        `json:"waiting,omitempty"`
	// Percent is how far a step is that counts no bytes, Doing what such a step does.
	Percent int    `json:"percent,omitempty"`
	Doing   string `json:"doing,omitempty"`
	// ProgressAt is when the step last made progress: more bytes, or a better place in a
	// queue. BudgetEnds is when its budget of running time ends.
	ProgressAt time.Time `json:"progress_at,omitzero"`
	BudgetEnds time.Time `json:"budget_ends,omitzero"`
	// Reported is the fault that the step reported to the device's workflow since it last
	// made progress.
	Reported device.Code `json:"reported,omitempty"`
}

// StepInput is the input of one host step.
type StepInput struct {
	Enrollment Enrollment       `json:"enrollment"`
	Identity   device.Identity  `json:"identity"`
	Operation  device.Operation `json:"operation,omitempty"`
	Step       string           `json:"step"`
	Version    int              `json:"version"`
	Clean      string           `json:"clean"`
	Number     int              `json:"number"`
	Seq        int64            `json:"seq"`
	Binding    int              `json:"binding,omitempty"`
	// Generation is the provider's, for the host's record.
	Generation int64 `json:"generation,omitempty"`
	// Provider is that provider's UUID if Nova owns it: a re-created one counts from 0 again.
	Provider string `json:"provider,omitempty"`
	// Reservation is the number under which the host signs what it did; "": it signs nothing.
	Reservation string        `json:"reservation,omitempty"`
	Budget      time.Duration `json:"budget"`
	Resume      *Progress     `json:"resume,omitempty"`
	// Settings are those of the recorded plan.
	Settings device.StepSettings `json:"settings"`
	// Args are the step's arguments of the recorded plan, a JSON object.
	Args json.RawMessage `json:"args,omitempty"`
	// Rest are the later steps of the plan's phase restore, of a step of this phase.
	Rest []string `json:"rest,omitempty"`
	// More: the clean's next step is one of this host too, which keeps the clean's slot.
	More bool `json:"more,omitempty"`
	// ReportStart: the host was reported as unreachable. The step reports that it runs.
	ReportStart bool `json:"report_start,omitempty"`
	// Next is the clean's next step where it only reads: after a step that took a moment the host
	// begins it in the same activity.
	Next *NextStep `json:"next,omitempty"`
}

// NextStep is the step after that of a StepInput, with the number after its Seq.
type NextStep struct {
	Step    string          `json:"step"`
	Version int             `json:"version"`
	Args    json.RawMessage `json:"args,omitempty"`
	// Budget is its own; 0: what the step before it leaves of its own.
	Budget time.Duration `json:"budget,omitempty"`
	More   bool          `json:"more,omitempty"`
}

// LastSeq is the greatest number that the activity uses.
func (in StepInput) LastSeq() int64 {
	if in.Next == nil {
		return in.Seq
	}
	return in.Seq + 1
}

// Following is the StepInput of the step after in, once that has run for a while.
func (in StepInput) Following(ran time.Duration) StepInput {
	next := *in.Next
	in.Step, in.Version, in.Args, in.More = next.Step, next.Version, next.Args, next.More
	in.Seq++
	if in.Budget -= ran; next.Budget > 0 {
		in.Budget = next.Budget
	}
	in.Resume, in.ReportStart, in.Next = nil, false, nil
	return in
}

// NextResult is how the next step ended that a host began in the activity of the step before
// it. One of the two is set: what it reports, or why it failed for good.
type NextResult struct {
	Result    *StepResult `json:"result,omitempty"`
	Statement string      `json:"statement,omitempty"`
	Refusal   *Refusal    `json:"refusal,omitempty"`
}

// StepResult is the result of one step.
type StepResult struct {
	Step string `json:"step"`
	// Clean and Seq are those of the StepInput. The workflow compares them and does not keep
	// them.
	Clean   string        `json:"clean,omitempty"`
	Seq     int64         `json:"seq,omitempty"`
	Bytes   int64         `json:"bytes"`
	Method  string        `json:"method,omitempty"`
	Note    string        `json:"note,omitempty"`
	RunTime time.Duration `json:"run_time"`
	// HeldBytes is how many bytes one attempt of it has read, which held the device all the time:
	// what a verification proves (F37).
	HeldBytes int64 `json:"held_bytes,omitempty"`
	// Firmware is the revision that the step gave the device: it becomes the enrolled one, and
	// is not kept here.
	Firmware string `json:"firmware,omitempty"`
	// ReprocessedBytesMax is how many bytes at most were processed again after crashes; of a
	// step that only reads, after every interruption.
	ReprocessedBytesMax int64 `json:"reprocessed_bytes_max,omitempty"`
}

// StepAnswer is what the activity of a step returns: its result, and the end of the input's next
// step; nil: the host did not begin that, or not to its end.
type StepAnswer struct {
	StepResult
	// Statement is what the host signed of it, if it was asked under a reservation.
	Statement string      `json:"statement,omitempty"`
	Next      *NextResult `json:"next,omitempty"`
	// SeenAt is when the last step that it did still had the device, by the server's clock: earlier by what the start of
	// the activity took, and not later.
	SeenAt time.Time `json:"seen_at,omitzero"`
}

// DiscoverInput is the input of a discovery. Known is the identity that was enrolled; zero
// at the first enrollment.
type DiscoverInput struct {
	Enrollment Enrollment      `json:"enrollment"`
	UUID       string          `json:"uuid"`
	Known      device.Identity `json:"known"`
	Binding    int             `json:"binding,omitempty"`
	// Replace: hardware other than the enrolled one is accepted (D10).
	Replace bool `json:"replace,omitempty"`
	// MovedFrom is the name of the slot that the hardware Known was in before (D10).
	MovedFrom string `json:"moved_from,omitempty"`
	// Offered: the device is offered to tenants, and nobody has it.
	Offered bool `json:"offered,omitempty"`
	// Accept: what is on the device is offered as it is, not sanitized, whoever wrote it.
	Accept bool `json:"accept,omitempty"`
	// Reservation is the number under which the host signs what it found for a clean; "": it signs nothing.
	Reservation string `json:"reservation,omitempty"`
}

// FindBySerialInput asks for another device than Name that has the serial, and for records of
// the hardware under another name (F35); what is "" is not asked for. MovedFrom is the name that
// this device itself had. Listed: Name itself must be listed with the serial before an answer
// counts.
type FindBySerialInput struct {
	Name      string `json:"name"`
	MovedFrom string `json:"moved_from,omitempty"`
	Serial    string `json:"serial,omitempty"`
	Hardware  string `json:"hardware,omitempty"`
	Listed    bool   `json:"listed,omitempty"`
}

// DeviceBySerial is the name of such a device; "" if none is known. Fault is set where that
// device does not run: by which record it is known, and who has the hardware.
type DeviceBySerial struct {
	Name  string        `json:"name,omitempty"`
	Fault *device.Fault `json:"fault,omitempty"`
}

// ReservationRequest is the input of the activities that call the inventory for one
// device. Expect is the generation that must be found; nil accepts any.
type ReservationRequest struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	// Owner nova: the provider is the one that Nova created for the device of this Name.
	// Provider is its expected UUID, "" if any is accepted. Unreserve writes to this provider
	// and never searches for another.
	Owner    device.Owner `json:"owner,omitempty"`
	Provider string       `json:"provider,omitempty"`
	Class    string       `json:"class,omitempty"`
	Traits   []string     `json:"traits,omitempty"`
	// Hardware is that of the device, FormerHardware the one that it replaces (F35).
	Hardware       string `json:"hardware,omitempty"`
	FormerHardware string `json:"former_hardware,omitempty"`
	// Driver is set if the device may be new to the inventory.
	Driver     string `json:"driver,omitempty"`
	Expect     *int64 `json:"expect,omitempty"`
	Generation int64  `json:"generation,omitempty"` // for Unreserve, and the read that follows it
	// Record is written with it (F24); nil keeps what is recorded. Left is the instance that had
	// the device last; its record is replaced where the provider's generation is at most
	// LeftGeneration, any other instance's stays.
	Record         *device.Record `json:"record,omitempty"`
	Left           string         `json:"left,omitempty"`
	LeftGeneration int64          `json:"left_generation,omitempty"`
	// EarlierWrites is how often this very call may have been carried out before the first
	// attempt of this activity, without the workflow knowing: a local activity runs again when
	// its workflow task is lost.
	EarlierWrites int `json:"earlier_writes,omitempty"`
	// Receipt is that of the last reservation, Statements are what a host signed of its clean under it: where hosts
	// prove what they did, Unreserve asks for them.
	Receipt    string   `json:"receipt,omitempty"`
	Statements []string `json:"statements,omitempty"`
}

// PreviousRun is an ended run of the same device's workflow, and the instance that the
// device was bound to.
type PreviousRun struct {
	RunID    string `json:"run_id,omitempty"`
	Instance string `json:"instance,omitempty"`
	// State is what that run had published when it ended at EndedAt, and Hold how an operator
	// held the device by it.
	State   device.State `json:"state,omitempty"`
	Hold    device.Hold  `json:"hold,omitempty"`
	EndedAt time.Time    `json:"ended_at,omitzero"`
}
