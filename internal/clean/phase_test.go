package clean_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

// The full plan of a drive with a firmware policy. An operator may have the firmware written
// before the erase, so that the erase is done by the new one; all else keeps its place.
//
// D13
func TestFirmwareMayBeWrittenBeforeTheErase(t *testing.T) {
	policy := clean.Policy{PolicyLists: clean.PolicyLists{Firmware: []clean.FirmwarePolicy{
		{Match: clean.Match{Model: "M*"}, FirmwareImage: clean.FirmwareImage{From: []string{"1"}, To: "2"}},
	}}}
	drive := clean.Subject{Name: "d", NVMe: true, Model: "M1", Operation: device.CryptoErase, Size: 1 << 30,
		Layout:         device.LayoutWhole,
		Capabilities:   device.Capabilities{CryptoErase: true, ManageNamespaces: true},
		SupportedSteps: []string{"firmware_reflash", "verify_firmware"}, HostSteps: steps.All().Versions()}
	list := func(policy clean.Policy) (names []string) {
		planner, err := clean.NewPlanner(steps.All().Planning(), policy)
		require.NoError(t, err)
		plan, fault := planner.Full(drive)
		require.Nil(t, fault)
		for _, p := range plan {
			names = append(names, p.Step.Name)
			if p.Step.Name == "firmware_reflash" {
				require.Equal(t, policy.Phases[p.Step.Name] == clean.Prepare, p.Step.Phase == clean.Prepare)
				require.JSONEq(t, `{"components":[{"from":["1"],"to":"2","image":"","sha256":""}]}`, string(p.Args))
			}
		}
		return names
	}
	require.Equal(t, []string{"security_check", "wear_check", "sanitize", "verify", "firmware_reflash", "verify_firmware"},
		list(policy))
	policy.Phases = map[string]clean.Phase{"firmware_reflash": clean.Prepare}
	require.Equal(t, []string{"security_check", "wear_check", "firmware_reflash", "sanitize", "verify", "verify_firmware"},
		list(policy))
	require.Equal(t, clean.Restore, steps.FirmwareReflash().Phase, "only this planner's")

	drive.Model = "N1"
	require.False(t, slices.ContainsFunc(list(policy), func(name string) bool {
		return name == "firmware_reflash" ||
			name == "verify_firmware"
	}))
}

func TestOnlyFirmwareCanBeMovedAndOnlyToPrepare(t *testing.T) {
	for says, phases := range map[string]map[string]clean.Phase{
		"zero cannot be moved; only firmware_reflash can":                 {"zero": clean.Prepare},
		"verify cannot be moved":                                          {"verify": clean.Restore},
		"polish cannot be moved":                                          {"polish": clean.Prepare},
		"verify_firmware cannot be moved":                                 {"verify_firmware": clean.Prepare},
		`firmware_reflash: "erase" is not prepare`:                        {"firmware_reflash": clean.Erase},
		`firmware_reflash: "restore" is not prepare, the only phase that`: {"firmware_reflash": clean.Restore},
	} {
		_, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{Phases: phases})
		require.ErrorContains(t, err, "policy: phases: ")
		require.ErrorContains(t, err, says)
	}
}
