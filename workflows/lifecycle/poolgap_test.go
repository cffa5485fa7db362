package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// useServer has another user take the server, write to it, and leave it.
func (w *deviceEnv) useServer() {
	if w.pool.profile == "" {
		w.host.writeAsTenant("theirs")
	}
	w.pool.use()
}

// once calls do at the first call of the appliance of this name.
func once(name string, do func()) func(string) {
	done := false
	return func(call string) {
		if call == name && !done {
			done = true
			do()
		}
	}
}

// Free is not unused: what others use after Burnish's profile was removed, and leave before the
// appliance is asked again, is cleaned before it is offered.
//
// F34
func TestAServerThatOthersUseWhileItIsReturnedIsCleaned(t *testing.T) {
	for name, use := range map[string]func(*deviceEnv){
		"before the answer to the removal": func(w *deviceEnv) { w.pool.meanwhile = once("removed", w.useServer) },
		"after an answer that is lost": func(w *deviceEnv) {
			w.pool.injectFault = times(1, "remove", true, func() error {
				w.useServer()
				return unreachable()
			})
		},
		"while the return waits for its host": func(w *deviceEnv) {
			// By then the host's last look is old.
			lag := w.lag
			w.lag = func(activity string) (before, after time.Duration) {
				if activity == contract.ActivityRemoveProfile {
					return 4 * time.Minute, time.Millisecond
				}
				return lag(activity)
			}
			w.pool.meanwhile = once("removed", func() {
				w.host.up = false
				w.after(time.Minute, w.useServer)
				w.after(10*time.Minute, w.host.restart)
			})
		},
		"because its profile was taken away": func(w *deviceEnv) {
			w.pool.injectFault = times(1, "remove", false, func() error {
				w.takeProfileAway()
				w.useServer()
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t)
			w.makeBound("i1")
			cleans := w.zeroed()
			use(w)
			ok[contract.Result](w.unbind("i1"))
			w.until("returned twice", func() bool { return w.zeroed() == cleans+2 })
			w.requireAvailableWithoutProfile()
			w.makeBound("i2")
			require.Equal(t, cleans+2, w.zeroed())
		})
	}
}

// takeProfileAway has another user remove Burnish's profile from the server.
func (w *deviceEnv) takeProfileAway() {
	delete(w.pool.profiles, w.pool.profile)
	w.pool.profile = ""
	w.pool.version++
}

// What others use between the bind's question and the tenant's profile is not bound: it is cleaned.
//
// F34
func TestATenantGetsNoServerThatOthersUsedDuringTheBind(t *testing.T) {
	for name, at := range map[string]string{"before the burn": contract.ActivityReserveForBind,
		"before the profile": contract.ActivityApplyProfile} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t).available()
			w.idle()
			cleans, check := w.zeroed(), w.beforeCall
			use := once(at, w.useServer)
			w.beforeCall = func(name string) {
				check(name)
				use(name)
			}
			r := w.bind("i1", "r1").refused(device.CodeConflict)
			require.Contains(t, r.Fault.Message, "another user may have had it")
			w.requireAvailableWithoutProfile()
			require.Equal(t, cleans+1, w.zeroed())
			w.makeBound("i2")
		})
	}
}

// A burn was carried out and lost with its task, and others use the server before the record is read: the record is no
// proof that the server is as Burnish left it. The burn is given back, and the server cleaned.
//
// F34, F42
func TestARecordedBurnIsNoProofOfAServer(t *testing.T) {
	for name, meanwhile := range map[string]func(*deviceEnv){
		"others used the server": (*deviceEnv).useServer,
		"nobody used it":         func(*deviceEnv) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t).available()
			w.idle()
			cleans := w.zeroed()
			w.inventory.reserved, w.inventory.generation, w.inventory.tenant = 1, w.inventory.generation+1, new("i1")
			meanwhile(w)
			w.signal(contract.SignalObserved, contract.Hint{})
			w.until("allocated by the record", func() bool { return w.view().DeviceState == device.Allocated })
			w.bind("i1", "r1").refused(device.CodeConflict)
			w.requireAvailableWithoutProfile()
			require.Equal(t, cleans+1, w.zeroed())
			w.makeBound("i2")
		})
	}
}

