package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
	"burnish/internal/host"
)

// driverTimeout limits the calls to one driver.
const driverTimeout = time.Minute

// drivers runs each driver's checks of a worker's start, and lists its devices.
func (m machine) drivers(rules *host.Rules) {
	const check = "drivers"
	drivers, err := m.system.drivers(m.settings.Drivers, drivers.Host{
		StateDir: m.settings.StateDir, Rules: rules, NVMeHelper: m.settings.NVMeHelper, Policy: m.settings.Policy,
	})
	if err != nil {
		m.Fail(check, "correct BURNISH_DRIVERS", "%v", err)
		return
	}
	m.OK(check, "%s", strings.Join(m.settings.Drivers, ", "))
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if d, ok := drivers[name].(hardware.Initializer); ok {
			m.initialize(name, d)
		}
		if d, ok := drivers[name].(hardware.ProgramUser); ok {
			m.programs(name, d)
		}
		if d, ok := drivers[name].(hardware.Finder); ok {
			m.find(name, d)
		}
	}
	if drivers["nvme"] != nil {
		m.checkActivation()
	}
	if drivers["block"] != nil || drivers["nvme"] != nil || drivers["pci"] != nil || drivers["script"] != nil {
		m.users()
	}
	if drivers["redfish"] != nil {
		m.secrets(rules)
	}
}

// users reports whether the worker can see every process of the machine that may have a device
// (F40).
func (m machine) users() {
	const check = "processes"
	unseen, err := hardware.Unseen(filepath.Join(m.system.root, "proc"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // no procfs: the kernel's check fails
	case err != nil:
		m.Warn(check, "let the worker read /proc", "cannot look for other users of a device: %v", err)
	case unseen != "":
		m.Warn(check, "run it as root in the machine's own process namespace (hostPID in Kubernetes, the host's pid mode "+
			"in Docker)",
			"the worker does not see all processes that may have a device: not %s", unseen)
	default:
		m.OK(check, "the worker sees every process of this machine")
	}
}

// secrets reads the secrets file as the driver redfish would, and names the secrets in it.
func (m machine) secrets(rules *host.Rules) {
	const check = "redfish"
	secrets, err := rules.Secrets()
	names := slices.Sorted(maps.Keys(secrets))
	forAnybody := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !secrets[name].ForAnybody() })
	switch {
	case err != nil:
		m.fault(check, "correct it; no restart is needed", err)
	case len(names) == 0:
		m.Warn(check, "see docs/redfish.md", "host.yaml names no secrets file with a secret, and this driver needs one")
	case len(forAnybody) > 0:
		m.Warn(check, "name their BMCs in hosts", "the secrets file has %s; %s have neither hosts nor a ca that is checked: "+
			"any address that an enrollment names gets them", strings.Join(names, ", "), strings.Join(forAnybody, ", "))
	default:
		m.OK(check, "the secrets file has %s", strings.Join(names, ", "))
	}
}

// initialize runs the check that a worker's start would run.
func (m machine) initialize(name string, d hardware.Initializer) {
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	if err := d.Init(ctx); err != nil {
		m.fault(name, "correct it; the worker does not start before", err)
		return
	}
	m.OK(name, "the driver can start on this host")
	user, ok := d.(hardware.ToolUser)
	if !ok {
		return
	}
	switch untried, err := user.UntriedTool(ctx); {
	case err != nil:
		m.Fail(name, "correct it", "%v", err)
	case untried != "":
		m.Warn(name, "try it: enroll and clean one device before the others", "never tested with %s", untried)
	}
}

// programs compares each of the operator's programs with host.yaml.
func (m machine) programs(name string, d hardware.ProgramUser) {
	all, err := d.Programs()
	if err != nil {
		m.Fail(name, "correct it; no restart is needed", "%v", err)
		return
	}
	if len(all) == 0 {
		m.Warn(name, "see docs/script.md", "host.yaml allows no script, and this driver needs one")
	}
	for _, program := range slices.Sorted(maps.Keys(all)) {
		if err := all[program]; err != nil {
			m.fault(name, "correct it; no device that uses it can be cleaned before", fmt.Errorf("%s: %w", program, err))
		} else {
			m.OK(name, "%s matches host.yaml", program)
		}
	}
}

// find lists the devices that a driver finds by itself.
func (m machine) find(name string, d hardware.Finder) {
	switch {
	case m.uid == 0:
	case name != "nvme":
		m.Fail(name, "run burnish-worker as root on this host", "uid %d cannot read and change devices", m.uid)
	case m.settings.NVMeHelper == "":
		m.Fail(name, "run burnish-worker as root on this host, or set BURNISH_NVME_HELPER",
			"uid %d cannot send commands to drives", m.uid)
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	found, err := d.Find(ctx)
	switch {
	case err != nil:
		m.Fail(name, "correct device_spec in host.yaml, or compare it with /sys/bus/pci/devices", "%v", err)
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
		m.OK(name, "device_spec matches %d devices (%s)", len(found), strings.Join(at, ", "))
	}
	for _, one := range found {
		known := func(entry device.Model) bool { return entry.ID == one.Model }
		if name == "pci" && !slices.ContainsFunc(m.settings.Policy.Models, known) {
			m.Warn(name, "see docs/pci.md", "models of the policy has no entry for %s at %s: it cannot be enrolled", one.Model,
				one.Address)
		}
	}
	if rule := findActivationGuard(m.system.root).rule; rule != "" {
		var missed []string
		for _, one := range found {
			missed = append(missed, disksWithoutRule(m.system.root, one.Address)...)
		}
		if len(missed) > 0 {
			m.Warn("udev", "add a line that matches them, then run: udevadm control --reload; udevadm trigger "+
				"--subsystem-match=block",
				"the rule of %s was not applied to %s", rule, strings.Join(missed, ", "))
		}
	}
}

// checkActivation reports whether this host could activate volumes that a guest left on
// a drive.
func (m machine) checkActivation() {
	g := findActivationGuard(m.system.root)
	switch {
	case g.rule != "":
		m.OK("udev", "%s prevents the host from activating volumes that a guest left on a drive", g.rule)
	case g.missing() != "":
		m.Warn("udev", activationRemedy, "%s", g.missing())
	default:
		m.OK("udev", "neither LVM nor md would activate volumes that a guest left on a drive")
	}
}
