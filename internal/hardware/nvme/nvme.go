// Package nvme erases NVMe drives of any vendor: by the controller's own Sanitize command,
// by Write Zeroes, or by writing zeroes to every namespace. It sends commands to
// controllers only through nvme-cli, and accesses namespaces through the kernel's block
// devices. Before each command it reads the drive's identity through a descriptor that
// pins the drive's number (F11). Before each command that changes something it proves that
// no other process can be using the drive (F12).
//
// What needs root is in package privileged: access to the controllers' nodes, and binding
// PCI functions. A worker that is root does it itself. Another worker has a helper do it,
// by verbs over a socket. The helper is a copy of burnish-worker that BURNISH_NVME_HELPER
// names, with the file capabilities cap_sys_admin,cap_dac_override+ep or setuid root (see
// docs/nvme.md). The worker's user then needs access to the namespaces only.
package nvme

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
)

// Type is the type of the devices of this driver (S2.32).
const Type = "NVME"

// Host is what the driver needs from its host. The zero Kernel is the real one.
type Host struct {
	// Allow returns nil if the host's rules let Burnish destroy this PCI device (F13).
	Allow func(pci.Device) error
	// Specs returns the device_spec in force, which also selects the devices to find (S2.6); nil: none.
	Specs func() (pci.Specs, error)
	// Tool is the path of nvme-cli; empty means "nvme" in the PATH.
	Tool string
	// Run runs a command of it; nil means exec.Cmd.Run. The helper's are not run by it.
	Run func(*exec.Cmd) error
	// Helper is the program that does what this process has no privilege for; empty means
	// none.
	Helper string
	// Kernel is where sysfs, procfs and device nodes are.
	Kernel block.Kernel
}

// Driver finds and opens NVMe drives by their PCI address.
type Driver struct {
	host    Host
	sys     string // path of sysfs
	dev     string // directory of device nodes
	timeout time.Duration
	// executor does what needs privilege. local is the one in this process.
	executor privileged.Executor
	local    *privileged.Local
}