// A burn was carried out and lost with its task, and its bind comes again before the record is read: a bind that is
// refused because of what the appliance shows leaves nothing of it either.
//
// F42
func TestABindThatTheApplianceRefusesIsGivenBack(t *testing.T) {
	for _, name := range []string{"used", "taken"} {
		t.Run(name, func(t *testing.T) {
			w := newShared(t).available()
			w.idle()
			cleans := w.zeroed()
			w.inventory.reserved, w.inventory.generation, w.inventory.tenant = 1, w.inventory.generation+1, new("i1")
			if name == "used" {
				w.useServer()
			} else {
				require.True(t, w.pool.take())
			}
			w.bind("i1", "r1").refused(device.CodeConflict)
			w.pass(time.Hour)
			require.NotEqual(t, device.Allocated, w.settled().DeviceState)
			if w.pool.taken() {
				w.leaveAndClean()
			}
			w.requireAvailableWithoutProfile()
			require.Equal(t, cleans+1, w.zeroed())
			w.makeBound("i2")
		})
	}
}

// What has its profile is its tenant's: a bind that is asked for again is granted again, and one whose appliance is
// silent is neither granted nor given back.
func TestARecoveredTenantsBindIsGrantedAgain(t *testing.T) {
	w := newShared(t)
	w.makeBound("i1")
	w.terminate()
	w.until("recovered", func() bool { return w.runs == 2 && w.view().DeviceState == device.Allocated })
	w.idle()
	w.pool.injectFault = times(1000, "read", false, unreachable)
	w.bind("i1", "r7").refused(device.CodeApplianceUnreachable)
	w.pool.injectFault = nil
	require.True(t, ok[contract.Result](w.bind("i1", "r8")).Already)
	require.Equal(t, device.Allocated, w.view().DeviceState)
	require.Equal(t, 1, w.pool.ours())
}

// What others have used while it was in the operator's maintenance is cleaned when that ends, and
// a change of its power meanwhile does not hide it.
//
// F34
func TestTheEndOfAMaintenanceOffersNothingThatOthersUsed(t *testing.T) {
	w := newShared(t)
	w.host.discovery.Power = true
	w.makeAvailable()
	w.idle()
	cleans := w.zeroed()
	ok[contract.Result](w.maintain(false))
	w.useServer()
	w.setPower("on", "").refused(device.CodeConflict)
	w.poll(contract.SignalFreed)
	require.Equal(t, device.Available, w.view().DeviceState)
	require.Equal(t, 1, w.inventory.reserved)
	ok[contract.Result](w.maintain(true))
	w.requireAvailableWithoutProfile()
	require.Equal(t, cleans+1, w.zeroed())
}

// A server whose profile is gone after a pause of its clean is cleaned from the first step on.
//
// F34
func TestACleanBeginsAgainWhereOthersMayHaveHadTheServer(t *testing.T) {
	resetStep := [2]string{"bios_reset", ""}
	w := newServerEnv(t, withRunbook(standardPolicy(), "held", &clean.Match{Type: "NODE"}, zeroStep, verifyStep,
		holdStep, resetStep))
	w.share()
	ok[contract.Result](w.enroll(true))
	w.onHold()
	cleans := w.zeroed()
	w.takeProfileAway()
	w.useServer()
	ok[contract.Result](w.releaseHold())
	v := w.onHold()
	require.Equal(t, cleans+1, w.zeroed())
	require.Contains(t, v.Cleans[len(v.Cleans)-1].Outcome, "failed")
	ok[contract.Result](w.releaseHold())
	w.requireAvailableWithoutProfile()
	require.Equal(t, cleans+1, w.zeroed())
}
