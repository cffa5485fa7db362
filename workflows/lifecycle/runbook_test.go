package lifecycle_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// withRunbook is the standard policy with one more runbook: an entry of steps is a name, or a
// name and its arguments.
func withRunbook(p clean.Policy, name string, match *clean.Match, steps ...[2]string) clean.Policy {
	book := clean.Runbook{Name: name, Match: match}
	for _, s := range steps {
		step := clean.RunbookStep{Step: s[0]}
		if s[1] != "" {
			step.Args = json.RawMessage(s[1])
		}
		book.Steps = append(book.Steps, step)
	}
	p.Runbooks = append(p.Runbooks, book)
	return p
}

// newServerEnv is the workflow of a device whose driver sets BIOS attributes.
func newServerEnv(t *testing.T, policy clean.Policy) *deviceEnv {
	w := newDeviceEnv(t, policy)
	w.host.steps["bios_apply"], w.host.steps["bios_reset"] = 1, 1
	w.host.discovery.SupportedSteps = []string{"bios_apply", "bios_reset"}
	return w
}

var (
	zeroStep, verifyStep = [2]string{"zero", ""}, [2]string{"verify", ""}
	holdStep             = [2]string{"hold", `{"reason":"look at it"}`}
	waitStep             = [2]string{"wait", `{"for":"10m"}`}
)

// stepsRun are the steps that reached the host.
func (h *fakeHost) stepsRun() []string {
	var all []string
	for _, in := range h.inputs {
		all = append(all, in.Step)
	}
	return all
}

func (w *deviceEnv) runbook(name string) *call {
	return w.send(contract.VerbClean.Update(), "", contract.CleanInput{Reason: "test", Runbook: name})
}

// onHold waits until the clean is held.
func (w *deviceEnv) onHold() contract.DeviceStatus {
	w.t.Helper()
	w.until("the hold", func() bool { return w.view().Fault == string(device.CodeOnHold) })
	return w.view()
}

func (w *deviceEnv) releaseHold() *call {
	return w.send(contract.VerbReleaseHold.Update(), "",
		contract.ReasonInput{Reason: "seen", Caller: contract.Caller{By: "ann@ops"}})
}

// A runbook that matches the device is its full clean: its order, its arguments, and the record
// names it.
func TestARunbookIsTheFullClean(t *testing.T) {
	w := newServerEnv(t, withRunbook(standardPolicy(), "gold", &clean.Match{Type: "NVME", Vendor: "ac*"},
		[2]string{"bios_apply", `{"Watts":250,"BootMode":"Uefi"}`}, zeroStep, verifyStep, [2]string{"bios_reset", ""}))
	w.makeBound("i1")
	w.host.inputs = nil
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	require.Equal(t, "gold", w.view().Runbook)
	v := w.reach(device.Available)
	require.Equal(t, []string{"bios_apply", "zero", "verify", "bios_reset"}, w.host.stepsRun())
	require.JSONEq(t, `{"BootMode":"Uefi","Watts":250}`, string(w.host.inputs[0].Args))
	require.Empty(t, w.host.inputs[1].Args)
	require.Equal(t, "bios_apply", v.Steps[0].Step)
	last := v.Cleans[len(v.Cleans)-1]
	require.Equal(t, "gold", last.Runbook)
	book, _ := w.planner.Runbook("gold")
	require.Equal(t, book.Digest(), last.RunbookDigest)
	require.Empty(t, v.Runbook)
	require.True(t, w.host.clean())
}

