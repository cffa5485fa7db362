package clean_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

// erasure plans with all steps.
func erasure(t *testing.T, policy clean.ErasePolicy, can device.Capabilities,
	layout device.Layout) (clean.Erasure, *device.Fault) {
	t.Helper()
	return planner(t, steps.All().Planning(), clean.Policy{}).Erasure(policy, clean.Subject{
		Name: "d", Type: "NVME", Capabilities: can, Layout: layout, HostSteps: steps.All().Versions(),
	})
}

// TestStepsOfEachOperation: which steps, in which order, by operation, layout
// and OACS bit 3.
//
// S2.53, D15, S2.57, S2.58, S2.98, F17
func TestStepsOfEachOperation(t *testing.T) {
	const (
		sanitize    = "sanitize"
		consolidate = "consolidate_namespaces"
		zero        = "zero"
		verify      = "verify"
	)
	layouts := []device.Layout{device.LayoutWhole, device.LayoutSplit, device.LayoutNone, device.LayoutUnknown}
	for name, tt := range map[string]struct {
		policy  clean.ErasePolicy
		letters string
		manages bool
		want    [4][]string // as layouts; nil: there is no plan
	}{
		"crypto erase": {clean.ErasePolicy{}, "cbw", false, [4][]string{
			{sanitize, verify}, {sanitize, verify}, nil, {sanitize, verify}}},
		"block erase": {clean.ErasePolicy{Strategy: "block"}, "cbw", false, [4][]string{
			{sanitize, verify}, {sanitize, verify}, nil, {sanitize, verify}}},
		"crypto erase, one is made where none is": {clean.ErasePolicy{}, "c", true, [4][]string{
			{sanitize, verify}, {sanitize, verify}, {sanitize, consolidate, verify}, {sanitize, consolidate, verify}}},
		"block erase, one is made where none is": {clean.ErasePolicy{Action: "sanitize"}, "b", true, [4][]string{
			{sanitize, verify}, {sanitize, verify}, {sanitize, consolidate, verify}, {sanitize, consolidate, verify}}},
		"write zeroes, with OACS bit 3": {clean.ErasePolicy{Action: "zero"}, "cbw", true, [4][]string{
			{zero, verify}, {consolidate, zero, verify}, {consolidate, zero, verify}, {consolidate, zero, verify}}},
		"write zeroes, without": {clean.ErasePolicy{Action: "zero"}, "cbw", false, [4][]string{
			{zero, verify}, {zero, verify}, nil, {zero, verify}}},
		"shred, with OACS bit 3": {clean.ErasePolicy{}, "", true, [4][]string{
			{zero, verify}, {consolidate, zero, verify}, {consolidate, zero, verify}, {consolidate, zero, verify}}},
		"shred, without": {clean.ErasePolicy{}, "", false, [4][]string{
			{zero, verify}, {zero, verify}, nil, {zero, verify}}},
	} {
		for i, layout := range layouts {
			t.Run(name+", layout "+string(layout), func(t *testing.T) {
				capabilities := can(tt.letters)
				capabilities.ManageNamespaces = tt.manages
				made, fault := erasure(t, tt.policy, capabilities, layout)
				if tt.want[i] == nil {
					require.Equal(t, device.CodeNoErasePath, fault.Code, "without a namespace, and unable to make one")
					require.Contains(t, fault.Message, "no namespace")
					require.Empty(t, made)
					return
				}
				require.Nil(t, fault)
				require.Equal(t, tt.want[i], namesOf(made.Steps))
				operation, _ := tt.policy.Resolve(capabilities)
				require.Equal(t, operation, made.Operation)
			})
		}
	}
}

