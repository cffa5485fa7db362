package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// policyFile writes a policy.
func policyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// plannedAs is a device as a listing has it, with its operation and steps.
func plannedAs(name string, s device.State, o device.Operation, steps ...string) contract.DeviceStatus {
	v := in(name, s)
	v.Operation = o
	for _, step := range steps {
		v.Steps = append(v.Steps, contract.CleanStep{Step: step})
	}
	return v
}

// plannable is five devices: one that can do all, one that cannot do block erase and has
// a tenant, one that can only be written over, one of the driver block, one that does
// not answer.
func plannable() *fakeClient {
	known := steps.All().Versions()
	facts := map[string]contract.DiscoveryResult{
		"all":  {Operation: device.CryptoErase, Capabilities: &device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true}, Layout: device.LayoutWhole, Steps: known},
		"used": {Operation: device.CryptoErase, Capabilities: &device.Capabilities{CryptoErase: true, WriteZeroes: true}, Layout: device.LayoutWhole, Steps: known},
		"old":  {Operation: device.Shred, Capabilities: &device.Capabilities{}, Layout: device.LayoutWhole, Steps: known},
		"disk": {Operation: device.Shred, Steps: map[string]int{"zero": 1, "verify": 1}},
	}
	return &fakeClient{
		onList: func(string) ([]client.Execution, error) {
			return []client.Execution{
				running(plannedAs("used", device.Allocated, device.CryptoErase, "security_check", "wear_check",
					"sanitize", "verify")),
				running(plannedAs("all", device.Available, device.CryptoErase, "security_check", "wear_check",
					"sanitize", "verify")),
				running(plannedAs("old", device.Manageable, device.Shred, "security_check", "wear_check", "zero", "verify")),
				running(plannedAs("disk", device.Available, device.Shred, "zero", "verify")),
				running(plannedAs("mute", device.Available, device.CryptoErase, "security_check", "wear_check",
					"sanitize", "verify")),
			}, nil
		},
		onFacts: func(name string) (contract.DiscoveryResult, error) {
			if f, ok := facts[name]; ok {
				return f, nil
			}
			return contract.DiscoveryResult{}, errors.New("no worker\nanswers")
		},
	}
}

func plannedFleet(t *testing.T, args ...string) map[string]devicePlan {
	t.Helper()
	got := burnish(t, plannable(), "", append([]string{"plan", "--fleet", "-o", "json"}, args...)...)
	require.Equal(t, exitOK, got.code, got.errors)
	var plan fleetPlan
	require.NoError(t, json.Unmarshal([]byte(got.out), &plan))
	all, changed := map[string]devicePlan{}, 0
	for _, d := range plan.Devices {
		all[d.Name] = d
		if d.Changes {
			changed++
		}
	}
	require.Equal(t, []string{"all", "disk", "mute", "old", "used"}, []string{plan.Devices[0].Name, plan.Devices[1].Name,
		plan.Devices[2].Name, plan.Devices[3].Name, plan.Devices[4].Name})
	require.Equal(t, changed, plan.Changed)
	return all
}

// The default policy does not change the operations that it locked in.
func TestFleetByTheDefaultPolicy(t *testing.T) {
	all := plannedFleet(t)
	for name, d := range all {
		require.False(t, d.Changes, name)
		require.Equal(t, name != "mute", d.Satisfied, name)
		require.NotNil(t, d.Steps)
	}
	require.Equal(t, "unknown: no worker answers", all["mute"].Reason)
	require.Equal(t, device.CryptoErase, all["mute"].NewOperation)
}

// Another policy: which devices change, which cannot satisfy it, which stay locked in.
func TestFleetByAnotherPolicy(t *testing.T) {
	all := plannedFleet(t, "--policy", policyFile(t, "nvme: {clear_action: sanitize, clear_strategy: block}\n"))
	require.Equal(t, devicePlan{
		Name: "all", State: device.Available, Operation: device.CryptoErase, NewOperation: device.BlockErase, Changes: true,
		Satisfied: true,
		Steps:     []string{"security_check", "wear_check", "sanitize", "verify"},
		NewSteps:  []string{"security_check", "wear_check", "sanitize", "verify"},
	}, all["all"])
	require.True(t, all["used"].Changes)
	require.False(t, all["used"].Satisfied)
	require.Empty(t, all["used"].NewOperation)
	require.Empty(t, all["used"].NewSteps)
	require.Contains(t, all["used"].Reason, "block erase")
	require.Contains(t, all["old"].Reason, "block erase")
	require.False(t, all["disk"].Changes, "its driver has only one method")
	require.Equal(t, device.Shred, all["disk"].NewOperation)

	all = plannedFleet(t, "--policy", policyFile(t, "nvme: {clear_action: zero}\n"))
	require.Equal(t, device.WriteZeroes, all["used"].NewOperation)
	require.Equal(t, []string{"security_check", "wear_check", "zero", "verify"}, all["used"].NewSteps)
	require.Contains(t, all["used"].Reason, "locked in while allocated")
	require.Empty(t, all["all"].Reason)
	require.False(t, all["old"].Changes)
}

