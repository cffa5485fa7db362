package instance

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// S1.36: a device that is detached leaves the document; the others stay. With the last one the
// instance ends.
func TestDetach(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	var one, partly *answer
	e.then(func() { e.bind("u1", "h1_a x", "h1_b", "h1_c") })
	e.then(func() {
		one = e.update("u2", contract.VerbInstanceDetach.Update(), contract.InstanceDetachInput{Devices: []string{"h1_a"}})
		partly = e.update("u3", contract.VerbInstanceDetach.Update(),
			contract.InstanceDetachInput{Devices: []string{"h1_b", "h1_a"}})
	})
	e.then(func() {
		require.NoError(t, one.err)
		require.Equal(t, &contract.DeviceStatus{Name: "h1_a", DeviceState: device.PendingCleaning}, one.Detached)
		requireRefused(t, partly, device.CodeNotFound, "does not have h1_a")
		require.Equal(t, []string{"h1_b", "h1_c"}, devicesOf(e.status()))
		require.Equal(t, []string{"h1_a"}, e.cleaned())
		e.update("u4", contract.VerbInstanceDetach.Update(), contract.InstanceDetachInput{Devices: []string{"h1_c", "h1_b"}})
	})
	e.run(nil)
	require.NoError(t, e.GetWorkflowError())
	require.Equal(t, contract.InstanceReleased, e.status().Phase)
	require.Equal(t, []string{"h1_a", "h1_b", "h1_c"}, e.cleaned())
}

// No guest's document shows a device that is being unbound, nor is one shown by an address
// that another instance may have.
func TestDocumentIsGoneBeforeAnythingIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newDirect()
	w.add("h1", "NVME", "h1_a", "h1_b")
	w.add("h2", "NVME", "h2_a", "h2_b")
	shown := func(name string) bool {
		return w.index(name) >= 0 && w.Phase != contract.InstanceReleasing && w.Phase != contract.InstanceReleased
	}
	unbound, returned := 0, 0
	w.onAsk = func(activity string, names []string) {
		for _, name := range names {
			if activity == contract.ActivityUnbindDevices {
				unbound++
				require.False(t, shown(name), "%s is unbound and shown", name)
			}
		}
	}
	w.onAddresses = func(activity string) {
		if activity == contract.ActivityReturnAddresses {
			returned++
			require.Equal(t, contract.InstanceReleasing, w.Phase)
			require.Len(t, w.held(guest), 1, "addresses are returned before the devices")
		}
	}
	do := func(_ bool, err error) { require.NoError(t, err) }
	do(bindAct.carryOut(w.instance,
		contract.InstanceBindInput{Devices: choices("h1_a", "h1_b"), Addresses: []string{"10.0.0.1"}}, "u1"))
	do(detachAct.carryOut(w.instance, contract.InstanceDetachInput{Devices: []string{"h1_a"}}, "u2"))
	do(migrateAct.carryOut(w.instance, contract.InstanceMoveInput{To: "h2"}, "u3"))
	do(revertAct.carryOut(w.instance, contract.ReasonInput{}, "u4"))
	do(evacuateAct.carryOut(w.instance, contract.InstanceMoveInput{To: "h2"}, "u5"))
	do(releaseAct.carryOut(w.instance, contract.ReasonInput{}, "u6"))
	require.Equal(t, 4, unbound)
	require.Equal(t, 1, returned)
	require.Empty(t, w.addresses)
	require.Empty(t, w.held(guest))
}

// One living instance has an address. A bind that is refused returns what it leased.
func TestAddressesAreLeased(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, lost string
		want       map[string]string
	}{
		{"another's", "", map[string]string{"10.0.0.2": other}},
		{"the bind fails", "h1_a", map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.add("h1", "NVME", "h1_a")
			if tt.lost == "" {
				e.addresses["10.0.0.2"] = other
			} else {
				e.take(tt.lost)
			}
			var bound *answer
			e.then(func() {
				bound = e.update("u1", contract.VerbInstanceBind.Update(), contract.InstanceBindInput{
					Devices: choices("h1_a"), Addresses: []string{"10.0.0.1", "::ffff:10.0.0.2"},
				})
			})
			e.run(nil)
			require.Error(t, bound.err)
			require.Equal(t, tt.want, e.addresses)
			require.Empty(t, e.held(guest))
			require.Equal(t, contract.InstanceReleased, e.status().Phase)
		})
	}
}