// New returns the driver.
func New(host Host) *Driver {
	d := &Driver{host: host, sys: "/sys", dev: "/dev", timeout: privileged.KernelTimeout}
	if host.Specs == nil {
		d.host.Specs = func() (pci.Specs, error) { return nil, nil }
	}
	if host.Kernel.Sys != "" {
		d.sys, d.dev = host.Kernel.Sys, host.Kernel.Dev
	}
	d.local = &privileged.Local{Tool: host.Tool, Run: host.Run, Sys: d.sys, Dev: d.dev, Timeout: privileged.KernelTimeout}
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

// Init refuses a host without nvme-cli, with a version whose output is not understood
// (S2.3), or without the privilege to open a controller (S2.67). Faults: tool_missing,
// tool_too_old, tool_output_invalid, not_allowed.
func (d *Driver) Init(ctx context.Context) error {
	output, err := d.executor.Version(ctx)
	if f := (*privileged.Failure)(nil); errors.As(err, &f) {
		return hardware.Refused(device.CodeToolMissing, "reinstall nvme-cli on this host, until nvme version works",
			"nvme-cli does not work: %v", f)
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
		return hardware.Refused(device.CodeNotAllowed, "run the host worker as root, or set BURNISH_NVME_HELPER (see "+
			"docs/nvme.md)", "the driver nvme needs root, and no helper is configured")
	}
	return nil
}

// UntriedTool names a version of nvme-cli with which the driver was never tested; see
// hardware.ToolUser.
func (d *Driver) UntriedTool(ctx context.Context) (string, error) {
	output, err := d.executor.Version(ctx)
	if err != nil {
		return "", err
	}
	version, err := nvmecli.ParseVersion(output)
	if err != nil || !version.Untried() {
		return "", err
	}
	return fmt.Sprintf("nvme-cli %s (tried: %s)", version.Text, strings.Join(nvmecli.Tried(), ", ")), nil
}

// Find lists the NVMe controllers that device_spec allows; see hardware.Finder.
func (d *Driver) Find(_ context.Context) ([]hardware.Found, error) {
	return pcifunction.Find(filepath.Join(d.sys, "bus/pci/devices"), d.host.Specs,
		func(dev pci.Device, entry pci.Spec, found *hardware.Found) (bool, error) {
			if dev.Class != privileged.PCIClass {
				return false, nil
			}
			found.Type, found.Serial = Type, d.kernelSerial(dev.Address)
			found.Model, found.Digest = strings.TrimSpace(d.kernelAttribute(dev.Address, "model")), d.digest(dev, entry)
			return true, nil
		})
}

// Discover reads the drive at t.Address and changes nothing; see hardware.Driver. The erase
// policy chooses the operation from the capabilities that it returns.
func (d *Driver) Discover(ctx context.Context, t hardware.Target,
	known device.Identity) (found hardware.Discovery, err error) {
	c, err := d.controller(ctx, t, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer c.closeAndJoin(&err)
	names, err := c.namespaces(ctx)
	if err != nil {
		return hardware.Discovery{}, err
	}
	identity, err := c.enrolledIdentity(names, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	first := known == (device.Identity{})
	if field := known.Differs(identity); !first && field != "" {
		return hardware.Discovery{}, hardware.Changed(field, c.Address)
	}
	if err := c.checkExclusive(ctx); err != nil {
		return hardware.Discovery{}, err
	}
	switch {
	case first:
		err = c.checkFirstEnrollment(ctx, t, names)
	case t.Offered:
		err = c.checkFree(ctx)
	}
	if err != nil {
		return hardware.Discovery{}, err
	}
	policy, _, err := pcifunction.Match(d.host.Specs, c.pci)
	if err != nil {
		return hardware.Discovery{}, err
	}
	can := c.id.Capabilities()
	var runs []string
	if c.updatesFirmware() {
		runs = []string{stepReflash, stepVerifyFirmware}
	}
	found = hardware.Discovery{
		Identity: identity, Type: Type, Capabilities: &can, Layout: names.classify(identity), SupportedSteps: runs,
		ClearAction: policy.ClearAction(), ClearStrategy: policy.ClearStrategy(), LiveMigratable: policy.LiveMigratable(),
		Note: fmt.Sprintf("%s, firmware %s, %s", identity.Model, identity.Firmware, names.describe()),
	}
	if can.CryptoErase || can.BlockErase {
		found.Estimates, err = c.estimates(ctx)
	}
	return found, err
}

// Open claims every namespace of the enrolled drive and proves that it is the enrolled one
// and that nothing else uses it; see hardware.Driver. The Handle's bytes are those of all
// active namespaces, one after the other.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (hardware.Handle, error) {
	c, err := d.controller(ctx, t, enrolled)
	if err != nil {
		return nil, err
	}
	h := &handle{c: c, enrolled: enrolled, writable: writable}
	if err := h.take(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// options are one device's settings.
type options struct {
	// rebind: take the drive back from the guests' driver (S2.60). noReset: do not reset
	// the controller before reading it back.
	rebind, noReset bool
	// noUnallocated: what no namespace has is no part of the drive's size.
	noUnallocated bool
}

// settings reads the device's settings and refuses unknown ones, so that a misspelled
// setting is not silently ignored.
func settings(t hardware.Target) (options, error) {
	if err := t.KnownSettings("rebind", "reset", "unallocated"); err != nil {
		return options{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(t.Settings)) {
		if value := t.Settings[key]; value != "yes" && value != "no" {
			return options{}, hardware.Invalid("the setting %s must be yes or no, not %q", key, value)
		}
	}
	return options{
		rebind: t.Settings["rebind"] == "yes", noReset: t.Settings["reset"] == "no",
		noUnallocated: t.Settings["unallocated"] == "no",
	}, nil
}
