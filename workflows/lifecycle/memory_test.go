package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// These tests put a device's memory back to an earlier moment, as a database that is put back does,
// or a task that is lost after its write together with the request that it handled.

// lose is a device that remembers nothing since its preparation, and what a lost task wrote.
func lose(t *testing.T, prepare, lost func(*deviceEnv)) *deviceEnv {
	w := putBack(t, prepare, lost)
	w.signal(contract.SignalObserved, w.host.hint(w.clock())) // the host's start
	return w
}

// A former tenant asks again for the binding that the memory still has: another instance has the
// device since, and has it still.
//
// F36
func TestAFormerTenantIsNotBoundAlready(t *testing.T) {
	w := putBack(t, func(w *deviceEnv) { w.makeBound("i1") }, func(w *deviceEnv) {
		w.turnOver("i1")
		w.makeBound("i2")
	})
	w.bind("i1", "r-i1").refused(device.CodeBindingEnded)
	require.Equal(t, "i2", *w.view().InstanceUUID)
	require.Equal(t, 2, w.view().Binding)
	ok[contract.Result](w.unbind("i2"))
	w.requireReturned()
}

// The tenant of whom the memory does not know unbinds: it has the device by the record, and the
// history says that it was given back to it, and by which numbers.
//
// F36
func TestATenantThatIsForgottenUnbinds(t *testing.T) {
	w := putBack(t, (*deviceEnv).makeAvailable, func(w *deviceEnv) { w.makeBound("i1"); w.host.writeAsTenant("i1") })
	require.False(t, ok[contract.Result](w.unbind("i1")).Already)
	v := w.reach(device.Available)
	require.True(t, w.host.clean())
	require.Empty(t, w.recorded())
	var reasons []string
	for _, act := range v.Acts {
		if act.Verb == string(device.ObservedInUse) {
			reasons = append(reasons, act.Reason)
		}
	}
	require.Equal(t, []string{"the inventory records binding 1 of i1; this workflow knew no binding after 0"}, reasons)
}

// A workflow is reset into an earlier tenancy, while another instance has the device: whatever is sent
// again, or asked for in the former tenant's name, the device is neither cleaned nor offered, and its
// instance unbinds it.
//
// F31, F36
func TestResetIntoAnEarlierTenancy(t *testing.T) {
	former := contract.RetireInput{Reason: "test", Instance: "i1"}
	lost := former
	lost.Lost = true
	for name, send := range map[string]func(*deviceEnv){
		"nothing":         func(*deviceEnv) {},
		"a sweep":         (*deviceEnv).hintReconcile,
		"its host":        func(w *deviceEnv) { w.signal(contract.SignalObserved, w.host.hint(w.clock())) },
		"unbind":          func(w *deviceEnv) { ok[contract.Result](w.unbind("i1")) },
		"unbind, twice":   func(w *deviceEnv) { w.unbind("i1"); w.unbind("i1").wait() },
		"unbind and bind": func(w *deviceEnv) { w.unbind("i1"); w.bind("i1", "later").wait() },
		"rebuild": func(w *deviceEnv) {
			w.send(contract.VerbRebuild.Update(), "", contract.UnbindInput{Instance: "i1"}).wait()
		},
		"manage":        func(w *deviceEnv) { w.send(contract.VerbManage.Update(), "", former).wait() },
		"retire":        func(w *deviceEnv) { w.send(contract.VerbRetire.Update(), "", former).refused(device.CodeInUse) },
		"retire --lost": func(w *deviceEnv) { ok[contract.Result](w.send(contract.VerbRetire.Update(), "", lost)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := putBack(t, func(w *deviceEnv) { w.makeBound("i1") }, func(w *deviceEnv) { w.bindAgain("i2") })
			send(w)
			w.pass(time.Hour)
			w.hintReconcile()
			w.pass(time.Hour)
			require.Equal(t, "i2", w.host.blocks[0], "it was erased")
			require.Equal(t, []any{1, "i2"}, []any{w.inventory.reserved, *w.inventory.tenant})
			if w.view().DeviceState == device.Retired {
				return
			}
			require.Equal(t, "i2", *w.view().InstanceUUID)
			require.False(t, ok[contract.Result](w.unbind("i2")).Already)
			w.requireReturned()
		})
	}
}

