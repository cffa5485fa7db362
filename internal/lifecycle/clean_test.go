package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A step that fails ends the clean, and is no error of the one who released the device. It stays reserved, and nothing
// but the operator's retry, with the recorded operation, makes it available.
//
// S2.45, S2.46, S2.47, S2.48, S3.11, S3.21, S3.23, S3.24, S3.48
func TestFailedStepNeedsTheOperator(t *testing.T) {
	for _, step := range []string{"zero", "verify"} {
		s := tenant(t)
		s.fails(step, device.NeedsOperator, device.CodeIO)
		s.released("i1")
		s.kept(device.Error, device.CodeIO)
		v := s.d.Status()
		require.Equal(t, []any{true, true, true, string(device.MaintenanceCleanFailed)},
			[]any{v.NeedsOperator, v.Maintenance, v.Dirty, v.MaintenanceReason})
		require.NotEmpty(t, v.LastError+v.Remedy)
		require.Equal(t, []any{"failed", device.CodeIO, step},
			[]any{s.lastClean().Outcome, s.lastClean().Fault, s.lastClean().Failure.Step})
		made := len(s.made)
		s.refusal(device.CodeRefused, contract.VerbBind, bindI2)
		s.refused(device.CodeRefused, contract.VerbProvide, noInput)
		s.lasts(48 * time.Hour)
		require.Len(t, s.made, made, "it is left as it is: neither powered off, nor reset, nor written to")
		delete(s.faults, step)
		s.renewed()
		r := s.ok(contract.VerbClean, all)
		require.Equal(t, []any{device.PendingCleaning, v.Operation}, []any{r.Device.DeviceState, r.Device.Operation})
		s.returned()
		v = s.d.Status()
		require.Equal(t, []any{false, false, "", ""}, []any{v.NeedsOperator, v.Maintenance, v.Fault, v.LastError})
		s.boundTo("i2")
	}
}

// A verify that finds the tenant's data fails the clean, although zero succeeded.
//
// F19
func TestVerifyThatFindsData(t *testing.T) {
	s := tenant(t)
	s.released("i1")
	s.until("verify")
	s.bytes = "i1"
	s.kept(device.Error, device.CodeVerifyFailed)
}

// A step succeeds only when it reports its completion: without a result, by an error, a device that is gone or an
// unreachable host, the device never becomes available.
//
// S2.68
func TestAStepWithoutAResultIsNoSuccess(t *testing.T) {
	for code, prevent := range map[device.Code]func(*scene){
		device.CodeHostUnreachable: func(s *scene) { s.away = true },
		device.CodeIO:              func(s *scene) { s.fails("verify", device.NeedsOperator, device.CodeIO) },
		device.CodeTargetMissing:   func(s *scene) { s.fails("zero", device.NeedsOperator, device.CodeTargetMissing) },
	} {
		s := tenant(t)
		prevent(s)
		s.released("i1")
		s.lasts(24 * time.Hour)
		require.Contains(t, []device.State{device.Cleaning, device.Error}, s.d.Device.State)
		require.Equal(t, []any{true, string(code), 1}, []any{s.d.Device.Dirty, s.d.Status().Fault, s.inv.Reserved})
	}
}

// A result counts only for the step, clean and scheduling that were asked for, also that of a step that followed in the
// activity of the one before it.
//
// F26
func TestAResultOfOtherWorkDoesNotCount(t *testing.T) {
	for what, change := range map[string]func(*contract.StepResult){
		"another step":       func(r *contract.StepResult) { r.Step = "noop" },
		"no step":            func(r *contract.StepResult) { r.Step = "" },
		"another clean":      func(r *contract.StepResult) { r.Clean += "/1" },
		"another scheduling": func(r *contract.StepResult) { r.Seq-- },
	} {
		for which, follows := range map[string]bool{"its own": false, "one that follows": true} {
			t.Run(which+": "+what, func(t *testing.T) {
				s := tenant(t)
				s.ends["zero"] = func(o Outcome) Outcome {
					answer := o.Found.(*contract.StepAnswer)
					if !follows {
						change(&answer.StepResult)
						return o
					}
					answer.Next = &contract.NextResult{Result: &contract.StepResult{Step: "verify", Clean: answer.Clean,
						Seq: answer.Seq + 1}}
					change(answer.Next.Result)
					return o
				}
				s.released("i1")
				s.kept(device.Error, device.CodeResultMismatch)
				require.True(t, s.d.Status().NeedsOperator && s.d.Device.Dirty)
				delete(s.ends, "zero")
				s.ok(contract.VerbClean, all)
				s.returned()
			})
		}
	}
}

