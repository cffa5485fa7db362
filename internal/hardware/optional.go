package hardware

import (
	"context"
	"encoding/json"
	"time"

	"burnish/internal/device"
)

// Interfaces that only some drivers and handles implement. A caller finds out by a type
// assertion.

// Initializer is a Driver that checks its host before it can work (init_host, S2.1, S2.3).
type Initializer interface {
	// Init returns an error of one line that says what to install or to change. The worker
	// does not start then.
	Init(ctx context.Context) error
}

// ToolUser is a Driver that works with a program of the host's whose versions differ.
type ToolUser interface {
	// UntriedTool names the program and its version if the driver was never tested with that;
	// "" if it was.
	UntriedTool(ctx context.Context) (string, error)
}

// Found is a device that a driver discovered by itself on its host.
type Found struct {
	// Address is the PCI address, in the kernel's form.
	Address string
	Type    string
	// Serial and Model are what the kernel shows, or empty.
	Serial, Model string
	// OneTimeUse is the setting of the device_spec entry that matches.
	OneTimeUse bool
	// Digest changes whenever a new Discover may give another result.
	Digest string
}

// Finder is a Driver that discovers its devices by itself (S2.6).
type Finder interface {
	// Find lists the devices that the host's rules allow, in order of their addresses. An
	// empty list is no error (S2.4). It sends no command to a device and changes nothing.
	Find(ctx context.Context) ([]Found, error)
}

// ProgramUser is a Driver that runs the operator's programs.
type ProgramUser interface {
	// Programs checks each program that the host's rules allow, and runs none. By name, it
	// returns what is wrong with it, or nil.
	Programs() (map[string]error, error)
}

// UserSearcher is a Handle that looks for other users of its device, and may not see them all.
type UserSearcher interface {
	// Unseen describes what the last check could not look into, or is "" (F40).
	Unseen() string
}

// SanitizeState is the state of the device's most recent sanitize.
type SanitizeState string

// The states of a sanitize.
const (
	SanitizeNever   SanitizeState = "never"
	SanitizeRunning SanitizeState = "running"
	SanitizeDone    SanitizeState = "done"
	SanitizeFailed  SanitizeState = "failed"
)

// Sanitize is what the device reports about its most recent sanitize, whoever started it.
type Sanitize struct {
	State SanitizeState `json:"state"`
	// Progress counts in 65,536ths while the sanitize runs. It is 65,535 when none ever
	// ran, and after one ended or failed, so it never proves success by itself.
	Progress int64 `json:"progress"`
	// GlobalErased: nothing was written since the last completed sanitize, or ever.
	GlobalErased bool `json:"global_erased"`
	// Command is dword 10 of the sanitize that State describes.
	Command uint32 `json:"command"`
	// Verifying: the device is in the media verification state, which must be left first.
	Verifying bool `json:"verifying,omitempty"`
}

// Sanitizer is a Handle whose device can erase all of itself (S2.53 to S2.56).
type Sanitizer interface {
	// CanSanitize: the device has a sanitize, and so a status of it.
	CanSanitize() bool
	// Sanitize reads the device's status. Faults: tool_output_invalid, io_error.
	Sanitize(ctx context.Context) (Sanitize, error)
	// SanitizeCommand is the value that Sanitize.Command has after this operation.
	SanitizeCommand(o device.Operation) (uint32, error)
	// StartSanitize starts one and returns at once. It cannot be stopped. Faults:
	// sanitize_running if one is running already, command_refused.
	StartSanitize(ctx context.Context, o device.Operation) error
	// ExitMediaVerification leaves the media verification state.
	ExitMediaVerification(ctx context.Context) error
}

// ChangeMarker is a Handle of a target that shows whether anybody has written to it: a file, by
// its change time (F39).
type ChangeMarker interface {
	// ChangeMark is another one after each later write, whoever makes it; "" where the target
	// shows none.
	ChangeMark(ctx context.Context) (string, error)
}

// ConcurrentReader is a Handle that may be read by several goroutines at once, as an
// io.ReaderAt. No other method may be called meanwhile.
type ConcurrentReader interface {
	// ReadsAtOnce is how many reads at once make sense, at least 1.
	ReadsAtOnce() int
}

// EvidenceWriter is a Handle to which known data can be written, so that it must be gone after
// a sanitize (F33).
type EvidenceWriter interface {
	// NamespaceSizes gives the sizes of the namespaces, whose bytes are those of the
	// Handle, one after the other.
	NamespaceSizes() []int64
	// WriteEvidence writes p at offset and nowhere else, after the checks of each write of
	// zeroes. p and offset are whole blocks. It is durable after Flush. Faults: those of
	// ZeroAt, write_protected.
	WriteEvidence(ctx context.Context, p []byte, offset int64) error
}