// A manual clean never makes a dirty device available, whatever its runbook erases.
//
// F7
func TestARunbookByHandNeverClearsDirty(t *testing.T) {
	for name, send := range map[string]func(*deviceEnv){
		"update": func(w *deviceEnv) { ok[contract.Result](w.runbook("erase")) },
		"signal": func(w *deviceEnv) { w.signal(contract.SignalClean, contract.CleanInput{Runbook: "erase"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newServerEnv(t,
				withRunbook(standardPolicy(), "erase", nil, zeroStep, verifyStep, [2]string{"bios_apply", `{"A":"b"}`}))
			ok[contract.Result](w.enroll(false))
			send(w)
			w.stepRuns("zero")
			v := w.reach(device.Manageable)
			require.Equal(t, []string{"zero", "verify", "bios_apply"}, w.host.stepsRun())
			require.True(t, v.Dirty)
			require.Equal(t, 1, w.inventory.Reserved)
			require.Equal(t, "steps_done", v.Cleans[0].Outcome)
			require.Equal(t, "erase", v.Cleans[0].Runbook)
			w.pass(time.Hour)
			require.Equal(t, device.Manageable, w.view().DeviceState)
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			v = w.reach(device.Available)
			require.Equal(t, []string{"zero", "verify", "bios_reset"}, w.host.stepsRun()[3:])
			require.Empty(t, v.Cleans[1].Runbook, "the full clean follows no runbook")
			w.runbook("erase").refused(device.CodeRefused)
		})
	}
}

// In state error a runbook is refused: only a full clean leads out of it.
func TestARunbookInStateErrorIsRefused(t *testing.T) {
	w := newServerEnv(t, withRunbook(standardPolicy(), "erase", nil, zeroStep, verifyStep))
	w.makeFailed()
	w.runbook("erase").refused(device.CodeRefused)
	w.signal(contract.SignalClean, contract.CleanInput{Runbook: "erase"})
	w.pass(time.Minute)
	require.Equal(t, device.Error, w.view().DeviceState)
	require.Contains(t, w.view().LastRefusal, "clean")
}

// A hold stops the clean until it is released: visibly, without work, budget or polling.
//
// F8, F29
func TestAHoldStopsTheClean(t *testing.T) {
	p := withRunbook(standardPolicy(), "held", &clean.Match{Type: "NVME"}, zeroStep, verifyStep, holdStep,
		[2]string{"bios_reset", ""})
	p.CleanupTimeout = 12 * pace
	w := newServerEnv(t, p)
	w.host.steps["hold"], w.host.steps["wait"] = 1, 1 // a host that has such steps
	ok[contract.Result](w.enroll(true))
	v := w.onHold()
	require.Equal(t, device.Cleaning, v.DeviceState)
	require.True(t, v.NeedsOperator)
	require.Equal(t, "on hold: look at it", v.LastError)
	require.Equal(t, "release-hold d1", v.Remedy)
	require.Equal(t, "hold", v.CleanStep.Step)
	require.Equal(t, "hold", v.Waiting.For)

	w.idle()
	scheduled, upserts := len(w.scheduledActivities), w.upserts
	w.pass(30 * 24 * time.Hour)
	require.Len(t, w.scheduledActivities, scheduled, "nothing is polled")
	require.Equal(t, upserts, w.upserts)
	require.Equal(t, 1, w.inventory.Reserved)
	require.Equal(t, device.Cleaning, w.view().DeviceState)

	ok[contract.Result](w.releaseHold())
	v = w.reach(device.Available)
	require.Equal(t, []string{"zero", "verify", "bios_reset"}, w.host.stepsRun(), "hold reached the host")
	steps := v.Cleans[0].Steps
	require.Equal(t, "hold", steps[2].Step)
	require.Equal(t, "look at it; released after 720h0m0s by ann@ops: seen", steps[2].Note)
	require.Zero(t, steps[2].RunTime)
	require.Equal(t, 4*pace, w.host.inputs[2].Budget, "the hold spent some of the budget")
	more := []bool{w.host.inputs[0].More, w.host.inputs[1].More, w.host.inputs[2].More}
	require.Equal(t, []bool{true, false, false}, more, "the host keeps a slot while an operator is waited for")
	w.requireNoWait()
	w.releaseHold().refused(device.CodeRefused)
}

// A clean that is held keeps its slot, and is no failure of the model when it is aborted.
func TestAHeldCleanKeepsItsSlot(t *testing.T) {
	for how, end := range map[string]func(*deviceEnv) device.State{
		"released": func(w *deviceEnv) device.State { ok[contract.Result](w.releaseHold()); return device.Available },
		"aborted": func(w *deviceEnv) device.State {
			ok[contract.Result](w.ask(contract.VerbAbort.Update()))
			return device.Error
		},
	} {
		t.Run(how, func(t *testing.T) {
			w := newServerEnv(t, withRunbook(limited(device.Limits{ConcurrentCleans: 1, Breaker: 1}), "held",
				&clean.Match{Type: "NVME"}, holdStep, zeroStep, verifyStep))
			w.grantAtOnce()
			ok[contract.Result](w.enroll(true))
			w.onHold()
			w.pass(24 * time.Hour)
			require.Len(t, w.limits.requests, 1)
			require.Empty(t, w.limits.reports, "the slot was given back")
			w.reach(end(w))
			w.idle()
			require.Len(t, w.limits.reports, 1)
			require.True(t, w.limits.reports[0].Over)
			require.Empty(t, w.limits.reports[0].Failed)
		})
	}
}

// Each hold is released for itself; a repeated release is refused while no hold waits.
func TestEachHoldIsReleased(t *testing.T) {
	w := newServerEnv(t, withRunbook(standardPolicy(), "twice", nil, holdStep, [2]string{"bios_reset", ""},
		[2]string{"hold", `{"reason":"again"}`}))
	ok[contract.Result](w.enroll(false))
	w.releaseHold().refused(device.CodeRefused)
	ok[contract.Result](w.runbook("twice"))
	w.onHold()
	first := w.releaseHold()
	second := w.releaseHold()
	ok[contract.Result](first)
	second.refused(device.CodeRefused)
	require.Equal(t, "on hold: again", w.onHold().LastError)
	w.pass(time.Hour)
	require.Equal(t, device.Cleaning, w.view().DeviceState)
	ok[contract.Result](w.send(contract.VerbReleaseHold.Update(), "",
		contract.ReasonInput{Reason: strings.Repeat("long\n", 1000)}))
	v := w.reach(device.Manageable)
	require.Len(t, v.Cleans[0].Steps, 3)
	require.Contains(t, v.Cleans[0].Steps[2].Note, "by an operator: long long")
	require.Less(t, len(v.Cleans[0].Steps[2].Note), 400)
}

// A wait lasts its time, shows until when, and needs no operator.
func TestAWaitLastsItsTime(t *testing.T) {
	w := newServerEnv(t, withRunbook(standardPolicy(), "slow", &clean.Match{Type: "NVME"}, waitStep, zeroStep, verifyStep))
	ok[contract.Result](w.enroll(true))
	w.until("the wait", func() bool { return w.view().Fault == string(device.CodeRunbookWait) })
	v, began := w.view(), w.clock()
	require.False(t, v.NeedsOperator)
	require.Equal(t, "wait", v.CleanStep.Step)
	require.Contains(t, v.LastError, "the runbook slow waits until "+began.Add(10*time.Minute).UTC().
		Format("2006-01-02T15:04"))
	w.releaseHold().refused(device.CodeRefused)
	w.pass(9 * time.Minute)
	require.False(t, w.view().NeedsOperator)
	require.Empty(t, w.host.inputs)
	w.stepRuns("zero")
	require.WithinDuration(t, began.Add(10*time.Minute), w.clock(), time.Minute)
	v = w.reach(device.Available)
	require.Equal(t, "waited for 10m", v.Cleans[0].Steps[0].Note)
	require.Equal(t, []string{"zero", "verify"}, w.host.stepsRun())
}

// An abort ends a hold and a wait at once; so does a Cancel, and what takes the device away.
//
// F9
func TestHoldAndWaitAreEndedAtOnce(t *testing.T) {
	for name, step := range map[string][2]string{"hold": holdStep, "wait": waitStep} {
		for how, end := range map[string]func(*deviceEnv) device.State{
			"abort": func(w *deviceEnv) device.State {
				require.Contains(w.t, ok[contract.Result](w.ask(contract.VerbAbort.Update())).Note, name)
				return device.Error
			},
			"cancel": func(w *deviceEnv) device.State { w.cancel(); return device.Error },
			"in use": func(w *deviceEnv) device.State {
				w.inventory.AllocateUnchecked("c1")
				w.signal(contract.SignalObserved, contract.Hint{})
				return device.Allocated
			},
			"lost": func(w *deviceEnv) device.State { ok[contract.Result](w.retire("", true)); return device.Retired },
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				w := newServerEnv(t, withRunbook(standardPolicy(), "r", &clean.Match{Type: "NVME"}, step, zeroStep, verifyStep))
				ok[contract.Result](w.enroll(true))
				w.until("the step", func() bool { return w.view().Waiting != nil })
				asked := w.clock()
				want := end(w)
				w.reach(want)
				require.Less(t, w.clock().Sub(asked), 20*time.Second)
				w.until("the end of the wait", func() bool { return w.view().Waiting == nil })
				w.idle()
				v := w.view()
				require.Empty(t, w.host.inputs, "no step after it runs")
				require.NotEqual(t, string(device.CodeOnHold), v.Fault)
				if want == device.Error {
					require.Equal(t, "aborted", v.Cleans[0].Outcome)
					require.Equal(t, "r", v.Cleans[0].Runbook)
				}
				w.releaseHold().refused(device.CodeRefused)
			})
		}
	}
}

