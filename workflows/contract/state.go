package contract

import (
	"time"

	"burnish/internal/device"
)

// DeviceInput starts DeviceLifecycle: with a State it goes on from an earlier run,
// with Recovered it is brought back by what its host remembers, with neither it
// waits for its enroll update.
type DeviceInput struct {
	Name      string            `json:"name"`
	State     *DeviceState      `json:"state,omitempty"`
	Recovered *HostDeviceRecord `json:"recovered,omitempty"`
}

// Schema is the version of DeviceState that this build writes.
const Schema = 2

// Bounds of what DeviceState remembers.
const (
	KeptBindings  = 20
	KeptCleans    = 20
	KeptUpdates   = 40
	KeptCleanSize = 16 << 10 // bytes of JSON, over all summaries
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
	// Steps are those of a full clean, by the policy when the host last looked.
	Steps []CleanStep `json:"steps,omitempty"`
	// History holds the last bindings, the present one last (KeptBindings).
	History []device.Binding `json:"history,omitempty"`
	// Generation is the inventory's after our last call; GenerationUncertain says that
	// the outcome of the last write is not known, so that it proves nothing.
	Generation          int64 `json:"generation,omitempty"`
	GenerationUncertain bool  `json:"generation_uncertain,omitempty"`
	// Provider is the one that the Generation is of, where it is another's (owner nova).
	Provider string `json:"provider,omitempty"`
	// Recent holds the last updates by ID and how they ended, so that one that is
	// sent again changes nothing, also after a continue-as-new (KeptUpdates).
	Recent []RecentUpdate `json:"recent,omitempty"`
	// Cleans counts cleans, Seq the schedulings of host steps; the host refuses a
	// lower Seq than it has seen.
	Cleans        int           `json:"cleans,omitempty"`
	Seq           int64         `json:"seq,omitempty"`
	Clean         *CleanRun     `json:"clean,omitempty"`
	Archive       Archive       `json:"archive,omitempty"`
	Intent        Intent        `json:"intent"`
	Fault         *device.Fault `json:"fault,omitempty"`
	PreviousRunID string        `json:"previous_run_id,omitempty"` // the ended run last asked for its tenant

	LastError   string    `json:"last_error,omitempty"`
	LastRefusal string    `json:"last_refusal,omitempty"`
	HoldReason  string    `json:"hold_reason,omitempty"`
	BoundAt     time.Time `json:"bound_at,omitzero"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	// ContinueAsNew asks for a new run at the next quiet point: after a Cancel,
	// until which Temporal swallows further ones.
	ContinueAsNew bool `json:"continue_as_new,omitempty"`
}

// RecentUpdate is an update that was carried out; Refusal says how it failed.
type RecentUpdate struct {
	ID      string   `json:"id"`
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Intent is what was asked for and not yet done, besides what the state itself says.
type Intent struct {
	// ReadInventory: the device is to be compared with the inventory; Rediscover: with
	// what its host finds.
	ReadInventory bool `json:"read_inventory,omitempty"`
	Rediscover    bool `json:"rediscover,omitempty"`
	// Steps are the named steps of the clean that was asked for.
	Steps []string `json:"steps,omitempty"`
	// Reason is the operator's reason for the clean that was asked for.
	Reason string `json:"reason,omitempty"`
	// Abort: the running clean shall end.
	Abort bool `json:"abort,omitempty"`
	// EnsureReserved: the reservation is or may be below total and must not be.
	EnsureReserved bool `json:"ensure_reserved,omitempty"`
	// EnsureProvider: the provider is to be created, reserved.
	EnsureProvider bool `json:"ensure_provider,omitempty"`
	// Import: what the inventory says is taken for what the device is (D8).
	Import bool `json:"import,omitempty"`
	// ImportProvider is the one whose word that is: no other's counts.
	ImportProvider string `json:"import_provider,omitempty"`
	// DuplicateAt is another slot in which the device's serial was seen: until an operator
	// cleans, provides or replaces it, the device is not returned (SAFETY F23).
	DuplicateAt string `json:"duplicate_at,omitempty"`
}

// DiscoveryResult is what the host last discovered of the device.
type DiscoveryResult struct {
	Identity  device.Identity  `json:"identity"`
	Operation device.Operation `json:"operation,omitempty"`
	Type      string           `json:"type,omitempty"`
	// Capabilities are those among which the erase policy chooses, nil where the driver
	// knows one way only; Layout is how the device was cut when the host looked.
	Capabilities *device.Capabilities `json:"capabilities,omitempty"`
	Layout       device.Layout        `json:"layout,omitempty"`
	// SupportedSteps are the steps that the device's driver carries out itself.
	SupportedSteps []string `json:"supported_steps,omitempty"`
	// Estimates is how long the device says that an operation takes.
	Estimates map[device.Operation]time.Duration `json:"estimates,omitempty"`
	// Excluded says why the erase policy does not let the device be offered (S2.25).
	Excluded *device.Fault `json:"excluded,omitempty"`
	Note     string        `json:"note,omitempty"`
	// Steps gives the host worker's version of each step that it knows.
	Steps      map[string]int `json:"steps,omitempty"`
	ObservedAt time.Time      `json:"observed_at,omitzero"`
	// Record is what the host remembers, for numbers that must never go back.
	Record *HostDeviceRecord `json:"record,omitempty"`
}

// HostDeviceRecord is what a host remembers of a device, whatever becomes of its workflow.
type HostDeviceRecord struct {
	Enrollment Enrollment      `json:"enrollment"`
	Identity   device.Identity `json:"identity"`
	Binding    int             `json:"binding,omitempty"`
	Generation int64           `json:"generation,omitempty"`
	Clean      int             `json:"clean,omitempty"`
	Seq        int64           `json:"seq,omitempty"`
	// Remembered: the host knew the device before it was asked to look.
	KnownBefore bool `json:"known_before,omitempty"`
}

// Planned is one step of a recorded plan.
type Planned struct {
	Step      string        `json:"step"`
	Interface string        `json:"interface"`
	Phase     string        `json:"phase"`
	Priority  float64       `json:"priority"`
	Version   int           `json:"version"`
	Timeout   time.Duration `json:"timeout"` // budget of running time (F8)
}

// CleanRun is the clean under way.
type CleanRun struct {
	Number       int              `json:"number"`
	ID           string           `json:"id"`
	Reason       string           `json:"reason,omitempty"`
	Full         bool             `json:"full"`
	Operation    device.Operation `json:"operation,omitempty"`
	Plan         []Planned        `json:"plan,omitempty"`
	PolicyDigest string           `json:"policy_digest,omitempty"`
	Next         int              `json:"next"` // index of the step that runs or comes next
	// Settings of the worker that made the plan; the clean keeps them. Budget is
	// the running time of the whole clean, 0 where each step has its own (D5).
	HostSilentAfter time.Duration       `json:"host_silent_after,omitempty"`
	Budget          time.Duration       `json:"budget,omitempty"`
	Settings        device.StepSettings `json:"settings"`
	// Ran adds up the running time of all steps, Replans how often it began again.
	RunTime time.Duration `json:"run_time,omitempty"`
	Replans int           `json:"replans,omitempty"`
	// Resume is where the step under way is known to have got.
	Resume *Progress `json:"resume,omitempty"`
	// HostUnreachable: no worker polls the host's queue.
	HostUnreachable bool      `json:"host_unreachable,omitempty"`
	StartedAt       time.Time `json:"started_at"`
	StepAt          time.Time `json:"step_at,omitzero"` // when the present step was scheduled
	// Results holds what each finished step reported, in the plan's order.
	Results []StepResult `json:"results,omitempty"`
	// Generation is the one that Observe recorded for the release (F5), Provider whose it
	// is where that is another's.
	Generation int64  `json:"generation,omitempty"`
	Provider   string `json:"provider,omitempty"`
}

// CleanSummary is what is kept of a clean that ended.
type CleanSummary struct {
	Number    int              `json:"number"`
	Reason    string           `json:"reason,omitempty"`
	Outcome   string           `json:"outcome"` // cleaned, steps_done, failed, aborted, in_use
	Operation device.Operation `json:"operation,omitempty"`
	Fault     device.Code      `json:"fault,omitempty"`
	Steps     []StepResult     `json:"steps,omitempty"`
	RunTime   time.Duration    `json:"run_time"`
	StartedAt time.Time        `json:"started_at"`
	EndedAt   time.Time        `json:"ended_at"`
}

// Progress is a step's heartbeat: bytes done of all, running time so far, and what
// it waits for.
type Progress struct {
	Step    string        `json:"step"`
	Seq     int64         `json:"seq"`
	Offset  int64         `json:"offset"`
	Size    int64         `json:"size"`
	RunTime time.Duration `json:"run_time"`
	Waiting string        `json:"waiting,omitempty"`
}

// StepInput is one scheduling of a host step.
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
	// Generation is the inventory's, for the host's record.
	Generation int64         `json:"generation,omitempty"`
	Budget     time.Duration `json:"budget"`
	Resume     *Progress     `json:"resume,omitempty"`
	// Settings are those that the plan recorded.
	Settings device.StepSettings `json:"settings"`
}

// StepResult is what a step did.
type StepResult struct {
	Step    string        `json:"step"`
	Bytes   int64         `json:"bytes"`
	Method  string        `json:"method,omitempty"`
	Note    string        `json:"note,omitempty"`
	RunTime time.Duration `json:"run_time"`
	// RedoneAtMost is how many bytes may have been done twice because of crashes.
	ReprocessedBytesMax int64 `json:"reprocessed_bytes_max,omitempty"`
}

// DiscoverInput is the host's look at a device. Known is the identity enrolled
// before; zero at the first enrolment.
type DiscoverInput struct {
	Enrollment Enrollment      `json:"enrollment"`
	UUID       string          `json:"uuid"`
	Known      device.Identity `json:"known"`
	Binding    int             `json:"binding,omitempty"`
	// Replace: another piece than the enrolled one is what is wanted (D10).
	Replace bool `json:"replace,omitempty"`
	// MovedFrom is the name of the place that the piece Known had before (D10).
	MovedFrom string `json:"moved_from,omitempty"`
}

// FindBySerialInput asks for another device than Name that has the serial.
type FindBySerialInput struct {
	Name   string `json:"name"`
	Serial string `json:"serial"`
}

// DeviceBySerial is the name of such a device, "" where none is known.
type DeviceBySerial struct {
	Name string `json:"name,omitempty"`
}

// ReservationRequest is the input of the activities that call the inventory for one
// device. Expect is the generation that the workflow knows, nil where it proves nothing.
type ReservationRequest struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	// Owner nova: the provider is the one that Nova made for the device of this Name.
	// Provider is its UUID: for Release, which never looks for another; for the other
	// calls the one that is expected, "" where any will do.
	Owner    device.Owner `json:"owner,omitempty"`
	Provider string       `json:"provider,omitempty"`
	Class    string       `json:"class,omitempty"`
	Traits   []string     `json:"traits,omitempty"`
	// Driver is told where the device is new to the inventory.
	Driver     string `json:"driver,omitempty"`
	Expect     *int64 `json:"expect,omitempty"`
	Generation int64  `json:"generation,omitempty"` // Release alone
}

// ReservationSnapshot is what the inventory says of a device at one moment.
type ReservationSnapshot struct {
	Generation int64    `json:"generation"`
	Total      int      `json:"total"`
	Reserved   int      `json:"reserved"`
	Used       int      `json:"used"`
	Consumers  []string `json:"consumers,omitempty"`
	// Provider is the provider's UUID where it is another's (owner nova).
	Provider string `json:"provider,omitempty"`
}

// PreviousRun is an ended run of the same device's workflow, and who had the device then.
type PreviousRun struct {
	RunID    string `json:"run_id,omitempty"`
	Instance string `json:"instance,omitempty"`
}
