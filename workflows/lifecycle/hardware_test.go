package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// replaceHardware puts other hardware, full of data, into the slot.
func (w *deviceEnv) replaceHardware(serial string) {
	w.host.discovery.Identity.Serial = serial
	w.host.writeAsTenant("unknown data")
}

func (w *deviceEnv) replace(in contract.ReplaceInput) *call {
	return w.send(contract.VerbReplace.Update(), "", in)
}

func (w *deviceEnv) move(to string) *call {
	e := w.enrollment()
	e.Name = to
	return w.send(contract.VerbMove.Update(), "", contract.MoveInput{Enrollment: e})
}

// An invalid name is refused, and changes nothing.
//
// D10
func TestMoveToAnInvalidName(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	ok[contract.Result](w.enroll(false))
	before := w.view()
	for _, to := range []string{"", "a b", "a/b", "d1 "} {
		w.move(to).refused(device.CodeInvalid)
	}
	require.Equal(t, before, w.view())
}

// makeSerialMismatch brings the device into error by a clean that finds other hardware.
func (w *deviceEnv) makeSerialMismatch() {
	w.t.Helper()
	w.makeAvailable()
	w.makeBound("i1")
	w.replaceHardware("S2")
	ok[contract.Result](w.unbind("i1"))
	require.Equal(w.t, string(device.CodeSerialMismatch), w.reach(device.Error).Fault)
	require.Equal(w.t, [blocks]string{"unknown data", "unknown data", "unknown data", "unknown data"}, w.host.blocks,
		"nothing was written")
}