// Arguments and runbooks that do not fit are refused: by update always, without a trace; by
// signal where no policy is needed to see it. Otherwise the signaled clean ends in error and
// runs no step: an erase is never skipped.
func TestArgumentsThatDoNotFit(t *testing.T) {
	args := func(step, text string) map[string]json.RawMessage {
		return map[string]json.RawMessage{step: json.RawMessage(text)}
	}
	p := withRunbook(standardPolicy(), "other", &clean.Match{Type: "NODE"}, zeroStep, verifyStep)
	p = withRunbook(p, "missing", nil, [2]string{"pci_reset", ""})
	for name, tt := range map[string]struct {
		in   contract.CleanInput
		code device.Code
		form bool // seen without a policy
	}{
		"arguments without steps":       {contract.CleanInput{Args: args("zero", `{}`)}, device.CodeInvalid, true},
		"arguments of another step":     {contract.CleanInput{Steps: []string{"zero"}, Args: args("verify", `{}`)}, device.CodeInvalid, true},
		"arguments that are no object":  {contract.CleanInput{Steps: []string{"zero"}, Args: args("zero", `[1]`)}, device.CodeInvalid, true},
		"a runbook and steps":           {contract.CleanInput{Steps: []string{"zero"}, Runbook: "missing"}, device.CodeInvalid, true},
		"a runbook and arguments":       {contract.CleanInput{Runbook: "missing", Args: args("pci_reset", `{}`)}, device.CodeInvalid, true},
		"a hold by hand":                {contract.CleanInput{Steps: []string{"hold"}, Args: args("hold", `{"reason":"x"}`)}, device.CodeNoSuchStep, true},
		"an argument of a step without": {contract.CleanInput{Steps: []string{"zero"}, Args: args("zero", `{"passes":0}`)}, device.CodeInvalid, false},
		"an attribute of objects":       {contract.CleanInput{Steps: []string{"bios_apply"}, Args: args("bios_apply", `{"A":{}}`)}, device.CodeInvalid, false},
		"nothing to set":                {contract.CleanInput{Steps: []string{"bios_apply"}}, device.CodeInvalid, false},
		"no such runbook":               {contract.CleanInput{Runbook: "none"}, device.CodeNoSuchRunbook, false},
		"a runbook of other devices":    {contract.CleanInput{Runbook: "other"}, device.CodeNoSuchRunbook, false},
		"a step that does not apply":    {contract.CleanInput{Runbook: "missing"}, device.CodeNoSuchStep, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServerEnv(t, p)
			ok[contract.Result](w.enroll(false))
			w.idle()
			before := w.view()
			w.send(contract.VerbClean.Update(), "", tt.in).refused(tt.code)
			require.Equal(t, before, w.view())
			w.signal(contract.SignalClean, tt.in)
			w.pass(time.Minute)
			v := w.view()
			if tt.form {
				require.Equal(t, device.Manageable, v.DeviceState)
				require.Contains(t, v.LastRefusal, "the clean signal was refused")
			} else {
				require.Equal(t, device.Error, v.DeviceState)
				require.Equal(t, string(tt.code), v.Fault)
			}
			require.True(t, v.Dirty)
			require.Empty(t, w.host.inputs)
			require.Equal(t, 1, w.inventory.Reserved)
		})
	}
}