// Acts of one instance wait for one another: a release that comes during a bind unbinds what
// the bind has bound; a bind that comes during the release is the first one of a new instance.
func TestActsWaitForOneAnother(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	var bound, released, twice, again *answer
	during := false
	e.onAsk = func(activity string, _ []string) {
		if activity == contract.ActivityBurnDevices && !during {
			during = true
			e.RegisterDelayedCallback(func() {
				released = e.act("u2", contract.VerbInstanceRelease.Update())
				twice = e.act("u2b", contract.VerbInstanceRelease.Update())
				again = e.bind("u3", "h1_b")
			}, 0)
		}
	}
	e.then(func() { bound = e.bind("u1", "h1_a") })
	e.step += time.Minute
	e.then(func() {
		require.NoError(t, bound.err)
		require.NoError(t, released.err)
		require.Equal(t, contract.InstanceReleased, released.Instance.Phase)
		require.False(t, released.Already)
		require.NoError(t, twice.err, "a client that lost its answer sends the release again")
		require.True(t, twice.Already)
		require.NoError(t, again.err)
		require.Equal(t, []string{"h1_b"}, devicesOf(e.status()))
		require.Equal(t, []string{"h1_b"}, e.held(guest))
		require.Equal(t, []string{"h1_a"}, e.cleaned())
		e.act("u4", contract.VerbInstanceRelease.Update())
	})
	e.run(nil)
	require.NoError(t, e.GetWorkflowError())
}

// S0.18: a rebuild cleans and burns nothing; it says which device does not take part.
func TestRebuild(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	var fine, refused *answer
	e.then(func() { e.bind("u1", "h1_a", "h1_b") })
	e.then(func() { fine = e.act("u2", contract.VerbInstanceRebuild.Update()) })
	e.then(func() {
		require.NoError(t, fine.err)
		e.take("h1_b")
		refused = e.act("u3", contract.VerbInstanceRebuild.Update())
	})
	e.then(func() {
		requireRefused(t, refused, device.CodeRefused, "h1_b: rebuild is not possible")
		require.Equal(t, 1, e.count(contract.ActivityBurnDevices))
		require.Empty(t, e.cleaned())
		e.release()
	})
	e.run(nil)
}

// A device whose binding ended by itself leaves the document; with the last one the instance
// ends, and returns its addresses. News of another binding changes nothing.
func TestDeviceThatLeft(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	left := func(name string, binding int) {
		e.SignalWorkflow(contract.SignalDeviceLeft, contract.DeviceLeft{Device: name, Binding: binding})
	}
	e.then(func() {
		e.update("u1", contract.VerbInstanceBind.Update(),
			contract.InstanceBindInput{Devices: choices("h1_a", "h1_b"), Addresses: []string{"10.0.0.1"}})
	})
	e.then(func() { left("h1_a", 7); left("h1_a", 0) })
	e.then(func() {
		require.Equal(t, []string{"h1_a", "h1_b"}, devicesOf(e.status()))
		left("h1_a", 1)
	})
	e.then(func() {
		require.Equal(t, []string{"h1_b"}, devicesOf(e.status()))
		require.Equal(t, map[string]string{"10.0.0.1": guest}, e.addresses)
		left("h1_b", 1)
	})
	e.run(nil)
	require.NoError(t, e.GetWorkflowError())
	require.Empty(t, e.addresses)
	require.Empty(t, e.cleaned(), "a device that left by itself is not unbound")
}

// A device that leaves while the others are still being burned is not shown either.
func TestDeviceThatLeftDuringItsBind(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	e.onAsk = func(activity string, _ []string) {
		if activity == contract.ActivityBurnDevices {
			e.SignalWorkflow(contract.SignalDeviceLeft, contract.DeviceLeft{Device: "h1_a", Binding: 1})
		}
	}
	e.then(func() { e.bind("u1", "h1_a", "h1_b") })
	e.then(func() {
		require.Equal(t, []string{"h1_b"}, devicesOf(e.status()))
		e.release()
	})
	e.run(nil)
}

// A repeated update changes nothing, also after a continue-as-new; a refused one is refused
// again, and another request under its key is refused.
func TestRepeatedAlsoAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	key, others := contract.RequestID("key", []byte("a")), contract.RequestID("key", []byte("b"))
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	e.then(func() { e.bind(key, "h1_a db") })
	e.then(func() { e.attach("u2", "h1_b db") })
	e.then(func() {
		e.update("u3", contract.VerbInstanceDetach.Update(), contract.InstanceDetachInput{Devices: []string{"h1_a"}})
		e.attach("u4", "h1_c")
	})
	e.then(func() { e.SetContinueAsNewSuggested(true); e.attach("u5", "h1_c") })
	e.run(nil)
	state := e.next()
	require.Equal(t, []string{"h1_c"}, e.held(guest))

	again := newEnv(t)
	again.devices = e.devices
	var bound, refused, detached, otherBody *answer
	again.then(func() {
		bound, refused = again.bind(key, "h1_a db"), again.attach("u2", "h1_b db")
		detached = again.update("u3", contract.VerbInstanceDetach.Update(),
			contract.InstanceDetachInput{Devices: []string{"h1_a"}})
		otherBody = again.bind(others, "h1_b")
	})
	again.then(func() {
		require.NoError(t, bound.err)
		require.True(t, bound.Already)
		requireRefused(t, refused, device.CodeConflict, `tag "db"`)
		require.NoError(t, detached.err)
		require.True(t, detached.Already)
		requireRefused(t, otherBody, device.CodeRequestReused, "another request")
		require.Empty(t, again.asked)
		require.Equal(t, []string{"h1_c"}, devicesOf(again.status()))
		require.Equal(t, []string{"bind", "attach", "detach", "attach"}, verbs(again.status().Acts))
		require.Equal(t, device.CodeConflict, again.status().Acts[1].Fault)
		again.release()
	})
	again.run(state)
	require.NoError(t, again.GetWorkflowError())
	require.Equal(t, []string{"h1_a", "h1_c"}, again.cleaned())
}