// following has the host begin verify in the activity of zero, and end it so.
func (s *scene) following(next func(contract.StepAnswer) *contract.NextResult) {
	s.ends["zero"] = func(o Outcome) Outcome {
		answer := o.Found.(*contract.StepAnswer)
		answer.Next = next(*answer)
		return o
	}
}

// Steps that take a moment share an activity, and each has its result. A step that takes longer has an activity of its
// own, with a number that was not used before; one that fails for good fails the clean: it is not repeated until it
// passes.
//
// F1, F26
func TestVerifyFollowsInTheActivityOfZero(t *testing.T) {
	run := func(t *testing.T, next func(contract.StepAnswer) *contract.NextResult) *scene {
		s := tenant(t)
		s.following(next)
		s.made, s.inputs = nil, nil
		s.released("i1")
		for s.d.Device.State != device.Available && s.d.Device.State != device.Error {
			require.True(t, s.next())
		}
		s.rest()
		return s
	}
	t.Run("done", func(t *testing.T) {
		s := run(t, func(a contract.StepAnswer) *contract.NextResult {
			return &contract.NextResult{Result: &contract.StepResult{Step: "verify", Clean: a.Clean, Seq: a.Seq + 1, RunTime: 1}}
		})
		require.Equal(t, []string{"EnsureReserved", "FindBySerial", "zero", "Unreserve"}, s.made)
		require.Equal(t, []any{"cleaned", "zero", "verify", stepTime + 1}, []any{s.lastClean().Outcome,
			s.lastClean().Steps[0].Step, s.lastClean().Steps[1].Step, s.lastClean().RunTime})
	})
	t.Run("takes longer", func(t *testing.T) {
		s := run(t, func(contract.StepAnswer) *contract.NextResult { return nil })
		require.Equal(t, []string{"zero", "verify"}, s.stepsRun())
		require.Equal(t, s.inputs[0].Seq+2, s.inputs[1].Seq)
		require.Len(t, s.lastClean().Steps, 2)
	})
	t.Run("fails", func(t *testing.T) {
		s := run(t, func(contract.StepAnswer) *contract.NextResult {
			return &contract.NextResult{Refusal: &contract.Refusal{Fault: *refusing(device.NeedsOperator,
				device.CodeVerifyFailed)}}
		})
		require.Equal(t, []string{"zero"}, s.stepsRun())
		s.kept(device.Error, device.CodeVerifyFailed)
		require.Equal(t, []any{"failed", 1, "verify"},
			[]any{s.lastClean().Outcome, len(s.lastClean().Steps), s.lastClean().Failure.Step})
	})
}

// Steps that an operator names run in the order given, and do not make a device clean. Those that the host does not
// know, or that do not apply, are refused, and change nothing.
//
// F7, S3.22
func TestNamedStepsNeverClearDirty(t *testing.T) {
	s := manageable(t, false)
	s.bytes = ""
	s.ok(contract.VerbClean, only("verify", "zero"))
	s.kept(device.Manageable, "")
	require.Equal(t, []any{true, "steps_done"}, []any{s.d.Device.Dirty, s.lastClean().Outcome})
	s.host.Steps["sanitize"] = 1
	s.refresh()
	s.unchanged(func() {
		s.refused(device.CodeNoSuchStep, contract.VerbClean, only("polish"))
		s.refused(device.CodeInvalid, contract.VerbClean, only("zero", " "))
		f := s.refused(device.CodeNoSuchStep, contract.VerbClean, only("zero", "sanitize"))
		require.Contains(t, f.Remedy, "zero, verify")
	})
	s.ok(contract.VerbProvide, noInput)
	s.returned()
	require.Equal(t, []string{"verify", "zero", "zero", "verify"}, s.stepsRun(), "the full plan runs all the same")
}

