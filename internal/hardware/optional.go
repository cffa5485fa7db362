package hardware

import (
	"context"
	"time"

	"burnish/internal/device"
)

// What only some drivers and devices can do. A Driver or a Handle that can
// implements the interface; whoever needs it asks for it.

// Initializer is a Driver that must find its host in order before it works
// (init_host, S2.1, S2.3).
type Initializer interface {
	// Init says whether the driver can work on this host. Its error is one line that
	// says what to install or to change; the worker does not start then.
	Init(ctx context.Context) error
}

// Found is a device that a driver sees on its host, by itself.
type Found struct {
	// Address is its PCI address, as the kernel writes it.
	Address string
	Type    string
	// Serial is the device's as the host's kernel shows it; empty where it does not.
	Serial string
	// OneTimeUse is that of the entry of device_spec that it matches.
	OneTimeUse bool
	// Digest changes whenever what a look at the device finds may have changed.
	Digest string
}

// Finder is a Driver that finds its devices by itself (S2.6).
type Finder interface {
	// Find lists the devices that the host's rules allow, in the order of addresses;
	// none is no error (S2.4). It sends no device a command and changes nothing.
	Find(ctx context.Context) ([]Found, error)
}

// ProgramUser is a Driver that runs programs of the operator.
type ProgramUser interface {
	// Programs gives, by name, what is wrong with each program that the host's rules
	// allow: nil where it is what they say. It runs none.
	Programs() (map[string]error, error)
}

// SanitizeState is what became of the most recent sanitize of a device.
type SanitizeState string

// The states of a sanitize.
const (
	SanitizeNever   SanitizeState = "never"
	SanitizeRunning SanitizeState = "running"
	SanitizeDone    SanitizeState = "done"
	SanitizeFailed  SanitizeState = "failed"
)

// Sanitize is the device's own word on its most recent sanitize, whoever began it.
type Sanitize struct {
	State SanitizeState `json:"state"`
	// Progress is in 65,536ths while it runs. It is 65,535 when none ran, when one is
	// done and when one failed: alone it never means success.
	Progress int64 `json:"progress"`
	// GlobalErased: nothing was written since a sanitize was done, or ever.
	GlobalErased bool `json:"global_erased"`
	// Command is dword 10 of the sanitize that State speaks of.
	Command uint32 `json:"command"`
	// Verifying: the device waits in media verification, which must be left first.
	Verifying bool `json:"verifying,omitempty"`
}

// Sanitizer is a Handle of a device that can erase all of itself (S2.53 to S2.56).
type Sanitizer interface {
	// Sanitize reads the device's status. Faults: tool_output_invalid, io_error.
	Sanitize(ctx context.Context) (Sanitize, error)
	// SanitizeCommand is what Sanitize.Command will be of a sanitize by this operation.
	SanitizeCommand(o device.Operation) (uint32, error)
	// StartSanitize begins one and returns at once; nothing can stop it then. Faults:
	// sanitize_running where one runs already, command_refused.
	StartSanitize(ctx context.Context, o device.Operation) error
	// ExitMediaVerification ends the media verification state.
	ExitMediaVerification(ctx context.Context) error
}

// NamespaceManager is a Handle of a device that is cut into namespaces (S2.57, SAFETY F17).
// The Handle's Size and its bytes are those of all active ones, one after the other.
type NamespaceManager interface {
	// Layout says how the device is cut, as it is now.
	Layout(ctx context.Context) (device.Layout, error)
	// CheckComplete is nil if the Handle reaches every byte of every allocated namespace
	// and their sum is the enrolled size; else it is the fault layout.
	CheckComplete(ctx context.Context) error
	// CanConsolidate says whether the device lets itself be cut, by its own word.
	CanConsolidate() bool
	// Consolidate deletes every namespace and makes one of the enrolled size and
	// block size, and proves by reading again that it is there. mayGoOn is asked
	// before each command. A second run begins again. Faults: command_refused, layout.
	Consolidate(ctx context.Context, mayGoOn func() error) error
}

// ZeroWriter is a Handle of a device that writes zeroes by itself (S2.58).
type ZeroWriter interface {
	// WriteZeroesAt has the device write zeroes to [offset, offset+n) and nowhere else;
	// they count after Flush. Its errors are final: zeroes are not written in another
	// way instead (S2.27). Faults: command_refused, io_error.
	WriteZeroesAt(ctx context.Context, offset, n int64) error
}

// Resetter is a Handle of a device that can be reset without losing its place.
type Resetter interface {
	// Reset resets the device and returns when it works again; where it is configured
	// not to, it does nothing. It refuses where a reset would change more than the
	// device's memory of what it does: faults as Secured's.
	Reset(ctx context.Context) error
}

// Health is what a device tells of its wear.
type Health struct {
	// PercentUsed is the vendor's estimate of the life that is used; it may pass 100.
	PercentUsed int `json:"percent_used"`
	// Spare and SpareThreshold are percent of the spare capacity.
	Spare          int `json:"avail_spare"`
	SpareThreshold int `json:"spare_thresh"`
	// Critical holds the critical warnings as a bit field, 0 where there is none.
	Critical uint8         `json:"critical_warning"`
	PowerOn  time.Duration `json:"power_on"`
}

// HealthReporter is a Handle of a device that wears out (S0.32).
type HealthReporter interface {
	// Health reads the device's own account of its wear.
	Health(ctx context.Context) (Health, error)
}

// StepRunner is a Handle whose driver does whole steps in a way of its own (S0.31):
// those that Discovery.Offers names.
type StepRunner interface {
	// RunStep does the step and returns when it has ended. It proves that the device is
	// the enrolled one and nobody else's, before and after. mayGoOn is asked before it
	// begins and while it runs. Its error, and the end of ctx, stop the step, but not
	// where what is half done would be worse. note is one line for the record. Faults:
	// those of Open, no_such_step, step_failed, tool_output_invalid.
	RunStep(ctx context.Context, step string, mayGoOn func() error) (note string, err error)
}

// SecurityCleaner is a Handle of a device on which a tenant may leave more than data (SAFETY
// F20).
type SecurityCleaner interface {
	// Secure finds what a tenant may have left outside of user data, and puts back what
	// can be put back. note is one line for the record. Faults: locked, firmware_changed,
	// write_protected, command_refused.
	Secure(ctx context.Context, mayGoOn func() error) (note string, err error)
}
