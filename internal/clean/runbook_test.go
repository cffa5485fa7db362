package clean_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
)

func book(name string, match *clean.Match, steps ...string) clean.Runbook {
	b := clean.Runbook{Name: name, Match: match}
	for _, s := range steps {
		b.Steps = append(b.Steps, clean.RunbookStep{Step: s})
	}
	return b
}

func withBooks(books ...clean.Runbook) clean.Policy {
	return clean.Policy{PolicyLists: clean.PolicyLists{Runbooks: books}}
}

var everything = &clean.Match{Type: "*"}

// A runbook that matches is the full clean, in its own order; what it does not name does not
// run, and what it names runs although its priority is 0.
func TestARunbookReplacesPhasesAndPriorities(t *testing.T) {
	want := []string{"security", "firmware", "namespaces", "zero", "verify", "reset"}
	require.Equal(t, want, full(t, catalog(), withBooks(book("r", everything, want...))))
	require.Equal(t, []string{"security", "wear", "namespaces", "zero", "verify", "firmware", "properties"},
		full(t, catalog(), withBooks(book("r", &clean.Match{Type: "NODE"}, want...), book("by-hand", nil, want...))),
		"it is for other devices")
}

// A full clean by a runbook erases as the standard plan does, and verifies directly after it;
// otherwise there is no plan.
//
// F7
func TestAFullCleanByARunbookErasesAndVerifies(t *testing.T) {
	all := catalog()
	p := planner(t, all, withBooks(book("r", everything, "namespaces", "verify", "firmware")))
	_, fault := p.Full(subject(all))
	require.NotNil(t, fault)
	require.Equal(t, device.CodeNoErasePath, fault.Code)
	require.Equal(t, device.NeedsOperator, fault.Class)
	require.Contains(t, fault.Message, "namespaces, zero, verify")

	// An erase that is not this device's is left out: what stays must be all of its own.
	other := append(catalog(), step("sanitize", "deploy", clean.Erase, 90))
	other[len(other)-1].Applies = never
	require.Equal(t, []string{"namespaces", "zero", "verify"},
		full(t, other, withBooks(book("r", everything, "sanitize", "namespaces", "zero", "verify"))))

	// Without an erase path a runbook makes none.
	nothing := catalog()
	for i := range nothing {
		if nothing[i].Phase == clean.Erase {
			nothing[i].Applies = never
		}
	}
	_, fault = planner(t, nothing, withBooks(book("r", everything, "namespaces", "zero", "verify"))).Full(subject(nothing))
	require.Equal(t, device.CodeNoErasePath, fault.Code)
}

// A full clean by a runbook leaves out no step that guards, but one of priority 0; by hand it may.
//
// F20
func TestARunbookLeavesOutNoGuard(t *testing.T) {
	all := catalog()
	for i := range all {
		all[i].Guards = all[i].Name == "security" || all[i].Name == "properties"
	}
	policy := withBooks(book("r", everything, "security", "namespaces", "zero", "verify"),
		book("h", nil, "namespaces", "zero", "verify"))
	_, fault := planner(t, all, policy).Full(subject(all))
	require.NotNil(t, fault)
	require.Equal(t, device.CodeInvalidSetting, fault.Code)
	require.Contains(t, fault.Message, "leaves out properties")
	_, fault = planner(t, all, policy).Manual(subject(all), clean.Request{Runbook: "h"})
	require.Nil(t, fault)
	policy.Priorities = map[string]float64{"properties": 0}
	require.Equal(t, []string{"security", "namespaces", "zero", "verify"}, full(t, all, policy))
}