// An abort is answered at once with what it waits for. It ends in error, reserved, and no second clean begins by
// itself.
//
// F9
func TestAbortInEachPhase(t *testing.T) {
	for name, c := range map[string]struct {
		lead func(*scene)
		busy string
	}{
		"reading the inventory": {func(s *scene) { s.until(contract.ActivityEnsureReserved) }, ""},
		"zero":                  {func(s *scene) { s.until("zero") }, "zero"},
		"verify":                {func(s *scene) { s.until("verify") }, "verify"},
		"replanning": {func(s *scene) {
			s.host.Steps["verify"] = 2
			s.until("verify")
			s.until(contract.ActivityDiscover)
		}, ""},
		"host unreachable":                       {func(s *scene) { s.away = true; s.lasts(time.Hour) }, ""},
		"before the host counts as unreachable":  {func(s *scene) { s.away = true; s.lasts(time.Minute) }, ""},
		"waiting for its operator (D7), by hand": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.e.OneTimeUse = true
			s.offers().boundTo("i1")
			s.policy.Automated = c.lead != nil
			s.released("i1")
			if c.lead != nil {
				c.lead(s)
			}
			abort, err := s.send(contract.VerbAbort, noInput)
			require.NoError(t, err)
			require.True(t, abort.Ended && abort.Err == nil, "answered at once")
			require.NotEmpty(t, abort.Result.Note)
			if c.busy != "" {
				require.Contains(t, abort.Result.Note, c.busy)
				require.Equal(t, device.Cleaning, s.d.Device.State, "until the step has stopped")
				require.True(t, s.ok(contract.VerbAbort, noInput).Already || s.d.Device.State == device.Error)
			}
			s.kept(device.Error, device.CodeAborted)
			require.True(t, s.d.Status().NeedsOperator && s.d.Device.InMaintenance())
			s.refused(device.CodeRefused, contract.VerbAbort, noInput)
			s.away = false
			s.lasts(time.Hour)
			s.kept(device.Error, device.CodeAborted)
			s.ok(contract.VerbClean, all)
			s.returned()
		})
	}
	t.Run("nothing to abort", func(t *testing.T) {
		for _, state := range []string{"manageable", "available", "allocated"} {
			s := newScene(t)
			leads[state](s)
			s.refused(device.CodeRefused, contract.VerbAbort, noInput)
			s.decide(Canceled{})
			require.Contains(t, s.d.LastRefusal, "Cancel")
			require.True(t, s.d.ContinueAsNew)
		}
	})
	t.Run("being returned", func(t *testing.T) {
		s := tenant(t)
		s.released("i1")
		s.until(contract.ActivityUnreserve)
		s.refused(device.CodeRefused, contract.VerbAbort, noInput)
	})
}

// A clean that must stop does not end the next one: the device is provided while its step still stops.
//
// F9
func TestAStoppedCleanDoesNotEndTheNextOne(t *testing.T) {
	s := novas(t).offers()
	s.allocated("c1").inv.Free("c1")
	s.hint()
	s.until("verify")
	s.stopping = true
	s.ok(contract.VerbRetire, lost(""))
	s.host.Identity.Serial = "S2"
	s.ok(contract.VerbReplace, contract.ReplaceInput{Reason: "another drive"})
	s.ok(contract.VerbProvide, noInput)
	require.NotEmpty(t, s.d.Undue(), "its step stops")
	s.stopping = false
	s.returned()
}

// A write that is not Burnish's stops a clean. Its operator gets the device only when its step has stopped.
//
// F34, F43
func TestAnothersWriteStopsTheCleanFirst(t *testing.T) {
	eachOwner(t, func(s *scene) {
		s.offers().ok(contract.VerbManage, contract.TenantInput{})
		s.ok(contract.VerbClean, only("zero"))
		s.until("zero")
		if s.d.ownedByBurnish() {
			s.inv.WriteByOther(1)
		} else {
			s.inv.Recreate("again")
		}
		s.stopping = true
		s.hint()
		s.answers(contract.ActivityReadReservation)
		require.Equal(s, []any{device.Cleaning, 1}, []any{s.d.Device.State, len(s.d.Undue())})
		s.refused(device.CodeRefused, contract.VerbRetire, contract.RetireInput{})
		s.refused(device.CodeRefused, contract.VerbManage, contract.TenantInput{})
		s.bytes, s.stopping = "another's", false
		s.lasts(time.Hour)
		require.Equal(s, []any{device.Manageable, true, "another's", 1},
			[]any{s.d.Device.State, s.d.Device.Dirty, s.bytes, s.inv.Reserved})
	})
}

