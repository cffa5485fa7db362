package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// makeFailedShared is a server whose clean failed: it keeps its profile.
func (w *deviceEnv) makeFailedShared() {
	w.t.Helper()
	w.makeBound("i1")
	w.failStep("zero", 0, device.CodeIO)
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Error)
	w.host.injectFault = nil
	require.Equal(w.t, w.pool.profile, w.view().Pool.Profile)
	require.Equal(w.t, 1, w.pool.ours())
}

// A clean that failed keeps the profile: the next one uses it again.
//
// S4.20
func TestAFailedCleanKeepsTheProfile(t *testing.T) {
	w := newShared(t)
	w.makeFailedShared()
	made := w.pool.made
	ok[contract.Result](w.cleanUp())
	w.requireAvailableWithoutProfile()
	require.Equal(t, made, w.pool.made)
}

// Steps that an operator names need a profile too, and leave none.
//
// S4.19, S4.21
func TestNamedStepsOfASharedServer(t *testing.T) {
	w := newShared(t)
	ok[contract.Result](w.enroll(false))
	ok[contract.Result](w.cleanUp("zero"))
	w.stepRuns("zero")
	require.Equal(t, 1, w.pool.ours())
	w.reach(device.Manageable)
	require.Zero(t, w.pool.ours())
	require.Empty(t, w.view().Pool.PoolState)
}

// A retired device leaves no profile, and none is forgotten with one; of lost hardware it is
// tried, and said.
func TestARetiredServerLeavesNoProfile(t *testing.T) {
	away := func(call string, _ bool) error {
		if call == "remove" {
			return unreachable()
		}
		return nil
	}
	t.Run("retired", func(t *testing.T) {
		w := newShared(t)
		w.makeFailedShared()
		require.Contains(t, ok[contract.Result](w.ask(contract.VerbRetire.Update())).Note, "was removed")
		require.Empty(t, w.pool.profiles)
		ok[contract.Result](w.ask(contract.VerbForget.Update()))
	})
	t.Run("the appliance is away", func(t *testing.T) {
		w := newShared(t)
		w.makeFailedShared()
		w.pool.injectFault = away
		require.Contains(t, ok[contract.Result](w.ask(contract.VerbRetire.Update())).Note, "forget tries again")
		w.ask(contract.VerbForget.Update()).refused(device.CodeApplianceUnreachable)
		require.Equal(t, 1, w.pool.ours())
		w.pool.injectFault = nil
		ok[contract.Result](w.ask(contract.VerbForget.Update()))
		require.Empty(t, w.pool.profiles)
	})
	t.Run("lost", func(t *testing.T) {
		w := newShared(t)
		w.makeBound("i1")
		w.pool.injectFault = away
		require.Contains(t, ok[contract.Result](w.retire("i1", true)).Note, "remove it on rack1")
		ok[contract.Result](w.send(contract.VerbForget.Update(), "", contract.TenantInput{Instance: "i1"}))
		require.Equal(t, 1, w.pool.ours())
	})
	t.Run("lost while it is returned", func(t *testing.T) {
		w := newShared(t)
		w.pool.injectFault = away
		ok[contract.Result](w.enroll(true))
		w.until("returning", func() bool { return w.view().Waiting != nil })
		c := w.retire("", true)
		w.pass(time.Second)
		w.pool.injectFault = nil
		require.Contains(t, ok[contract.Result](c).Note, "was removed")
		require.Empty(t, w.pool.profiles)
	})
	t.Run("taken by others", func(t *testing.T) {
		w := newShared(t)
		w.makeAvailable()
		require.True(t, w.pool.take())
		ok[contract.Result](w.ask(contract.VerbRetire.Update()))
		ok[contract.Result](w.ask(contract.VerbForget.Update()))
		require.True(t, w.pool.taken(), "theirs stays")
	})
}

// The power of a server that others have is not changed, and neither is it where the appliance
// cannot be asked.
//
// S4.26
func TestPowerOfASharedServer(t *testing.T) {
	w := newPowered(t)
	w.share()
	w.makeAvailable()
	ok[contract.Result](w.setPower("off", ""))
	calls := len(w.host.powerCalls)
	require.True(t, w.pool.take())
	w.setPower("on", "").refused(device.CodeServerTaken)
	w.pool.leave()
	w.pool.injectFault = func(string, bool) error { return unreachable() }
	w.setPower("on", "").refused(device.CodeApplianceUnreachable)
	require.Len(t, w.host.powerCalls, calls)
}