// By hand a runbook is a list of named steps: each must apply, but for the erases of other
// devices, of which one must remain.
func TestARunbookByHand(t *testing.T) {
	all := append(catalog(), step("sanitize", "deploy", clean.Erase, 90), step("script", "vendor", clean.Restore, 7))
	for i := range all {
		if all[i].Name == "sanitize" || all[i].Name == "script" {
			all[i].Applies = never
		}
	}
	p := planner(t, all, withBooks(
		book("erase", nil, "sanitize", "zero", "verify", "reset"), book("sanitize", nil, "sanitize", "verify"),
		book("script", nil, "script"), book("other", &clean.Match{Model: "X"}, "namespaces", "zero", "verify"),
		book("properties", nil, "properties", "security")))
	plan := func(name string) ([]string, *device.Fault) {
		plan, fault := p.Manual(subject(all), clean.Request{Runbook: name})
		return namesOf(plan), fault
	}
	names, fault := plan("erase")
	require.Nil(t, fault)
	require.Equal(t, []string{"zero", "verify", "reset"}, names)
	names, fault = plan("properties")
	require.Nil(t, fault)
	require.Equal(t, []string{"properties", "security"}, names)
	for name, code := range map[string]device.Code{
		"sanitize": device.CodeNoErasePath, "script": device.CodeNoSuchStep, "other": device.CodeNoSuchRunbook,
		"none": device.CodeNoSuchRunbook,
	} {
		_, fault = plan(name)
		require.NotNil(t, fault, name)
		require.Equal(t, code, fault.Code, name)
		require.NotEmpty(t, fault.Remedy)
	}
	old := subject(all)
	delete(old.HostSteps, "reset")
	_, fault = p.Manual(old, clean.Request{Runbook: "erase"})
	require.Equal(t, device.CodeHostWorkerTooOld, fault.Code)
}

// The steps that the workflow carries out itself have no host's version, and are in no plan but
// a runbook's.
func TestHoldAndWaitAreForRunbooksOnly(t *testing.T) {
	hold := clean.RunbookStep{Step: clean.StepHold, Args: json.RawMessage(`{"reason":"x"}`)}
	b := book("r", everything, "namespaces", "zero", "verify")
	b.Steps = append([]clean.RunbookStep{hold}, b.Steps...)
	plan, fault := planner(t, catalog(), withBooks(b)).Full(subject(catalog()))
	require.Nil(t, fault)
	require.True(t, clean.OfWorkflow(plan[0].Step.Name))
	require.Zero(t, plan[0].Timeout)
	require.JSONEq(t, `{"reason":"x"}`, string(plan[0].Args))
	for _, name := range []string{clean.StepHold, clean.StepWait} {
		_, fault = planner(t, catalog(), clean.Policy{}).Manual(subject(catalog()), clean.Request{Steps: []string{name}})
		require.Equal(t, device.CodeNoSuchStep, fault.Code)
		require.Contains(t, fault.Message, "for runbooks only")
		_, err := clean.NewPlanner(catalog(), clean.Policy{Priorities: map[string]float64{name: 1}})
		require.Error(t, err)
	}
}

// The digest is of the content, not of the place in the file.
func TestARunbooksDigest(t *testing.T) {
	a, b := book("r", everything, "zero", "verify"), book("r", everything, "zero", "verify")
	b.Line, b.Steps[0].Line = 7, 8
	require.Equal(t, a.Digest(), b.Digest())
	b.Steps[0].Args = json.RawMessage(`{}`)
	require.NotEqual(t, a.Digest(), b.Digest())
	p, q := planner(t, catalog(), withBooks(a)), planner(t, catalog(), withBooks(b))
	require.NotEqual(t, p.Digest(), q.Digest())
}

