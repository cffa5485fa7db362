package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// requireNotOffered checks that foreign data is never offered.
func (w *deviceEnv) requireNotOffered(data string) {
	seen := w.inventory.onWrite
	w.inventory.onWrite = func(what string) {
		if seen != nil {
			seen(what)
		}
		if w.inventory.exists && w.inventory.reserved == 0 && w.host.blocks[0] == data {
			w.Errorf("%s is offered after %s", data, what)
		}
	}
}

// Hardware that was swapped while a clean device was out of the offer is not offered: a silent
// host refuses the request, and one that answers finds other hardware.
//
// F27
func TestSwappedHardwareIsNotOffered(t *testing.T) {
	for _, c := range cleanAndReserved[:2] {
		for _, owner := range owners {
			t.Run(c.name+" "+string(owner), func(t *testing.T) {
				w := newDeviceEnv(t, standardPolicy())
				w.owner = owner
				w.makeAvailable()
				c.lead(w)
				w.idle()
				was := w.host.discovery.Identity
				w.host.up = false
				w.replaceHardware("S2")
				w.requireNotOffered("unknown data")
				f := c.back(w).refused(device.CodeHostUnreachable).Fault
				require.Contains(t, f.Message, "not offered unseen")
				require.Contains(t, f.Remedy, "start burnish-worker on h1")
				require.Equal(t, 1, w.inventory.reserved)

				w.host.restart()
				c.back(w).refused(device.CodeIdentityChanged)
				w.pass(24 * time.Hour)
				w.nextRun()
				v := w.view()
				require.Equal(t, []any{true, string(device.CodeIdentityChanged), 1}, []any{v.Dirty, v.Fault, w.inventory.reserved})
				require.Equal(t, "unknown data", w.host.blocks[0], "nothing was written")

				// The enrolled hardware is back: it is cleaned before it is offered.
				w.host.discovery.Identity = was
				if v.DeviceState == device.Error {
					ok[contract.Result](w.cleanUp())
				} else {
					ok[contract.Result](w.ask(contract.VerbProvide.Update()))
				}
				w.returned()
				require.True(t, w.host.clean())
			})
		}
	}
}

// A failed look refuses the end of maintenance, which goes on.
//
// F27
func TestMaintenanceGoesOnWhereTheLookFails(t *testing.T) {
	w := newAvailable(t)
	ok[contract.Result](w.maintain(false))
	w.host.injectFault = func(string, int) error { return refuse(device.Permanent, device.CodeTargetBusy) }
	w.maintain(true).refused(device.CodeTargetBusy)
	v := w.view()
	require.Equal(t, []any{device.Available, true, 1}, []any{v.DeviceState, v.Maintenance, w.inventory.reserved})
	w.host.injectFault = nil
	ok[contract.Result](w.maintain(true))
	w.idle()
	require.Zero(t, w.inventory.reserved)
	require.Len(t, w.host.inputs, 2, "it was not cleaned again")
}

// A device that is returned without a clean is looked at first, because its tenant had it.
//
// F27, D4, D7, S0.39
func TestReturnedWithoutACleanOnlyIfSeen(t *testing.T) {
	for name, set := range map[string]func(*deviceEnv){
		"no erase path":          func(w *deviceEnv) { w.host.discovery.Operation = "" },
		"automated cleaning off": func(w *deviceEnv) { p := standardPolicy(); p.Automated = false; w.setPolicy(p) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			set(w)
			ok[contract.Result](w.enroll(false))
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
			w.reach(device.Available)
			ok[contract.Result](w.bind("i1", "r1"))
			w.replaceHardware("S2")
			w.requireNotOffered("unknown data")
			ok[contract.Result](w.unbind("i1"))
			v := w.reach(device.Error)
			require.Equal(t, []any{true, string(device.CodeIdentityChanged), 1}, []any{v.Dirty, v.Fault, w.inventory.reserved})
		})
	}
}

// The end of a clean is a look. If the inventory lets the device be returned much later, its
// host looks again.
//
// F27
func TestALateReturnLooksAgain(t *testing.T) {
	for name, swapped := range map[string]bool{"the same hardware": false, "swapped meanwhile": true} {
		t.Run(name, func(t *testing.T) {
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
			if swapped {
				w.replaceHardware("S2")
				w.requireNotOffered("unknown data")
			}
			w.inventory.injectFault = nil
			looks := count(w.scheduledActivities, contract.ActivityDiscover)
			if swapped {
				v := w.reach(device.Error)
				require.Equal(t, []any{string(device.CodeIdentityChanged), 1}, []any{v.Fault, w.inventory.reserved})
			} else {
				w.returned()
				require.Zero(t, w.inventory.reserved)
				require.Len(t, w.host.inputs, 4, "it is not cleaned again")
			}
			require.Equal(t, looks+1, count(w.scheduledActivities, contract.ActivityDiscover))
		})
	}
}

