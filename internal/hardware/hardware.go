// Package hardware holds the ports through which Burnish uses a device: the small
// interfaces that a driver implements. A driver is a folder below this one, one line in
// drivers/drivers.go and a test that runs the suite hardwaretest. Drivers do not import
// Temporal. Where an operator can act on an error, it is a *device.Fault.
package hardware

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
)

// Target is the device as the operator enrolled it.
type Target struct {
	Name     string
	Driver   string
	Address  string
	Settings map[string]string
	// AcceptSignature lists, separated by commas, the signatures that the operator agrees
	// to destroy at the first enrollment (F15). Empty accepts none.
	AcceptSignature string
	// Step is the step that opens the device. It is empty during discovery.
	Step string
	// Fence is the file whose lock the caller holds, or nil. A driver passes it to each
	// child process that changes the device, so that the child holds the lock too (F1).
	Fence *os.File
	// MovedFrom is the device's name at its previous slot, set at the first discovery
	// in its new slot. Signatures on it are then its tenants', not an owner's.
	MovedFrom string
	// Reflashed is the firmware revision that a step of this host gives the device, or gave it
	// since its last tenant: Burnish itself changed it, so that the enrolled revision follows.
	Reflashed string
	// Offered: the device is offered to tenants, and no step of this host has it open, so that a discovery proves that
	// nobody has it (F40).
	Offered bool
	// Imported: tenants used the device before it was enrolled, so signatures are theirs.
	Imported bool
}

// Accepts: the operator agreed to destroy this signature, or the device's tenants left it.
func (t Target) Accepts(signature string) bool {
	return t.MovedFrom != "" || t.Imported ||
		slices.Contains(strings.FieldsFunc(t.AcceptSignature, func(r rune) bool { return r == ',' || r == ' ' }), signature)
}

// Discovery is what a driver found out about a Target.
type Discovery struct {
	Identity device.Identity
	// Type is the device's type, or empty where the driver does not know it (S2.32).
	Type string
	// Operation is the locked-in way to erase the device. It is empty where nothing can
	// erase it, or where the policy chooses among Capabilities.
	Operation device.Operation
	// Capabilities are what the erase policy chooses from. nil: the driver knows only one
	// way.
	Capabilities *device.Capabilities
	// ClearAction and ClearStrategy are the erase policy that the host's rules have for this
	// device; empty: that of all devices (S2.105).
	ClearAction, ClearStrategy string
	// LiveMigratable: the host's rules mark the device as one whose instance can be migrated
	// while it runs (S0.24).
	LiveMigratable bool
	// Layout is the device's namespace layout, if it has namespaces.
	Layout device.Layout
	// SupportedSteps are the steps that the Handle runs itself as a StepRunner.
	SupportedSteps []string
	// Priorities replaces steps' own priorities in the plans of this driver's devices.
	Priorities map[string]float64
	// Estimates is how long each operation takes according to the device. An operation
	// that the device gives no estimate for is missing.
	Estimates map[device.Operation]time.Duration
	// Mark is the target's change mark (see ChangeMarker); empty where it has none.
	Mark string
	// Power: the Handle is a PowerController.
	Power bool
	// Note is one line for the operator about how the driver works on this device.
	Note string
}

// Driver discovers and opens devices of one kind.
type Driver interface {
	// Name is the value of `enroll --driver`.
	Name() string
	// Discover reads who the target is and changes nothing. known is the enrolled
	// identity, zero at the first enrollment. At the first enrollment a driver also
	// refuses signatures of file systems and volumes (F15), and the driver fake creates
	// its device. A step may be running on the device meanwhile. Faults: invalid_setting,
	// target_missing, not_allowed, overwrite_unsupported, target_shared, target_busy,
	// filesystem_signature, identity_changed, io_error, state_dir_error.
	Discover(ctx context.Context, t Target, known device.Identity) (Discovery, error)
	// Open opens the enrolled device once, checks identity and interlocks on the very
	// descriptor that it will use, and returns a Handle that owns this descriptor and
	// the target's own lock (see Lock). writable: ZeroAt will be called. The caller holds
	// the device's fence until after Close. Faults: those of Discover.
	Open(ctx context.Context, t Target, enrolled device.Identity, writable bool) (Handle, error)
}

// Handle is one opened device. Only one goroutine at a time may call its methods, except ReadAt
// of a ConcurrentReader.
type Handle interface {
	// Size is the number of bytes that a tenant can address.
	Size() int64
	// ZeroAt writes zeroes to [offset, offset+n) and nowhere else. They are durable only
	// after Flush. Both numbers are multiples of Align, except at the device's end. A
	// context that ends may stop it between two writes, never within one.
	ZeroAt(ctx context.Context, offset, n int64) error
	// ReadAt fills p from the device, not from a cache, with the rules of io.ReaderAt.
	ReadAt(p []byte, offset int64) (int, error)
	// Flush returns once everything written is on stable storage.
	Flush(ctx context.Context) error
	// Check repeats the checks of identity and interlocks on the open descriptor.
	Check(ctx context.Context) error
	// Method names, for the record, how it writes: "o_direct", "buffered", "fake" …
	Method() string
	// Close gives up the descriptor. No I/O is running when it returns.
	Close() error
}

// Align divides every offset of ZeroAt, and is a multiple of each driver's own block.
// Reads into a buffer that is aligned to it avoid a copy (see AlignedBuffer).
const Align = 4096