func verbs(acts []contract.Act) (all []string) {
	for _, a := range acts {
		all = append(all, a.Verb)
	}
	return all
}

// An instance does not continue as new while an act is under way.
func TestContinueAsNewWaitsForTheAct(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a")
	e.SetContinueAsNewSuggested(true)
	failed := false
	e.fails = func(activity string) error {
		if activity == contract.ActivityBurnDevices && !failed {
			failed = true
			return errors.New("no answer yet")
		}
		return nil
	}
	e.then(func() { e.bind("u1", "h1_a") })
	e.run(nil)
	state := e.next()
	require.Equal(t, contract.InstanceActive, state.Phase)
	require.Len(t, state.Devices, 1)
}

// A Cancel in the Web UI changes nothing.
func TestCancelChangesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	var attached *answer
	e.then(func() { e.bind("u1", "h1_a") })
	e.then(e.CancelWorkflow)
	e.then(func() { attached = e.attach("u2", "h1_b") })
	e.then(func() {
		require.NoError(t, attached.err)
		require.Equal(t, []string{"h1_a", "h1_b"}, e.held(guest))
		e.release()
	})
	e.run(nil)
	require.NoError(t, e.GetWorkflowError())
}

// Operators see which instance it is, on which host, and what it does.
func TestWhatOperatorsSee(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a")
	e.find("h1_a").failBurns = true
	e.then(func() { e.bind("u1", "h1_a") })
	e.run(nil)
	s := e.status()
	require.Contains(t, s.LastError, "bind failed: h1_a: the burn failed")
	require.Equal(t, device.CodeRefused, s.Acts[0].Fault)

	r := &run{instance: instance{InstanceState: &contract.InstanceState{
		UUID: guest, Phase: contract.InstanceMigrating, LastError: "last",
		Devices: []contract.HeldDevice{{Name: "h2_a", Host: "h2", Binding: 3, Tag: "a`\n**b**"}},
		Move:    &contract.InstanceMove{Verb: "migrate", From: "h1", To: "h2", Source: []contract.HeldDevice{{Name: "h1_a", Host: "h1", Binding: 1}}},
	}, doing: "confirm", step: "unbind 1 devices"}}
	require.Equal(t, "**migrating**, confirm (unbind 1 devices)\n\n- h2_a on h2, binding 3, tag `\"a'\\n**b**\"`\n\n"+
		"migrate from h1 to h2 since 0001-01-01T00:00:00Z; the source:\n\n- h1_a on h1, binding 1\n\nlast error: last\n",
		r.details())
}

// A guest's address is its instance's until that instance returns it.
func TestGuestAddress(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	e := suite.NewTestWorkflowEnvironment()
	e.SetTestTimeout(time.Minute)
	e.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	e.RegisterWorkflowWithOptions(GuestAddress, workflow.RegisterOptions{Name: contract.WorkflowGuestAddress})
	stays := false
	e.RegisterDelayedCallback(func() {
		e.SignalWorkflow(contract.SignalReturnAddress, contract.GuestAddressInput{Instance: other})
	}, time.Second)
	e.RegisterDelayedCallback(func() { stays = !e.IsWorkflowCompleted() }, 2*time.Second)
	e.RegisterDelayedCallback(func() {
		e.SignalWorkflow(contract.SignalReturnAddress, contract.GuestAddressInput{Instance: guest})
	}, 3*time.Second)
	e.ExecuteWorkflow(contract.WorkflowGuestAddress, contract.GuestAddressInput{Instance: guest})
	require.True(t, stays, "another instance cannot return it")
	require.NoError(t, e.GetWorkflowError())
}

// Nor is one that leaves while the destination of an evacuation is burned: it is gone before
// the source is unbound.
func TestDeviceThatLeftDuringAnEvacuation(t *testing.T) {
	t.Parallel()
	w := newDirect()
	w.add("h1", "NVME", "h1_a", "h1_b")
	w.add("h2", "NVME", "h2_a", "h2_b")
	_, err := bindAct.carryOut(w.instance, contract.InstanceBindInput{Devices: choices("h1_a", "h1_b")}, "u1")
	require.NoError(t, err)
	w.onAsk = func(activity string, _ []string) {
		switch activity {
		case contract.ActivityBurnDevices:
			w.deviceLeft(contract.DeviceLeft{Device: "h2_a", Binding: 1})
		case contract.ActivityUnbindDevices:
			require.Equal(t, -1, w.index("h2_a"), "it is still shown")
		}
	}
	_, err = evacuateAct.carryOut(w.instance, contract.InstanceMoveInput{To: "h2"}, "u2")
	require.NoError(t, err)
	require.Equal(t, []string{"h1_a", "h1_b"}, w.cleaned())
	require.Equal(t, 0, w.index("h2_b"))
}
