package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A plan of a device shows its steps with the time that each took last, the device's own
// estimate, or neither; and it sends nothing.
func TestPlanOfADevice(t *testing.T) {
	var asked contract.CleanInput
	v := in("d1", device.Available)
	v.Cleans = []contract.CleanSummary{
		{Number: 3, Operation: "write_zeroes", Steps: []contract.StepResult{{Step: "zero", RunTime: time.Hour}, {Step: "verify", RunTime: 40 * time.Second}}},
		{Number: 4, Operation: "crypto_erase", Steps: []contract.StepResult{{Step: "sanitize", RunTime: 0}, {Step: "verify", RunTime: 50 * time.Second}}},
		{Number: 5, Operation: "crypto_erase", Steps: []contract.StepResult{{Step: "pci_reset", RunTime: 2 * time.Second}}},
	}
	plan := contract.CleanPlan{Operation: "crypto_erase", Steps: []contract.Planned{
		{Step: "security_check", Interface: "management", Phase: "prepare", Priority: 100},
		{Step: "sanitize", Interface: "deploy", Phase: "erase", Priority: 90, Timeout: time.Hour},
		{Step: "zero", Interface: "deploy", Phase: "erase", Priority: 70},
		{Step: "verify", Interface: "deploy", Phase: "verify", Priority: 60, Args: json.RawMessage(`{"samples": 3}`)},
		{Step: "pci_reset", Interface: "power", Phase: "restore"},
	}}
	l := &fakeClient{
		shown:      &v,
		onValidate: func(_ string, in contract.CleanInput) (contract.CleanPlan, error) { asked = in; return plan, nil },
		onFacts: func(string) (contract.DiscoveryResult, error) {
			return contract.DiscoveryResult{Estimates: map[device.Operation]time.Duration{"crypto_erase": 90 * time.Second}}, nil
		},
	}
	got := burnish(t, l, "", "plan", "d1")
	require.Equal(t, ran{exitOK, `method crypto_erase
STEP            PRIORITY  INTERFACE   ESTIMATE  BY          BUDGET  ARGUMENTS
security_check  100       management  -         -           -       -
sanitize        90        deploy      1m30s     the device  1h0m0s  -
zero            70        deploy      -         -           -       -
verify          60        deploy      50s       clean 4     -       {"samples":3}
pci_reset       0         power       2s        clean 5     -       -
estimated run time 2m22s, and that of 2 of 5 steps, which is not known
`, ""}, got)
	require.Empty(t, l.sent)

	got = burnish(t, l, "", "plan", "d1", "--runbook", "r", "-o", "json")
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, contract.CleanInput{Runbook: "r"}, asked)
	var body struct {
		Operation string
		Estimate  time.Duration
		Unknown   int
		Steps     []struct {
			Step, Basis string
			Estimate    time.Duration
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &body))
	require.Equal(t, "crypto_erase", body.Operation)
	require.Len(t, body.Steps, 5)
	require.Equal(t, 50*time.Second, body.Steps[3].Estimate)
	require.Equal(t, 2, body.Unknown)

	plan = contract.CleanPlan{Steps: []contract.Planned{}, Fault: &device.Fault{Class: device.Permanent,
		Code: "no_erase_path", Message: "nothing erases it", Remedy: "allow zero"}}
	got = burnish(t, l, "", "plan", "d1")
	require.Equal(t, ran{exitFailed, "", "burnish: plan d1: no clean is possible: nothing erases it; allow zero\n"}, got)
}