// A configured budget limits the running time of the whole clean; without one each step has its own. Waiting for an
// unreachable host does not count.
//
// F8, S2.62, S2.63, D5
func TestBudgetOfTheWholeClean(t *testing.T) {
	s := newScene(t)
	s.offers()
	require.Equal(t, []time.Duration{900 * time.Second, 900 * time.Second},
		[]time.Duration{s.inputs[0].Budget, s.inputs[1].Budget})
	s = newScene(t)
	s.policy.CleanupTimeout = stepTime + 2*time.Second
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
	s.kept(device.Error, device.CodeTimeout)
	require.Equal(t, []time.Duration{stepTime + 2*time.Second, 2 * time.Second},
		[]time.Duration{s.inputs[0].Budget, s.inputs[1].Budget}, "what zero left of it")
	s = tenant(t)
	s.policy.CleanupTimeout, s.away = time.Minute, true
	s.released("i1")
	s.lasts(3 * time.Hour)
	require.Equal(t, device.Cleaning, s.d.Device.State)
	s.away = false
	s.returned()
}

// The running step is shown.
//
// S3.14
func TestCurrentStepIsShown(t *testing.T) {
	s := tenant(t)
	require.Nil(t, s.d.Status().CleanStep)
	s.released("i1")
	for _, step := range []string{"zero", "verify"} {
		s.until(step)
		require.Equal(t, []string{step, "deploy"}, []string{s.d.Status().CleanStep.Step, s.d.Status().CleanStep.Interface})
	}
	s.returned()
	require.Nil(t, s.d.Status().CleanStep)
}

// A host without a worker shows that soon, calls the operator after its time, and costs little history; the clean goes
// on when the worker is back, also if only its start says so.
//
// F29
func TestUnreachableHostIsReportedAndWaitedFor(t *testing.T) {
	for name, back := range map[string]func(*scene){
		"it takes its step": func(s *scene) { s.away = false },
		"it says that it starts, and the step takes hours": func(s *scene) {
			s.hostStarts()
			v := s.d.Status()
			require.Equal(s, []any{device.Cleaning, false, ""}, []any{v.DeviceState, v.NeedsOperator, v.Fault})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := tenant(t)
			s.away = true
			s.released("i1")
			s.lasts(30 * time.Second)
			s.waits(device.CodeHostUnreachable, false)
			s.lasts(4 * time.Minute)
			s.waits(device.CodeHostUnreachable, false)
			s.lasts(2 * time.Minute)
			s.waits(device.CodeHostUnreachable, true)
			require.NotEmpty(t, s.d.Status().Remedy)
			made := len(s.made)
			s.lasts(30 * 24 * time.Hour)
			require.LessOrEqual(t, len(s.made)-made, 30*24+5)
			s.waits(device.CodeHostUnreachable, true)
			back(s)
			s.returned()
			s.waitsNot()
		})
	}
}

// waits checks what the device shows that it waits for, and whether the operator was called.
func (s *scene) waits(code device.Code, called bool) {
	s.Helper()
	v := s.d.Status()
	require.NotNil(s, v.Waiting)
	require.Equal(s, []any{code, called, string(code)}, []any{v.Waiting.Code, v.NeedsOperator, v.Fault})
	require.NotEmpty(s, v.LastError)
}

// waitsNot checks that nothing is left of a wait.
func (s *scene) waitsNot() {
	s.Helper()
	v := s.d.Status()
	require.Nil(s, v.Waiting)
	require.Equal(s, []any{"", false}, []any{v.Fault, v.NeedsOperator})
}