// A migration records the profile of a server in use and removes that of an idle one; once
// more, it changes nothing.
//
// S4.34, S4.35, S4.37
func TestMigrationToDynamic(t *testing.T) {
	newPreAllocated := func(t *testing.T) *deviceEnv {
		w := newShared(t)
		w.shared.Dynamic, w.beforeCall, w.inventory.onWrite = false, nil, nil
		w.makeAvailable()
		require.True(t, w.pool.take()) // by whoever allocated it before
		return w
	}
	migrate := func(w *deviceEnv) *call { return w.ask(contract.VerbMigratePool.Update()) }
	t.Run("in use", func(t *testing.T) {
		w := newPreAllocated(t)
		w.makeBound("i1")
		ok[contract.Result](migrate(w))
		require.Equal(t, theirProfile, w.view().Pool.Profile)
		require.Equal(t, device.Allocated, w.view().DeviceState)
		require.True(t, ok[contract.Result](migrate(w)).Already)
		ok[contract.Result](w.unbind("i1"))
		w.requireAvailableWithoutProfile()
	})
	t.Run("available", func(t *testing.T) {
		w := newPreAllocated(t)
		w.pool.injectFault = func(call string, _ bool) error {
			if call == "remove" && w.inventory.reserved == 0 {
				w.Errorf("it is offered while its profile is removed")
			}
			return nil
		}
		r := ok[contract.Result](migrate(w))
		require.Contains(t, r.Note, "was removed")
		require.True(t, r.Device.Pool.Dynamic)
		w.requireAvailableWithoutProfile()
		require.True(t, ok[contract.Result](migrate(w)).Already)
		w.makeBound("i1")
	})
	t.Run("its host is away, and it is repeated", func(t *testing.T) {
		w := newPreAllocated(t)
		w.host.up = false
		migrate(w).refused(device.CodeHostUnreachable)
		require.Equal(t, device.Manageable, w.view().DeviceState)
		w.nextRun()
		w.host.restart()
		ok[contract.Result](migrate(w))
		w.requireAvailableWithoutProfile()
	})
	t.Run("unreadable", func(t *testing.T) {
		w := newPreAllocated(t)
		w.pool.injectFault = func(string, bool) error { return unreachable() }
		migrate(w).refused(device.CodeApplianceUnreachable)
		require.False(t, w.view().Pool.Dynamic)
		require.Equal(t, device.Available, w.view().DeviceState)
	})
	t.Run("in error", func(t *testing.T) {
		w := newPreAllocated(t)
		w.makeBound("i1")
		w.failStep("zero", 0, device.CodeIO)
		ok[contract.Result](w.unbind("i1"))
		w.reach(device.Error)
		ok[contract.Result](migrate(w))
		require.Equal(t, theirProfile, w.view().Pool.Profile)
		w.host.injectFault = nil
		ok[contract.Result](w.cleanUp())
		w.requireAvailableWithoutProfile()
	})
}

// A device that is recovered from its host's record finds its profile by its name, and so does one
// that is enrolled again.
func TestARecoveredServerFindsItsProfile(t *testing.T) {
	w := newShared(t)
	w.makeFailedShared()
	w.terminate()
	w.until("recovered", func() bool { return w.runs == 2 && w.view().DeviceState == device.Manageable })
	require.NotNil(t, w.view().Pool)
	ok[contract.Result](w.ask(contract.VerbProvide.Update())) // it was in error: its operator has it (F43)
	w.requireAvailableWithoutProfile()
	require.Equal(t, 2, w.pool.made, "one for its first clean, one for its tenant")

	w = newShared(t)
	w.pool.profile = "/rest/server-profiles/ours-0"
	w.pool.profiles[w.pool.profile] = w.pool.uuid
	w.makeAvailable()
	w.requireAvailableWithoutProfile()
}

// A tenant's server whose workflow was lost is still the tenant's, and its profile is recorded
// again, so that all that asks who has it finds that it is not others'.
func TestARecoveredTenantsServerKeepsItsProfile(t *testing.T) {
	w := newShared(t)
	w.makeBound("i1")
	profile := w.view().Pool.Profile
	w.pool.calls = nil
	w.terminate()
	w.until("recovered", func() bool {
		return w.runs == 2 && w.view().DeviceState == device.Allocated && w.view().Pool.Profile != ""
	})
	require.Equal(t, profile, w.view().Pool.Profile)
	require.True(t, w.view().Pool.Applying, "polls and validate know it by its name too")
	require.Equal(t, []string{"read"}, w.pool.calls)
	require.Equal(t, 1, w.pool.ours())
	ok[contract.Result](w.unbind("i1"))
	w.requireAvailableWithoutProfile()
}

// Other hardware has another URI on the appliance; hardware that moved keeps its own.
func TestReplaceAndMoveOfASharedServer(t *testing.T) {
	w := newShared(t)
	w.makeFailedShared()
	w.replace(contract.ReplaceInput{}).refused(device.CodeRefused)
	w.pool.injectFault = func(string, bool) error { return unreachable() }
	w.move("d2").refused(device.CodeApplianceUnreachable)
	w.pool.injectFault = nil
	ok[contract.Result](w.move("d2"))
	require.Empty(t, w.pool.profiles, "the new name could not find it")
	require.Equal(t, thePool(), w.children[0].in.State.Enrollment.Pool)
	require.Equal(t, contract.PoolState{}, *w.children[0].in.State.Pool)
}

