package clean_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
)

func TestAPolicysListsChooseByPattern(t *testing.T) {
	s := clean.Subject{Type: "NODE", Vendor: "HPE", Model: "ProLiant DL360/G10",
		Traits: []string{"HW_NVME_CES", "CUSTOM_GOLD"}}
	for name, tt := range map[string]struct {
		match clean.Match
		want  bool
	}{
		"everything":      {clean.Match{}, true},
		"the type":        {clean.Match{Type: "node"}, true},
		"another type":    {clean.Match{Type: "NVME"}, false},
		"a slash":         {clean.Match{Model: "proliant*"}, true},
		"the whole model": {clean.Match{Model: "ProLiant DL360/G10"}, true},
		"another vendor":  {clean.Match{Vendor: "Dell*", Model: "*"}, false},
		"a trait":         {clean.Match{Trait: "CUSTOM_*"}, true},
		"another trait":   {clean.Match{Trait: "CUSTOM_SILVER"}, false},
	} {
		require.Equal(t, tt.want, tt.match.Matches(s), name)
		require.NoError(t, tt.match.Validate())
	}
	require.Error(t, clean.Match{Model: "["}.Validate())

	lists := clean.PolicyLists{
		BIOS: []clean.BIOSPolicy{
			{Settings: map[string]any{"BootMode": "Uefi", "Turbo": true}},
			{Match: clean.Match{Vendor: "HPE"}, Settings: map[string]any{"Turbo": false}},
			{Match: clean.Match{Vendor: "Dell"}, Settings: map[string]any{"BootMode": "Bios"}},
		},
		Firmware: []clean.FirmwarePolicy{
			{Match: clean.Match{Model: "Other"}, FirmwareImage: clean.FirmwareImage{Component: "BIOS", To: "0"}},
			{FirmwareImage: clean.FirmwareImage{Component: "BIOS", To: "1"}},
			{FirmwareImage: clean.FirmwareImage{Component: "BIOS", To: "2"}},
			{FirmwareImage: clean.FirmwareImage{Component: "BMC", To: "3"}},
		},
		Properties: []clean.PropertiesPolicy{{Match: clean.Match{Type: "NODE"}, Profile: device.Properties{CPUs: 2}}, {Profile: device.Properties{CPUs: 1}}},
	}
	require.Equal(t, map[string]any{"BootMode": "Uefi", "Turbo": false}, lists.BIOSOf(s))
	require.Equal(t, []clean.FirmwareImage{{Component: "BIOS", To: "1"}, {Component: "BMC", To: "3"}}, lists.FirmwareOf(s))
	profile, ok := lists.PropertiesOf(s)
	require.True(t, ok)
	require.Equal(t, 2, profile.CPUs)
}

// What the policy has for a device stands in its plan, and a step that it does not ask for is
// not planned.
//
// S3.5
func TestAPlanHasTheArgumentsOfThePolicy(t *testing.T) {
	bios := step("bios", "bios", clean.Restore, 35)
	bios.FromPolicy = func(p clean.Policy, s clean.Subject) (any, bool) {
		settings := p.BIOSOf(s)
		return settings, len(settings) > 0
	}
	all := append(catalog(), bios)
	require.NotContains(t, full(t, all, clean.Policy{}), "bios")

	policy :=
		clean.Policy{PolicyLists: clean.PolicyLists{BIOS: []clean.BIOSPolicy{{Settings: map[string]any{"b": 1, "a": "x"}}}}}
	plan, fault := planner(t, all, policy).Full(subject(all))
	require.Nil(t, fault)
	require.Equal(t, "bios", plan[len(plan)-2].Step.Name)
	require.JSONEq(t, `{"a":"x","b":1}`, string(plan[len(plan)-2].Args))
	require.Nil(t, plan[0].Args)
	require.Empty(t, policy.WithoutLists().BIOS)
}
