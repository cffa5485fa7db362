package lifecycle

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// biosServer is a device whose driver sets BIOS attributes.
func biosServer(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.host.Steps["bios_apply"], s.host.Steps["bios_reset"] = 1, 1
	s.host.SupportedSteps = []string{"bios_apply", "bios_reset"}
	return s
}

// withRunbook adds a runbook to the policy: an entry of steps is a name, or a name and its arguments.
func (s *scene) withRunbook(name string, match *clean.Match, steps ...[2]string) *scene {
	book := clean.Runbook{Name: name, Match: match}
	for _, each := range steps {
		step := clean.RunbookStep{Step: each[0]}
		if each[1] != "" {
			step.Args = json.RawMessage(each[1])
		}
		book.Steps = append(book.Steps, step)
	}
	s.policy.Runbooks = append(slices.Clip(s.policy.Runbooks), book)
	return s
}

var (
	everyNVMe            = &clean.Match{Type: "NVME"}
	zeroStep, verifyStep = [2]string{"zero", ""}, [2]string{"verify", ""}
	resetStep            = [2]string{"bios_reset", ""}
	holdStep             = [2]string{"hold", `{"reason":"look at it"}`}
	waitStep             = [2]string{"wait", `{"for":"10m"}`}
	seen                 = contract.ReasonInput{Reason: "seen", Caller: contract.Caller{By: "ann@ops"}}
)

// follows has a runbook by hand.
func follows(runbook string) contract.CleanInput { return contract.CleanInput{Runbook: runbook} }

// signaled sends the signal clean.
func (s *scene) signaled(in contract.CleanInput) {
	s.decide(CleanAsked{In: in})
	s.rest()
}

// provides enrolls the device and has it cleaned, as far as it goes by itself.
func (s *scene) provides() {
	s.Helper()
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
	s.rest()
}

// A runbook that matches the device is its full clean: its order, its arguments, and the record names it.
func TestARunbookIsTheFullClean(t *testing.T) {
	s := biosServer(t).withRunbook("gold", &clean.Match{Type: "NVME", Vendor: "ac*"},
		[2]string{"bios_apply", `{"Watts":250,"BootMode":"Uefi"}`}, zeroStep, verifyStep, resetStep)
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
	s.until("zero")
	require.Equal(t, "gold", s.d.Status().Runbook)
	s.returned()
	require.Equal(t, []string{"bios_apply", "zero", "verify", "bios_reset"}, s.stepsRun())
	require.JSONEq(t, `{"BootMode":"Uefi","Watts":250}`, string(s.inputs[0].Args))
	require.Empty(t, s.inputs[1].Args)
	require.Equal(t, "bios_apply", s.d.Status().Steps[0].Step)
	book, _ := sceneSettings{s: s}.planner().Runbook("gold")
	require.Equal(t, []string{"gold", book.Digest()}, []string{s.lastClean().Runbook, s.lastClean().RunbookDigest})
	require.Empty(t, s.d.Status().Runbook)
}

// A manual clean never makes a dirty device available, whatever its runbook erases; in state error it is refused.
//
// F7
func TestARunbookByHandNeverClearsDirty(t *testing.T) {
	for name, send := range map[string]func(*scene){
		"update": func(s *scene) { s.ok(contract.VerbClean, follows("erase")); s.rest() },
		"signal": func(s *scene) { s.signaled(follows("erase")) },
	} {
		s := biosServer(t).withRunbook("erase", nil, zeroStep, verifyStep, [2]string{"bios_apply", `{"A":"b"}`}).enrolled(false)
		send(s)
		s.lasts(time.Hour)
		require.Equal(t, []any{device.Manageable, true, 1},
			[]any{s.d.Device.State, s.d.Device.Dirty, s.inv.Reserved}, name)
		require.Equal(t, []string{"zero", "verify", "bios_apply"}, s.stepsRun())
		require.Equal(t, []string{"steps_done", "erase"}, []string{s.lastClean().Outcome, s.lastClean().Runbook})
		s.ok(contract.VerbProvide, noInput)
		s.returned()
		require.Equal(t, []string{"zero", "verify", "bios_reset"}, s.stepsRun()[3:])
		require.Empty(t, s.lastClean().Runbook, "the full clean follows no runbook")
		s.refused(device.CodeRefused, contract.VerbClean, follows("erase"))

		s.boundTo("i1").failsToClean()
		s.refused(device.CodeRefused, contract.VerbClean, follows("erase"))
		s.signaled(follows("erase"))
		require.Equal(t, device.Error, s.d.Device.State)
		require.Contains(t, s.d.Status().LastRefusal, "clean")
	}
}

