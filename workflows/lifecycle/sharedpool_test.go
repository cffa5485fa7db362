package lifecycle_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

func thePool() *contract.Pool {
	return &contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/1",
		Template: "/rest/server-profile-templates/1", Dynamic: true}
}

// newShared is a server of a shared pool. Whatever is done to it while another user has it
// fails the test.
func newShared(t testing.TB) *deviceEnv {
	w := newDeviceEnv(t, standardPolicy())
	w.share()
	return w
}

func (w *deviceEnv) share() {
	w.pool, w.shared = newFakePool(), thePool()
	w.pools = &activities.Pools{Pools: w.pool, Log: slog.New(slog.DiscardHandler)}
	w.host.discovery.Type = "NODE"
	w.beforeCall = func(name string) {
		if _, step := w.host.steps[name]; (step || name == contract.ActivityPower) && w.pool.taken() {
			w.Errorf("%s of a server that another user has", name)
		}
		if name == contract.ActivityApplyProfile && !w.view().Pool.Applying {
			w.Errorf("a profile is applied before the state says so")
		}
	}
	w.inventory.onWrite = func(what string) {
		if what == "put" && w.inventory.reserved == 0 && w.pool.ours() > 0 {
			w.Errorf("it is offered with a profile of ours")
		}
	}
}

// poll sends what the polls send.
func (w *deviceEnv) poll(name string) {
	w.t.Helper()
	w.signal(name, contract.Hint{Source: "oneview/rack1"})
	w.pass(3 * time.Second)
	w.idle()
}

func (w *deviceEnv) requireTaken() {
	w.t.Helper()
	v := w.reach(device.Manageable)
	require.True(w.t, v.Dirty)
	require.True(w.t, v.Pool.Taken)
	require.Equal(w.t, "taken: another user of rack1 has the server", v.MaintenanceReason)
	require.Contains(w.t, w.bind("i9", "r9").refused(device.CodeRefused).Fault.Remedy, "take another server")
	require.Equal(w.t, 1, w.inventory.reserved)
}

// leaveAndClean has the other user leave: the server is cleaned before it is available.
func (w *deviceEnv) leaveAndClean() {
	w.t.Helper()
	w.host.writeAsTenant("theirs")
	w.pool.leave()
	w.poll(contract.SignalFreed)
	w.requireAvailableWithoutProfile()
}

func (w *deviceEnv) requireAvailableWithoutProfile() {
	w.t.Helper()
	v := w.reach(device.Available)
	w.idle()
	require.True(w.t, w.host.clean())
	require.Zero(w.t, w.inventory.reserved)
	require.Empty(w.t, w.pool.profiles)
	require.False(w.t, v.Maintenance)
	require.Equal(w.t, contract.PoolState{Tag: fmt.Sprint(w.pool.version)}, w.view().Pool.PoolState)
}

// A server has a profile of Burnish's only while it is cleaned or in use: a temporary one for
// its first clean, the tenant's own for the clean after it.
//
// S4.19, S4.20, S4.21, S4.22
func TestASharedServerHasAProfileOnlyWhileItIsUsed(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	require.Equal(t, []string{"read", "apply", "remove"}, w.pool.calls)
	w.requireAvailableWithoutProfile()

	w.pool.calls = nil
	w.makeBound("i1")
	require.Equal(t, []string{"read", "apply"}, w.pool.calls)
	v := w.view()
	require.Equal(t, w.pool.profile, v.Pool.Profile)
	require.Equal(t, "rack1", v.Pool.Appliance)
	require.False(t, v.Pool.Applying)
	w.nextRun()

	w.pool.calls = nil
	ok[contract.Result](w.unbind("i1"))
	w.requireAvailableWithoutProfile()
	require.Equal(t, []string{"read", "remove"}, w.pool.calls, "the clean uses the tenant's profile")
}

