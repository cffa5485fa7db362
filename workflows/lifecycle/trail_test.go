package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// actsOf are the device's acts with a verb.
func (w *deviceEnv) actsOf(verb device.EventKind) (found []contract.Act) {
	w.t.Helper()
	for _, a := range w.view().Acts {
		if a.Verb == string(verb) {
			found = append(found, a)
		}
	}
	return found
}

// Each binding says when it began and ended, by whom and why: also where the inventory shows
// it, and where a retirement ends it. What is kept survives a continue-as-new.
func TestBindingsSayWhenAndByWhom(t *testing.T) {
	w := newAvailable(t)
	w.pass(time.Minute)
	began := w.clock()
	ok[contract.Result](w.send(contract.VerbBind.Update(), "",
		contract.BindInput{Instance: "i1", Request: "r1", Reason: "a demo", Caller: ann}))
	w.pass(time.Hour)
	over := w.clock()
	ok[contract.Result](w.send(contract.VerbUnbind.Update(), "",
		contract.UnbindInput{Instance: "i1", Caller: contract.Caller{By: "bob@h1"}}))
	w.reach(device.Available)
	w.makeBound("i2")
	ok[contract.Result](w.send(contract.VerbRetire.Update(), "",
		contract.RetireInput{Instance: "i2", Reason: "worn out", Caller: ann}))
	w.nextRun()
	all := w.view().Bindings
	require.Len(t, all, 2)
	first, second := all[0], all[1]
	require.WithinDuration(t, began, first.Began.At, 3*time.Second)
	require.WithinDuration(t, over, first.Over.At, 3*time.Second)
	require.Equal(t, []string{"bind", "ann (42)", "a demo"},
		[]string{first.Began.Verb, first.Began.By, first.Began.Reason})
	require.Equal(t, []string{"unbind", "bob@h1", ""}, []string{first.Over.Verb, first.Over.By, first.Over.Reason})
	require.Empty(t, second.Began.By, "nobody said who it is")
	require.Equal(t, []string{"retire", "ann (42)", "worn out"},
		[]string{second.Over.Verb, second.Over.By, second.Over.Reason})
}

// What no person asked for is Burnish's own: the clean after a binding, its failure because the
// time for it ended, a binding that the inventory shows.
func TestActsOfTheMachine(t *testing.T) {
	t.Run("the clean after a binding", func(t *testing.T) {
		w := newDeviceEnv(t, standardPolicy())
		ok[contract.Result](w.send(contract.VerbEnroll.Update(), "",
			contract.EnrollInput{Enrollment: w.enrollment(), Provide: true, Caller: ann}))
		w.reach(device.Available)
		w.makeBound("i1")
		w.turnOver("i1")
		cleans := w.view().Cleans
		require.Equal(t, []string{"ann (42)", contract.ByBurnish}, []string{cleans[0].By, cleans[1].By})
	})
	t.Run("its time ends", func(t *testing.T) {
		p := standardPolicy()
		p.CleanupTimeout = 5 * time.Second // a step takes 4
		w := newDeviceEnv(t, p)
		w.enroll(true)
		w.reach(device.Error)
		last := w.view().Cleans[0]
		require.Equal(t, device.CodeTimeout, last.Fault)
		require.Equal(t, "verify", last.Failure.Step)
		events := contract.HistoryOf(w.view()).Events()
		ended := events[len(events)-1]
		require.Equal(t, contract.EventCleanEnded, ended.Kind)
		require.Equal(t, contract.ByBurnish, ended.By)
		require.Contains(t, ended.Reason, "timeout")
	})
	t.Run("the inventory", func(t *testing.T) {
		w := newNovaDevice(t).available()
		w.allocatedByNova("i7")
		b := w.view().Bindings
		began := b[len(b)-1].Began
		require.Equal(t, []string{"observed_in_use", contract.ByBurnish, "the inventory shows it in use"},
			[]string{began.Verb, began.By, began.Reason})
	})
}

