// Package nvme erases NVMe drives of any vendor: by the controller's own Sanitize
// command, by Write Zeroes, or by zeroes written to every namespace. It talks to
// controllers through nvme-cli alone, and to namespaces through the block devices that
// the kernel makes of them. No command goes to a drive whose identity was not read just
// before, on a descriptor that pins the drive's number (SAFETY F11), and none that
// changes anything goes to one that somebody else could be using (SAFETY F12).
//
// What needs root is package privileged: the controllers' nodes, and the binding of PCI
// functions. A worker that is root does it itself. Another one has a helper do it, by
// verbs over a socket: a copy of burnish-worker with the file capabilities
// cap_sys_admin,cap_dac_override+ep, or setuid root, which BURNISH_NVME_HELPER names
// (docs/nvme.md, Without root). The worker's user then needs to read and write the
// drives' namespaces, and nothing of their controllers.
package nvme

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/pci"
)

// Type is the type of the devices of this driver (S2.32).
const Type = "NVME"

// Host is what the driver needs of its host; the zero Kernel is this machine's.
type Host struct {
	// Allow returns nil if the host's rules let Burnish destroy what is at this PCI
	// address (SAFETY F13); without it nothing is allowed.
	Allow func(pci.Device) error
	// Specs gives the device_spec in force, by which devices are found (S2.6).
	Specs func() (pci.Specs, error)
	// Tool is nvme-cli's program; empty is "nvme" in the PATH.
	Tool string
	// Helper is the program that does what is privileged where this process may not;
	// empty is none.
	Helper string
	// Kernel is where the kernel shows its tables.
	Kernel block.Kernel
}

// Driver finds and opens NVMe drives by their PCI address.
type Driver struct {
	host    Host
	sys     string // where sysfs is
	dev     string // where nodes are
	timeout time.Duration
	// executor carry out what needs privilege; local is those that are this process's.
	executor privileged.Executor
	local    *privileged.Local
}

// New returns the driver.
func New(host Host) *Driver {
	d := &Driver{host: host, sys: "/sys", dev: "/dev", timeout: kernelTimeout}
	if host.Kernel.Sys != "" {
		d.sys, d.dev = host.Kernel.Sys, host.Kernel.Dev
	}
	d.local = &privileged.Local{Tool: host.Tool, Sys: d.sys, Dev: d.dev, Timeout: kernelTimeout}
	if d.local.Tool == "" {
		d.local.Tool = "nvme"
	}
	d.executor = d.local
	if host.Helper != "" && !privileged.HasPrivilege() {
		d.executor = &privileged.Remote{Program: host.Helper}
	}
	return d
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "nvme" }

// Init refuses a host without nvme-cli, or with one whose output is not understood
// (S2.3), and one on which nothing may open a controller (S2.67). Faults: tool_missing,
// tool_too_old, tool_output_invalid, not_allowed.
func (d *Driver) Init(ctx context.Context) error {
	output, err := d.executor.Version(ctx)
	if f := (*privileged.Failure)(nil); errors.As(err, &f) {
		return hardware.Refused(device.CodeToolMissing, "install nvme-cli on this host again: nvme version must work", "nvme-cli does not work: %v", f)
	}
	if err != nil {
		return err
	}
	version, err := nvmecli.ParseVersion(output)
	if err != nil {
		return err
	}
	if err := version.Check(); err != nil {
		return err
	}
	if d.executor == privileged.Executor(d.local) && !privileged.HasPrivilege() {
		return hardware.Refused(device.CodeNotAllowed, "run the host worker as root, or set BURNISH_NVME_HELPER (see docs/nvme.md)", "the driver nvme needs root, and no helper is set")
	}
	return nil
}

