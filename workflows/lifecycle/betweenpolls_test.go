package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// zeroed counts the cleans that have overwritten the device.
func (w *deviceEnv) zeroed() (n int) {
	for _, in := range w.host.inputs {
		if in.Step == "zero" {
			n++
		}
	}
	return n
}

// Others take an available server and leave it before a poll sees them: the appliance's tag of
// the server says that it was changed, and it is cleaned before it is used, whatever asks first.
//
// S4.28
func TestAServerUsedBetweenTwoPollsIsCleaned(t *testing.T) {
	for by, ask := range map[string]func(*deviceEnv){
		"a poll": func(w *deviceEnv) { w.poll(contract.SignalFreed) },
		"a bind": func(w *deviceEnv) {
			r := w.bind("i1", "r1").refused(device.CodeConflict)
			require.Contains(t, r.Fault.Message, "another user may have had it")
		},
	} {
		t.Run(by, func(t *testing.T) {
			w := newShared(t)
			w.makeAvailable()
			w.idle()
			cleans := w.zeroed()
			require.True(t, w.pool.take())
			w.host.writeAsTenant("theirs")
			w.pool.leave()
			ask(w)
			w.requireAvailableWithoutProfile()
			require.Equal(t, cleans+1, w.zeroed())

			w.poll(contract.SignalFreed)
			require.Equal(t, cleans+1, w.zeroed(), "a server that did not change is cleaned again")
			w.makeBound("i2")
		})
	}
}

// An appliance that changes an idle server again and again has it cleaned more and more rarely,
// and the operator is called.
func TestAnApplianceThatChangesIdleServersCallsTheOperator(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	for range 4 {
		w.pool.version++
		w.signal(contract.SignalFreed, contract.Hint{})
		w.pass(3 * time.Second)
		if v := w.view(); v.NeedsOperator {
			require.Contains(t, v.Remedy, "ignore_etags")
			w.pass(time.Hour)
			w.requireAvailableWithoutProfile()
			return
		}
		w.pass(time.Minute)
	}
	t.Fatal("the operator was not called")
}

// The power that Burnish changes within a blink is no use by others. In a change that takes longer
// they may have used the server: it is cleaned.
//
// F34
func TestPowerIsNoUseByOthers(t *testing.T) {
	for name, slow := range map[string]bool{"within a blink": false, "slowly": true} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t)
			w.host.discovery.Power = true
			w.host.power = func(string) (contract.PowerResult, error) {
				w.pool.version++
				return contract.PowerResult{State: "on"}, nil
			}
			w.makeAvailable()
			w.idle()
			cleans := w.zeroed()
			lag := w.lag
			w.lag = func(activity string) (before, after time.Duration) {
				if slow && activity == contract.ActivityReadPool {
					return device.Blink, time.Millisecond
				}
				return lag(activity)
			}
			ok[contract.Result](w.send(contract.VerbPower.Update(), "", contract.PowerInput{Target: "on"}))
			w.lag = lag
			w.poll(contract.SignalFreed)
			w.requireAvailableWithoutProfile()
			require.Equal(t, slow, w.zeroed() > cleans)
		})
	}
}

// A device that lost its race is cleaned as soon as the others have left, also if no poll saw
// them.
//
// S4.28
func TestALostRaceEndsWhenTheOthersHaveLeft(t *testing.T) {
	w := newShared(t)
	w.makeAvailable()
	w.pool.take()
	w.bind("i1", "r1").refused(device.CodeServerTaken)
	require.Equal(t, device.Error, w.view().DeviceState)
	w.leaveAndClean()
	w.makeBound("i1")
}