// The scheduling's number rises with each, so that the host knows which is newest. What the last one reached is passed
// to the next scheduling of the step, and to no other step.
//
// F1, D1
func TestEachSchedulingHasANumberOfItsOwn(t *testing.T) {
	s := tenant(t)
	s.released("i1")
	s.until("zero")
	s.away = true
	s.ends["zero"] = func(o Outcome) Outcome {
		o.Progress = &contract.Progress{Step: "zero", Offset: 2 << 20}
		delete(s.ends, "zero")
		return o
	}
	s.lasts(time.Hour)
	s.away = false
	s.returned()
	s.renewed()
	s.boundTo("i2").turnsOver("i2")
	var last int64
	var resumed []string
	for _, in := range s.inputs {
		require.Greater(t, in.Seq, last)
		last = in.Seq
		if in.Resume != nil {
			resumed = append(resumed, fmt.Sprint(in.Step, in.Resume.Offset))
		}
	}
	require.Equal(t, []string{"zero2097152"}, resumed)
}

// The clean keeps the settings of the worker that planned it, and its steps: a new build or policy restarts nothing.
//
// D1, S3.16
func TestSettingsAreTheCleansOwn(t *testing.T) {
	s := newScene(t)
	s.policy.OnInterrupt, s.policy.Verify = device.InterruptError, "sample:4"
	s.host.Steps["sanitize"] = 1
	was := s.policy.StepSettings
	s.offers().boundTo("i1").released("i1")
	s.until("zero")
	s.policy.OnInterrupt, s.policy.Verify, s.host.Steps["sanitize"] = "", "full", 2
	s.hostStarts()
	s.returned()
	require.Len(t, s.inputs, 4)
	for _, in := range s.inputs {
		require.Equal(t, was, in.Settings)
	}
	s.boundTo("i2").turnsOver("i2")
	require.Equal(t, s.policy.StepSettings, s.inputs[len(s.inputs)-1].Settings)
}

// A host worker that does not support a step is reported at once, and nothing destructive is done without a complete
// plan.
//
// S2.87
func TestHostWorkerTooOld(t *testing.T) {
	for _, step := range []string{"zero", "verify"} {
		s := tenant(t)
		delete(s.host.Steps, step)
		asked := s.now
		s.released("i1")
		s.kept(device.Error, device.CodeHostWorkerTooOld)
		require.Contains(t, s.d.Status().Remedy, "upgrade")
		require.Less(t, s.now.Sub(asked), time.Minute)
	}
	s := newScene(t)
	delete(s.host.Steps, "verify")
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
	s.kept(device.Error, device.CodeHostWorkerTooOld)
	require.Empty(t, s.inputs)
	s.refused(device.CodeHostWorkerTooOld, contract.VerbClean, all)
	s.host.Steps["verify"] = 1
	s.hostStarts()
	s.rest()
	s.ok(contract.VerbClean, all)
	s.returned()
}

// A step's version changed during a clean: it starts again from the first step, with the same operation, also if
// discovery now finds another one. A host whose versions never settle ends in error.
//
// S3.16
func TestPlanOutdatedStartsOver(t *testing.T) {
	s := tenant(t)
	s.inputs = nil
	s.released("i1")
	s.until("zero")
	s.host.Steps["verify"], s.host.Operation = 2, device.WriteZeroes
	s.returned()
	require.Equal(t, []string{"zero", "verify", "zero", "verify"}, s.stepsRun())
	require.Equal(t, []any{device.Shred, device.Shred, 2, 2}, []any{s.inputs[3].Operation, s.lastClean().Operation,
		s.inputs[3].Version, len(s.cleans())})

	s = tenant(t)
	s.ends["zero"] = func(o Outcome) Outcome { s.host.Steps["verify"]++; return o }
	s.released("i1")
	s.kept(device.Error, device.CodePlanOutdated)
}

// What the host finds replaces the recorded operation when the device is idle, and not while it is in use.
//
// S2.28
func TestOperationIsReplacedOnlyWhenIdle(t *testing.T) {
	s := tenant(t)
	s.host.Operation = device.WriteZeroes
	s.refresh()
	require.Equal(t, device.Shred, s.d.Host.Operation)
	s.turnsOver("i1")
	s.refresh()
	require.Equal(t, device.WriteZeroes, s.d.Host.Operation)
}

// A workflow that was put back to an earlier moment gives out a number that its host knows. It continues with the
// host's numbers, and uses none of them for another step.
//
// F26
func TestTheHostsNumbersAreTakenOver(t *testing.T) {
	s := tenant(t)
	s.inputs = nil
	s.record.Seq, s.record.Clean = s.record.Seq+3, s.record.Clean+1
	known := s.record
	s.released("i1")
	s.returned()
	var used []int64
	for _, in := range s.inputs {
		used = append(used, in.Seq)
	}
	require.Equal(t, []int64{known.Seq - 2, known.Seq + 1, known.Seq + 3}, used,
		"zero has a number for a verify in its activity")
	require.Equal(t, []any{known.Clean + 1, 2}, []any{s.lastClean().Number, len(s.lastClean().Steps)})
}