// A hold stops the clean until it is released: visibly, without work, budget or polling.
//
// F8, F29
func TestAHoldStopsTheClean(t *testing.T) {
	s := biosServer(t).withRunbook("held", everyNVMe, zeroStep, verifyStep, holdStep, resetStep)
	s.policy.CleanupTimeout = time.Minute
	s.host.Steps["hold"], s.host.Steps["wait"] = 1, 1 // a host that has such steps
	s.provides()
	v := s.d.Status()
	require.Equal(t, []any{device.Cleaning, true, "on hold: look at it", "release-hold d1", "hold", "hold"},
		[]any{v.DeviceState, v.NeedsOperator, v.LastError, v.Remedy, v.CleanStep.Step, v.Waiting.For})
	made := len(s.made)
	s.lasts(30 * 24 * time.Hour)
	require.Len(t, s.made, made, "nothing is asked meanwhile")
	require.Equal(t, []any{device.Cleaning, 1}, []any{s.d.Device.State, s.inv.Reserved})

	s.ok(contract.VerbReleaseHold, seen)
	s.returned()
	require.Equal(t, []string{"zero", "verify", "bios_reset"}, s.stepsRun(), "hold reached the host")
	step := s.lastClean().Steps[2]
	require.Equal(t, "hold", step.Step)
	require.Contains(t, step.Note, "look at it; released after 720h0m")
	require.Contains(t, step.Note, "by ann@ops: seen")
	require.Zero(t, step.RunTime)
	require.Equal(t, time.Minute-2*stepTime, s.inputs[2].Budget, "the hold spent some of the budget")
	require.Equal(t, []bool{true, false, false}, []bool{s.inputs[0].More, s.inputs[1].More, s.inputs[2].More},
		"the host keeps a slot while an operator is waited for")
	require.Nil(t, s.d.Status().Waiting)
	s.refused(device.CodeRefused, contract.VerbReleaseHold, seen)
}

// Each hold is released for itself; a release is refused while no hold waits.
func TestEachHoldIsReleased(t *testing.T) {
	s := biosServer(t).withRunbook("twice", nil, holdStep, resetStep, [2]string{"hold", `{"reason":"again"}`}).enrolled(false)
	s.refused(device.CodeRefused, contract.VerbReleaseHold, seen)
	s.ok(contract.VerbClean, follows("twice"))
	s.rest()
	s.ok(contract.VerbReleaseHold, seen)
	s.refused(device.CodeRefused, contract.VerbReleaseHold, seen)
	s.lasts(time.Hour)
	require.Equal(t, []any{device.Cleaning, "on hold: again"}, []any{s.d.Device.State, s.d.Status().LastError})
	s.ok(contract.VerbReleaseHold, contract.ReasonInput{Reason: strings.Repeat("long\n", 1000)})
	s.reach(device.Manageable)
	steps := s.lastClean().Steps
	require.Len(t, steps, 3)
	require.Contains(t, steps[2].Note, "by an operator: long long")
	require.Less(t, len(steps[2].Note), 400)
}

// A wait lasts its time, shows until when, and needs no operator.
func TestAWaitLastsItsTime(t *testing.T) {
	s := biosServer(t).withRunbook("slow", everyNVMe, waitStep, zeroStep, verifyStep)
	s.provides()
	v, began := s.d.Status(), s.now
	require.Equal(t, []any{string(device.CodeRunbookWait), false, "wait"},
		[]any{v.Fault, v.NeedsOperator, v.CleanStep.Step})
	require.Contains(t, v.LastError, "the runbook slow waits until "+began.Add(10*time.Minute).Format("2006-01-02T15:04"))
	s.refused(device.CodeRefused, contract.VerbReleaseHold, seen)
	s.lasts(9 * time.Minute)
	require.False(t, s.d.Status().NeedsOperator)
	require.Empty(t, s.inputs)
	s.until("zero")
	require.WithinDuration(t, began.Add(10*time.Minute), s.now, time.Minute)
	s.returned()
	require.Equal(t, "waited for 10m", s.lastClean().Steps[0].Note)
	require.Equal(t, []string{"zero", "verify"}, s.stepsRun())
}

