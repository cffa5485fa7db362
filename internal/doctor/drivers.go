package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
	"burnish/internal/host"
)

// driverTimeout bounds what one driver is asked.
const driverTimeout = time.Minute

// drivers asks each driver what a worker's start would, and counts what it finds.
func (m machine) drivers(rules *host.Rules) {
	const check = "drivers"
	drivers, err := m.system.drivers(m.settings.Drivers, drivers.Host{
		StateDir: m.settings.StateDir, Paths: rules, PCI: rules.AllowPCI, Specs: rules.PCISpecs, Fake: rules.AllowFake, Scripts: rules.Scripts, NVMeHelper: m.settings.NVMeHelper,
	})
	if err != nil {
		m.Fail(check, "correct BURNISH_DRIVERS", "%v", err)
		return
	}
	m.OK(check, "%s", strings.Join(m.settings.Drivers, ", "))
	finds := false
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if d, ok := drivers[name].(hardware.Initializer); ok {
			m.initialize(name, d)
		}
		if d, ok := drivers[name].(hardware.ProgramUser); ok {
			m.programs(name, d)
		}
		if d, ok := drivers[name].(hardware.Finder); ok {
			m.find(name, d)
			finds = true
		}
	}
	if finds {
		m.checkActivation()
	}
}

// initialise asks for what keeps the worker from starting.
func (m machine) initialize(name string, d hardware.Initializer) {
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	err := d.Init(ctx)
	switch f, ok := device.AsFault(err); {
	case err == nil:
		m.OK(name, "the driver finds what it needs on this host")
	case ok:
		m.Fail(name, f.Remedy, "%s", f.Message)
	default:
		m.Fail(name, "until then the worker does not start", "%v", err)
	}
}

// programs says whether each program of the operator is what host.yaml says.
func (m machine) programs(name string, d hardware.ProgramUser) {
	all, err := d.Programs()
	if err != nil {
		m.Fail(name, "correct it; no restart is needed", "%v", err)
		return
	}
	if len(all) == 0 {
		m.Warn(name, "see docs/script.md", "host.yaml allows no script, and this driver does nothing without one")
	}
	for _, program := range slices.Sorted(maps.Keys(all)) {
		err := all[program]
		switch f, ok := device.AsFault(err); {
		case err == nil:
			m.OK(name, "%s is what host.yaml says", program)
		case ok:
			m.Fail(name, f.Remedy, "%s", f.Message)
		default:
			m.Fail(name, "no device of it can be cleaned until then", "%s: %v", program, err)
		}
	}
}

// find counts the devices that a driver finds by itself.
func (m machine) find(name string, d hardware.Finder) {
	if m.uid != 0 && m.settings.NVMeHelper == "" {
		m.Fail(name, "run burnish-worker as root on this host, or set BURNISH_NVME_HELPER", "uid %d may not send commands to drives", m.uid)
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	found, err := d.Find(ctx)
	switch {
	case err != nil:
		m.Fail(name, "correct device_spec in host.yaml, or see what the device says of itself in /sys/bus/pci/devices", "%v", err)
	case len(found) == 0:
		m.Warn(name, "see lspci -nn, and vendor_id, product_id and address in host.yaml", "no device matches device_spec")
	default:
		var at []string
		for _, one := range found[:min(len(found), 8)] {
			at = append(at, one.Address)
		}
		if len(found) > len(at) {
			at = append(at, "…")
		}
		m.OK(name, "found by device_spec: %d (%s)", len(found), strings.Join(at, ", "))
	}
	if rule := findActivationGuard(m.system.root).rule; rule != "" {
		var missed []string
		for _, one := range found {
			missed = append(missed, disksWithoutRule(m.system.root, one.Address)...)
		}
		if len(missed) > 0 {
			m.Warn("udev", "let a line of it match them, then: udevadm control --reload; udevadm trigger --subsystem-match=block",
				"the rule of %s was not applied to %s", rule, strings.Join(missed, ", "))
		}
	}
}

// guarded says what keeps this host from activating what a guest left on a drive.
func (m machine) checkActivation() {
	g := findActivationGuard(m.system.root)
	switch {
	case g.rule != "":
		m.OK("udev", "%s keeps this host from activating what a guest left on a drive", g.rule)
	case g.missing() != "":
		m.Warn("udev", activationRemedy, "%s", g.missing())
	default:
		m.OK("udev", "neither LVM nor md would activate what a guest left on a drive")
	}
}
