// Package pci cleans PCI functions of every kind, such as NICs, GPUs and accelerators, by what
// Linux itself offers for them: settings and firmware by devlink, memory by a region of the device
// (a BAR), resets by sysfs. What goes to a tenant together is one device: the functions of an IOMMU
// group. Where a device keeps its memory no kernel knows: the policy says so for each model, and a
// model without an entry is refused.
//
// A reset leaves a device's memory as it was (measured). No step takes one for an erase.
package pci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/pci"
)

// Host is what the driver needs from its host.
type Host struct {
	// Allow returns nil if the host's rules let Burnish destroy this PCI device (F13), and Specs gives
	// the device_spec in force, which also selects the devices to find.
	Allow func(pci.Device) error
	Specs func() (pci.Specs, error)
	// Models is what the policy knows of each model. Images gives the arguments of firmware_reflash that
	// it has for a device, or nil.
	Models []device.Model
	Images func(kind, vendor, model string) (json.RawMessage, error)
	// Programs are the operator's.
	Programs Programs
}

// Programs runs the operator's programs; the driver script is one.
type Programs interface {
	// Allowed is nil if there is a program of this name, and it is what the host's rules say.
	Allowed(name string) error
	// Call runs a verb of it on the device, and gives its note. The caller has the device locked by
	// config, and has proved that nothing else uses it.
	Call(ctx context.Context, name, verb string, t hardware.Target, dev pci.Device, config *os.File, serial string,
		mayGoOn func() error) (note string, err error)
}

// Driver finds and opens PCI devices by the address of their first function.
type Driver struct {
	host           Host
	sys, dev, proc string
	// firmware is where the kernel looks for images.
	firmware  string
	openGroup func(path string) (int, error)
	// write writes a file of sysfs, run runs a program.
	write func(path, text string) error
	run   func(*exec.Cmd) error
	// returns is how long a device may take until it answers after a reset, or is bound.
	returns time.Duration
}

// New returns the driver.
func New(h Host) *Driver {
	return &Driver{host: h, sys: "/sys", dev: "/dev", proc: "/proc", firmware: "/lib/firmware",
		openGroup: hardware.OpenVFIO, run: (*exec.Cmd).Run, returns: time.Minute,
		write: func(path, text string) error { return os.WriteFile(path, []byte(text), 0) }}
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "pci" }

// kinds are the types of devices by the base class of their first function.
var kinds = map[string]string{"02": "NIC", "03": "GPU", "12": "ACCELERATOR"}

func kindOf(dev pci.Device) string { return cmp.Or(kinds[dev.Class[:2]], "PCI") }

// Base classes: what other drivers clean, what is no device of a tenant's, and NICs.
const storage, bridge, network = "01", "06", "02"

// Find lists the devices that device_spec matches; see hardware.Finder.
func (d *Driver) Find(context.Context) ([]hardware.Found, error) {
	all, err := pci.Scan(d.devices())
	if err != nil {
		return nil, err
	}
	var found []hardware.Found
	for _, dev := range all {
		base := dev.Class[:2]
		if base == storage || base == bridge || dev.Type == pci.Virtual || together(all, dev)[0].Address != dev.Address {
			continue
		}
		entry, matches, err := d.match(dev)
		if err != nil {
			return nil, err
		}
		if matches {
			found = append(found, hardware.Found{Address: dev.Address, Type: kindOf(dev), Model: modelOf(dev),
				OneTimeUse: entry.OneTimeUse(),
				Digest:     fmt.Sprintf("%s %s %s %s", modelOf(dev), dev.Driver, dev.IOMMUGroup, entry.Tags())})
		}
	}
	return found, nil
}

// modelOf is the model by which a policy names a device.
func modelOf(dev pci.Device) string { return dev.Vendor + ":" + dev.Product }

// Discover reads the device at t.Address; see hardware.Driver. Its memory's place and the ways of a
// reset must be as the policy says.
func (d *Driver) Discover(ctx context.Context, t hardware.Target,
	known device.Identity) (found hardware.Discovery, err error) {
	c, err := d.open(t, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer c.closeAndJoin(&err)
	if err := c.check(ctx, known); err != nil {
		return hardware.Discovery{}, err
	}
	if err := c.checkMemory(); err != nil {
		return hardware.Discovery{}, err
	}
	first := c.functions[0].Device
	entry, _, err := d.match(first)
	if err != nil {
		return hardware.Discovery{}, err
	}
	found = hardware.Discovery{Type: kindOf(first), LiveMigratable: entry.LiveMigratable(), Operation: device.Script,
		Priorities: map[string]float64{stepReset: resetPriority}}
	if c.model.Memory.Size > 0 {
		found.Operation = device.Shred
	}
	if found.SupportedSteps, err = c.supportedSteps(); err != nil {
		return hardware.Discovery{}, err
	}
	if found.Identity, err = c.identity(ctx, known); err != nil {
		return hardware.Discovery{}, err
	}
	if known == (device.Identity{}) {
		if found.Identity.Properties, err = c.record(ctx); err != nil {
			return hardware.Discovery{}, err
		}
	}
	now, err := c.firmwareOf(ctx, "")
	if known == (device.Identity{}) || now.running != "" && now.running == t.Reflashed {
		found.Identity.Firmware = now.running
	}
	by := cmp.Or(found.Identity.Serial, "none: known by its place")
	found.Note = fmt.Sprintf("%s, %d functions, %s, serial %s", modelOf(first), len(c.functions), c.describeMemory(), by)
	return found, err
}

// match finds the entry of device_spec for a function.
func (d *Driver) match(dev pci.Device) (pci.Spec, bool, error) {
	specs, err := d.host.Specs()
	if err != nil {
		return pci.Spec{}, false, err
	}
	entry, matches, err := specs.Match(dev)
	if err != nil {
		return pci.Spec{}, false, fmt.Errorf("match PCI device %s: %w", dev.Address, err)
	}
	return entry, matches, nil
}

// Open opens and locks the enrolled device, and proves that it is the enrolled one and that nothing
// else uses it; see hardware.Driver. For the steps that write or read its memory it maps that.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (_ hardware.Handle, err error) {
	c, err := d.open(t, enrolled)
	if err != nil {
		return nil, err
	}
	h := &handle{card: c, enrolled: enrolled, writable: writable}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if enrolled == (device.Identity{}) {
		return nil, hardware.Changed("path", t.Name+" was never enrolled")
	}
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	if err := h.bindToIdentify(ctx); err != nil {
		return nil, err
	}
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	if h.Size() > 0 && (t.Step == stepZero || t.Step == stepVerify) {
		if err := h.openMemory(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (d *Driver) devices() string { return filepath.Join(d.sys, "bus/pci/devices") }