// An abort ends a hold and a wait at once; so does a Cancel, and what takes the device away.
//
// F9
func TestHoldAndWaitAreEndedAtOnce(t *testing.T) {
	for name, step := range map[string][2]string{"hold": holdStep, "wait": waitStep} {
		for how, tt := range map[string]struct {
			end  func(*scene)
			ends device.State
		}{
			"abort": {func(s *scene) {
				require.Contains(s, s.ok(contract.VerbAbort, noInput).Note, name)
			}, device.Error},
			"cancel": {func(s *scene) { s.decide(Canceled{}) }, device.Error},
			"in use": {func(s *scene) { s.inv.AllocateUnchecked("c1"); s.hint() }, device.Allocated},
			"lost":   {func(s *scene) { s.ok(contract.VerbRetire, lost("")) }, device.Retired},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				s := biosServer(t).withRunbook("r", everyNVMe, step, zeroStep, verifyStep)
				s.provides()
				require.NotNil(t, s.d.Status().Waiting)
				asked := s.now
				tt.end(s)
				s.reach(tt.ends)
				require.Less(t, s.now.Sub(asked), 20*time.Second)
				s.rest()
				require.Nil(t, s.d.Status().Waiting)
				require.NotEqual(t, string(device.CodeOnHold), s.d.Status().Fault)
				require.Empty(t, s.inputs, "no step after it runs")
				if tt.ends == device.Error {
					require.Equal(t, []string{"aborted", "r"}, []string{s.lastClean().Outcome, s.lastClean().Runbook})
				}
				s.refused(device.CodeRefused, contract.VerbReleaseHold, seen)
			})
		}
	}
}

// Arguments and runbooks that do not fit are refused: by update always, without a trace; by signal where no policy is
// needed to see it. Otherwise the signaled clean ends in error and runs no step: an erase is never skipped.
func TestArgumentsThatDoNotFit(t *testing.T) {
	args := func(step, text string) contract.CleanInput {
		return contract.CleanInput{Args: map[string]json.RawMessage{step: json.RawMessage(text)}}
	}
	with := func(in contract.CleanInput, runbook string, steps ...string) contract.CleanInput {
		in.Runbook, in.Steps = runbook, steps
		return in
	}
	for name, tt := range map[string]struct {
		in   contract.CleanInput
		code device.Code
		form bool // seen without a policy
	}{
		"arguments without steps":       {args("zero", `{}`), device.CodeInvalid, true},
		"arguments of another step":     {with(args("verify", `{}`), "", "zero"), device.CodeInvalid, true},
		"arguments that are no object":  {with(args("zero", `[1]`), "", "zero"), device.CodeInvalid, true},
		"a runbook and steps":           {with(contract.CleanInput{}, "missing", "zero"), device.CodeInvalid, true},
		"a runbook and arguments":       {with(args("pci_reset", `{}`), "missing"), device.CodeInvalid, true},
		"a hold by hand":                {with(args("hold", `{"reason":"x"}`), "", "hold"), device.CodeNoSuchStep, true},
		"an argument of a step without": {with(args("zero", `{"passes":0}`), "", "zero"), device.CodeInvalid, false},
		"an attribute of objects":       {with(args("bios_apply", `{"A":{}}`), "", "bios_apply"), device.CodeInvalid, false},
		"nothing to set":                {only("bios_apply"), device.CodeInvalid, false},
		"no such runbook":               {follows("none"), device.CodeNoSuchRunbook, false},
		"a runbook of other devices":    {follows("other"), device.CodeNoSuchRunbook, false},
		"a step that does not apply":    {follows("missing"), device.CodeNoSuchStep, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := biosServer(t).withRunbook("other", &clean.Match{Type: "NODE"}, zeroStep, verifyStep).
				withRunbook("missing", nil, [2]string{"pci_reset", ""}).enrolled(false)
			before := s.d.Status()
			s.refused(tt.code, contract.VerbClean, tt.in)
			require.Equal(t, before, s.d.Status())
			s.signaled(tt.in)
			s.lasts(time.Minute)
			v := s.d.Status()
			if tt.form {
				require.Equal(t, device.Manageable, v.DeviceState)
				require.Contains(t, v.LastRefusal, "the clean signal was refused")
			} else {
				require.Equal(t, []string{string(device.Error), string(tt.code)}, []string{string(v.DeviceState), v.Fault})
			}
			require.True(t, v.Dirty)
			require.Empty(t, s.inputs)
			require.Equal(t, 1, s.inv.Reserved)
		})
	}
}