// A device that the policy excludes already does not change while it stays excluded, and
// changes when it is included again. A device that can manage its namespaces is included,
// whatever its layout is.
func TestFleetOfExcludedDevices(t *testing.T) {
	known := steps.All().Versions()
	facts := contract.DiscoveryResult{
		Operation: device.WriteZeroes, Capabilities: &device.Capabilities{WriteZeroes: true, ManageNamespaces: true},
		Layout: device.LayoutWhole, Steps: known,
		Excluded: &device.Fault{Code: device.CodePolicyUnsatisfied, Message: "it cannot"},
	}
	names := []string{"security_check", "wear_check", "consolidate_namespaces", "zero", "verify"}
	v := plannedAs("d1", device.Available, device.WriteZeroes, names...)
	plan := func(facts contract.DiscoveryResult, policy clean.ErasePolicy) devicePlan {
		planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{NVMe: policy})
		require.NoError(t, err)
		return planOf(planner, policy, v, facts, nil)
	}
	in := plan(facts, clean.ErasePolicy{})
	require.True(t, in.Changes)
	require.True(t, in.Satisfied)
	require.Equal(t, names, in.NewSteps)
	require.Contains(t, in.Reason, "it cannot")
	out := plan(facts, clean.ErasePolicy{Action: clean.ActionSanitize})
	require.False(t, out.Changes)
	require.False(t, out.Satisfied)
	facts.Excluded = nil
	require.True(t, plan(facts, clean.ErasePolicy{Action: clean.ActionSanitize}).Changes)
	require.False(t, plan(facts, clean.ErasePolicy{}).Changes)
	facts.Capabilities, facts.Layout = &device.Capabilities{WriteZeroes: true}, device.LayoutNone
	none := plan(facts, clean.ErasePolicy{})
	require.False(t, none.Satisfied)
	require.Contains(t, none.Reason, "no namespace")
}

// The entry of device_spec of each device comes before the policy of the file.
func TestFleetByTheEntriesOfDeviceSpec(t *testing.T) {
	facts := contract.DiscoveryResult{
		Operation: device.BlockErase, Capabilities: &device.Capabilities{CryptoErase: true, BlockErase: true,
			ManageNamespaces: true},
		Layout: device.LayoutWhole, Steps: steps.All().Versions(), ClearStrategy: "block",
	}
	plan := func(policy clean.ErasePolicy) devicePlan {
		planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{NVMe: policy})
		require.NoError(t, err)
		return planOf(planner, policy, plannedAs("d1", device.Available, device.BlockErase), facts, nil)
	}
	require.Equal(t, device.BlockErase, plan(clean.ErasePolicy{Strategy: clean.StrategyCrypto}).NewOperation)
	require.Equal(t, device.Shred, plan(clean.ErasePolicy{Action: clean.ActionZero}).NewOperation)
	facts.ClearStrategy = "crypto"
	bad := plan(clean.ErasePolicy{Action: clean.ActionZero})
	require.False(t, bad.Satisfied)
	require.Contains(t, bad.Reason, "crypto is impossible with clear_action zero")
}

func TestFleetForPeople(t *testing.T) {
	got := burnish(t, plannable(), "", "plan", "--fleet", "--policy", policyFile(t, "nvme: {clear_action: zero}\n"))
	require.Equal(t, exitOK, got.code, got.errors)
	require.Contains(t, got.out, "crypto_erase → write_zeroes")
	require.Contains(t, got.out, "security_check,wear_check,sanitize,verify → security_check,wear_check,zero,verify")
	require.Contains(t, got.out, "2 of 5 devices would change\n")
}

// Scripts rely on the JSON keys.
func TestFleetJSONHasItsKeys(t *testing.T) {
	got := burnish(t, plannable(), "", "plan", "--fleet", "-o", "json")
	var plan struct {
		Devices []map[string]any `json:"devices"`
		Changed *int             `json:"changed"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &plan))
	require.NotNil(t, plan.Changed)
	for _, key := range []string{"name", "state", "operation", "new_operation", "changes", "reason", "satisfied", "steps",
		"new_steps"} {
		require.Contains(t, plan.Devices[0], key)
	}
	none := &fakeClient{onList: func(string) ([]client.Execution, error) { return nil, nil }}
	got = burnish(t, none, "", "plan", "--fleet", "-o", "json")
	require.JSONEq(t, `{"devices":[],"changed":0}`, got.out)
}

// An invalid policy is reported with its line before a server is contacted.
func TestFleetWithAnInvalidPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"nvme: {clear_action: zero, clear_strategy: crypto}\n": "impossible with clear_action zero",
		"priorities: {zeroo: 1}\n":                             `no step "zeroo"`,
		"priorities: {verify: 0}\n":                            "cannot be switched off",
	} {
		got := burnish(t, nil, "", "plan", "--fleet", "--policy", policyFile(t, text))
		require.Equal(t, exitUsage, got.code, text)
		require.Contains(t, got.errors, want)
	}
}
