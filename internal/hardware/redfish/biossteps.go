package redfish

import (
	"context"
	"fmt"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// runBIOSReset sets the BIOS back to its defaults. The BMC's word alone is no success: the BIOS
// is read after the server has started, where the BMC shows it.
func (h *handle) runBIOSReset(ctx context.Context, run hardware.StepRun) (string, error) {
	compared := 0
	b := &biosStep{h: h, run: run, next: (*biosState).nextOfReset,
		check: func(s *biosState) (differ []string, comparable bool) {
			compared, differ = notDefault(s.bios.Attributes, s.registry)
			for _, name := range s.pending().names() {
				differ = append(differ, name+" is still pending")
			}
			return differ, compared > 0
		}}
	if err := b.do(ctx); err != nil {
		return "", err
	}
	switch {
	case b.state.bios.Attributes == nil:
		return "asked for the defaults and restarted the server; its BMC shows no BIOS attributes, so there is nothing to " +
			"verify", nil
	case b.state.registry == nil:
		return "asked for the defaults and restarted the server; its BMC has no attribute registry, so there is nothing " +
			"to verify", nil
	case compared == 0:
		return "asked for the defaults and restarted the server; no attribute has a default, so there is nothing to verify",
			nil
	}
	return fmt.Sprintf("the BIOS has its defaults: %d of %d attributes compared; the others are read-only, the "+
		"server's own or without a default",
		compared, len(b.state.bios.Attributes)), nil
}

// runBIOSApply sets the attributes that the step's arguments name.
func (h *handle) runBIOSApply(ctx context.Context, run hardware.StepRun) (string, error) {
	var wanted attributes
	args, err := parse(run.Args)
	given, ok := plainNumbers(args).(map[string]any)
	if err != nil || !ok || len(given) == 0 {
		return "", hardware.Refused(device.CodeBIOSSettingInvalid,
			"name the attributes in the policy, or with --arg ATTRIBUTE=VALUE", "bios_apply has no attributes to set")
	}
	b := &biosStep{h: h, run: run}
	b.next = func(s *biosState, refused map[string]bool) (m move, err error) {
		if wanted, err = s.fit(given); err != nil {
			return move{}, err
		}
		return s.nextOfApply(wanted, refused)
	}
	b.check = func(s *biosState) ([]string, bool) {
		fitting, err := s.fit(given)
		if err != nil {
			return []string{err.Error()}, true
		}
		wanted = fitting
		return notInForce(s.bios.Attributes, wanted), true
	}
	if err := b.do(ctx); err != nil {
		return "", err
	}
	if b.already {
		return fmt.Sprintf("not restarted: nothing is pending, and attributes that have their values already: %d",
			len(wanted)), nil
	}
	return fmt.Sprintf("attributes set, and read after the restart: %d", len(wanted)), nil
}

// fit fits the attributes to this BIOS; see fit.
func (s *biosState) fit(given attributes) (attributes, error) {
	if s.bios.Attributes == nil {
		return nil, hardware.Refused(device.CodeBIOSSettingInvalid, "take the BIOS settings of this model out of the policy",
			"the BMC shows no BIOS attributes: none can be set")
	}
	return fit(given, s.bios.Attributes, s.registry)
}
