// Package script has devices erased, verified, reset and flashed by programs of the
// operator: what only a vendor's own tool can do to a GPU's memory, a NIC or an
// accelerator (S0.31). The host says which programs there are, and what each must be,
// byte by byte (allow.scripts of host.yaml, F13); a device names one of them with
// --set script=NAME.
//
// A program is called with a verb and the device's PCI address, and answers with one
// JSON object in the last line that it prints:
//
//	identify          {"serial": "…", "model": "…", "firmware": "…", "size": BYTES,
//	                   "steps": ["erase_device", "verify"], "estimate": "10m"}
//	erase_device      {"done": true, "note": "…"}
//	verify            likewise; so firmware_reflash and pci_reset, where identify offers
//	                  them
//
// Exit status 0 alone is no success (F22). Status 75 says that somebody still uses
// the device. identify and verify change nothing, and identify may be called while
// another verb is at work. Every other verb may be called again after any of them was
// killed half-way.
package script

import (
	"context"
	"fmt"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/pci"
)

// Host is what the driver needs of its host.
type Host struct {
	// Allow returns nil if the host's rules let Burnish destroy what is at this PCI
	// address, Scripts gives the programs that they allow now (F13); without them
	// nothing is allowed.
	Allow   func(pci.Device) error
	Scripts func() (map[string]host.Script, error)
	// Sys and Dev are where the kernel shows devices and nodes; empty is this machine's.
	Sys, Dev string
}

// Driver has programs of the operator work on PCI devices.
type Driver struct {
	host      Host
	openGroup func(path string) (int, error)
	// See the constants of these names; patience and pause are busyPatience and busyPause.
	grace, identifyTimeout, busyTimeout, busyPause time.Duration
	supervisor                                     string // the binary that is one with Subcommand
}

// New returns the driver.
func New(h Host) *Driver {
	if h.Sys == "" {
		h.Sys = "/sys"
	}
	if h.Dev == "" {
		h.Dev = "/dev"
	}
	return &Driver{host: h, openGroup: hardware.OpenVFIO, grace: grace, identifyTimeout: identifyTimeout, busyTimeout: busyTimeout, busyPause: busyPause, supervisor: "/proc/self/exe"}
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "script" }

// Discover has the device's program identify it, and changes nothing; see
// hardware.Driver.
func (d *Driver) Discover(ctx context.Context, t hardware.Target, known device.Identity) (found hardware.Discovery, err error) {
	c, err := d.openDevice(t, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer c.closeAndJoin(&err)
	says, who, err := c.identify(ctx, known, nil)
	if err != nil {
		return hardware.Discovery{}, err
	}
	if field := known.Differs(who); field != "" && known != (device.Identity{}) {
		return hardware.Discovery{}, hardware.Changed(field, c.pci.Address)
	}
	found = hardware.Discovery{
		Identity: who, Operation: device.Script, SupportedSteps: says.Steps,
		Note: fmt.Sprintf("%s by the script %s: %s", who.Model, c.script, strings.Join(says.Steps, ", ")),
	}
	if says.estimate > 0 {
		found.Estimates = map[device.Operation]time.Duration{device.Script: says.estimate}
	}
	return found, nil
}

// Open holds the enrolled device and proves that it is the enrolled one and nobody
// else's; see hardware.Driver.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity, writable bool) (_ hardware.Handle, err error) {
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
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// scriptOf gives the name of the device's program and refuses what this driver does not
// know: a misspelt setting must not pass for a wish that was heard.
func scriptOf(t hardware.Target) (string, error) {
	if err := t.KnownSettings("script"); err != nil {
		return "", err
	}
	name := t.Settings["script"]
	if name == "" {
		return "", hardware.Invalid("the driver script needs the name of one of allow.scripts in host.yaml (--set script=NAME)")
	}
	return name, nil
}