// What others took is not bound, whichever moment they chose, and is not cleaned until they have
// left.
//
// S4.11, S4.18
func TestOthersTakeTheServerBetweenAnyTwoCalls(t *testing.T) {
	n := 0
	life := func(t *testing.T, at int) (took bool) {
		calls := 0
		w, over := newShared(t), false
		check := w.beforeCall
		w.beforeCall = func(name string) {
			check(name)
			if calls++; calls > at && !took && !over {
				took = w.pool.take() // as soon as it is free
			}
		}
		ok[contract.Result](w.enroll(true))
		bound := false
		w.until("available, or taken", func() bool {
			return w.activitiesInFlight == 0 &&
				slices.Contains([]device.State{device.Available, device.Error}, w.view().DeviceState)
		})
		if w.view().DeviceState == device.Available {
			c := w.bind("i1", "r").wait()
			bound = c.err == nil
			require.False(t, bound && w.pool.taken(), "bound to a server that another user has")
			if !bound {
				r, _ := contract.RefusalOf(c.err)
				require.Equal(t, device.CodeServerTaken, r.Fault.Code)
				require.Equal(t, device.Error, w.view().DeviceState)
				w.bind("i1", "r").refused(device.CodeRefused)
			}
		}
		if bound {
			w.host.writeAsTenant("i1")
			ok[contract.Result](w.unbind("i1"))
			w.settled()
		}
		if over = true; !took {
			require.True(t, w.pool.take())
		}
		v := w.settled()
		require.Equal(t, v.DeviceState == device.Error, v.Pool.LostRace, "it is in error for another reason: %s", v.LastError)
		if v.DeviceState == device.Error {
			require.Equal(t, string(device.CodeServerTaken), v.Fault)
		}
		w.poll(contract.SignalTaken)
		w.requireTaken()
		require.Len(t, w.pool.profiles, 1, "theirs alone")
		w.leaveAndClean()
		return took
	}
	for ; ; n++ {
		took := false
		t.Run(fmt.Sprint("call ", n), func(t *testing.T) { took = life(t, n) })
		if !took || t.Failed() {
			break
		}
	}
	require.Greater(t, n, 15, "the points of a life")
}

// The same request sent twice waits for the same end, also for a race that is lost during it.
//
// S4.13
func TestARepeatedBindOfASharedServer(t *testing.T) {
	for name, taken := range map[string]bool{"applied": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t)
			w.makeAvailable()
			w.slow(contract.ActivityApplyProfile, time.Hour, time.Second)
			first := w.bind("i1", "r")
			w.until("the profile is being applied", func() bool { return w.view().Pool.Applying })
			second := w.bind("i1", "r")
			w.bind("i2", "r2").refused(device.CodeRefused)
			w.pass(time.Minute)
			require.False(t, first.done || second.done)
			if !taken {
				require.Equal(t, 1, ok[contract.Result](first).Binding)
				require.True(t, ok[contract.Result](second).Already)
				require.Equal(t, 1, w.pool.ours())
			} else {
				require.True(t, w.pool.take())
				first.refused(device.CodeServerTaken)
				second.refused(device.CodeServerTaken)
				require.True(t, w.view().Pool.LostRace)
				require.Equal(t, 1, w.inventory.reserved)
				w.host.writeAsTenant("theirs")
				w.poll(contract.SignalTaken)
				w.requireTaken()
			}
		})
	}
}