// The database is put back to a clean that waits for its host's discovery, and the host has worked for a later tenant
// since: the clean was reserved before that, and does not begin.
//
// F26, F36
func TestACleanThatItsHostHasOvertakenDoesNotBegin(t *testing.T) {
	s := newScene(t).offers()
	s.terminated()
	s.away = true
	for s.d.Device.State != device.PendingCleaning || !s.d.calls(contract.ActivityDiscover) {
		require.True(t, s.within(time.Minute))
	}
	s.inv.Tenant = new("i2")
	s.inv.Rest = device.Record{Witness: device.WitnessBound, Tenant: "i2", Bindings: 1, Cleans: 9}
	s.inv.Generation += 5
	s.record.Seq, s.record.Clean, s.bytes, s.away = s.record.Seq+3, 9, "i2", false
	s.reach(device.Allocated)
	s.lasts(time.Hour)
	require.Equal(t, []any{"i2", "i2"}, []any{s.d.instance(), s.bytes})
	s.released("i2")
	s.returned()
}

// Whatever is tried again shows its cause, calls the operator when it has lasted, and ends by itself.
//
// F29
func TestWaitsShowTheirCause(t *testing.T) {
	for name, c := range map[string]struct {
		lead func(*scene)
		ends device.State
		code device.Code
	}{
		"the inventory at the start of a clean": {func(s *scene) { s.inv.InjectFault = away; s.released("i1") },
			device.Available, device.CodeInventoryUnavailable},
		"the inventory at the return": {func(s *scene) {
			s.released("i1")
			s.until(contract.ActivityUnreserve)
			s.inv.InjectFault = away
		}, device.Available, device.CodeInventoryUnavailable},
		"the inventory at a re-check": {func(s *scene) { s.inv.InjectFault = away; s.hint() }, device.Allocated,
			device.CodeInventoryUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := tenant(t)
			c.lead(s)
			s.lasts(5 * time.Second)
			s.waits(c.code, false)
			since := s.d.Status().Waiting.Since
			s.lasts(4 * time.Minute)
			s.waits(c.code, false)
			s.lasts(2 * time.Minute)
			s.waits(c.code, true)
			s.lasts(5 * time.Hour)
			s.waits(c.code, true)
			require.Equal(t, since, s.d.Status().Waiting.Since)
			s.inv.InjectFault = nil
			s.lasts(2 * time.Minute)
			s.reach(c.ends)
			s.waitsNot()
		})
	}
}

// A report of a step that has ended, or of an earlier scheduling, is dropped; one of a step without progress calls the
// operator at once and ends with its progress, and a queue that moves never calls by itself.
//
// F29
func TestReportsOfSteps(t *testing.T) {
	s := tenant(t)
	report := func(seq int64, change func(*contract.WaitReport)) {
		in := contract.WaitReport{For: contract.WaitHost, Seq: seq, Fault: *refusing(device.Transient, device.CodeNoProgress)}
		change(&in)
		s.decide(Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{Wait: &in}})
	}
	stalled := func(r *contract.WaitReport) { r.Stalled = true }
	over := func(r *contract.WaitReport) { r.Fault = device.Fault{} }
	report(s.d.Seq, stalled)
	s.waitsNot()
	s.released("i1")
	s.until("zero")
	seq := s.d.Clean.Seq
	report(seq-1, stalled)
	s.waitsNot()
	report(seq, stalled)
	s.waits(device.CodeNoProgress, true)
	report(seq, over)
	s.waitsNot()
	report(seq, func(r *contract.WaitReport) { r.Moving = true })
	s.pass(time.Hour)
	s.waits(device.CodeNoProgress, false)
	s.returned()
	s.waitsNot()
}