// Replace starts the next unit: it is Dirty and has the device's history.
//
// D10
func TestReplaceStartsTheNextUnit(t *testing.T) {
	for name, again := range map[string]func(w *deviceEnv) contract.Result{
		"then provide": func(w *deviceEnv) contract.Result { return ok[contract.Result](w.replace(contract.ReplaceInput{})) },
		"with --provide": func(w *deviceEnv) contract.Result {
			return ok[contract.Result](w.replace(contract.ReplaceInput{Provide: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.makeSerialMismatch()
			w.inventory.onWrite = func(string) {
				if w.inventory.exists && w.inventory.reserved == 0 && !w.host.clean() {
					w.Errorf("free in the inventory with unknown data")
				}
			}
			answer := again(w)
			require.Equal(t, "S2", answer.Device.Serial)
			require.True(t, answer.Device.Dirty)
			if name == "then provide" {
				require.Equal(t, device.Manageable, answer.Device.DeviceState)
				require.Empty(t, answer.Device.Fault)
				w.nextRun()
				ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			}
			w.requireReturned()
			w.idle()
			w.nextRun()
			s := w.state()
			require.Equal(t, device.Unit{Number: 2, Serial: "S2"}, s.Device.Unit)
			require.Len(t, s.History, 1, "the first unit's binding is kept")
			require.Equal(t, 2, w.makeBound("i2"), "bindings are counted on")
		})
	}
}

// The operation is chosen for the new hardware, not taken from the old.
//
// D10
func TestReplaceChoosesItsOwnErasePath(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeSerialMismatch()
	w.host.discovery.Operation = device.BlockErase
	require.Equal(t, device.BlockErase, ok[contract.Result](w.replace(contract.ReplaceInput{})).Device.Operation)
}

// D10
func TestReplaceIsRefused(t *testing.T) {
	t.Run("the same hardware", func(t *testing.T) {
		w := newDeviceEnv(t, standardPolicy())
		ok[contract.Result](w.enroll(false))
		before := w.view()
		w.replace(contract.ReplaceInput{}).refused(device.CodeRefused)
		after := w.view()
		require.Equal(t, device.CodeRefused, w.lastAct().Fault, "it was accepted, and the discovery said otherwise")
		before.LastRefusal, after.LastRefusal, before.UpdatedAt, after.UpdatedAt = "", "", time.Time{}, time.Time{}
		before.Acts, after.Acts = nil, nil
		require.Equal(t, before, after)
	})
	t.Run("hardware that another device has", func(t *testing.T) {
		w := newDeviceEnv(t, standardPolicy())
		w.makeSerialMismatch()
		w.duplicate = "d7"
		r := w.replace(contract.ReplaceInput{}).refused(device.CodeDuplicateSerial)
		require.Contains(t, r.Fault.Remedy, "move d7 d1")
		require.Equal(t, device.Error, w.view().DeviceState)
		require.Equal(t,
			[]notified{{"device/d7", contract.SignalRefresh, contract.Hint{Source: "duplicate serial", DuplicateAt: "d1"}}},
			w.notifications)
	})
	t.Run("the host refuses it", func(t *testing.T) {
		w := newDeviceEnv(t, standardPolicy())
		w.makeSerialMismatch()
		w.host.injectFault = func(string, int) error { return refuse(device.NeedsOperator, device.CodeFilesystemSignature) }
		w.replace(contract.ReplaceInput{}).refused(device.CodeFilesystemSignature)
		require.Equal(t, device.Error, w.view().DeviceState)
	})
	t.Run("in other states than manageable, error and retired", func(t *testing.T) {
		w := newAvailable(t)
		w.replace(contract.ReplaceInput{}).refused(device.CodeRefused)
		w.makeBound("i1")
		w.replace(contract.ReplaceInput{}).refused(device.CodeRefused)
		ok[contract.Result](w.unbind("i1"))
		w.stepRuns("zero")
		w.replace(contract.ReplaceInput{}).refused(device.CodeRefused)
		w.reach(device.Available)
	})
}

// Move transfers state, dirty flag and history to the new name, and ends the old one.
//
// D10
func TestMoveKeepsStateAndDirtyFlag(t *testing.T) {
	w := newAvailable(t)
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	ok[contract.Result](w.ask(contract.VerbAbort.Update()))
	w.reach(device.Error)
	require.Equal(t, "continues as d2", ok[contract.Result](w.move("d2")).Note)
	w.until("the old name's end", func() bool { return !w.live })
	require.NoError(t, w.finishErr)
	require.False(t, w.inventory.exists, "the old name's provider is deleted")
	require.False(t, w.host.known, "the host deletes the old record")

	require.Len(t, w.children, 1)
	next := w.children[0]
	require.Equal(t, "device/d2", next.options.WorkflowID)
	require.Equal(t, enums.PARENT_CLOSE_POLICY_ABANDON, next.options.ParentClosePolicy)
	s := next.in.State
	require.Equal(t, []any{"d2", contract.DeviceUUID("d2"), "d2", device.Error, true, 1, 2},
		[]any{s.Name, s.UUID, s.Enrollment.Name, s.Device.State, s.Device.Dirty, s.Device.Bindings, s.Cleans})
	require.Len(t, s.History, 1)

	// The new workflow reserves the device first, then it goes on as before.
	moved := newDeviceEnvOf(t, standardPolicy(), next.in)
	moved.updatesSent = w.updatesSent // an update's ID is never used twice
	moved.host, moved.inventory.onWrite = w.host, func(string) {
		if moved.inventory.exists && moved.inventory.reserved == 0 && !moved.host.clean() {
			moved.Errorf("free in the inventory with a tenant's data")
		}
	}
	moved.until("its provider", func() bool { return moved.inventory.exists && moved.inventory.reserved == 1 })
	require.Equal(t, string(device.Error), moved.publishedState, "listings see it")
	ok[contract.Result](moved.cleanUp())
	moved.reach(device.Available)
	require.True(t, moved.host.clean())
	require.Equal(t, 2, moved.makeBound("i2"))
}

// D10
func TestMoveIsRefused(t *testing.T) {
	manageable := func(t *testing.T) *deviceEnv {
		w := newDeviceEnv(t, standardPolicy())
		ok[contract.Result](w.enroll(false))
		return w
	}
	// still is the same device as before, which goes on.
	still := func(t *testing.T, w *deviceEnv) {
		t.Helper()
		require.True(t, w.live)
		require.True(t, w.inventory.exists)
		require.Empty(t, w.children)
		ok[contract.Result](w.ask(contract.VerbProvide.Update()))
		w.reach(device.Available)
	}
	t.Run("the name is taken", func(t *testing.T) {
		w := manageable(t)
		w.nameTaken = true
		w.move("d2").refused(device.CodeAlreadyExists)
		still(t, w)
	})
	t.Run("its own name", func(t *testing.T) {
		w := manageable(t)
		w.move("d1").refused(device.CodeInvalid)
		still(t, w)
	})
	t.Run("other hardware in the slot", func(t *testing.T) {
		w := manageable(t)
		was := w.host.discovery.Identity
		w.replaceHardware("S2")
		w.move("d2").refused(device.CodeIdentityChanged)
		w.host.discovery.Identity = was
		still(t, w)
	})
	t.Run("offered", func(t *testing.T) {
		w := newAvailable(t)
		w.move("d2").refused(device.CodeRefused)
		require.Equal(t, device.Available, w.view().DeviceState)
		w.makeBound("i1")
		w.move("d2").refused(device.CodeRefused)
	})
}

// A serial that another device has is not enrolled a second time, and that other device is asked
// to re-check.
//
// F23
func TestDuplicateSerialIsNotEnrolled(t *testing.T) {
	t.Run("at another host, by a listing", func(t *testing.T) {
		w := newDeviceEnv(t, standardPolicy())
		w.duplicate = "d7"
		w.enroll(true).refused(device.CodeDuplicateSerial)
		w.until("its end", func() bool { return !w.live })
		require.False(t, w.inventory.exists)
		require.False(t, w.host.known)
		require.Equal(t,
			[]notified{{"device/d7", contract.SignalRefresh, contract.Hint{Source: "duplicate serial", DuplicateAt: "d1"}}},
			w.notifications)
	})
	t.Run("at this host, by its records", func(t *testing.T) {
		w := newDeviceEnv(t, standardPolicy())
		w.host.injectFault = func(string, int) error {
			err := device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Message: "it is d7", Other: "d7"}
			return refusal(err)
		}
		w.enroll(true).refused(device.CodeDuplicateSerial)
		require.Len(t, w.notifications, 1)
		require.Equal(t, "device/d7", w.notifications[0].workflow)
	})
}

// Two devices with one serial that are enrolled at the same moment do not find each other
// before they are enrolled. Once listed, each searches again before it is cleaned or returned,
// and an operator decides.
//
// F23
func TestDuplicateSerialEnrolledAtTheSameMoment(t *testing.T) {
	held := func(t *testing.T, w *deviceEnv) {
		t.Helper()
		v := w.reach(device.Error)
		require.Equal(t, []any{string(device.CodeDuplicateSerial), true}, []any{v.Fault, v.NeedsOperator})
		require.Contains(t, v.LastError, "d7")
		require.Equal(t, 1, w.inventory.reserved)
		require.NotContains(t, w.scheduledActivities, "zero", "nothing was wiped")
		require.NotContains(t, w.scheduledActivities, contract.ActivityUnreserve)
		require.Equal(t,
			[]notified{{"device/d7", contract.SignalRefresh, contract.Hint{Source: "duplicate serial", DuplicateAt: "d1"}}},
			w.notifications)
		ok[contract.Result](w.cleanUp())
		w.reach(device.Available)
		require.Contains(t, w.scheduledActivities, "zero")
		require.Contains(t, w.scheduledActivities, contract.ActivityUnreserve)
	}
	t.Run("to be cleaned", func(t *testing.T) {
		w := newDeviceEnv(t, standardPolicy())
		w.duplicateOnceListed = "d7"
		ok[contract.Result](w.enroll(true))
		held(t, w)
	})
	t.Run("to be returned without a clean", func(t *testing.T) {
		policy := standardPolicy()
		policy.OnEnroll = false
		w := newDeviceEnv(t, policy)
		w.duplicateOnceListed = "d7"
		e := w.enrollment()
		e.OperatorAssertsClean = true
		ok[contract.Result](w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e, Provide: true}))
		held(t, w)
	})
}