// A schema takes arguments of its kinds, and no others.
func TestArgumentsOfEachKind(t *testing.T) {
	schema := clean.Schema{Args: []clean.Arg{
		{Name: "text", Kind: clean.KindText}, {Name: "integer", Kind: clean.KindInteger}, {Name: "number", Kind: clean.KindNumber},
		{Name: "boolean", Kind: clean.KindBoolean}, {Name: "duration", Kind: clean.KindDuration}, {Name: "list", Kind: clean.KindList},
		{Name: "object", Kind: clean.KindObject}, {Name: "policy", Kind: clean.KindText, From: clean.PolicyOnly}, {Name: "choice", Kind: clean.KindText, From: clean.Choice},
	}}
	good := map[string][]string{
		"text": {`""`, `"x"`}, "integer": {`0`, `-7`, `9007199254740993`}, "number": {`0.5`, `3`, `1e3`}, "boolean": {`true`, `false`},
		"duration": {`"10m"`, `"1h30m"`}, "list": {`[]`, `[1]`}, "object": {`{}`, `{"a":[]}`}, "choice": {`"a"`},
	}
	bad := map[string][]string{
		"text": {`1`, `true`, `null`, `[]`}, "integer": {`0.5`, `"1"`, `1e3`, `99999999999999999999`, `null`}, "number": {`"1"`, `true`, `null`}, "boolean": {`"true"`, `1`},
		"duration": {`"10"`, `"-1m"`, `"0s"`, `10`, `""`}, "list": {`{}`, `"a"`}, "object": {`[]`, `"a"`, `null`}, "policy": {`"a"`}, "unknown": {`1`}, "": {`1`},
	}
	check := func(name, value string) error {
		args, err := clean.ParseArgs(json.RawMessage(`{"` + name + `":` + value + `}`))
		require.NoError(t, err)
		return schema.CheckGiven(args)
	}
	for name, values := range good {
		for _, value := range values {
			require.NoError(t, check(name, value), "%s %s", name, value)
		}
	}
	for name, values := range bad {
		for _, value := range values {
			require.Error(t, check(name, value), "%s %s", name, value)
		}
	}
	for _, text := range []string{`[]`, `1`, `"a"`, `{`, `{} {}`, `{}x`} {
		_, err := clean.ParseArgs(json.RawMessage(text))
		require.Error(t, err, text)
	}
	// What a plan records has the policy's arguments, and no choice.
	require.NoError(t, schema.CheckRecorded(json.RawMessage(`{"policy":"a","integer":1}`)))
	require.Error(t, schema.CheckRecorded(json.RawMessage(`{"choice":"a"}`)))
	require.NoError(t, schema.CheckRecorded(nil))
	required := clean.Schema{Args: []clean.Arg{{Name: "reason", Kind: clean.KindText, Required: true}}}
	require.ErrorContains(t, required.CheckGiven(nil), "the argument reason is missing")
	require.ErrorContains(t, required.CheckRecorded(nil), "the argument reason is missing")
	open := clean.Schema{Open: "attributes"}
	require.NoError(t, open.CheckGiven(map[string]any{"a": "b", "c": true}))
	require.ErrorContains(t, open.CheckGiven(map[string]any{"a": []any{}}), "must be text, a number or a boolean")
}

// Arguments replace the policy's, unless the step combines both; more than a plan should carry
// is refused.
func TestGivenArguments(t *testing.T) {
	bios := step("bios", "bios", clean.Restore, 35)
	bios.Args = clean.Schema{Open: "attributes"}
	bios.FromPolicy = func(p clean.Policy, s clean.Subject) (any, bool) {
		settings := p.BIOSOf(s)
		return settings, len(settings) > 0
	}
	all := append(catalog(), bios)
	policy :=
		clean.Policy{PolicyLists: clean.PolicyLists{BIOS: []clean.BIOSPolicy{{Settings: map[string]any{"a": "policy", "b": 1}}}}}
	manual := func(policy clean.Policy, args string) (string, *device.Fault) {
		r := clean.Request{Steps: []string{"bios"}}
		if args != "" {
			r.Args = map[string]json.RawMessage{"bios": json.RawMessage(args)}
		}
		plan, fault := planner(t, all, policy).Manual(subject(all), r)
		if fault != nil {
			return "", fault
		}
		return string(plan[0].Args), nil
	}
	args, fault := manual(policy, "")
	require.Nil(t, fault)
	require.JSONEq(t, `{"a":"policy","b":1}`, args)
	args, fault = manual(policy, `{"a":"hand"}`)
	require.Nil(t, fault)
	require.JSONEq(t, `{"a":"hand"}`, args)
	_, fault = manual(clean.Policy{}, "")
	require.Equal(t, device.CodeInvalid, fault.Code)
	require.Equal(t, device.Permanent, fault.Class)
	_, fault = manual(policy, `{"a":"`+string(make([]byte, 9<<10))+`"}`)
	require.Equal(t, device.CodeInvalid, fault.Code)
	_, fault = planner(t, all, policy).
		Manual(subject(all), clean.Request{Steps: []string{"zero"}, Args: map[string]json.RawMessage{"bios": nil}})
	require.Equal(t, device.CodeInvalid, fault.Code)
}
