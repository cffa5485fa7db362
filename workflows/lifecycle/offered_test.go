package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// eventOfHardware is what the host sends when the kernel reports a change.
var eventOfHardware = contract.Hint{Source: "event of the kernel", Hardware: true}

// binds are the ways in which i1 gets an available device, from the last moment on at which it is
// as it was.
var binds = map[string]func(*deviceEnv) (get func() *call){
	"bind":  func(w *deviceEnv) func() *call { return func() *call { return w.bind("i1", "r1") } },
	"claim": func(w *deviceEnv) func() *call { return func() *call { return w.claim("i1", 2*time.Minute) } },
	"burn": func(w *deviceEnv) func() *call {
		ok[contract.Result](w.claim("i1", 2*time.Minute))
		w.pass(10 * time.Second)
		return func() *call { return w.burn("i1") }
	},
}

// A bind is answered after the host has seen the device; a look of the last five seconds counts,
// unless the hardware may have changed since.
//
// F39
func TestABindIsAnsweredAfterALook(t *testing.T) {
	for _, c := range []struct {
		name  string
		lead  func(*deviceEnv)
		looks int
	}{
		{"right after its return", func(*deviceEnv) {}, 0},
		{"a while later", func(w *deviceEnv) { w.pass(10 * time.Second) }, 1},
		{"after an event", func(w *deviceEnv) {
			w.host.up = false
			w.signal(contract.SignalRefresh, eventOfHardware)
			w.until("its look", func() bool { return w.activitiesInFlight > 0 })
			w.host.up = true
		}, 2}, // its own, and that of the event
		{"after an event and its look", func(w *deviceEnv) {
			w.signal(contract.SignalRefresh, eventOfHardware)
			w.until("its look", func() bool { return len(w.host.looks) > 0 })
			w.idle()
		}, 0},
		{"in the next run", func(w *deviceEnv) { w.pass(time.Minute); w.nextRun() }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newAvailable(t)
			w.host.looks = nil
			c.lead(w)
			w.host.looks = nil
			ok[contract.Result](w.bind("i1", "r1"))
			require.Len(t, w.host.looks, c.looks)
		})
	}
}

// A claim is looked at, and its burn right after it is not looked at again.
//
// F39
func TestAClaimIsLookedAtOnce(t *testing.T) {
	w := newAvailable(t)
	w.pass(time.Minute)
	w.host.looks = nil
	ok[contract.Result](w.claim("i1", 2*time.Minute))
	require.Len(t, w.host.looks, 1)
	ok[contract.Result](w.burn("i1"))
	require.Len(t, w.host.looks, 1)
}

// A device that is not what it was when it was offered is not bound: nobody gets it before an
// operator has decided, and nothing is written to it.
//
// F39
func TestOtherHardwareIsNotBound(t *testing.T) {
	for bind, lead := range binds {
		for name, change := range map[string]func(*deviceEnv) device.Code{
			"swapped": func(w *deviceEnv) device.Code { w.replaceHardware("S2"); return device.CodeIdentityChanged },
			"gone": func(w *deviceEnv) device.Code {
				w.host.injectFault = func(string, int) error { return refuse(device.Permanent, device.CodeTargetMissing) }
				return device.CodeTargetMissing
			},
			"unreadable": func(w *deviceEnv) device.Code {
				w.host.injectFault = func(string, int) error { return refuse(device.Permanent, device.CodeIO) }
				return device.CodeIO
			},
		} {
			t.Run(bind+" "+name, func(t *testing.T) {
				w := newAvailable(t)
				w.pass(time.Minute)
				steps := len(w.host.inputs)
				get := lead(w)
				code := change(w)
				get().refused(code)
				w.pass(24 * time.Hour)
				v := w.view()
				require.Equal(t, []any{device.Error, true, string(code), 1},
					[]any{v.DeviceState, v.Dirty, v.Fault, w.inventory.reserved})
				require.Nil(t, v.InstanceUUID)
				require.Len(t, w.host.inputs, steps, "nothing was written")
				w.bind("i2", "r2").refused(device.CodeRefused)
			})
		}
	}
}

// A device that others have written to is not bound, and is cleaned.
//
// F39
func TestAWrittenDeviceIsCleanedBeforeItIsBound(t *testing.T) {
	for bind, lead := range binds {
		t.Run(bind, func(t *testing.T) {
			w := newAvailable(t)
			w.pass(time.Minute)
			get := lead(w)
			w.writeUnseen()
			f := get().refused(device.CodeForeignWrite).Fault
			require.Contains(t, f.Remedy, "cleaned automatically")
			w.requireReturned()
			ok[contract.Result](w.bind("i2", "r2"))
		})
	}
}

// writeUnseen: somebody writes to the device, which its host finds until it is zeroed.
func (w *deviceEnv) writeUnseen() {
	w.host.writeAsTenant("unknown data")
	w.host.discovery.Written = true
	w.host.zeroed = func(int) { w.host.discovery.Written = false }
}

