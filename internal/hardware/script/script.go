// Package script has the operator's programs erase, verify, reset and flash devices: work
// that only a vendor's own tool can do, such as erasing the memory of a GPU, NIC or
// accelerator (S0.31). The host's rules list the programs with their checksums (allow.scripts
// of host.yaml, F13). A device selects one of them with --set script=NAME.
//
// A program is called with a verb and the device's PCI address. The last line that it prints
// is its answer, one JSON object:
//
//	identify          {"serial": "…", "model": "…", "firmware": "…", "size": BYTES,
//	                   "steps": ["erase_device", "verify"], "estimate": "10m"}
//	erase_device      {"done": true, "note": "…"}
//	verify            the same; also firmware_reflash and pci_reset, if identify lists
//	                  them
//
// Exit status 0 alone is not success (F22). Status 75 means that the device is in use.
// identify and verify must not change anything, and identify may be called while another
// verb runs. Every other verb must be safe to call again after any verb was killed.
package script

import (
	"context"
	"fmt"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/host"
	"burnish/internal/pci"
)

// Host is what the driver needs from its host.
type Host struct {
	// Allow returns nil if the host's rules let Burnish destroy this PCI device. Scripts
	// returns the programs that the rules allow (F13).
	Allow   func(pci.Device) error
	Scripts func() (map[string]host.Script, error)
	// Specs gives the device_spec entries in force.
	Specs func() (pci.Specs, error)
}

// Driver works on PCI devices by running the operator's programs.
type Driver struct {
	host   Host
	kernel pcifunction.Kernel
	// See the constants of these names.
	grace, identifyTimeout, busyTimeout, busyPause time.Duration
	supervisor                                     string // the binary that supports Subcommand
}

// New returns the driver.
func New(h Host) *Driver {
	return &Driver{host: h, kernel: pcifunction.TheKernel(), grace: grace, identifyTimeout: identifyTimeout,
		busyTimeout: busyTimeout, busyPause: busyPause, supervisor: "/proc/self/exe"}
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "script" }

// Discover has the program identify the device, and changes nothing; see hardware.Driver.
func (d *Driver) Discover(ctx context.Context, t hardware.Target,
	known device.Identity) (found hardware.Discovery, err error) {
	c, err := d.openDevice(t, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer c.closeAndJoin(&err)
	reply, identity, err := c.identify(ctx, known, nil)
	if err != nil {
		return hardware.Discovery{}, err
	}
	if field := known.Differs(identity); field != "" && known != (device.Identity{}) {
		return hardware.Discovery{}, hardware.Changed(field, c.Address)
	}
	entry, _, err := pcifunction.Match(d.host.Specs, c.Device)
	if err != nil {
		return hardware.Discovery{}, err
	}
	found = hardware.Discovery{
		Identity: identity, Operation: device.Script, SupportedSteps: reply.Steps, LiveMigratable: entry.LiveMigratable(),
		Note: fmt.Sprintf("%s by the script %s: %s", identity.Model, c.script, strings.Join(reply.Steps, ", ")),
	}
	if reply.estimate > 0 {
		found.Estimates = map[device.Operation]time.Duration{device.Script: reply.estimate}
	}
	return found, nil
}

// Open opens the enrolled device and proves that it is the enrolled one and that nothing else
// uses it; see hardware.Driver.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (_ hardware.Handle, err error) {
	c, err := d.openDevice(t, enrolled)
	if err != nil {
		return nil, err
	}
	h := &handle{pciDevice: c, enrolled: enrolled, writable: writable}
	defer func() {
		if err != nil {
			c.closeAndJoin(&err)
		}
	}()
	if err := c.Lock(ctx); err != nil {
		return nil, err
	}
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// scriptOf reads the name of the device's program, and refuses unknown settings.
func scriptOf(t hardware.Target) (string, error) {
	if err := t.KnownSettings("script"); err != nil {
		return "", err
	}
	name := t.Settings["script"]
	if name == "" {
		return "",
			hardware.Invalid("the driver script needs the name of one of allow.scripts in host.yaml (--set script=NAME)")
	}
	return name, nil
}