// Arguments by hand replace those of the policy, and reach the host as they were given.
func TestArgumentsByHand(t *testing.T) {
	p := standardPolicy()
	p.BIOS = []clean.BIOSPolicy{{Match: clean.Match{Model: "M*"}, Settings: map[string]any{"BootMode": "Bios"}}}
	w := newServerEnv(t, p)
	ok[contract.Result](w.enroll(false))
	ok[contract.Result](w.cleanUp("bios_apply"))
	w.reach(device.Manageable)
	require.JSONEq(t, `{"BootMode":"Bios"}`, string(w.host.inputs[0].Args))
	ok[contract.Result](w.send(contract.VerbClean.Update(), "",
		contract.CleanInput{Steps: []string{"bios_apply", "bios_reset"},
			Args: map[string]json.RawMessage{"bios_apply": json.RawMessage(`{"Big":9007199254740993,"On":true}`)}}))
	w.until("both", func() bool { return len(w.host.inputs) == 3 })
	w.reach(device.Manageable)
	require.JSONEq(t, `{"Big":9007199254740993,"On":true}`, string(w.host.inputs[1].Args))
	require.Contains(t, string(w.host.inputs[1].Args), "9007199254740993")
	require.Empty(t, w.host.inputs[2].Args)
}

// A device that two runbooks match is cleaned by neither: the operator decides.
func TestTwoRunbooksForOneDevice(t *testing.T) {
	one := withRunbook(standardPolicy(), "a", &clean.Match{Trait: "HW_PCI_*"}, zeroStep, verifyStep,
		[2]string{"bios_reset", ""})
	two := withRunbook(one, "b", &clean.Match{Trait: "OWNER_CYBORG"}, zeroStep, verifyStep)
	w := newServerEnv(t, standardPolicy())
	w.oneTimeUse = true
	w.makeBound("i1")
	w.setPolicy(two)
	w.nextRun()
	w.host.inputs = nil
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeInvalidSetting), v.Fault)
	require.Equal(t, "the runbooks a and b both match this device", v.LastError)
	require.Empty(t, w.host.inputs)
	require.Equal(t, 1, w.inventory.Reserved)
	w.setPolicy(one)
	w.nextRun()
	ok[contract.Result](w.cleanUp())
	w.reach(device.Available)
	require.Equal(t, []string{"zero", "verify", "bios_reset"}, w.host.stepsRun())
}

