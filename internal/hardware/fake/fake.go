// Package fake is the driver for machines without hardware: a file stands for the
// device, and a script says when it fails, hangs, or takes the whole worker down.
// It keeps every promise of package hardware and passes the same suite.
package fake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Driver makes devices of files below one directory.
type Driver struct {
	dir   string
	allow func() error
	// kill ends this process as kill -9 does.
	kill func() error
}

// New returns the driver; it keeps its devices in dir/fake. allow is the host's word
// on whether simulated devices may be used here (SAFETY F13), asked as a block
// driver asks for a path; nil allows none.
func New(dir string, allow func() error) *Driver {
	return &Driver{dir: dir, allow: allow, kill: func() error {
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	}}
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "fake" }

// Discover finds the device that the settings describe; see hardware.Driver. At the
// first enrolment it makes one, zero throughout, unless contents lie there already,
// which are kept.
func (d *Driver) Discover(_ context.Context, t hardware.Target, known device.Identity) (hardware.Discovery, error) {
	place, wanted, err := d.target(t)
	if err != nil {
		return hardware.Discovery{}, err
	}
	if err := d.checkAllowed(); err != nil {
		return hardware.Discovery{}, err
	}
	first := known == (device.Identity{})
	if t.MovedFrom != "" {
		was := t
		was.Name, was.MovedFrom = t.MovedFrom, ""
		from, before, err := d.target(was)
		if err != nil {
			return hardware.Discovery{}, err
		}
		if err := place.moveFrom(from, before.serial); err != nil {
			return hardware.Discovery{}, err
		}
	} else if first {
		if err := place.create(wanted.size); err != nil {
			return hardware.Discovery{}, err
		}
	}
	info, err := os.Stat(place.contents())
	if err != nil {
		return hardware.Discovery{}, missing(place, err)
	}
	now, err := place.load()
	if err != nil {
		return hardware.Discovery{}, err
	}
	if first && info.Size() != wanted.size {
		return hardware.Discovery{}, invalid("size is %s, but %q holds %s of an earlier device", hardware.FormatSize(wanted.size), place.contents(), hardware.FormatSize(info.Size()))
	}
	identity := wanted.identity(info.Size(), now)
	if err := verifyIdentity(known, identity, wanted, place); !first && err != nil {
		return hardware.Discovery{}, err
	}
	found := hardware.Discovery{Identity: identity, Note: wanted.note()}
	if !wanted.eraseNone {
		found.Operation = device.Shred
	}
	return found, nil
}

// Open opens the device's contents and holds them exclusively until Close; see
// hardware.Driver. t.Step is the step whose faults are due.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity, writable bool) (_ hardware.Handle, err error) {
	place, wanted, err := d.target(t)
	if err != nil {
		return nil, err
	}
	if writable {
		if err := d.checkAllowed(); err != nil {
			return nil, err
		}
	}
	flags := os.O_RDONLY
	if writable {
		flags = os.O_RDWR
	}
	file, err := os.OpenFile(place.contents(), flags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, missing(place, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	h := &handle{
		driver: d, dir: place, file: file, wanted: wanted, enrolled: enrolled, writable: writable,
		faults: wanted.faultsOf(t.Step), opened: ctx,
	}
	if err := h.verifyIdentity(); err != nil {
		return nil, err
	}
	if err := hardware.Lock(ctx, int(file.Fd()), place.contents()); err != nil {
		return nil, err
	}
	// Only now: whoever held the lock may have counted a fault.
	if h.state, err = place.load(); err != nil {
		return nil, err
	}
	if h.zeroes, err = hardware.Zeroes(); err != nil {
		return nil, err
	}
	return h, nil
}

// target reads where the device lies and what it is to be.
func (d *Driver) target(t hardware.Target) (deviceDir, settings, error) {
	name, err := device.CanonicalName(t.Name)
	if err != nil {
		return deviceDir{}, settings{}, invalid("%v", err)
	}
	wanted, err := parse(name, t.Settings)
	if err != nil {
		return deviceDir{}, settings{}, err
	}
	return deviceDir{dir: filepath.Join(d.dir, "fake", name)}, wanted, nil
}

// checkAllowed asks the host's rules (SAFETY F13).
func (d *Driver) checkAllowed() error {
	const remedy = "allow fake devices in the host's host.yaml"
	if d.allow == nil {
		return refused(device.CodeNotAllowed, remedy, "fake devices are not allowed on this host")
	}
	err := d.allow()
	if err == nil {
		return nil
	}
	if _, ok := device.AsFault(err); ok {
		return err
	}
	return refused(device.CodeNotAllowed, remedy, "fake devices are not allowed on this host: %v", err)
}

// verifyIdentity proves that what was found is the enrolled device.
func verifyIdentity(enrolled, found device.Identity, wanted settings, at deviceDir) error {
	field := enrolled.Differs(found)
	if field == "" && found.Size != wanted.size {
		field = "size"
	}
	if field == "" {
		return nil
	}
	code := device.MismatchCode(field)
	if enrolled == (device.Identity{}) {
		code = device.CodeIdentityChanged // it was never enrolled
	}
	return refused(code, "bring the enrolled one back, or replace the device",
		"not the enrolled device (%s): %q", field, at.contents())
}

// serialOf is the serial of a device whose settings name none: the same whenever
// and wherever that name is enrolled, another for every other name.
func serialOf(name string) string {
	return fmt.Sprintf("FAKE%X", sha256.Sum256([]byte(name)))[:16]
}

// missing is the fault of contents that cannot be opened.
func missing(at deviceDir, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return refused(device.CodeTargetMissing, "put it back, or retire the device", "%q is not there", at.contents())
	}
	return ioFault("open", at.contents(), err)
}

// refused is a fault that only a person can clear.
func refused(code device.Code, remedy, format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// invalid is the fault of a setting that can never work.
func invalid(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting, Message: fmt.Sprintf(format, args...), Remedy: "enroll it with other settings"}
}

// ioFault is the fault of a call that the kernel answered with an error. Like a
// sparse file of the driver block, contents can run out of space and get it back.
func ioFault(doing, path string, err error) error {
	var inPath *fs.PathError
	if errors.As(err, &inPath) {
		err = inPath.Err
	}
	fault := &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: fmt.Sprintf("%s %q: %v", doing, path, err)}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		fault.Class, fault.Remedy = device.Transient, "free space on its file system"
	}
	return fault
}
