package fake

import (
	"maps"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// defaultSize is the size of a device whose settings name none.
const defaultSize = 64 << 20

// settings are what the operator gave with --set.
type settings struct {
	size                  int64
	serial, vendor, model string
	// delay is the time that one zero pass over the whole device takes at least; a
	// part of a pass takes its share.
	delay     time.Duration
	eraseNone bool
	faults    []injected
}

// parse reads the settings of the device with this name; what it does not know it
// refuses.
func parse(name string, given map[string]string) (settings, error) {
	s := settings{size: defaultSize, serial: serialOf(name), vendor: "Burnish", model: "fake"}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := given[key]
		var err error
		switch key {
		case "size":
			if s.size, err = hardware.ParseSize(value); err != nil {
				return settings{}, invalid("size: %v", err)
			}
		case "delay":
			if s.delay, err = time.ParseDuration(value); err != nil || s.delay < 0 {
				return settings{}, invalid("delay: %q is no time: want one as 200ms or 3s", value)
			}
		case "serial":
			err = parseText(key, value, &s.serial)
		case "vendor":
			err = parseText(key, value, &s.vendor)
		case "model":
			err = parseText(key, value, &s.model)
		case "erase":
			if value != "none" {
				return settings{}, invalid("erase: %q is not known: want none, or leave it out", value)
			}
			s.eraseNone = true
		case "fault":
			s.faults, err = parseScript(value)
		default:
			return settings{}, invalid("the driver fake knows no setting %q, only delay, erase, fault, model, serial, size and vendor", key)
		}
		if err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

// parseText takes a value that names of locks and records are made of.
func parseText(key, value string, into *string) error {
	odd := func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }
	// A space inside is what real models have.
	if value == "" || strings.TrimSpace(value) != value || strings.IndexFunc(strings.ReplaceAll(value, " ", "_"), odd) >= 0 {
		return invalid("%s: %q will not do: want printable ASCII without a slash", key, value)
	}
	*into = value
	return nil
}

// identity is who the device is; where its contents lie does not belong to it, so
// that a state directory may be moved.
func (s settings) identity(size int64, now state) device.Identity {
	serial := s.serial
	if now.Serial != "" {
		serial = now.Serial
	}
	return device.Identity{Serial: serial, Vendor: s.vendor, Model: s.model, Size: size}
}

// note is one line for the operator on how the device behaves.
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

// faultsOf are the faults of one step.
func (s settings) faultsOf(step string) []injected {
	var due []injected
	for _, f := range s.faults {
		if f.step == step {
			due = append(due, f)
		}
	}
	return due
}
