package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// The flags of clean make its input; values have the types that JSON has.
//
// S2.82
func TestTheInputOfACleanWithArguments(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want contract.CleanInput
	}{
		"one step": {[]string{"--steps", "bios_apply", "--arg", "BootMode=Uefi", "--arg", "Watts=250", "--arg", "Turbo=false", "--arg", "Ratio=0.5", "--arg", "Tag=a=b", "--arg", `Ten="10"`, "--arg", "Old=007", "--arg", "Empty="},
			contract.CleanInput{Steps: []string{"bios_apply"}, Args: map[string]json.RawMessage{
				"bios_apply": json.RawMessage(`{"BootMode":"Uefi","Empty":"","Old":"007","Ratio":0.5,"Tag":"a=b","Ten":"10","Turbo":false,"Watts":250}`)}}},
		"objects and lists": {[]string{"--steps", "a", "--arg", `o={"x":[1]}`, "--arg", "l=[true]", "--arg", "n=null", "--arg", "two=1 2", "--arg", "big=9007199254740993"},
			contract.CleanInput{Steps: []string{"a"}, Args: map[string]json.RawMessage{"a": json.RawMessage(`{"big":9007199254740993,"l":[true],"n":"null","o":{"x":[1]},"two":"1 2"}`)}}},
		"several steps": {[]string{"--steps", "a,b", "--arg", "a.k=1", "--arg", "b.k.l=2", "--arg", "b.k=3"},
			contract.CleanInput{Steps: []string{"a", "b"}, Args: map[string]json.RawMessage{"a": json.RawMessage(`{"k":1}`), "b": json.RawMessage(`{"k":3,"k.l":2}`)}}},
		"a dot in the key of one step": {[]string{"--steps", "a", "--arg", "x.y=1", "--arg", "a.z=2"},
			contract.CleanInput{Steps: []string{"a"}, Args: map[string]json.RawMessage{"a": json.RawMessage(`{"x.y":1,"z":2}`)}}},
		"a runbook": {[]string{"--runbook", " gold ", "--reason", "why"}, contract.CleanInput{Runbook: "gold", Reason: "why"}},
		"neither":   {nil, contract.CleanInput{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got contract.CleanInput
			l := &fakeClient{onUpdate: func(_ context.Context, _, update string, input any) (contract.Result, error) {
				require.Equal(t, contract.VerbClean.Update(), update)
				got = input.(contract.CleanInput)
				return contract.Result{Device: in("d1", device.Manageable)}, nil
			}}
			r := burnish(t, l, "", append([]string{"clean", "d1"}, tt.args...)...)
			require.Zero(t, r.code, r.errors)
			tt.want.Caller = operator()
			require.Equal(t, tt.want, got)
		})
	}
}

// validate prints the plan, or why there is none.
func TestValidateACleanByCommand(t *testing.T) {
	var asked contract.CleanInput
	plan := contract.CleanPlan{Operation: "secure_erase", Runbook: "gold", RunbookDigest: "0123456789abcdef",
		PolicyDigest: "p", Steps: []contract.Planned{
			{Step: "erase_drives", Interface: "management", Phase: "erase", Priority: 75, Timeout: time.Hour},
			{Step: "hold", Interface: "workflow", Args: json.RawMessage(`{"reason":"look"}`)},
		}}
	l := &fakeClient{
		onDescribe: func(name string) (client.Execution, error) { return running(in(name, device.Available)), nil },
		onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
			v := in(name, device.Available)
			v.Hostname, v.Driver = "h1", "fake"
			return v, nil
		},
		onValidate: func(_ string, input contract.CleanInput) (contract.CleanPlan, error) { asked = input; return plan, nil },
		onFacts: func(string) (contract.DiscoveryResult, error) {
			return contract.DiscoveryResult{Identity: device.Identity{Serial: "S"}, Power: true}, nil
		},
		lastPoll: clock,
	}
	r := burnish(t, l, "", "validate", "d1", "--runbook", "gold")
	require.Zero(t, r.code, r.errors)
	require.Equal(t, "gold", asked.Runbook)
	require.Equal(t, `method secure_erase
runbook gold (0123456789abcdef)
STEP          PRIORITY  INTERFACE   ESTIMATE  BY  BUDGET  ARGUMENTS
erase_drives  75        management  -         -   1h0m0s  -
hold          0         workflow    -         -   -       {"reason":"look"}
the run time is not known: the device was not cleaned this way yet

INTERFACE   RESULT  REASON
bios        -       no step of this clean
deploy      -       no step of this clean
firmware    -       no step of this clean
management  ok      host h1 polls, driver fake; erase_drives
power       ok      power control
vendor      -       no step of this clean
`, r.out)
	r = burnish(t, l, "", "validate", "d1", "--steps", "bios_apply", "--arg", "A=1", "-o", "json")
	require.Zero(t, r.code, r.errors)
	require.JSONEq(t, `{"A":1}`, string(asked.Args["bios_apply"]))
	var got contract.CleanPlan
	require.NoError(t, json.Unmarshal([]byte(r.out), &got))
	require.Equal(t, plan.Runbook, got.Runbook)

	plan = contract.CleanPlan{Fault: &device.Fault{Class: device.Permanent, Code: device.CodeNoSuchRunbook,
		Message: `there is no runbook "x"`, Remedy: "name one of gold"}}
	r = burnish(t, l, "", "validate", "d1", "--runbook", "x")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `(?m)^deploy +failed +there is no runbook "x"; name one of gold$`, r.out)
	require.NotContains(t, r.out, "STEP")
	require.Equal(t, "burnish: validate d1: there is no runbook \"x\"; name one of gold\n", r.errors)
	require.Empty(t, l.sent, "nothing was written")
}