// A host that does not answer refuses a bind. The device stays as it is, and is bound when its
// host is back.
//
// F39
func TestASilentHostRefusesABind(t *testing.T) {
	for bind, lead := range binds {
		t.Run(bind, func(t *testing.T) {
			w := newAvailable(t)
			w.pass(time.Minute)
			get := lead(w)
			w.host.up = false
			asked := w.clock()
			get().refused(device.CodeHostUnreachable)
			require.Less(t, w.clock().Sub(asked), 30*time.Second)
			w.idle()
			v := w.view()
			require.Equal(t, []any{device.Available, false, 0, ""}, []any{v.DeviceState, v.Dirty, w.inventory.reserved, v.Fault})
			w.host.restart()
			ok[contract.Result](w.bind("i2", "r2"))
		})
	}
}

// A look that is cut short because its worker is killed again and again is no failed look: the bind is
// refused, and the device stays as it is.
//
// F39
func TestALookThatIsCutShortRefusesABind(t *testing.T) {
	for bind, lead := range binds {
		t.Run(bind, func(t *testing.T) {
			w := newAvailable(t)
			w.pass(time.Minute)
			get := lead(w)
			w.host.injectFault = func(string, int) error {
				return refuse(device.Permanent, device.CodeWorkerRestarted)
			}
			get().refused(device.CodeHostUnreachable)
			w.host.injectFault = nil
			w.idle()
			v := w.view()
			require.Equal(t, []any{device.Available, false, 0, ""}, []any{v.DeviceState, v.Dirty, w.inventory.reserved, v.Fault})
			ok[contract.Result](w.bind("i2", "r2"))
		})
	}
}

// The host looks at an offered device as soon as it reports a change, also while the inventory
// does not answer; a device that is being cleaned is looked at when it is offered. A tenant's
// device, and one that an operator has, is left alone.
//
// F39
func TestTheHostLooksWhenHardwareChanges(t *testing.T) {
	for _, c := range []struct {
		name string
		lead func(*deviceEnv)
		ends device.State
	}{
		{"available", func(*deviceEnv) {}, device.Error},
		{"available, and the inventory is away", func(w *deviceEnv) {
			w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
			w.signal(contract.SignalObserved, contract.Hint{Source: "test"})
			w.pass(5 * time.Minute)
		}, device.Error},
		{"being returned", func(w *deviceEnv) {
			ok[contract.Result](w.bind("i1", "r1"))
			ok[contract.Result](w.unbind("i1"))
			w.stepRuns("verify")
		}, device.Error},
		{"manageable", func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbManage.Update())) }, device.Manageable},
		{"bound", func(w *deviceEnv) { ok[contract.Result](w.bind("i1", "r1")) }, device.Allocated},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newAvailable(t)
			c.lead(w)
			w.host.looks = nil
			w.signal(contract.SignalRefresh, eventOfHardware)
			if c.ends != device.Error {
				w.pass(time.Hour)
				require.Empty(t, w.host.looks)
				require.Equal(t, c.ends, w.view().DeviceState)
				return
			}
			if w.host.running == "" {
				w.replaceHardware("S2")
			} else {
				w.until("its return", func() bool {
					return w.view().DeviceState != device.Cleaning || w.host.running == "" && w.inventory.reserved == 0
				})
				w.replaceHardware("S2")
			}
			w.within(10*time.Second, "its error", func() bool { return w.view().DeviceState == device.Error })
			w.inventory.injectFault = nil
			w.within(5*time.Minute, "its reservation", func() bool { return w.inventory.reserved == 1 })
			require.Equal(t, string(device.CodeIdentityChanged), w.view().Fault)
		})
	}
}

// Of a device of Nova's the inventory is asked first: a guest that starts takes it from the host's
// driver. One that others wrote to is cleaned.
//
// F39
func TestAnEventOfANovaDevice(t *testing.T) {
	t.Run("its guest starts", func(t *testing.T) {
		w := newNovaDevice(t).available()
		require.True(t, w.inventory.allocate("c1"))
		w.host.injectFault = func(string, int) error { return refuse(device.Transient, device.CodeTargetBusy) }
		w.host.looks = nil
		w.signal(contract.SignalRefresh, eventOfHardware)
		w.reach(device.Allocated)
		w.pass(time.Hour)
		require.Empty(t, w.host.looks)
		require.Empty(t, w.view().LastError)
	})
	t.Run("others write to it", func(t *testing.T) {
		w := newNovaDevice(t).available()
		w.writeUnseen()
		w.signal(contract.SignalRefresh, eventOfHardware)
		w.until("its clean", func() bool { return len(w.view().Cleans) == 2 && w.view().DeviceState == device.Available })
		w.idle()
		require.True(t, w.host.clean())
	})
}

