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