// The same instance has a later binding than the memory: the earlier request is not answered with it.
//
// F36
func TestALaterBindingOfTheSameInstance(t *testing.T) {
	w := putBack(t, func(w *deviceEnv) { w.makeBound("i1") }, func(w *deviceEnv) {
		w.turnOver("i1")
		require.Equal(t, 2, ok[contract.Result](w.bind("i1", "later")).Binding)
	})
	w.bind("i1", "r-i1").refused(device.CodeBindingEnded)
	require.Equal(t, 2, w.view().Binding)
	require.Equal(t, 2, ok[contract.Result](w.bind("i1", "later")).Binding)
}

// The write of a burn was made, and its task lost: the claim's request, tag and instance's workflow
// have the device, and the burn that comes again is granted.
//
// F42
func TestABurnThatWasLostWithItsTask(t *testing.T) {
	claim := func(w *deviceEnv) contract.BindInput {
		return contract.BindInput{Instance: "i1", Request: "r1", Tag: "t1", Managed: true,
			Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
	}
	for _, hinted := range []bool{false, true} {
		w := putBack(t, func(w *deviceEnv) {
			w.makeAvailable()
			ok[contract.Result](w.send(contract.VerbClaim.Update(), "", claim(w)))
		}, func(w *deviceEnv) { ok[contract.Result](w.send(contract.VerbBurn.Update(), "", claim(w))) })
		if hinted {
			w.signal(contract.SignalObserved, w.host.hint(w.clock()))
			w.pass(time.Minute)
		} else {
			require.Equal(t, 1, ok[contract.Result](w.send(contract.VerbBurn.Update(), "", claim(w))).Binding)
		}
		b := w.state().Device.Binding
		require.Equal(t, []any{"i1", "r1", "t1", true}, []any{b.Instance, b.Request, b.Tag, b.Managed}, "hinted: %v", hinted)
		require.Equal(t, 1, ok[contract.Result](w.send(contract.VerbBurn.Update(), "", claim(w))).Binding)
	}
}

// The instance gives its claim back, of which the burn was carried out: the binding ends.
//
// F42
func TestAClaimIsGivenBackWithItsBurn(t *testing.T) {
	for verb, in := range map[string]any{
		contract.VerbUnbind.Update():  contract.UnbindInput{Instance: "i1"},
		contract.VerbUnclaim.Update(): contract.BindInput{Instance: "i1", Request: "r1"},
	} {
		claim := func(w *deviceEnv) contract.BindInput {
			return contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
		}
		w := putBack(t, func(w *deviceEnv) {
			w.makeAvailable()
			ok[contract.Result](w.send(contract.VerbClaim.Update(), "", claim(w)))
		}, func(w *deviceEnv) { ok[contract.Result](w.send(contract.VerbBurn.Update(), "", claim(w))) })
		ok[contract.Result](w.send(verb, "", in))
		w.reach(device.Available)
		require.Empty(t, w.recorded(), verb)
	}
}

// The same of a bind in one request, of which only the record knows: the instance's next request is
// granted it, with its tag. Another instance is refused.
//
// F42
func TestABindThatWasLostWithItsTask(t *testing.T) {
	w := lose(t, (*deviceEnv).makeAvailable, func(w *deviceEnv) { ok[contract.Result](w.bind("i1", "r1")) })
	w.pass(time.Minute)
	w.bind("i2", "r2").refused(device.CodeRefused)
	got := ok[contract.Result](w.send(contract.VerbBind.Update(), "",
		contract.BindInput{Instance: "i1", Request: "r1", Tag: "t1"}))
	require.Equal(t, 1, got.Binding)
	b := w.state().Device.Binding
	require.Equal(t, []any{"i1", "r1", "t1"}, []any{b.Instance, b.Request, b.Tag})
	w.turnOver("i1")
	w.bind("i1", "r1").refused(device.CodeBindingEnded)
}

// A clean of an operator's device began, and its task was lost with the request: the device becomes
// dirty, and stays with its operator. So does one that others wrote to.
//
// F43
func TestALostCleanLeavesTheDeviceToItsOperator(t *testing.T) {
	provided := func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.ask(contract.VerbManage.Update())) }
	named := func(w *deviceEnv) {
		ok[contract.Result](w.cleanUp("verify"))
		w.until("the first write", func() bool { return w.inventory.generation > 3 })
	}
	foreign := func(w *deviceEnv) { w.inventory.generation++ }
	ofNova := func(w *deviceEnv) { w.owner = device.OwnerNova; provided(w) } // no record says that it is held
	for name, c := range map[string]struct {
		prepare, lost func(*deviceEnv)
		state         device.State
	}{
		"named steps of a managed one": {provided, named, device.Manageable},
		"written by others":            {provided, foreign, device.Manageable},
		"in error, written by others":  {(*deviceEnv).makeFailed, foreign, device.Error},
		"Nova's, written by others":    {ofNova, foreign, device.Manageable},
	} {
		t.Run(name, func(t *testing.T) {
			w := lose(t, c.prepare, c.lost)
			w.host.writeAsTenant("the operator's bytes")
			w.pass(24 * time.Hour)
			v := w.view()
			require.Equal(t, []any{c.state, true}, []any{v.DeviceState, v.Dirty})
			require.Equal(t, 1, w.inventory.reserved)
			require.Equal(t, "the operator's bytes", w.host.blocks[0], "it was erased")
		})
	}
}