// NamespaceManager is a Handle whose device has namespaces (S2.57, F17). The Handle's size
// and bytes are those of all active namespaces, one after the other.
type NamespaceManager interface {
	// Layout reads the present layout of the namespaces.
	Layout(ctx context.Context) (device.Layout, error)
	// CheckComplete returns nil if the Handle reaches every byte of every allocated
	// namespace and their sum is the enrolled size. Fault: namespace_layout_mismatch.
	CheckComplete(ctx context.Context) error
	// CanConsolidate: the device reports that it supports namespace management.
	CanConsolidate() bool
	// Consolidate deletes every namespace, creates one of the enrolled size and block
	// size, and reads the device again to prove that it is there. It calls mayGoOn before
	// each command. A second run starts over. Faults: command_refused,
	// namespace_layout_mismatch.
	Consolidate(ctx context.Context, mayGoOn func() error) error
}

// ZeroWriter is a Handle whose device can write zeroes by itself (S2.58).
type ZeroWriter interface {
	// WriteZeroesAt has the device write zeroes to [offset, offset+n) and nowhere else.
	// They are durable after Flush. An error is final: the zeroes are not written in
	// another way instead (S2.27). Faults: command_refused, io_error.
	WriteZeroesAt(ctx context.Context, offset, n int64) error
}

// Resetter is a Handle whose device keeps its identity through a reset.
type Resetter interface {
	// Reset resets the device and returns when it works again. If it is configured not to
	// reset, it does nothing. It refuses a reset that would also activate what a tenant
	// left, with the faults of SecurityCleaner.
	Reset(ctx context.Context) error
}

// Health is what a device reports about its wear.
type Health struct {
	// PercentUsed is the vendor's estimate of the used life. It may exceed 100.
	PercentUsed int `json:"percent_used"`
	// Spare and SpareThreshold are percentages of the spare capacity.
	Spare          int `json:"avail_spare"`
	SpareThreshold int `json:"spare_thresh"`
	// Critical is the bit field of critical warnings, 0 if there is none.
	Critical uint8         `json:"critical_warning"`
	PowerOn  time.Duration `json:"power_on"`
}

// HealthReporter is a Handle of a device that wears out (S0.32).
type HealthReporter interface {
	// Health reads what the device reports about its wear.
	Health(ctx context.Context) (Health, error)
}

// StepRun is one run of a whole step by a driver. A step that was interrupted runs again,
// with the same Args.
type StepRun struct {
	Step string
	// Rest are the later steps of the plan that restore the device too.
	Rest []string
	// Args are the step's arguments, a JSON object that fits its schema; nil: it has none.
	Args     json.RawMessage
	Settings device.StepSettings
	// MayGoOn returns nil while the step may go on.
	MayGoOn func() error
	// Progress records that the step is so far, in percent, and what it does or waits for,
	// in a few words for the operator. Its error is MayGoOn's.
	Progress func(percent int, doing string) error
	// Save keeps a value under a name for the rest of this clean; when it returns nil, the
	// value is on stable storage. Load reads it again, also in a later attempt after a
	// crash, and says whether there is one.
	Save func(name string, value any) error
	Load func(name string, into any) (bool, error)
	// Reflash records, before the device can run it, which firmware revision the step gives
	// it. The record outlives this clean: it becomes Target.Reflashed until the device has
	// its next tenant. A driver calls it again once the device runs that revision: of a step
	// that then ends well, it becomes the enrolled one.
	Reflash func(revision string) error
}

// StepRunner is a Handle whose driver runs whole steps itself (S0.31): those in
// Discovery.SupportedSteps.
type StepRunner interface {
	// RunStep runs the step and returns when it has ended. Before and after it proves that
	// the device is the enrolled one and that nothing else uses it. It calls run.MayGoOn
	// before the step starts and while it runs. An error of MayGoOn, or the end of ctx, stops
	// the step, unless stopping half-way would be worse. note is one line for the record.
	// Faults: those of Open, no_such_step, step_failed, tool_output_invalid.
	RunStep(ctx context.Context, run StepRun) (note string, err error)
}

// SecurityCleaner is a Handle of a device on which a tenant can leave more than user data
// (F20).
type SecurityCleaner interface {
	// Secure finds what a tenant left outside user data, and restores what can be
	// restored. note is one line for the record. Faults: security_locked,
	// firmware_changed, write_protected, command_refused.
	Secure(ctx context.Context, mayGoOn func() error) (note string, err error)
}

// The power states that a PowerController reports, and the actions that it takes.
const (
	PowerOn    = "on"
	PowerOff   = "off"
	PowerReset = "reset"
)

// PowerController is a Handle of a device that can be switched on and off (S3.24, S3.28).
type PowerController interface {
	// PowerState reads the power state: "on", "off", or the BMC's own word for the way
	// between the two.
	PowerState(ctx context.Context) (string, error)
	// Power switches the device on or off, or resets it, and returns when it is so; it does
	// not wait until the device has started. A device that is on or off already stays so.
	// It refuses with target_busy while firmware is written or a drive is erased, by
	// whomever. Faults: those of Open, target_busy, command_refused, no_progress.
	Power(ctx context.Context, action string) error
}