// A device whose serial was found at a second slot is not offered any more, whatever its own
// host finds, until an operator cleans it.
//
// F23
func TestDuplicateSerialTakesTheDeviceOutOfTheOffer(t *testing.T) {
	hint := contract.Hint{Source: "duplicate serial", DuplicateAt: "d7"}
	// repaired checks that only the operator's clean makes it available again.
	repaired := func(t *testing.T, w *deviceEnv) {
		t.Helper()
		w.idle()
		w.nextRun()
		require.Equal(t, 1, w.inventory.reserved)
		w.bind("i9", "r9").refused(device.CodeRefused)
		w.host.up, w.host.injectFault = true, nil
		ok[contract.Result](w.cleanUp())
		w.reach(device.Available)
	}
	for name, tc := range map[string]struct {
		sees func(w *deviceEnv)
		want device.Code
	}{
		"its own host finds it too":    {func(*deviceEnv) {}, device.CodeDuplicateSerial},
		"its own host does not answer": {func(w *deviceEnv) { w.host.up = false }, device.CodeDuplicateSerial},
		"its own host reports another fault": {func(w *deviceEnv) {
			w.host.injectFault = func(string, int) error { return refuse(device.Permanent, device.CodeIO) }
		}, device.CodeDuplicateSerial},
		"its own host does not find it": {func(w *deviceEnv) {
			w.host.injectFault = func(string, int) error { return refuse(device.NeedsOperator, device.CodeTargetMissing) }
		}, device.CodeTargetMissing},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAvailable(t)
			tc.sees(w)
			w.signal(contract.SignalRefresh, hint)
			v := w.reach(device.Error)
			require.Equal(t, []any{string(tc.want), true, true}, []any{v.Fault, v.Dirty, v.NeedsOperator})
			repaired(t, w)
		})
	}
	t.Run("it stays bound, and is not returned after the unbind", func(t *testing.T) {
		w := newAvailable(t)
		w.makeBound("i1")
		w.signal(contract.SignalRefresh, hint)
		w.until("it needs the operator", func() bool { return w.view().NeedsOperator })
		v := w.view()
		require.Equal(t, []any{device.Allocated, true, string(device.CodeDuplicateSerial)},
			[]any{v.DeviceState, v.Dirty, v.Fault})
		require.Contains(t, v.LastError, "d7")
		ok[contract.Result](w.unbind("i1"))
		require.Equal(t, string(device.CodeDuplicateSerial), w.reach(device.Error).Fault)
		repaired(t, w)
	})
	t.Run("during its clean", func(t *testing.T) {
		w := newAvailable(t)
		w.makeBound("i1")
		ok[contract.Result](w.unbind("i1"))
		w.stepRuns("zero")
		w.signal(contract.SignalRefresh, hint)
		v := w.reach(device.Error)
		require.Equal(t, []any{string(device.CodeDuplicateSerial), true}, []any{v.Fault, v.Dirty})
		repaired(t, w)
	})
}
