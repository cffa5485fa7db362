package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// follows makes a bound device whose host takes a moment for each step, and begins verify in the
// activity of zero up to a block.
func follows(t *testing.T, upTo int) *deviceEnv {
	t.Helper()
	w := newDeviceEnv(t, standardPolicy())
	w.host.brief = true
	w.host.follows = func() int { return upTo }
	w.makeBound("i1")
	return w
}

// Steps that take a moment share an activity, and each has its result.
func TestVerifyFollowsInTheActivityOfZero(t *testing.T) {
	w := follows(t, blocks)
	calls, upserts, inputs := len(w.scheduledActivities), w.upserts, len(w.host.inputs)
	var read []int
	w.host.read = func(block int) { read = append(read, block) }
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Available)
	w.idle()
	require.Equal(t, []string{"EnsureReserved", "FindBySerial", "zero", "Unreserve"}, w.scheduledActivities[calls:])
	require.Len(t, w.host.inputs, inputs+1)
	require.Equal(t, upserts+2, w.upserts)
	last := v.Cleans[len(v.Cleans)-1]
	require.Equal(t, "cleaned", last.Outcome)
	require.Len(t, last.Steps, 2)
	require.Equal(t, "zero", last.Steps[0].Step)
	require.Equal(t, "verify", last.Steps[1].Step)
	require.Equal(t, last.RunTime, last.Steps[0].RunTime+last.Steps[1].RunTime)
	require.Equal(t, []int{0, 1, 2, 3}, read)
}

// A step that takes longer has an activity of its own, which continues, with a number that was
// not used before.
//
// F1, F26
func TestAStepThatTakesLongerHasItsOwnActivity(t *testing.T) {
	w := follows(t, 1)
	calls, inputs := len(w.scheduledActivities), len(w.host.inputs)
	var read []int
	w.host.read = func(block int) { read = append(read, block) }
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Available)
	require.Equal(t, []string{"EnsureReserved", "FindBySerial", "zero", "verify", "Unreserve"},
		w.scheduledActivities[calls:])
	require.Equal(t, []int{0, 1, 2, 3}, read)
	zero, verify := w.host.inputs[inputs], w.host.inputs[inputs+1]
	require.Equal(t, zero.Seq+2, verify.Seq)
	require.Len(t, v.Cleans[len(v.Cleans)-1].Steps, 2)
}

// A verification that fails for good fails the clean: it is not repeated until it passes.
//
// F26
func TestAStepThatFollowsAndFailsFailsTheClean(t *testing.T) {
	w := follows(t, blocks)
	failures := 0
	w.host.injectFault = func(step string, _ int) error {
		if step != "verify" || failures > 0 {
			return nil
		}
		failures++
		return refuse(device.NeedsOperator, device.CodeVerifyFailed)
	}
	calls := len(w.scheduledActivities)
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodeVerifyFailed), v.Fault)
	require.Equal(t, 1, failures)
	require.NotContains(t, w.scheduledActivities[calls:], "verify")
	last := v.Cleans[len(v.Cleans)-1]
	require.Equal(t, "failed", last.Outcome)
	require.Len(t, last.Steps, 1)
	require.Equal(t, "verify", last.Failure.Step)
	require.Equal(t, 1, w.inventory.reserved)
}

// The result of a step that follows counts only for this clean and this scheduling.
//
// F26
func TestAResultThatFollowsIsCompared(t *testing.T) {
	for what, change := range map[string]func(*contract.StepResult){
		"another scheduling": func(r *contract.StepResult) { r.Seq-- },
		"another clean":      func(r *contract.StepResult) { r.Clean += "0" },
		"another step":       func(r *contract.StepResult) { r.Step = "zero" },
	} {
		t.Run(what, func(t *testing.T) {
			w := follows(t, blocks)
			w.host.misreport = func(r *contract.StepResult) {
				if r.Step == "verify" {
					change(r)
				}
			}
			ok[contract.Result](w.unbind("i1"))
			require.Equal(t, string(device.CodeResultMismatch), w.reach(device.Error).Fault)
		})
	}
}

// The host is killed while the second step runs in the activity of the first: the next attempt
// finds that the first is done, and repeats the second alone.
//
// F2
func TestAHostIsKilledInAStepThatFollows(t *testing.T) {
	w := follows(t, blocks)
	zeroed, killed := 0, false
	w.host.zeroed = func(int) { zeroed++ }
	w.host.read = func(block int) {
		if block == 2 && !killed {
			killed = true
			w.host.crash()
			w.after(time.Second, w.host.restart)
		}
	}
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Available)
	require.True(t, killed)
	require.Equal(t, blocks, zeroed)
	require.Len(t, v.Cleans[len(v.Cleans)-1].Steps, 2)
	require.True(t, w.host.clean())
}

// The task of a return is lost after it lowered the reservation, and an abort comes before the end
// of the activity in the task that comes in its place: the reservation is raised again.
//
// F5, F30
func TestAnAbortAfterALostReturnOfTwoStepsIsReserved(t *testing.T) {
	w := follows(t, blocks)
	w.host.brief = false
	w.requireAbortAfterALostReturn("zero")
}