// A clean of an operator's device is asked for again while the inventory is read in which its lost
// task has written: it is carried out. What others wrote instead stops it.
//
// F43
func TestALostCleanIsAskedForAgainDuringARead(t *testing.T) {
	for name, lost := range map[string]func(*deviceEnv){
		"its own write": func(w *deviceEnv) { w.inventory.generation++; w.inventory.rest.Cleans++ },
		"another write": func(w *deviceEnv) { w.inventory.generation++ },
	} {
		t.Run(name, func(t *testing.T) {
			w := putBack(t, func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.ask(contract.VerbManage.Update())) },
				lost)
			w.beginRead()
			ok[contract.Result](w.cleanUp("zero"))
			w.pass(time.Hour)
			v := w.view()
			ours := name == "its own write"
			require.Equal(t, []any{device.Manageable, !ours}, []any{v.DeviceState, v.Dirty})
			require.Equal(t, ours, v.Cleans[len(v.Cleans)-1].Outcome == "steps_done")
		})
	}
}

// Somebody else writes the provider of a failed device, and its clean is requested before the device
// has read that: it stays its operator's, as the inventory records, and says that it was not cleaned.
//
// F43
func TestACleanThatAnothersWriteStopsIsNamed(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeFailed()
	w.idle()
	w.inventory.generation++
	w.beginRead()
	ok[contract.Result](w.cleanUp())
	w.pass(time.Hour)
	v := w.view()
	require.Equal(t, []any{device.Manageable, true}, []any{v.DeviceState, v.Dirty})
	require.Contains(t, v.LastError, "a clean that was requested meanwhile has not taken place; provide d1 cleans it")
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	w.reach(device.Available)
	require.Empty(t, w.view().LastError)
}

// A burn that was lost with its task is asked for again, some time after the look of its claim: it is
// granted, whatever the inventory and the host say meanwhile, or its device is not bound.
//
// F42
func TestABurnThatWasLostIsAskedForAgainLater(t *testing.T) {
	for how, meanwhile := range map[string]func(*deviceEnv){
		"read during the look": func(*deviceEnv) {},
		"the host is silent":   func(w *deviceEnv) { w.host.up = false },
		"the look fails": func(w *deviceEnv) {
			w.host.injectFault = func(string, int) error { return fault(device.NeedsOperator, device.CodeIO)() }
		},
	} {
		t.Run(how, func(t *testing.T) {
			claim := func(w *deviceEnv) contract.BindInput {
				return contract.BindInput{Instance: "i1", Request: "r1", Deadline: w.clock().Add(time.Hour).Format(time.RFC3339)}
			}
			w := putBack(t, func(w *deviceEnv) {
				w.makeAvailable()
				ok[contract.Result](w.send(contract.VerbClaim.Update(), "", claim(w)))
			}, func(w *deviceEnv) { ok[contract.Result](w.send(contract.VerbBurn.Update(), "", claim(w))) })
			w.pass(time.Minute)
			meanwhile(w)
			burn := w.send(contract.VerbBurn.Update(), "", claim(w))
			if how == "read during the look" {
				w.until("its look", func() bool { return w.activitiesInFlight > 0 })
				w.signal(contract.SignalRefresh, contract.Hint{Source: "reconciliation"})
			}
			burn.wait()
			w.pass(time.Hour)
			require.Equal(t, burn.err == nil, w.view().DeviceState == device.Allocated, "%v", burn.err)
		})
	}
}

