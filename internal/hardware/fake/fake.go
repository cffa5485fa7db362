// Package fake is the driver for machines without hardware: a file stands for the device,
// and the setting fault says when the device fails, hangs, or kills the whole worker. It
// fulfills every contract of package hardware and passes the same test suite.
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

// Driver simulates devices by files below one directory.
type Driver struct {
	dir   string
	allow func() error
	// kill ends this process in the way of kill -9.
	kill func() error
}

// New returns the driver, which keeps its devices in dir/fake. allow is the host's rule on
// simulated devices (F13).
func New(dir string, allow func() error) *Driver {
	return &Driver{dir: dir, allow: allow, kill: func() error {
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	}}
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "fake" }

// Discover finds the device that the settings describe; see hardware.Driver. The first
// enrollment creates it, filled with zeroes, or keeps the contents that are already there.
func (d *Driver) Discover(_ context.Context, t hardware.Target, known device.Identity) (hardware.Discovery, error) {
	place, wanted, err := d.target(t)
	if err != nil {
		return hardware.Discovery{}, err
	}
	if err := d.allow(); err != nil {
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
		return hardware.Discovery{}, hardware.Invalid("size is %s, but %q of an earlier device has %s",
			hardware.FormatSize(wanted.size), place.contents(), hardware.FormatSize(info.Size()))
	}
	identity := wanted.identity(info.Size(), now)
	if err := verifyIdentity(known, identity, wanted, place); !first && err != nil {
		return hardware.Discovery{}, err
	}
	found := hardware.Discovery{Identity: identity, Note: wanted.note()}
	found.Power, found.LiveMigratable = wanted.power != "", wanted.liveMigratable
	if !wanted.eraseNone {
		found.Operation = device.Shred
	}
	return found, nil
}

// Open opens the device's contents and locks them until Close; see hardware.Driver. t.Step
// selects the faults to inject.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (_ hardware.Handle, err error) {
	place, wanted, err := d.target(t)
	if err != nil {
		return nil, err
	}
	if writable {
		if err := d.allow(); err != nil {
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
	// Read only now: the previous holder of the lock may have counted a fault.
	if h.state, err = place.load(); err != nil {
		return nil, err
	}
	if h.zeroes, err = hardware.Zeroes(); err != nil {
		return nil, err
	}
	return h, nil
}

// target gives the device's directory and settings.
func (d *Driver) target(t hardware.Target) (deviceDir, settings, error) {
	name, err := device.CanonicalName(t.Name)
	if err != nil {
		return deviceDir{}, settings{}, hardware.Invalid("%v", err)
	}
	if err := t.KnownSettings("delay", "erase", "fault", "live_migratable", "mac", "model", "power", "serial", "size",
		"vendor"); err != nil {
		return deviceDir{}, settings{}, err
	}
	wanted, err := parse(name, t.Settings)
	if err != nil {
		return deviceDir{}, settings{}, err
	}
	return deviceDir{dir: filepath.Join(d.dir, "fake", name)}, wanted, nil
}

// verifyIdentity proves that the device that was found is the enrolled one.
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
	return hardware.Refused(code, "put the enrolled device back, or replace the device",
		"not the enrolled device (%s): %q", field, at.contents())
}

// serialOf is the default serial of a name: always the same for one name, and different
// for each.
func serialOf(name string) string {
	return fmt.Sprintf("FAKE%X", sha256.Sum256([]byte(name)))[:16]
}

// missing is the fault of contents that cannot be opened.
func missing(at deviceDir, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return hardware.Missing("%q does not exist", at.contents())
	}
	return hardware.IOFault("open", at.contents(), err)
}