// What a clean would do is answered without changing anything.
func TestValidate(t *testing.T) {
	p := withRunbook(standardPolicy(), "erase", nil, zeroStep, verifyStep, holdStep, [2]string{"bios_apply", `{"A":1}`})
	w := newServerEnv(t, p)
	w.makeAvailable()
	ask := func(in contract.CleanInput) contract.CleanPlan {
		value, err := w.env.QueryWorkflow(contract.QueryValidate, in)
		require.NoError(t, err)
		var plan contract.CleanPlan
		require.NoError(t, value.Get(&plan))
		return plan
	}
	names := func(plan contract.CleanPlan) []string {
		assert.Nil(t, plan.Fault)
		var all []string
		for _, s := range plan.Steps {
			all = append(all, s.Step)
		}
		return all
	}
	before := w.state()
	require.Equal(t, []string{"zero", "verify", "bios_reset"}, names(ask(contract.CleanInput{})))
	plan := ask(contract.CleanInput{Runbook: "erase"})
	require.Equal(t, []string{"zero", "verify", "hold", "bios_apply"}, names(plan))
	require.Equal(t, "erase", plan.Runbook)
	require.NotEmpty(t, plan.RunbookDigest)
	require.JSONEq(t, `{"A":1}`, string(plan.Steps[3].Args))
	require.Equal(t, device.CodeNoSuchRunbook, ask(contract.CleanInput{Runbook: "x"}).Fault.Code)
	require.Equal(t, device.CodeInvalid, ask(contract.CleanInput{Steps: []string{"bios_apply"}}).Fault.Code)
	require.Equal(t, device.CodeInvalid, ask(contract.CleanInput{Runbook: "erase", Steps: []string{"zero"}}).Fault.Code)
	require.Equal(t, device.CodeNoSuchStep, ask(contract.CleanInput{Steps: []string{"polish"}}).Fault.Code)
	require.Equal(t, before, w.state())
}
