package fake

import (
	"maps"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// defaultSize applies where the settings give no size.
const defaultSize = 64 << 20

// settings are the values that the operator gave with --set.
type settings struct {
	size                  int64
	serial, vendor, model string
	// mac is that of a NIC. liveMigratable is a mark, as device_spec gives it to real devices.
	mac            string
	liveMigratable bool
	// delay is the minimum duration of a zero pass over the whole device. Part of a pass
	// takes its share of it.
	delay     time.Duration
	eraseNone bool
	// power is the power state of a new device; "" is a device without power control.
	power  string
	faults []injected
}

// parse reads the settings of the device with this name, and refuses unknown ones.
func parse(name string, given map[string]string) (settings, error) {
	s := settings{size: defaultSize, serial: serialOf(name), vendor: "Burnish", model: "fake"}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := given[key]
		var err error
		switch key {
		case "size":
			if s.size, err = hardware.ParseSize(value); err != nil {
				return settings{}, hardware.Invalid("size: %v", err)
			}
		case "delay":
			if s.delay, err = time.ParseDuration(value); err != nil || s.delay < 0 {
				return settings{}, hardware.Invalid("delay: %q is not a valid duration: want one such as 200ms or 3s", value)
			}
		case "serial":
			err = parseText(key, value, &s.serial)
		case "vendor":
			err = parseText(key, value, &s.vendor)
		case "model":
			err = parseText(key, value, &s.model)
		case "mac":
			if s.mac, err = device.CanonicalMAC(value); err != nil {
				return settings{}, hardware.Invalid("mac: %v", err)
			}
		case "live_migratable":
			if value != "yes" && value != "no" {
				return settings{}, hardware.Invalid("live_migratable: %q is not allowed: must be yes or no", value)
			}
			s.liveMigratable = value == "yes"
		case "erase":
			if value != "none" {
				return settings{}, hardware.Invalid("erase: %q is not allowed: must be none, or left out", value)
			}
			s.eraseNone = true
		case "power":
			if value != hardware.PowerOn && value != hardware.PowerOff {
				return settings{}, hardware.Invalid("power: %q is not allowed: must be on, off, or left out", value)
			}
			s.power = value
		case "fault":
			s.faults, err = parseScript(value)
		}
		if err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

// parseText reads a value that becomes part of the names of locks and records.
func parseText(key, value string, into *string) error {
	odd := func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }
	// Real models contain spaces.
	if value == "" || strings.TrimSpace(value) != value ||
		strings.IndexFunc(strings.ReplaceAll(value, " ", "_"), odd) >= 0 {
		return hardware.Invalid("%s: %q is not allowed: want printable ASCII without a slash", key, value)
	}
	*into = value
	return nil
}

// identity is the device's identity. The path of its contents is not part of it, so that a
// state directory can be moved.
func (s settings) identity(size int64, now state) device.Identity {
	serial := s.serial
	if now.Serial != "" {
		serial = now.Serial
	}
	return device.Identity{Serial: serial, Vendor: s.vendor, Model: s.model, MAC: s.mac, Size: size}
}

// note is one line for the operator about the device's behavior.
func (s settings) note() string {
	var b strings.Builder
	b.WriteString("simulated")
	if s.delay > 0 {
		b.WriteString("; a full pass takes " + s.delay.String())
	}
	for i, f := range s.faults {
		if i == 0 {
			b.WriteString("; faults:")
		}
		b.WriteString(" " + f.String())
	}
	return b.String()
}

// faultsOf gives the faults of one step.
func (s settings) faultsOf(step string) []injected {
	var due []injected
	for _, f := range s.faults {
		if f.step == step {
			due = append(due, f)
		}
	}
	return due
}