// Without an answer of the appliance a server is not bound, and nothing changes; a profile that
// is refused has it cleaned.
func TestABindThatTheApplianceFails(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	writes := len(w.inventory.writes)
	w.pool.injectFault = func(string, bool) error { return unreachable() }
	w.bind("i1", "r1").refused(device.CodeApplianceUnreachable)
	w.idle()
	v := w.view()
	require.Equal(t, device.Available, v.DeviceState)
	require.Empty(t, v.ClaimedBy)
	require.False(t, v.Dirty)
	require.Len(t, w.inventory.writes, writes)

	lag := w.lag
	w.slow("", time.Millisecond, time.Hour)
	w.pool.injectFault = nil
	r := w.bind("i1", "hung").refused(device.CodeApplianceUnreachable)
	require.Contains(t, r.Fault.Message, "the appliance rack1 has not answered in time")
	require.Equal(t, device.Available, w.view().DeviceState)
	w.lag = lag

	w.pool.injectFault = times(1, "apply", false, func() error {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeProfileFailed,
			Message: "the template does not fit"}
	})
	w.bind("i1", "r2").refused(device.CodeProfileFailed)
	w.requireAvailableWithoutProfile()

	// For good, because the appliance is away: what was begun is found, and removed.
	w.pool.injectFault = func(call string, after bool) error {
		if call == "apply" && after {
			return unreachable()
		}
		return nil
	}
	w.bind("i1", "r3").refused(device.CodeApplianceUnreachable)
	w.pool.injectFault = nil
	w.requireAvailableWithoutProfile()
	require.Equal(t, 0, w.pool.ours())
}

// An appliance that is away delays a clean, which shows it, calls the operator, and goes on by
// itself.
func TestACleanWaitsForTheAppliance(t *testing.T) {
	w := newShared(t)
	away := true
	w.pool.injectFault = func(string, bool) error {
		if away {
			return unreachable()
		}
		return nil
	}
	ok[contract.Result](w.enroll(true))
	w.pass(time.Minute)
	v := w.requireWait(device.CodeApplianceUnreachable, false)
	require.Equal(t, contract.WaitAppliance, v.Waiting.For)
	require.Equal(t, device.PendingCleaning, v.DeviceState)
	w.pass(time.Hour)
	w.requireWait(device.CodeApplianceUnreachable, true)
	require.Empty(t, w.host.inputs)
	away = false
	w.requireAvailableWithoutProfile()
	w.requireNoWait()
}

// A recorded profile that is not on the server any more is forgotten, also in error, and the
// clean goes on with another one.
//
// S4.24
func TestARecordedProfileThatIsGone(t *testing.T) {
	w := newShared(t)
	w.makeFailedShared()
	require.NotEmpty(t, w.view().Pool.Profile)
	delete(w.pool.profiles, w.pool.profile)
	w.pool.profile = ""
	w.poll(contract.SignalFreed)
	require.Equal(t, device.Error, w.view().DeviceState)
	require.Empty(t, w.view().Pool.Profile, "nothing else was applied")
	ok[contract.Result](w.cleanUp())
	w.stepRuns("zero")
	require.Equal(t, w.pool.profile, w.view().Pool.Profile)
	require.Equal(t, 1, w.pool.ours())
	w.requireAvailableWithoutProfile()
}