// beginRead has the inventory read, which answers in four seconds from now.
func (w *deviceEnv) beginRead() {
	w.slow(contract.ActivityReadReservation, 4*time.Second, time.Second)
	w.signal(contract.SignalRefresh, contract.Hint{Source: "reconciliation"})
	w.until("a read", func() bool { return w.activitiesInFlight > 0 })
	w.pass(time.Second)
}

// An operator has the device since the memory's binding ended, which ends once more while the record is
// read: the answer shows the operator's write, although a clean is due by then.
//
// F43
func TestAnUnbindDuringTheReadThatShowsAnOperatorsWrite(t *testing.T) {
	w := putBack(t, func(w *deviceEnv) { w.makeBound("i1") }, func(w *deviceEnv) {
		w.turnOver("i1")
		ok[contract.Result](w.ask(contract.VerbManage.Update()))
		w.idle()
		w.host.writeAsTenant("the operator's bytes")
	})
	w.beginRead()
	ok[contract.Result](w.unbind("i1"))
	w.pass(time.Hour)
	require.Equal(t, "the operator's bytes", w.host.blocks[0], "it was erased")
}

// What an operator holds is the operator's too once its workflow was terminated: the record says so,
// and for Nova's devices what the ended run had published.
//
// F43
func TestAHoldOutlivesTheWorkflow(t *testing.T) {
	for name, c := range map[string]struct {
		hold        func(*deviceEnv)
		maintenance bool
	}{
		"managed":     {func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbManage.Update())) }, false},
		"maintenance": {func(w *deviceEnv) { ok[contract.Result](w.maintain(false)) }, true},
		"retired": {func(w *deviceEnv) {
			ok[contract.Result](w.send(contract.VerbRetire.Update(), "", contract.ReasonInput{Reason: "worn"}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAvailable(t)
			c.hold(w)
			w.idle()
			w.host.writeAsTenant("the operator's bytes")
			w.terminate()
			w.after(2, func() { w.listed = nil }) // the inventory's record alone says so
			w.until("its operator has it", func() bool { return w.runs == 2 && w.view().DeviceState == device.Manageable })
			w.pass(24 * time.Hour)
			v := w.view()
			require.Equal(t, []any{device.Manageable, true, c.maintenance}, []any{v.DeviceState, v.Dirty, v.Maintenance})
			require.Equal(t, 1, w.inventory.reserved)
			require.Equal(t, "the operator's bytes", w.host.blocks[0], "it was erased")
			if c.maintenance {
				ok[contract.Result](w.maintain(true))
			}
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			w.reach(device.Available)
		})
	}
}

// An act that ends another in the place of a task that was lost after the lowering write raises the
// reservation again.
//
// F30
func TestWhatEndsALostReturnRaisesIt(t *testing.T) {
	for name, end := range map[string]func(*deviceEnv){
		"retire --lost": func(w *deviceEnv) {
			ok[contract.Result](w.send(contract.VerbRetire.Update(), "", contract.RetireInput{Reason: "lost", Lost: true}))
		},
		"abort": func(w *deviceEnv) {
			ok[contract.Result](w.send(contract.VerbAbort.Update(), "", contract.ReasonInput{}))
		},
		"maintain": func(w *deviceEnv) { ok[contract.Result](w.maintain(false)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newBound(t)
			w.host.cancelDelay = time.Second
			ok[contract.Result](w.unbind("i1"))
			w.stepRuns("verify")
			w.inventory.reserved = 0 // as the task that was lost left it
			w.inventory.generation++
			end(w)
			w.pass(time.Hour)
			w.idle()
			require.Equal(t, 1, w.inventory.reserved)
		})
	}
}
