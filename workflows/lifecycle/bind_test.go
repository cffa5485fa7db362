package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func TestOfTwoBindsAtOnceOneWins(t *testing.T) {
	w := newAvailable(t)
	w.answered = func(c *call) {
		if c.err == nil && w.inventory.reserved != 1 {
			w.Errorf("%s was answered before the device was burned", c.verb)
		}
	}
	var calls []*call
	for _, instance := range []string{"i1", "i2", "i3", "i4"} {
		calls = append(calls, w.bind(instance, ""))
	}
	var won []string
	for _, c := range calls {
		if c.wait(); c.err == nil {
			won = append(won, c.in.(contract.BindInput).Instance)
			continue
		}
		c.refused(device.CodeRefused)
	}
	require.Len(t, won, 1)
	require.Equal(t, won[0], *w.view().InstanceUUID)
}

// S2.42
func TestBindIsRefusedFromAnyOtherState(t *testing.T) {
	for name, lead := range map[string]func(*deviceEnv){
		"manageable": func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) },
		"allocated":  func(w *deviceEnv) { w.makeBound("i1") },
		"cleaning":   func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("verify") },
		"error":      func(w *deviceEnv) { w.makeFailed() },
		"held":       func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.maintain(false)) },
		"claimed":    func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.claim("i1", time.Hour)) },
		"retired":    func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.ask(contract.VerbRetire.Update())) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			lead(w)
			before := w.view()
			w.bind("i9", "r9").refused(device.CodeRefused)
			require.Equal(t, before, w.view(), "a refusal by the validator leaves nothing behind")
		})
	}
}

// S2.41
func TestBindAgainIsTheSameBinding(t *testing.T) {
	w := newAvailable(t)
	require.Equal(t, 1, w.makeBound("i1"))
	writes := len(w.inventory.writes)
	for range 2 {
		again := ok[contract.Result](w.bind("i1", "r-i1"))
		require.Equal(t, 1, again.Binding)
		require.True(t, again.Already)
		w.nextRun()
	}
	require.Equal(t, 1, ok[contract.Result](w.bind("i1", "")).Binding, "the instance that has it, without a request")
	w.bind("i1", "another request").refused(device.CodeRefused)
	w.bind("i9", "").refused(device.CodeRefused)
	w.bind("i9", "r-i1").refused(device.CodeRefused)
	require.Len(t, w.inventory.writes, writes)

	ok[contract.Result](w.unbind("i1"))
	w.bind("i1", "r-i1").refused(device.CodeBindingEnded)
	w.reach(device.Available)
	w.bind("i1", "r-i1").refused(device.CodeBindingEnded)
	w.nextRun()
	w.bind("i1", "r-i1").refused(device.CodeBindingEnded)
	require.Equal(t, 2, ok[contract.Result](w.bind("i1", "r2")).Binding)
	w.bind("i1", "r-i1").refused(device.CodeBindingEnded)
}

// A client that was killed during its bind repeats the request: it gets the result of that bind,
// and not a refusal because the device is claimed.
func TestBindAgainWhileTheFirstIsUnderWay(t *testing.T) {
	w := newAvailable(t)
	w.slow("", 4*time.Second, 4*time.Second)
	first := w.bind("i1", "r1")
	w.pass(time.Second)
	second := w.bind("i1", "r1")
	require.Equal(t, 1, ok[contract.Result](first).Binding)
	require.Equal(t, 1, ok[contract.Result](second).Binding)
}

// F6
func TestUnbindNamesItsInstance(t *testing.T) {
	w := newBound(t)
	w.unbind("i2").refused(device.CodeRefused)
	w.unbind("").refused(device.CodeRefused)
	require.Equal(t, device.Allocated, w.view().DeviceState)
	ok[contract.Result](w.unbind("i1"))
	require.True(t, ok[contract.Result](w.unbind("i1")).Already, "repeated while it is cleaned")
	w.reach(device.Available)
	require.True(t, ok[contract.Result](w.unbind("i1")).Already)
	w.makeBound("i2")
	w.nextRun()
	require.True(t, ok[contract.Result](w.unbind("i1")).Already,
		"the unbind of an earlier binding does not end the new one")
	require.Equal(t, "i2", *w.view().InstanceUUID)
	w.unbind("i3").refused(device.CodeRefused)
}

// S0.18, S3.26
func TestRebuildKeepsTheDevice(t *testing.T) {
	w := newBound(t)
	names, writes := len(w.scheduledActivities), len(w.inventory.writes)
	for range 2 {
		ok[contract.Result](w.send(contract.VerbRebuild.Update(), "", contract.UnbindInput{Instance: "i1"}))
	}
	w.send(contract.VerbRebuild.Update(), "", contract.UnbindInput{Instance: "i2"}).refused(device.CodeRefused)
	w.pass(time.Hour)
	require.Equal(t, []string{contract.ActivityReadReservation}, w.scheduledActivities[names:], "no clean and no burn")
	require.Len(t, w.inventory.writes, writes)
	require.Equal(t, 1, w.view().Binding)
	ok[contract.Result](w.unbind("i1"))
	w.send(contract.VerbRebuild.Update(), "", contract.UnbindInput{Instance: "i1"}).refused(device.CodeRefused)
}

func (w *deviceEnv) claim(instance string, within time.Duration) *call {
	return w.send(contract.VerbClaim.Update(), "", contract.BindInput{
		Instance: instance, Request: "r-" + instance, Deadline: w.clock().Add(within).Format(time.RFC3339),
	})
}