// Hints never move the state: the appliance decides, and only what is in maintenance because
// others took it, and for no other reason, is cleaned when they leave.
//
// S4.8, S4.9
func TestPollsOnlyGiveHints(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	w.poll(contract.SignalTaken)
	w.poll(contract.SignalFreed)
	require.Equal(t, device.Available, w.view().DeviceState, "it was not taken")

	require.True(t, w.pool.take())
	w.pool.injectFault = func(string, bool) error { return unreachable() }
	w.signal(contract.SignalTaken, contract.Hint{})
	w.pass(time.Hour)
	require.Equal(t, device.Available, w.view().DeviceState, "the appliance did not say so")
	w.pool.injectFault = nil
	w.poll(contract.SignalTaken)
	w.requireTaken()
	w.poll(contract.SignalFreed)
	w.requireTaken()

	// Who ends a maintenance that is not the operator's, and who binds, learns what it waits for.
	require.Contains(t, ok[contract.Result](w.maintain(true)).Note, "another user of rack1 has the server")
	require.Contains(t, w.bind("i1", "r1").refused(device.CodeRefused).Fault.Remedy, "take another server")

	// The operator's maintenance outlasts what others do.
	ok[contract.Result](w.maintain(false))
	w.pool.leave()
	w.poll(contract.SignalFreed)
	v := w.view()
	require.Equal(t, device.Manageable, v.DeviceState)
	require.False(t, v.Pool.Taken)
	ok[contract.Result](w.maintain(true))
	w.leaveAndClean()

	// And begins before they take it.
	ok[contract.Result](w.maintain(false))
	require.True(t, w.pool.take())
	w.poll(contract.SignalTaken)
	require.Equal(t, device.Manageable, w.view().DeviceState)
	w.pool.leave()
	w.poll(contract.SignalFreed)
	require.Equal(t, device.Maintaining, w.view().Status)
	require.Equal(t, device.Manageable, w.view().DeviceState)
	ok[contract.Result](w.maintain(true))
	w.leaveAndClean()

	// A clean that failed for another reason is not theirs.
	w.makeBound("i1")
	w.failStep("zero", 0, device.CodeIO)
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Error)
	delete(w.pool.profiles, w.pool.profile)
	w.pool.profile = ""
	require.True(t, w.pool.take())
	w.poll(contract.SignalTaken)
	require.Equal(t, device.Error, w.view().DeviceState)
}

// The polls touch no pre-allocated server, and neither does anything else.
//
// S4.36
func TestAPreAllocatedServerIsNotAsked(t *testing.T) {
	w := newShared(t)
	w.shared.Dynamic = false
	w.pool.take()
	w.beforeCall = nil
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	w.poll(contract.SignalTaken)
	w.poll(contract.SignalFreed)
	require.Equal(t, device.Available, w.view().DeviceState)
	require.Empty(t, w.pool.calls)
	require.False(t, w.view().Pool.Dynamic)
}

// An enrollment with a pool that cannot be used is refused in one line.
func TestPoolsThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*contract.Enrollment)
		want   string
	}{
		"an NVMe device":   {func(e *contract.Enrollment) { e.Type = "NVME" }, "whole servers"},
		"owner nova":       {func(e *contract.Enrollment) { e.Owner = device.OwnerNova }, "owner=nova"},
		"no appliance":     {func(e *contract.Enrollment) { e.Pool.Appliance = "" }, "oneview \"\""},
		"no hardware":      {func(e *contract.Enrollment) { e.Pool.Hardware = "" }, "server_hardware_uri"},
		"another hardware": {func(e *contract.Enrollment) { e.Pool.Hardware = "/rest/server-hardware/1/x" }, "server_hardware_uri"},
		"no template":      {func(e *contract.Enrollment) { e.Pool.Template = "/rest/server-profiles/1" }, "server_profile_template_uri"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t)
			e := w.enrollment()
			tt.change(&e)
			r := w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e}).refused(device.CodeInvalid)
			require.Contains(t, r.Fault.Message, tt.want)
			require.NotContains(t, r.Fault.Error(), "\n")
			require.False(t, w.inventory.exists)
		})
	}
	t.Run("a type that its host finds", func(t *testing.T) {
		w := newShared(t)
		w.host.discovery.Type = "NVME"
		e := w.enrollment()
		e.Type = ""
		w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e}).refused(device.CodeInvalid)
		require.False(t, w.inventory.exists)
	})
	t.Run("another pool than before", func(t *testing.T) {
		w := newShared(t)
		ok[contract.Result](w.enroll(false))
		ok[contract.Result](w.enroll(false))
		e := w.enrollment()
		e.Pool.Template += "x"
		r := w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e}).refused(device.CodeAlreadyExists)
		require.True(t, strings.Contains(r.Fault.Message, "another pool"), r.Fault.Message)
	})
}