// Arguments by hand replace those of the policy, and reach the host as they were given.
func TestArgumentsByHand(t *testing.T) {
	s := biosServer(t)
	s.policy.BIOS = []clean.BIOSPolicy{{Match: clean.Match{Model: "M*"}, Settings: map[string]any{"BootMode": "Bios"}}}
	s.enrolled(false)
	s.ok(contract.VerbClean, only("bios_apply"))
	s.reach(device.Manageable)
	s.rest()
	in := only("bios_apply", "bios_reset")
	in.Args = map[string]json.RawMessage{"bios_apply": json.RawMessage(`{"Big":9007199254740993,"On":true}`)}
	s.ok(contract.VerbClean, in)
	s.rest()
	require.Len(t, s.inputs, 3)
	require.JSONEq(t, `{"BootMode":"Bios"}`, string(s.inputs[0].Args))
	require.Equal(t, `{"Big":9007199254740993,"On":true}`, string(s.inputs[1].Args))
	require.Empty(t, s.inputs[2].Args)
}

// A device that two runbooks match is cleaned by neither: the operator decides.
func TestTwoRunbooksForOneDevice(t *testing.T) {
	s := biosServer(t)
	s.e.OneTimeUse = true
	s.offers().boundTo("i1").withRunbook("a", &clean.Match{Trait: "HW_PCI_*"}, zeroStep, verifyStep, resetStep)
	one := s.policy.Runbooks
	s.withRunbook("b", &clean.Match{Trait: "OWNER_CYBORG"}, zeroStep, verifyStep)
	s.inputs = nil
	s.released("i1")
	s.kept(device.Error, device.CodeInvalidSetting)
	require.Equal(t, "the runbooks a and b both match this device", s.d.Status().LastError)
	require.Empty(t, s.inputs)
	s.policy.Runbooks = one
	s.ok(contract.VerbClean, contract.CleanInput{})
	s.returned()
	require.Equal(t, []string{"zero", "verify", "bios_reset"}, s.stepsRun())
}

// What a clean would do is answered without changing anything.
func TestValidate(t *testing.T) {
	s := biosServer(t).withRunbook("erase", nil, zeroStep, verifyStep, holdStep, [2]string{"bios_apply", `{"A":1}`}).offers()
	ask := func(in contract.CleanInput) contract.CleanPlan { return s.d.PlanOf(in, sceneSettings{s: s}.planner()) }
	names := func(plan contract.CleanPlan) (all []string) {
		require.Nil(t, plan.Fault)
		for _, p := range plan.Steps {
			all = append(all, p.Step)
		}
		return all
	}
	before := s.copied(s.d.DeviceState)
	require.Equal(t, []string{"zero", "verify", "bios_reset"}, names(ask(contract.CleanInput{})))
	plan := ask(follows("erase"))
	require.Equal(t, []string{"zero", "verify", "hold", "bios_apply"}, names(plan))
	require.Equal(t, "erase", plan.Runbook)
	require.NotEmpty(t, plan.RunbookDigest)
	require.JSONEq(t, `{"A":1}`, string(plan.Steps[3].Args))
	for code, in := range map[device.Code][]contract.CleanInput{
		device.CodeNoSuchRunbook: {follows("x")}, device.CodeNoSuchStep: {only("polish")},
		device.CodeInvalid: {only("bios_apply"), {Runbook: "erase", Steps: []string{"zero"}}},
	} {
		for _, each := range in {
			require.Equal(t, code, ask(each).Fault.Code)
		}
	}
	require.Equal(t, before, s.copied(s.d.DeviceState))
}

// A clean that is held keeps its slot, and is no failure of the model when it is aborted.
func TestAHeldCleanKeepsItsSlot(t *testing.T) {
	for _, tt := range []struct {
		verb contract.Verb
		ends device.State
	}{{contract.VerbReleaseHold, device.Available}, {contract.VerbAbort, device.Error}} {
		s := biosServer(t).withRunbook("held", everyNVMe, holdStep, zeroStep, verifyStep)
		s.policy.Limits = &device.Limits{ConcurrentCleans: 1, Breaker: 1}
		s.provides()
		s.decide(Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{
			Slot: &contract.SlotAnswer{Clean: s.slots[0].Clean, Granted: true}}})
		s.lasts(24 * time.Hour)
		require.Equal(t, string(device.CodeOnHold), s.d.Status().Fault)
		require.Len(t, s.slots, 1)
		require.Empty(t, s.reports(), "the slot was given back")
		s.ok(tt.verb, noInput)
		s.reach(tt.ends)
		s.rest()
		require.Len(t, s.reports(), 1)
		report := s.reports()[0]
		require.Equal(t, []any{s.slots[0].Clean, true, ""}, []any{report.Clean, report.Over, report.Failed})
	}
}