func (w *deviceEnv) burn(instance string) *call {
	return w.send(contract.VerbBurn.Update(), "", contract.BindInput{Instance: instance, Request: "r-" + instance})
}

func (w *deviceEnv) unclaim(instance string) *call {
	return w.send(contract.VerbUnclaim.Update(), "", contract.BindInput{Instance: instance, Request: "r-" + instance})
}

// makeFailed brings the device into error by a failing step.
func (w *deviceEnv) makeFailed() {
	w.t.Helper()
	w.makeBound("i1")
	w.host.injectFault = func(what string, block int) error {
		if what == "zero" && block == 2 {
			return refuse(device.Permanent, device.CodeIO)
		}
		return nil
	}
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Error)
	w.host.injectFault = nil
}

// S0.5
func TestClaimThenBurn(t *testing.T) {
	w := newAvailable(t)
	r := ok[contract.Result](w.claim("i1", time.Hour))
	require.Zero(t, r.Binding)
	require.Zero(t, w.inventory.reserved, "burned as late as possible")
	require.Equal(t, "i1", w.view().ClaimedBy)
	require.True(t, ok[contract.Result](w.claim("i1", time.Hour)).Already)
	w.claim("i2", time.Hour).refused(device.CodeRefused)
	w.bind("i2", "r-i2").refused(device.CodeRefused)
	w.burn("i2").refused(device.CodeRefused)
	w.unclaim("i2").refused(device.CodeRefused)
	w.nextRun()
	require.Equal(t, 1, ok[contract.Result](w.burn("i1")).Binding)
	require.Equal(t, 1, w.inventory.reserved)
	require.Equal(t, 1, ok[contract.Result](w.burn("i1")).Binding)
}

func TestBindTakesUpItsOwnClaim(t *testing.T) {
	w := newAvailable(t)
	ok[contract.Result](w.claim("i1", time.Hour))
	require.Equal(t, 1, ok[contract.Result](w.bind("i1", "r-i1")).Binding)
}

func TestUnclaimLeavesTheDeviceAsItWas(t *testing.T) {
	w := newAvailable(t)
	cleans, writes := len(w.view().Cleans), len(w.inventory.writes)
	ok[contract.Result](w.claim("i1", time.Hour))
	ok[contract.Result](w.unclaim("i1"))
	require.True(t, ok[contract.Result](w.unclaim("i1")).Already)
	w.pass(2 * time.Hour)
	require.Equal(t, device.Available, w.view().DeviceState)
	require.Len(t, w.view().Cleans, cleans)
	require.Len(t, w.inventory.writes, writes)
	w.burn("i1").refused(device.CodeRefused)
	w.makeBound("i2")
}

func TestClaimExpiresAtItsDeadline(t *testing.T) {
	for _, runs := range []int{0, 1, 3} {
		w := newAvailable(t)
		cleans, writes := len(w.view().Cleans), len(w.inventory.writes)
		until := w.clock().Add(time.Hour).Truncate(time.Second)
		ok[contract.Result](w.claim("i1", time.Hour))
		for range runs {
			w.pass(10 * time.Minute)
			w.nextRun()
		}
		w.pass(until.Sub(w.clock()) - time.Millisecond)
		require.Equal(t, "i1", w.view().ClaimedBy)
		w.pass(2 * time.Millisecond)
		require.Empty(t, w.view().ClaimedBy)
		require.Contains(t, w.view().LastRefusal, "claim")
		require.Equal(t, device.Available, w.view().DeviceState)
		require.Len(t, w.view().Cleans, cleans, "nothing was used, nothing is cleaned")
		require.Len(t, w.inventory.writes, writes)
		w.burn("i1").refused(device.CodeRefused)
		w.makeBound("i2")
	}
}

func TestClaimNeedsADeadlineAhead(t *testing.T) {
	w := newAvailable(t)
	w.claim("i1", -time.Second).refused(device.CodeInvalid)
	w.send(contract.VerbClaim.Update(), "", contract.BindInput{Instance: "i1", Deadline: "tomorrow"}).
		refused(device.CodeInvalid)
	w.send(contract.VerbClaim.Update(), "", contract.BindInput{Deadline: "2031-01-01T00:00:00Z"}).
		refused(device.CodeInvalid)
	require.Empty(t, w.view().ClaimedBy)
}

// A burn that began holds the device past its claim's deadline.
func TestDeadlineDoesNotEndABurn(t *testing.T) {
	w := newAvailable(t)
	ok[contract.Result](w.claim("i1", 3*time.Second))
	w.slow("", 4*time.Second, 4*time.Second)
	require.Equal(t, 1, ok[contract.Result](w.burn("i1")).Binding)
}

// A request never gets a second binding, also when more bindings came after it than the history
// lists, and more updates than are kept.
//
// F41
func TestRequestGetsNoSecondBindingAfterManyOthers(t *testing.T) {
	w := newAvailable(t)
	ok[contract.Result](w.bind("i1", "r0"))
	ok[contract.Result](w.unbind("i1"))
	for n := range contract.KeptBindings + 3 {
		w.makeAllocatable()
		ok[contract.Result](w.bind("i1", fmt.Sprint("other ", n)))
		ok[contract.Result](w.unbind("i1"))
	}
	w.makeAllocatable()
	w.bind("i1", "r0").refused(device.CodeBindingEnded)
	w.send(contract.VerbClaim.Update(), "",
		contract.BindInput{Instance: "i1", Request: "r0", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}).
		refused(device.CodeBindingEnded)
	ok[contract.Result](w.bind("i2", "r0")) // another instance's request is another one
}