// A database that is put back to before a bind has no record of the tenant's profile, which is
// found by its name: the server is not taken for another user's.
//
// F24
func TestPutBackToBeforeTheProfileWasApplied(t *testing.T) {
	for by, asks := range map[string]func(*deviceEnv){
		"a poll": func(w *deviceEnv) { w.poll(contract.SignalTaken) },
		"a bind": func(w *deviceEnv) { w.bind("i9", "r9").wait() },
		"its host": func(w *deviceEnv) {
			w.signal(contract.SignalObserved,
				contract.Hint{Host: &contract.HostDeviceRecord{Seq: 1 << 20, Identity: w.host.discovery.Identity}})
		},
		"the tenant": func(w *deviceEnv) {
			ok[contract.Result](w.send(contract.VerbRebuild.Update(), "", contract.UnbindInput{Instance: "i1"}))
		},
		"an operator": func(w *deviceEnv) { w.ask(contract.VerbManage.Update()).wait() },
	} {
		t.Run(by, func(t *testing.T) {
			var before *fakePool
			w := putBack(t, func(w *deviceEnv) { w.share(); before = w.pool; w.makeAvailable() },
				func(w *deviceEnv) { w.bindAgain("i1") })
			w.share()
			*w.pool = *before
			w.host.writeAsTenant("i1")
			asks(w)
			w.pass(time.Minute)
			w.signal(contract.SignalReleased, contract.Hint{})
			w.pass(time.Hour)
			v := w.settled()
			require.Equal(t, device.Allocated, v.DeviceState)
			require.Equal(t, "i1", *v.InstanceUUID)
			require.Equal(t, 1, w.pool.ours())
			require.Equal(t, "i1", w.host.blocks[0], "a bound tenant's data was erased")
			ok[contract.Result](w.unbind("i1"))
			w.requireAvailableWithoutProfile()
		})
	}
}

// A bind of a server that others have is refused, and nothing is asked of the inventory but that
// it stays reserved.
//
// S4.13, S4.22
func TestABindOfATakenServer(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	require.True(t, w.pool.take())
	w.bind("i1", "r").refused(device.CodeServerTaken)
	v := w.view()
	require.Equal(t, device.Error, v.DeviceState)
	require.True(t, v.Pool.LostRace)
	require.True(t, v.Dirty)
	require.NotContains(t, w.pool.calls[3:], "apply")
	w.idle()
	require.Equal(t, 1, w.inventory.reserved)
	require.NotContains(t, w.scheduledActivities, contract.ActivityReserveForBind)
}

// An operator's server that others have when its named steps would begin stays the operator's: when they leave it is
// neither cleaned nor offered, and shows what was found.
//
// F43
func TestAnOperatorsServerIsNotCleanedWhenOthersLeaveIt(t *testing.T) {
	for name, maintained := range map[string]bool{"manageable": false, "in maintenance": true} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t)
			ok[contract.Result](w.enroll(false))
			w.reach(device.Manageable)
			if maintained {
				ok[contract.Result](w.maintain(false))
			}
			require.True(t, w.pool.take())
			w.host.writeAsTenant("theirs")
			ok[contract.Result](w.cleanUp("verify"))
			w.idle()
			v := w.settled()
			require.Equal(t, device.Manageable, v.DeviceState)
			require.Equal(t, string(device.CodeServerTaken), v.Fault)
			require.Contains(t, v.Remedy, "provide it")
			w.poll(contract.SignalTaken)
			w.pool.leave()
			w.poll(contract.SignalFreed)
			w.pass(time.Hour)
			v = w.settled()
			require.Equal(t, device.Manageable, v.DeviceState)
			require.True(t, v.Dirty)
			require.Equal(t, maintained, v.Maintenance)
			require.Equal(t, 1, w.inventory.reserved)
			require.Zero(t, w.zeroed())
			if maintained {
				ok[contract.Result](w.maintain(true))
			}
			ok[contract.Result](w.send(contract.VerbProvide.Update(), "", contract.ReasonInput{}))
			w.requireAvailableWithoutProfile()
		})
	}
}