// TestNoPlanWithoutAnOperation, even where every step is known.
//
// S2.94
func TestNoPlanWithoutAnOperation(t *testing.T) {
	made, fault := erasure(t, clean.ErasePolicy{Action: "sanitize"}, can("w"), device.LayoutWhole)
	require.Empty(t, made)
	require.Equal(t, device.CodePolicyUnsatisfied, fault.Code)
	_, fault = erasure(t, clean.ErasePolicy{Action: "zero", Strategy: "crypto"}, can("cbw"), device.LayoutWhole)
	require.Equal(t, device.CodeInvalidSetting, fault.Code)
	p := planner(t, steps.All().Planning(), clean.Policy{})
	_, fault = p.Full(clean.Subject{Name: "d", HostSteps: steps.All().Versions()})
	require.Equal(t, device.CodeNoErasePath, fault.Code)
}

// TestAHostThatKnowsNoSanitize gets no plan with one.
//
// S2.75
func TestAHostThatKnowsNoSanitize(t *testing.T) {
	known := steps.All().Versions()
	delete(known, "sanitize")
	_, fault := planner(t, steps.All().Planning(), clean.Policy{}).
		Erasure(clean.ErasePolicy{}, clean.Subject{Name: "d", Capabilities: can("c"), HostSteps: known})
	require.Equal(t, device.CodeHostWorkerTooOld, fault.Code)
}

// A device that a program of the operator erases has the erase, its verify, and the other
// steps that the program supports; a reset only where the operator gives it a priority, or
// names it.
//
// S0.31
func TestStepsThatADriverSupports(t *testing.T) {
	byScript := func(offers ...string) clean.Subject {
		return clean.Subject{Name: "gpu", Type: "GPU", Operation: device.Script, SupportedSteps: offers,
			HostSteps: steps.All().Versions()}
	}
	plain := planner(t, steps.All().Planning(), clean.Policy{})
	resets := planner(t, steps.All().Planning(), clean.Policy{Priorities: map[string]float64{"pci_reset": 20}})
	flashes := planner(t, steps.All().Planning(),
		clean.Policy{
			PolicyLists: clean.PolicyLists{Firmware: []clean.FirmwarePolicy{{FirmwareImage: clean.FirmwareImage{To: "2"}}}}})
	for name, tt := range map[string]struct {
		planner *clean.Planner
		subject clean.Subject
		want    []string
	}{
		"GPU memory":                         {plain, byScript("erase_device", "verify"), []string{"erase_device", "verify"}},
		"firmware":                           {plain, byScript("erase_device", "verify", "firmware_reflash"), []string{"erase_device", "verify", "firmware_reflash"}},
		"a reset is off":                     {plain, byScript("erase_device", "verify", "pci_reset"), []string{"erase_device", "verify"}},
		"a reset is wanted":                  {resets, byScript("pci_reset", "firmware_reflash", "verify", "erase_device"), []string{"erase_device", "verify", "firmware_reflash", "pci_reset"}},
		"a reset is not offered":             {resets, byScript("erase_device", "verify"), []string{"erase_device", "verify"}},
		"a drive, without a firmware policy": {plain, clean.Subject{Operation: device.Shred, SupportedSteps: []string{"firmware_reflash"}, HostSteps: steps.All().Versions()}, []string{"zero", "verify"}},
		"a drive, with one":                  {flashes, clean.Subject{Operation: device.Shred, SupportedSteps: []string{"firmware_reflash"}, HostSteps: steps.All().Versions()}, []string{"zero", "verify", "firmware_reflash"}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, fault := tt.planner.Full(tt.subject)
			require.Nil(t, fault)
			require.Equal(t, tt.want, namesOf(plan))
		})
	}
	plan, fault := plain.Manual(byScript("pci_reset"), clean.Request{Steps: []string{"pci_reset"}})
	require.Nil(t, fault)
	require.Equal(t, []string{"pci_reset"}, namesOf(plan))
	_, fault = plain.Manual(byScript(), clean.Request{Steps: []string{"pci_reset"}})
	require.Equal(t, device.CodeNoSuchStep, fault.Code)
	unable := byScript("pci_reset")
	unable.Operation = ""
	_, fault = resets.Full(unable)
	require.Equal(t, device.CodeNoErasePath, fault.Code, "nothing is clean because it was reset")
}