// A moved device is dirty, whatever it was in its old slot.
//
// F27, D10
func TestAMovedDeviceIsDirty(t *testing.T) {
	w := newAvailable(t)
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	require.False(t, w.view().Dirty)
	ok[contract.Result](w.move("d2"))
	w.until("the old name's end", func() bool { return !w.live })
	require.Len(t, w.children, 1)
	next := w.children[0].in
	require.Equal(t, []any{device.Manageable, true}, []any{next.State.Device.State, next.State.Device.Dirty})

	moved := newDeviceEnvOf(t, standardPolicy(), next)
	moved.updatesSent = w.updatesSent
	moved.host = w.host
	moved.host.writeAsTenant("unknown data")
	moved.requireNotOffered("unknown data")
	moved.until("its provider", func() bool { return moved.inventory.exists && moved.inventory.reserved == 1 })
	ok[contract.Result](moved.ask(contract.VerbProvide.Update()))
	moved.reach(device.Available)
	require.True(t, moved.host.clean())
}

// An available device of which its host cannot say that it is the enrolled one leaves the
// pool, whatever the fault; only a host that does not answer leaves it there.
//
// F27
func TestAFailedLookTakesTheDeviceOutOfTheOffer(t *testing.T) {
	for _, code := range []device.Code{
		device.CodeNotAllowed, device.CodeInvalidSetting, device.CodeTargetShared, device.CodeTargetBusy, device.CodeIO,
		device.CodeToolOutputInvalid, device.CodeFilesystemSignature, device.CodeOverwriteUnsupported,
		device.CodeStateDirError,
		device.CodeUnknownDriver, device.CodeInternal, device.CodeIdentityChanged, device.CodeTargetMissing,
	} {
		t.Run(string(code), func(t *testing.T) {
			w := newAvailable(t)
			w.host.injectFault = func(string, int) error { return refuse(device.Permanent, code) }
			w.host.writeAsTenant("unknown data")
			w.signal(contract.SignalObserved, w.host.hint(w.clock()))
			w.pass(24 * time.Hour)
			w.nextRun()
			v := w.view()
			require.Equal(t, []any{device.Error, true, string(code), true, 1},
				[]any{v.DeviceState, v.Dirty, v.Fault, v.NeedsOperator, w.inventory.reserved})
			require.Equal(t, "unknown data", w.host.blocks[0], "nothing was written")
			w.bind("i1", "r1").refused(device.CodeRefused)
			w.host.injectFault = nil
			ok[contract.Result](w.cleanUp())
			w.requireReturned()
		})
	}
	t.Run("a host that does not answer", func(t *testing.T) {
		w := newAvailable(t)
		w.host.up = false
		w.signal(contract.SignalRefresh, contract.Hint{})
		w.pass(time.Hour)
		v := w.view()
		require.Equal(t, device.Available, v.DeviceState)
		require.Contains(t, v.LastError, "no worker of this host took its task")
	})
}

// A device of Nova's that was used and freed between two reads, and never reserved, is
// cleaned; one that was not used is never cleaned, however often it is read.
//
// F28, S0.9, S0.16
func TestUsedAndFreedBetweenTwoReads(t *testing.T) {
	for name, read := range map[string]func(*deviceEnv){
		"the inventory answers": func(*deviceEnv) {},
		"after it was away": func(w *deviceEnv) {
			w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
			w.hintReconcile()
			w.pass(10 * time.Minute)
			w.inventory.injectFault = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNovaDevice(t).available()
			cleans, writes := len(w.view().Cleans), len(w.inventory.writes)
			for range 5 {
				w.hintReconcile()
				w.pass(time.Minute)
			}
			require.Len(t, w.view().Cleans, cleans, "it is idle, and was not used")
			require.Len(t, w.inventory.writes, writes)
			require.True(t, w.inventory.allocate("c1"))
			w.host.writeAsTenant("c1")
			w.inventory.free("c1")
			read(w)
			w.hintReconcile()
			w.until("another clean", func() bool {
				v := w.view()
				return len(v.Cleans) == cleans+1 &&
					v.DeviceState == device.Available
			})
			w.idle()
			require.True(t, w.host.clean())
			require.Zero(t, w.inventory.reserved)
			writes = len(w.inventory.writes)
			for range 5 {
				w.hintReconcile()
				w.pass(time.Minute)
			}
			require.Len(t, w.view().Cleans, cleans+1)
			require.Len(t, w.inventory.writes, writes)
		})
	}
}

// A read that failed wrote nothing: listings keep the generation, by which the sweep finds a
// use between two reads.
//
// F28
func TestListedGenerationAfterAFailedRead(t *testing.T) {
	w := newNovaDevice(t).available()
	w.idle()
	require.Equal(t, w.inventory.generation, w.publishedMemo.Generation)
	shown := w.memos
	w.inventory.injectFault = func(string, bool) error {
		return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
	}
	w.hintReconcile()
	w.until("the read has failed", func() bool { return w.memos > shown && w.publishedMemo.LastError != "" })
	require.Equal(t, device.Available, w.view().DeviceState)
	require.Equal(t, w.inventory.generation, w.publishedMemo.Generation)
	w.inventory.injectFault = nil

	require.True(t, w.inventory.allocate("c1"))
	w.host.writeAsTenant("c1")
	w.inventory.free("c1")
	memo := w.publishedMemo
	asked := device.Ask(device.AskReconcile,
		device.Device{State: device.Available, Status: device.Enabled, Owner: memo.Owner},
		device.Known{Provider: memo.Provider, Generation: memo.Generation})
	o, _ := device.Observe(device.Device{State: device.Available, Status: device.Enabled, Owner: memo.Owner},
		asked.Answered(device.Inventory{Generation: w.inventory.generation, Total: 1, Provider: memo.Provider}))
	require.True(t, o.Needs(device.RequestRecheck), "the sweep compares the listed generation")
	w.hintReconcile()
	w.until("another clean", func() bool { v := w.view(); return len(v.Cleans) == 2 && v.DeviceState == device.Available })
	w.idle()
	require.True(t, w.host.clean())
}