// What the state knows of a profile survives a new run, also while a bind applies one.
func TestASharedServerContinuesAsNew(t *testing.T) {
	w := newShared(t)
	w.makeBound("i1")
	profile := w.view().Pool.Profile
	s := w.state()
	require.Equal(t, profile, s.Pool.Profile)
	w.signalThen(contract.SignalTaken, contract.Hint{}, func() { w.env.SetContinueAsNewSuggested(true) })
	w.pass(time.Minute)
	ok[contract.Result](w.unbind("i1"))
	w.requireAvailableWithoutProfile()
	require.True(t, w.pool.take())
	w.signalThen(contract.SignalTaken, contract.Hint{}, func() { w.env.SetContinueAsNewSuggested(true) })
	w.requireTaken()
	w.nextRun()
	w.leaveAndClean()
}

// A worker without the appliance in its file delays the device until the file has it.
func TestNoOneviewFile(t *testing.T) {
	w := newShared(t)
	appliances := w.pools.Pools
	w.pools.Pools = nil
	ok[contract.Result](w.enroll(true))
	w.pass(20 * time.Minute)
	v := w.requireWait(device.CodeInvalidConfig, true)
	require.Contains(t, v.Remedy, "oneview.yaml")
	w.pools.Pools = appliances
	w.requireAvailableWithoutProfile()
	w.requireNoWait()
}

// A server that others have may be made manageable. It stays as it is, and is cleaned before it
// is available again.
//
// S4.7
func TestATakenServerIsMadeManageable(t *testing.T) {
	for name, loses := range map[string]bool{"available": false, "after a lost race": true} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t)
			w.makeAvailable()
			require.True(t, w.pool.take())
			w.pool.calls = nil
			if loses {
				w.bind("i1", "r").refused(device.CodeServerTaken)
			}
			ok[contract.Result](w.ask(contract.VerbManage.Update()))
			v := w.view()
			require.Equal(t, device.Manageable, v.DeviceState)
			require.Equal(t, 1, w.inventory.reserved)
			require.NotContains(t, w.pool.calls, "apply")
			require.NotContains(t, w.pool.calls, "remove")
			require.True(t, w.pool.taken(), "theirs stays")
			w.host.writeAsTenant("theirs")
			w.pool.leave()
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			w.requireAvailableWithoutProfile()
		})
	}
}

// Others may have used and left a server that no poll looks at, and its host cannot always tell:
// what the operator provides is cleaned.
//
// S4.28
func TestAProvidedSharedServerIsCleaned(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	require.True(t, w.pool.take())
	w.pool.leave()
	require.False(t, w.view().Dirty)
	cleans := w.zeroed()
	require.True(t, ok[contract.Result](w.ask(contract.VerbProvide.Update())).Device.Dirty, "said at once")
	w.requireAvailableWithoutProfile()
	require.Equal(t, cleans+1, w.zeroed())
}

// The end of the operator's maintenance offers no server that others have taken meanwhile.
func TestMaintenanceOfASharedServerEnds(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	ok[contract.Result](w.maintain(false))
	w.pool.injectFault = func(string, bool) error { return unreachable() }
	w.maintain(true).refused(device.CodeApplianceUnreachable)
	w.pool.injectFault = nil
	require.True(t, w.pool.take())
	w.maintain(true).refused(device.CodeServerTaken)
	w.reach(device.Manageable)
	require.Equal(t, 1, w.inventory.reserved)
	ok[contract.Result](w.maintain(true))
	w.requireTaken()
	w.leaveAndClean()
}

// What others took is not returned without a clean: they may write to it until a poll finds that
// they have left it. Then it is cleaned, or, where no operation erases it, its operators decide.
func TestAServerThatOthersTookIsNotOverridden(t *testing.T) {
	w := newShared(t)
	w.signatures, w.oneTimeUse = overrideKey, true
	w.makeAvailable()
	w.host.discovery.Operation = ""
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	require.True(t, w.pool.take())
	w.poll(contract.SignalTaken)
	w.requireTaken()
	w.host.writeAsTenant("theirs")

	ok[contract.Result](w.ask(contract.VerbProvide.Update())) // which finds no operation for it
	w.reach(device.Error)
	r := w.override(w.signed("alice", w.newOverride("x1"))).refused(device.CodeRefused)
	require.Contains(t, r.Fault.Remedy, "manage d1")
	w.pool.leave()
	w.poll(contract.SignalFreed)
	require.Equal(t, device.Error, w.view().DeviceState)

	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	w.poll(contract.SignalFreed)
	v := w.reach(device.Error)
	require.False(t, v.Pool.Taken)
	w.overrideNow()
	w.reach(device.Available)
	require.False(t, w.view().Maintenance)
	w.makeBound("i2")
}
