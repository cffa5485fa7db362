package inventory

import (
	"context"
	"slices"

	"burnish/internal/device"
)

// HardwareRecord is a provider that records some hardware, and what it says of who has it.
type HardwareRecord struct {
	Provider
	device.Inventory
}

// WithHardware is the hardware that a provider records after a Create of p, where it recorded
// have.
func WithHardware(have []string, p Provider) []string {
	if p.Hardware == "" {
		return have
	}
	rest := slices.DeleteFunc(slices.Clone(have), func(h string) bool { return h == p.FormerHardware })
	if slices.Contains(rest, p.Hardware) {
		return rest
	}
	return append(rest, p.Hardware)
}

// HardwareRecords reads the records of this hardware under every name but those of the given
// providers (F35). One that cannot be read is an error: an instance may have the hardware.
func HardwareRecords(ctx context.Context, s Store, hardware string, except ...string) ([]HardwareRecord, error) {
	providers, err := s.OfHardware(ctx, hardware)
	if err != nil {
		return nil, err
	}
	var records []HardwareRecord
	for _, p := range providers {
		if slices.Contains(except, p.UUID) {
			continue
		}
		v, err := Read(ctx, s, p.UUID)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProvider {
			continue // deleted since it was listed
		}
		if err != nil {
			return nil, err
		}
		records = append(records, HardwareRecord{p, v})
	}
	return records, nil
}