// show and history name the runbook, of the running clean and of each ended one.
func TestTheRunbookIsShown(t *testing.T) {
	v := in("d1", device.Cleaning)
	v.Runbook, v.CleanStep = "gold", &contract.CleanStep{Step: "hold", Interface: "workflow"}
	v.Waiting = &contract.StatusWait{For: "hold", Code: device.CodeOnHold, Message: "on hold: look at it",
		Since: clock.Add(-time.Hour)}
	v.NeedsOperator, v.Fault, v.LastError, v.Remedy = true, string(device.CodeOnHold), "on hold: look at it",
		"release-hold d1"
	v.Cleans = []contract.CleanSummary{{Number: 1, Outcome: "steps_done", Runbook: "old", RunbookDigest: "abc",
		StartedAt: clock, EndedAt: clock}}
	l := &fakeClient{
		shown:  &v,
		onList: func(string) ([]client.Execution, error) { return []client.Execution{running(v)}, nil },
	}
	show := burnish(t, l, "", "show", "d1").out
	for _, text := range []string{"runbook", "gold", "hold, for 1h", "on hold: look at it", "release-hold d1",
		"runbook old"} {
		require.Contains(t, show, text)
	}
	require.Contains(t, burnish(t, l, "", "history", "d1").out, "by the runbook old (abc)")
	list := burnish(t, l, "", "list").out
	require.Contains(t, list, "on_hold")
	require.Contains(t, list, "hold")
}

// The plan of a fleet follows runbooks as the devices' workflows do, and says which device has
// two, or one that does not erase it.
func TestTheFleetsPlanFollowsRunbooks(t *testing.T) {
	policy := policyFile(t, `
priorities: {wear_check: 0, security_check: 0}
runbooks:
  drives: {match: {trait: HW_NVME_BES}, steps: [{step: sanitize}, {step: verify}, {step: hold, args: {reason: look}}]}
  zeroes: {match: {trait: HW_NVME_WZS}, steps: [{step: sanitize}, {step: verify}]}
  disks: {match: {trait: HW_PCI_ONE_TIME_USE}, steps: [{step: wait, args: {for: 1m}}, {step: zero}, {step: verify}]}
`)
	l := plannable()
	list := l.onList
	l.onList = func(query string) ([]client.Execution, error) {
		found, err := list(query)
		for i := range found {
			found[i].Status.OneTimeUse = found[i].Name == "disk"
		}
		return found, err
	}
	r := burnish(t, l, "", "plan", "--fleet", "--policy", policy, "-o", "json")
	require.Zero(t, r.code, r.errors)
	var fleet fleetPlan
	require.NoError(t, json.Unmarshal([]byte(r.out), &fleet))
	plans := map[string]devicePlan{}
	for _, p := range fleet.Devices {
		plans[p.Name] = p
	}
	require.Equal(t, []string{"wait", "zero", "verify"}, plans["disk"].NewSteps)
	require.Contains(t, plans["all"].Reason, "the runbooks drives and zeroes both match this device")
	require.Equal(t, []string{"sanitize", "verify"}, plans["used"].NewSteps)
	require.Equal(t, []string{"zero", "verify"}, plans["old"].NewSteps, "no runbook is for it")
}