// Find lists the NVMe controllers that device_spec allows; see hardware.Finder.
func (d *Driver) Find(_ context.Context) ([]hardware.Found, error) {
	if d.host.Specs == nil {
		return nil, nil
	}
	specs, err := d.host.Specs()
	if err != nil {
		return nil, err
	}
	devices, err := pci.Scan(filepath.Join(d.sys, "bus/pci/devices"))
	if err != nil {
		return nil, err
	}
	var found []hardware.Found
	for _, dev := range devices {
		if dev.Class != privileged.PCIClass || dev.Type == pci.Virtual {
			continue
		}
		entry, matches, err := specs.Match(dev)
		if err != nil {
			return nil, fmt.Errorf("match PCI device %s: %w", dev.Address, err)
		}
		if !matches {
			continue
		}
		found = append(found, hardware.Found{
			Address: dev.Address, Type: Type, Serial: d.kernelSerial(dev.Address), OneTimeUse: entry.OneTimeUse(), Digest: d.digest(dev),
		})
	}
	return found, nil
}

// Discover looks at the drive at t.Address and changes nothing; see hardware.Driver.
// The operation is the erase policy's to choose, by the capabilities that it finds.
func (d *Driver) Discover(ctx context.Context, t hardware.Target, known device.Identity) (found hardware.Discovery, err error) {
	c, err := d.controller(ctx, t, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer c.closeAndJoin(&err)
	names, err := c.namespaces(ctx)
	if err != nil {
		return hardware.Discovery{}, err
	}
	who, err := c.enrolledIdentity(names, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	first := known == (device.Identity{})
	if field := known.Differs(who); !first && field != "" {
		return hardware.Discovery{}, hardware.Changed(field, c.Address)
	}
	if err := c.checkExclusive(ctx); err != nil {
		return hardware.Discovery{}, err
	}
	if first {
		if err := c.checkFirstEnrollment(ctx, t); err != nil {
			return hardware.Discovery{}, err
		}
	}
	can := c.id.Capabilities()
	found = hardware.Discovery{
		Identity: who, Type: Type, Capabilities: &can, Layout: names.classify(who),
		Note: fmt.Sprintf("%s, firmware %s, %s", who.Model, who.Firmware, names.describe()),
	}
	if can.CryptoErase || can.BlockErase {
		found.Estimates, err = c.estimates(ctx)
	}
	return found, err
}

// Open claims every namespace of the enrolled drive and proves that the drive is the
// enrolled one and nobody else's; see hardware.Driver. What the Handle reads and zeroes
// are the bytes of all active namespaces, one after the other.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity, writable bool) (_ hardware.Handle, err error) {
	c, err := d.controller(ctx, t, enrolled)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.closeAndJoin(&err)
		}
	}()
	h := &handle{c: c, enrolled: enrolled, writable: writable}
	if err := c.checkExclusive(ctx); err != nil {
		return nil, err
	}
	if err := c.drive.Lock(ctx); err != nil {
		return nil, err
	}
	if err := h.claim(ctx); err != nil {
		return nil, err
	}
	// Once more, with everything in hand.
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// options are the driver's settings of one device.
type options struct {
	// rebind: take the drive back from the guests' driver (S2.60). noReset: never reset
	// its controller before it is read back.
	rebind, noReset bool
}

// settings refuses what this driver does not know: a misspelt setting must not pass
// for a wish that was heard.
func settings(t hardware.Target) (options, error) {
	o := options{}
	for _, key := range slices.Sorted(maps.Keys(t.Settings)) {
		value := t.Settings[key]
		if value != "yes" && value != "no" {
			return o, hardware.Invalid("%s is yes or no, not %q", key, value)
		}
		switch key {
		case "rebind":
			o.rebind = value == "yes"
		case "reset":
			o.noReset = value == "no"
		default:
			return o, hardware.Invalid("the driver nvme knows no setting %q, only rebind and reset", key)
		}
	}
	return o, nil
}

// checkAllowed asks the host's rules (SAFETY F13).
func (d *Driver) checkAllowed(dev pci.Device) error {
	if d.host.Allow == nil {
		return hardware.Refused(device.CodeNotAllowed, "allow it in the host's host.yaml, if it may be destroyed",
			"PCI device %s may not be destroyed: this host allows nothing", dev.Address)
	}
	return d.host.Allow(dev)
}
