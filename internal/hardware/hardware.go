// Package hardware holds the ports through which Burnish touches a device: what a
// driver must do, in small interfaces. A driver is a folder below this one, one
// line in all.go and a test that calls hardwaretest. Drivers know nothing of
// Temporal; their errors are *device.Fault where an operator can act upon them.
package hardware

import (
	"context"
	"os"
	"time"

	"burnish/internal/device"
)

// Target says where a device is to be found: what the operator enrolled.
type Target struct {
	Name     string
	Driver   string
	Address  string
	Settings map[string]string
	// AcceptSignature names the foreign signatures that the operator accepts to
	// lose at the first enrolment, with commas between them (SAFETY F15); empty
	// accepts none.
	AcceptSignature string
	// Step is the step that opens the device; empty at discovery.
	Step string
	// Fence is the file whose lock the caller holds, nil where there is none: a driver
	// gives it to each child that changes the device, which then holds it as well
	// (SAFETY F1).
	Fence *os.File
	// MovedFrom is the name that a device of ours had at the place where it was
	// before, at its first discovery here: its signatures are not foreign.
	MovedFrom string
	// Imported: tenants had it before it was enrolled, so that its signatures are theirs.
	Imported bool
}

// Discovery is what a driver found at a Target.
type Discovery struct {
	Identity device.Identity
	// Type is the device's type where the driver knows it (S2.32); else empty.
	Type string
	// Operation is the locked-in way to erase the device; empty where nothing can, or
	// where the policy decides by Capabilities.
	Operation device.Operation
	// Capabilities are those among which the erase policy chooses; nil where the driver
	// knows one way only.
	Capabilities *device.Capabilities
	// Layout is how the device is cut into namespaces, where it can be.
	Layout device.Layout
	// SupportedSteps are the steps that the Handle, a Performer then, does in a way of its own.
	SupportedSteps []string
	// Estimates is how long the device says that an operation takes; what it does not
	// tell is not in it.
	Estimates map[device.Operation]time.Duration
	// Note is one line for the operator on how the driver works on this device.
	Note string
}

// Driver finds and opens devices of one kind.
type Driver interface {
	// Name is what `enroll --driver` takes.
	Name() string
	// Discover looks at the target and changes nothing. known is the identity
	// enrolled before, zero at the first enrolment: a driver then also refuses
	// foreign signatures (SAFETY F15), and the fake one makes its device. A step may
	// be at work on the device meanwhile. Faults: invalid_setting, target_missing,
	// not_allowed, overwrite_unsupported, target_shared, target_busy, filesystem_signature,
	// identity_changed, io_error, state_dir_error.
	Discover(ctx context.Context, t Target, known device.Identity) (Discovery, error)
	// Open opens the enrolled device once, checks identity and interlocks on the
	// descriptor that it will work through, and returns a Handle that owns it and
	// holds the target's own lock (see Lock). writable says whether ZeroAt will be
	// called. The caller holds the device's fence until after Close. Faults: those
	// of Discover.
	Open(ctx context.Context, t Target, enrolled device.Identity, writable bool) (Handle, error)
}

// Handle is one opened device. Its methods are called by one goroutine at a time.
type Handle interface {
	// Size is the number of bytes that a tenant can address.
	Size() int64
	// ZeroAt writes zeroes to [offset, offset+n) and nowhere else; they are durable
	// only after Flush. Both are multiples of Align, but for the device's end. A
	// context that ends may stop it between two writes, never within one.
	ZeroAt(ctx context.Context, offset, n int64) error
	// ReadAt fills p from the device itself, not from a cache, as io.ReaderAt does.
	ReadAt(p []byte, offset int64) (int, error)
	// Flush returns once everything written is on stable storage.
	Flush(ctx context.Context) error
	// Check compares identity and interlocks again, on the open descriptor.
	Check(ctx context.Context) error
	// Method says how it writes, for the record: "o_direct", "buffered", "fake" …
	Method() string
	// Close ends the use of the descriptor; no I/O is under way when it returns.
	Close() error
}

// Align is the granularity of ZeroAt's offsets, and a multiple of every driver's
// own; reads may use buffers aligned to it (see AlignedBuffer).
const Align = 4096