// The answer of the lowering write is lost, and an instance used the device before the result
// was read: it is cleaned again.
//
// F28
func TestUsedAfterALostAnswer(t *testing.T) {
	w := newNovaDevice(t).available()
	w.allocatedByNova("c1")
	w.inventory.free("c1")
	w.requireNotOfferedAfterUse("c2")
	used := false
	w.inventory.injectFault = func(call string, after bool) error {
		if used || call != "PutReserved" || !after || w.inventory.reserved != 0 {
			return nil
		}
		used = true
		require.True(t, w.inventory.allocate("c2"))
		w.host.writeAsTenant("c2")
		w.inventory.free("c2")
		return lostAnswer()
	}
	w.hintReconcile()
	w.until("it was used", func() bool { return used })
	w.until("a third clean", func() bool { v := w.view(); return len(v.Cleans) == 3 && v.DeviceState == device.Available })
	w.idle()
	require.True(t, w.host.clean())
}

// requireNotOfferedAfterUse checks that Burnish does not unreserve the device with this data.
func (w *deviceEnv) requireNotOfferedAfterUse(data string) {
	w.inventory.onWrite = func(what string) {
		if what == "put" && w.inventory.reserved == 0 && w.host.blocks[0] == data {
			w.Errorf("unreserved with the data of %s", data)
		}
	}
}

// A device that is retired while its reservation is being lowered ends reserved, whenever the
// write arrives and whatever became of its answer.
//
// F30
func TestRetiredDuringTheReturnIsReserved(t *testing.T) {
	for _, owner := range owners {
		for name, fail := range map[string]func() error{"answered": nil, "the answer is lost": lostAnswer} {
			for way, local := range map[string]bool{"in the task": true, "as an activity": false} {
				t.Run(string(owner)+" "+name+" "+way, func(t *testing.T) {
					w := newDeviceEnv(t, standardPolicy())
					w.owner = owner
					w.makeBound("i1")
					w.noLocalCalls = !local
					w.lag = func(activity string) (time.Duration, time.Duration) {
						switch {
						case local:
							return 100 * time.Millisecond, 100 * time.Millisecond
						case activity == contract.ActivityUnreserve:
							return 3 * time.Second, 3 * time.Second
						}
						return time.Millisecond, time.Millisecond
					}
					if fail != nil {
						w.inventory.injectFault = func(call string, after bool) error {
							if call == "PutReserved" && after && w.inventory.reserved == 0 {
								return fail()
							}
							return nil
						}
					}
					unreserves := count(w.scheduledActivities, contract.ActivityUnreserve)
					ok[contract.Result](w.unbind("i1"))
					w.until("the return is being written", func() bool {
						return count(w.scheduledActivities, contract.ActivityUnreserve) > unreserves
					})
					ok[contract.Result](w.send(contract.VerbRetire.Update(), "", contract.RetireInput{Reason: "gone", Lost: true}))
					w.until("the write arrives", func() bool { return w.inventory.reserved == 0 })
					w.pass(time.Minute)
					w.nextRun()
					require.Equal(t, 1, w.inventory.reserved)
					v := w.view()
					require.Equal(t, []any{device.Retired, true}, []any{v.DeviceState, v.Dirty})
				})
			}
		}
	}
}

// A provider that Nova re-creates during a clean was free for a while. Maintenance keeps the
// device from being returned; when it ends, the device waits for its operator.
//
// F28, F43
func TestProviderRecreatedDuringACleanInMaintenance(t *testing.T) {
	w := newNovaDevice(t).available()
	w.allocatedByNova("c1")
	w.inventory.free("c1")
	w.hintReconcile()
	w.stepRuns("verify")
	ok[contract.Result](w.maintain(false))
	w.recreateProvider(false)
	w.inventory.reserved = 1 // as an instance leaves it that used it meanwhile: the clean goes on
	w.hintReconcile()
	w.returned()
	before := count(w.scheduledActivities, "zero")
	w.maintain(true).wait()
	if w.view().Maintenance { // the first request was refused
		ok[contract.Result](w.maintain(true))
	}
	w.pass(24 * time.Hour)
	require.Equal(t, device.Manageable, w.view().DeviceState, "its operator lets it go, nothing else (F43)")
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	w.returned()
	require.Equal(t, 1, count(w.scheduledActivities, "zero")-before, "cleaned again")
	require.True(t, w.host.clean())
}