// What others wrote while an operator had the device, or before its return, is cleaned; while it
// is on hold its operator decides.
//
// F39
func TestAWrittenDeviceIsNotOffered(t *testing.T) {
	t.Run("manageable", func(t *testing.T) {
		w := newAvailable(t)
		ok[contract.Result](w.ask(contract.VerbManage.Update()))
		w.writeUnseen()
		w.requireNotOffered("unknown data")
		ok[contract.Result](w.ask(contract.VerbProvide.Update()))
		w.requireReturned()
	})
	t.Run("in maintenance", func(t *testing.T) {
		w := newAvailable(t)
		ok[contract.Result](w.maintain(false))
		w.writeUnseen()
		w.requireNotOffered("unknown data")
		w.signal(contract.SignalRefresh, eventOfHardware)
		w.pass(time.Hour)
		require.Equal(t, device.Available, w.view().DeviceState)
		require.Contains(t, w.maintain(true).refused(device.CodeForeignWrite).Fault.Remedy, "clean d1")
		w.pass(time.Hour)
		v := w.view()
		require.Equal(t, []any{device.Error, true, string(device.CodeForeignWrite), 1},
			[]any{v.DeviceState, v.Dirty, v.Fault, w.inventory.reserved})
		require.Equal(t, "unknown data", w.host.blocks[0], "it is not cleaned by itself")
		ok[contract.Result](w.maintain(true))
		ok[contract.Result](w.cleanUp())
		w.reach(device.Available)
	})
	t.Run("before a late return", func(t *testing.T) {
		w := newBound(t)
		away := false
		w.inventory.injectFault = func(call string, after bool) error {
			away = away || call == "PutReserved" && !after && w.host.journal.step == "verify" && w.host.journal.done &&
				len(w.host.inputs) == 4
			if away {
				return lostAnswer()
			}
			return nil
		}
		ok[contract.Result](w.unbind("i1"))
		w.until("the inventory is away at the return", func() bool { return away })
		w.pass(10 * time.Minute)
		w.writeUnseen()
		w.requireNotOffered("unknown data")
		w.inventory.injectFault = nil
		w.until("another clean", func() bool { return len(w.host.inputs) == 6 && w.view().DeviceState == device.Available })
		w.idle()
		require.True(t, w.host.clean())
	})
}

// What is returned as not sanitized is offered as it is.
//
// F39, D7
func TestANotSanitizedReturnAcceptsWhatIsThere(t *testing.T) {
	p := standardPolicy()
	p.Automated = false
	w := newDeviceEnv(t, p)
	ok[contract.Result](w.enroll(false))
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	w.reach(device.Available)
	ok[contract.Result](w.bind("i1", "r1"))
	w.host.looks = nil
	ok[contract.Result](w.unbind("i1"))
	w.returned()
	require.True(t, w.view().NotSanitized)
	require.Len(t, w.host.looks, 1)
	require.True(t, w.host.looks[0].Accept)
	w.pass(time.Minute)
	ok[contract.Result](w.bind("i2", "r2"))
	require.False(t, w.host.looks[len(w.host.looks)-1].Accept)
}

// An unbind during the look of its own instance's bind waits for the bind, and ends the binding
// that it made.
//
// F30, F39
func TestUnbindDuringALook(t *testing.T) {
	for name, swapped := range map[string]bool{"the enrolled hardware": false, "other hardware": true} {
		t.Run(name, func(t *testing.T) {
			w := newAvailable(t)
			w.pass(time.Minute)
			bind := w.bind("i1", "r1")
			w.until("its look", func() bool { return w.activitiesInFlight > 0 })
			if swapped {
				w.replaceHardware("S2")
			}
			unbind := w.unbind("i1")
			if swapped {
				bind.refused(device.CodeIdentityChanged)
				require.True(t, ok[contract.Result](unbind).Already)
				require.Equal(t, device.Error, w.reach(device.Error).DeviceState)
			} else {
				ok[contract.Result](bind)
				require.False(t, ok[contract.Result](unbind).Already)
				w.until("its clean", func() bool { v := w.view(); return v.DeviceState == device.Available && len(v.Cleans) == 2 })
			}
		})
	}
}

// What changes during the look of a bind is looked at before the burn.
//
// F39
func TestAnEventDuringALook(t *testing.T) {
	w := newAvailable(t)
	w.pass(time.Minute)
	w.host.looks = nil
	bind := w.bind("i1", "r1")
	w.until("its look", func() bool { return w.activitiesInFlight > 0 })
	w.pass(900 * time.Millisecond)
	w.signal(contract.SignalRefresh, eventOfHardware)
	w.until("the end of its look", func() bool { return len(w.host.looks) == 1 })
	w.replaceHardware("S2")
	bind.refused(device.CodeConflict)
	require.Equal(t, string(device.CodeIdentityChanged), w.reach(device.Error).Fault)
}

// A burn after a look is in the history before it writes: the task of its write may be lost, and the
// repeated one may see another request first.
//
// F24, F39
func TestABurnIsRecordedBeforeItsWrite(t *testing.T) {
	w := newAvailable(t)
	w.pass(time.Minute)
	var looked, wrote time.Time
	w.host.injectFault = func(string, int) error { looked = w.clock(); return nil }
	w.loseTask = func(activity string) bool {
		if activity == contract.ActivityReserveForBind {
			wrote = w.clock()
		}
		return false
	}
	ok[contract.Result](w.bind("i1", "r1"))
	require.False(t, looked.IsZero())
	require.True(t, wrote.After(looked), "in a later task")
}