// Nova's provider is away, as while Nova re-creates it: the clean waits for it, also for hours, can be aborted
// meanwhile, and goes on with the new one once it is burned.
//
// F29
func TestCleanWaitsForItsProvider(t *testing.T) {
	for _, aborted := range []bool{false, true} {
		s := novas(t).offers().boundTo("i1")
		s.inv.ProviderGone = true
		s.released("i1")
		s.lasts(2 * time.Second)
		s.waits(device.CodeNoProvider, false)
		require.Equal(t, device.PendingCleaning, s.d.Device.State)
		s.lasts(time.Hour)
		s.waits(device.CodeNoProvider, true)
		if aborted {
			s.ok(contract.VerbAbort, noInput)
			s.reach(device.Error)
			require.Equal(t, device.CodeAborted, s.d.Fault.Code)
			continue
		}
		s.recreated(false)
		s.returned()
		require.Equal(t, 2, s.wiped)
		s.waitsNot()
	}
}

// Failed work is tried again after a second, less often the longer it fails, and at once after a hint.
func TestFailedWorkIsTriedAgainSoon(t *testing.T) {
	s := tenant(t)
	s.fails(contract.ActivityReadReservation, device.NeedsOperator, device.CodeInventoryInvalid)
	reads := func() int { return s.calls(contract.ActivityReadReservation) }
	before := reads()
	s.hint()
	s.lasts(500 * time.Millisecond)
	require.Equal(t, 1, reads()-before)
	s.lasts(time.Second)
	require.Equal(t, 2, reads()-before)
	s.lasts(time.Hour)
	require.Less(t, reads()-before, 130)
	before = reads()
	s.hint()
	s.lasts(100 * time.Millisecond)
	require.Equal(t, 1, reads()-before, "a hint ends the pause")
	delete(s.faults, contract.ActivityReadReservation)
	s.lasts(5 * time.Minute)
	s.waitsNot()
	before = reads()
	s.lasts(time.Hour)
	require.Equal(t, before, reads(), "it was read, and the device is idle")
}

// A client that writes the provider, or lowers the reservation, during each clean has it begin again after a growing
// pause, in which the device is reserved; the operator is called. After a quiet time nothing is left of it.
//
// F5, F29
func TestForeignWritesArePaused(t *testing.T) {
	for what, others := range map[string]func(*scene){
		"writes": func(s *scene) {
			s.until(contract.ActivityUnreserve)
			s.inv.WriteByOther(1)
			s.answers(contract.ActivityUnreserve)
		},
		"lowers": func(s *scene) {
			s.until("zero")
			s.inv.WriteByOther(0)
			s.hint()
			s.answers(contract.ActivityReadReservation)
		},
	} {
		t.Run(what, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
				cleans := 0
				for until := s.now.Add(2 * time.Hour); s.now.Before(until) && cleans < 100; cleans++ {
					others(s)
				}
				require.Greater(s, cleans, 5)
				require.Less(s, cleans, 25, "%v; at least ten minutes between two", s.made[max(0, len(s.made)-30):])
				s.lasts(time.Minute)
				s.waits(device.CodeReservationChanged, true)
				require.Equal(s, []any{1, contract.WaitPause}, []any{s.inv.Reserved, s.d.Status().Waiting.For})
				s.returned()
				s.waitsNot()
			})
		})
	}
}

// A clean in which others wrote the provider, as a later tenant does after the database was put back to it, proves
// nothing: an operator who takes the device meanwhile does not make it clean. His own write does not begin it again.
//
// F34
func TestAnOperatorsWriteDoesNotHideOthersWrites(t *testing.T) {
	for what, c := range map[string]struct{ others, wiped int }{"others wrote": {3, 2}, "no others wrote": {0, 1}} {
		t.Run(what, func(t *testing.T) {
			s := tenant(t)
			before := s.wiped
			s.released("i1")
			s.until("verify")
			for range c.others {
				s.inv.WriteByOther(1)
			}
			s.ok(contract.VerbMaintain, fan)
			s.lasts(time.Hour)
			s.ok(contract.VerbMaintain, off)
			s.lasts(time.Hour)
			if c.others > 0 { // he holds it, as he has recorded
				require.Equal(t, device.Manageable, s.d.Device.State)
				require.True(t, s.d.Device.Dirty)
				s.ok(contract.VerbProvide, noInput)
			}
			s.returned()
			require.Equal(t, c.wiped, s.wiped-before)
		})
	}
}