// A clean that failed says at which step and why, also after the next one, in a later run.
func TestAFailedCleanStaysVisible(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.injectFault = func(what string, block int) error {
		if what != "verify" || block != 1 {
			return nil
		}
		return contract.Refuse(contract.Refusal{
			Fault:    device.Fault{Class: device.NeedsOperator, Code: device.CodeVerifyFailed, Message: "block 1 is not zero"},
			Progress: &contract.Progress{Step: "verify", Offset: 16 << 20, Size: 64 << 20}, Attempt: 3,
		})
	}
	w.enroll(true)
	w.reach(device.Error)
	w.host.injectFault = nil
	ok[contract.Result](w.send(contract.VerbClean.Update(), "", contract.CleanInput{Reason: "again", Caller: ann}))
	w.reach(device.Available)
	w.nextRun()
	cleans := w.view().Cleans
	require.Len(t, cleans, 2)
	require.Equal(t, "failed", cleans[0].Outcome)
	require.Equal(t, device.CodeVerifyFailed, cleans[0].Fault)
	require.Equal(t, &contract.CleanFailure{Step: "verify", Offset: 16 << 20, Size: 64 << 20, Attempt: 3,
		Message: "block 1 is not zero"}, cleans[0].Failure)
	require.Nil(t, cleans[1].Failure)
	require.Equal(t, []string{"ann (42)", "again"}, []string{cleans[1].By, cleans[1].Reason})
}

// A Cancel that ends a clean is an act; one that changes nothing is none. A signal says that it
// is one. Neither says who sent it.
func TestACancelIsAnAct(t *testing.T) {
	w := newBound(t)
	before := w.verbs()
	w.cancel()
	w.pass(time.Second)
	require.Equal(t, before, w.verbs())
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.cancel()
	w.reach(device.Error)
	last := w.lastAct()
	require.Equal(t, []string{"abort", "by a Cancel", "", contract.FromCancel},
		[]string{last.Verb, last.Detail, last.By, last.From})
	w.signal(contract.SignalClean, contract.CleanInput{})
	w.reach(device.Available)
	last = w.lastAct()
	require.Equal(t, []string{"clean", "", "", contract.FromSignal}, []string{last.Verb, last.Detail, last.By, last.From})
}

// A resume of a model is an act of each device that waited for it.
func TestAResumeIsAnActOfTheDevicesThatWaited(t *testing.T) {
	w := newQueued(t, device.Limits{Breaker: 1})
	w.answer(contract.SlotAnswer{Why: &device.Fault{Class: device.NeedsOperator, Code: device.CodeBreakerOpen,
		Message: "zero failed on M1", Remedy: "resume"}})
	w.pass(time.Minute)
	act := contract.ResumeInput{Model: "M1", Step: "zero", Reason: "a new cable", Caller: ann}.Act()
	act.Verb, act.Request = "resume", "resume-1"
	w.answer(contract.SlotAnswer{Granted: true, Resumed: &act})
	w.stepRuns("zero")
	w.answer(contract.SlotAnswer{Granted: true, Resumed: &act}) // it waits no longer
	w.reach(device.Available)
	got := w.actsOf("resume")
	require.Len(t, got, 1)
	require.False(t, got[0].At.IsZero())
	got[0].At = time.Time{}
	require.Equal(t, contract.Act{Verb: "resume", Detail: "zero on M1", By: "ann (42)", From: "192.0.2.7",
		Reason: "a new cable", Request: "resume-1"}, got[0])
}

// What is kept for the history costs no event: a turnover by callers who say much has as many
// as one by callers who say nothing.
func TestWhatIsKeptCostsNoEvent(t *testing.T) {
	turnover := func(by contract.Caller, reason string) int {
		w := newAvailable(t)
		activities, upserts := len(w.scheduledActivities), w.upserts
		ok[contract.Result](w.send(contract.VerbBind.Update(), "",
			contract.BindInput{Instance: "i1", Request: "r1", Reason: reason, Caller: by}))
		ok[contract.Result](w.send(contract.VerbUnbind.Update(), "",
			contract.UnbindInput{Instance: "i1", Reason: reason, Caller: by}))
		w.returned()
		return 100*(len(w.scheduledActivities)-activities) + w.upserts - upserts
	}
	require.Equal(t, turnover(contract.Caller{}, ""), turnover(ann, "a demo"))
}
