package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// changed is what the host sends when the kernel reports a change of the hardware.
var changed = Hinted{Signal: contract.SignalRefresh, Hint: contract.Hint{Source: "event of the kernel", Hardware: true}}

var (
	bindI1  = contract.BindInput{Instance: "i1", Request: "r1"}
	bindI2  = contract.BindInput{Instance: "i2", Request: "r2"}
	ofI1    = contract.UnbindInput{Instance: "i1"}
	noInput = contract.ReasonInput{}
)

// claims is a claim of two minutes.
func (s *scene) claims() contract.BindInput {
	in := bindI1
	in.Deadline = s.now.Add(2 * time.Minute).Format(time.RFC3339)
	return in
}

// gets are the ways in which i1 gets a device, from the last moment on at which it is as it was.
var gets = map[string]func(*scene) (contract.Verb, contract.BindInput){
	"bind":  func(*scene) (contract.Verb, contract.BindInput) { return contract.VerbBind, bindI1 },
	"claim": func(s *scene) (contract.Verb, contract.BindInput) { return contract.VerbClaim, s.claims() },
	"burn": func(s *scene) (contract.Verb, contract.BindInput) {
		s.ok(contract.VerbClaim, s.claims())
		s.pass(10 * time.Second)
		return contract.VerbBurn, bindI1
	},
}

// offered is a device that was offered a minute ago.
func offered(t *testing.T) *scene {
	t.Helper()
	s := available(t, false)
	s.pass(time.Minute)
	return s
}

// refusal asks for what is refused after it was accepted.
func (s *scene) refusal(code device.Code, v contract.Verb, in contract.Input) device.Fault {
	s.Helper()
	_, err := s.do(v, in)
	return s.faultOf(code, err)
}

// swapped: other hardware is in the slot.
func (s *scene) swapped() {
	s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeIdentityChanged)
}

// written: others write to the device, which its host finds until it is zeroed.
func (s *scene) written() {
	s.host.Written = true
	s.ends["zero"] = func(o Outcome) Outcome { s.host.Written = false; return o }
}

// A bind is answered after the host has seen the device; a look of the last five seconds counts, unless the hardware
// may have changed since. A claim is looked at, and its burn right after it is not.
//
// F39
func TestABindIsAnsweredAfterALook(t *testing.T) {
	for name, c := range map[string]struct {
		lead  func(*scene)
		looks int
	}{
		"right after its return":      {func(*scene) {}, 0},
		"a while later":               {func(s *scene) { s.pass(10 * time.Second) }, 1},
		"after an event":              {func(s *scene) { s.decide(changed) }, 2}, // its own, and that of the event
		"after its host started":      {func(s *scene) { s.hostStarts() }, 2},    // which has heard no event
		"after an event and its look": {func(s *scene) { s.decide(changed); s.rest() }, 0},
		"right after its own claim":   {func(s *scene) { s.pass(time.Minute); s.ok(contract.VerbClaim, s.claims()) }, 0},
		"its claim":                   {func(s *scene) { s.pass(time.Minute) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := available(t, false)
			c.lead(s)
			s.made = nil
			switch {
			case s.d.Device.Claim != nil:
				s.ok(contract.VerbBurn, bindI1)
			case name == "its claim":
				s.ok(contract.VerbClaim, s.claims())
			default:
				s.ok(contract.VerbBind, bindI1)
			}
			require.Equal(t, c.looks, s.looks())
		})
	}
}

// A device that is not what it was when it was offered is not bound: nobody gets it before an operator has decided, and
// nothing is written to it. It is reserved.
//
// F39
func TestOtherHardwareIsNotBound(t *testing.T) {
	for way, get := range gets {
		for _, code := range []device.Code{device.CodeIdentityChanged, device.CodeTargetMissing, device.CodeIO} {
			t.Run(way+" "+string(code), func(t *testing.T) {
				s := offered(t)
				v, in := get(s)
				s.fails(contract.ActivityDiscover, device.Permanent, code)
				s.made = nil
				s.refusal(code, v, in)
				s.rest()
				require.Equal(t, []any{device.Error, true, code}, []any{s.d.Device.State, s.d.Device.Dirty, s.d.Fault.Code})
				require.Contains(t, s.made, contract.ActivityEnsureReserved)
				require.NotContains(t, s.made, "zero")
				require.Nil(t, s.d.Device.Binding)
				s.refused(device.CodeRefused, contract.VerbBind, bindI2)
			})
		}
	}
}

// A device that others have written to is not bound, and is cleaned.
//
// F39
func TestAWrittenDeviceIsCleanedBeforeItIsBound(t *testing.T) {
	for way, get := range gets {
		t.Run(way, func(t *testing.T) {
			s := offered(t)
			v, in := get(s)
			s.written()
			s.made = nil
			require.Contains(t, s.refusal(device.CodeForeignWrite, v, in).Remedy, "cleaned automatically")
			s.rest()
			require.Equal(t, device.Available, s.d.Device.State)
			require.Contains(t, s.made, "verify")
			s.ok(contract.VerbBind, bindI2)
		})
	}
}

// A host that does not answer, or whose look is cut short because its worker is killed, refuses a bind. The device
// stays as it is, and is bound when its host is back.
//
// F39
func TestASilentHostRefusesABind(t *testing.T) {
	for way, get := range gets {
		for _, code := range []device.Code{device.CodeHostUnreachable, device.CodeWorkerRestarted} {
			t.Run(way+" "+string(code), func(t *testing.T) {
				s := offered(t)
				v, in := get(s)
				s.fails(contract.ActivityDiscover, device.Permanent, code)
				asked := s.now
				s.refusal(device.CodeHostUnreachable, v, in)
				require.Less(t, s.now.Sub(asked), 30*time.Second)
				require.Equal(t, []any{device.Available, false}, []any{s.d.Device.State, s.d.Device.Dirty})
				require.Nil(t, s.d.Fault)
				delete(s.faults, contract.ActivityDiscover)
				s.rest()
				s.ok(contract.VerbBind, bindI2)
			})
		}
	}
}

// freezes: the host does what it is asked once, and its answer comes later.
func (s *scene) freezes(activity string, by time.Duration) {
	s.ends[activity] = func(o Outcome) Outcome {
		delete(s.ends, activity)
		s.made, s.now = nil, s.now.Add(by)
		return o
	}
}

// What happens between the last step of a clean and its answer was not seen: the step saw the device when it had it.
// The host looks again before the device is bound, or its reservation is lowered.
//
// F27, F39
func TestALateStepIsNoLook(t *testing.T) {
	for name, c := range map[string]struct {
		takes, by     time.Duration // the last step, and then its answer
		lowers, binds int           // how often the host looks before it is offered, and before it is bound
	}{
		"the last step": {0, time.Second, 0, 0}, "one that takes long": {time.Hour, time.Second, 0, 0},
		"its answer is late": {0, 20 * time.Second, 0, 1}, "its answer is very late": {0, maxLookAge + time.Second, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := bound(t, false)
			s.freezes("verify", c.by)
			s.before = func() {
				if due := s.d.Due(); len(due) == 1 && due[0].Activity == "verify" {
					s.now, s.before = s.now.Add(c.takes), nil
				}
			}
			s.turnsOver("i1")
			require.Equal(t, c.lowers, s.looks())
			s.made = nil
			s.ok(contract.VerbBind, bindI2)
			require.Equal(t, c.binds, s.looks())
		})
	}
}

// A bind waits for the look that an event asked for. Where the host does not answer that, it is not bound unseen.
//
// F39
func TestABindAfterAnEventThatWasNotLookedAtIsRefused(t *testing.T) {
	s := offered(t)
	bind, err := s.send(contract.VerbBind, bindI1)
	require.NoError(t, err)
	s.until(contract.ActivityDiscover)
	s.decide(changed)
	s.next() // the look of the bind
	s.fails(contract.ActivityDiscover, device.Permanent, device.CodeHostUnreachable)
	s.made = nil
	s.rest()
	r, _ := contract.RefusalOf(bind.Err)
	require.Equal(t, device.CodeHostUnreachable, r.Fault.Code)
	require.NotContains(t, s.made, contract.ActivityReserveForBind)
}

// The host looks at an offered device as soon as it reports a change, also while the inventory does not answer; a
// device that is being cleaned is looked at when it is offered. A tenant's device, and one that an operator has, is
// left alone.
//
// F39
func TestTheHostLooksWhenHardwareChanges(t *testing.T) {
	for name, c := range map[string]struct {
		lead func(*scene)
		ends device.State
	}{
		"available": {func(*scene) {}, device.Error},
		"available, and the inventory is away": {func(s *scene) {
			s.fails(contract.ActivityReadReservation, device.Transient, device.CodeInventoryUnavailable)
			s.decide(Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{Source: "test"}})
			s.until(contract.ActivityReadReservation)
			s.next()
		}, device.Error},
		"being cleaned": {func(s *scene) {
			s.ok(contract.VerbBind, bindI1)
			s.ok(contract.VerbUnbind, ofI1)
			s.until("verify")
		}, device.Error},
		"manageable": {func(s *scene) { s.ok(contract.VerbManage, contract.TenantInput{}) }, device.Manageable},
		"bound":      {func(s *scene) { s.ok(contract.VerbBind, bindI1) }, device.Allocated},
	} {
		t.Run(name, func(t *testing.T) {
			s := offered(t)
			c.lead(s)
			s.swapped()
			s.made = nil
			s.decide(changed)
			for i := 0; s.d.Device.State != c.ends && i < 20; i++ {
				require.True(t, s.next())
			}
			require.Equal(t, c.ends, s.d.Device.State)
			if c.ends != device.Error {
				require.Zero(t, s.looks())
				return
			}
			require.Equal(t, device.CodeIdentityChanged, s.d.Fault.Code)
			require.True(t, s.d.Intent.EnsureReserved)
		})
	}
}

// What others wrote while an operator had the device, or before its return, is cleaned; while it is on hold its
// operator decides.
//
// F39
func TestAWrittenDeviceIsNotOffered(t *testing.T) {
	t.Run("manageable", func(t *testing.T) {
		s := offered(t)
		s.ok(contract.VerbManage, contract.TenantInput{})
		s.written()
		s.made = nil
		s.ok(contract.VerbProvide, noInput)
		s.rest()
		require.Equal(t, device.Available, s.d.Device.State)
		require.Contains(t, s.made, "verify")
	})
	t.Run("in maintenance", func(t *testing.T) {
		s := offered(t)
		s.ok(contract.VerbMaintain, contract.MaintenanceInput{Reason: "fan"})
		s.rest()
		s.written()
		s.made = nil
		s.decide(changed)
		s.rest()
		require.Equal(t, device.Available, s.d.Device.State)
		off := contract.MaintenanceInput{Off: true}
		require.Contains(t, s.refusal(device.CodeForeignWrite, contract.VerbMaintain, off).Remedy, "clean d1")
		s.rest()
		require.Equal(t, []any{device.Error, true, device.CodeForeignWrite},
			[]any{s.d.Device.State, s.d.Device.Dirty, s.d.Fault.Code})
		require.NotContains(t, s.made, "zero", "it is not cleaned by itself")
		require.NotContains(t, s.made, contract.ActivityUnreserve)
		s.ok(contract.VerbMaintain, off)
		s.ok(contract.VerbClean, contract.CleanInput{})
		s.rest()
		require.Equal(t, device.Available, s.d.Device.State)
	})
	t.Run("before a late return", func(t *testing.T) {
		s := bound(t, false)
		s.ok(contract.VerbUnbind, ofI1)
		s.until(contract.ActivityUnreserve)
		cleans := s.d.Cleans
		s.fails(contract.ActivityUnreserve, device.Transient, device.CodeInventoryUnavailable)
		s.fails(contract.ActivityReadReservation, device.Transient, device.CodeInventoryUnavailable)
		s.next()
		s.pass(10 * time.Minute)
		s.written()
		delete(s.faults, contract.ActivityUnreserve)
		delete(s.faults, contract.ActivityReadReservation)
		s.rest()
		require.Equal(t, []any{device.Available, cleans + 1}, []any{s.d.Device.State, s.d.Cleans})
	})
}

// What is returned as not sanitized is offered as it is.
//
// F39, D7
func TestANotSanitizedReturnAcceptsWhatIsThere(t *testing.T) {
	s := bound(t, false)
	s.policy.Automated = false
	s.ok(contract.VerbUnbind, ofI1)
	accepts := func() bool {
		s.until(contract.ActivityDiscover)
		return s.d.Due()[0].In.(contract.DiscoverInput).Accept
	}
	require.True(t, accepts())
	s.rest()
	require.True(t, s.d.Device.NotSanitized)
	s.pass(time.Minute)
	_, err := s.send(contract.VerbBind, bindI2)
	require.NoError(t, err)
	require.False(t, accepts())
}

// An unbind during the look of its own instance's bind waits for the bind, and ends the binding that it made.
//
// F30, F39
func TestUnbindDuringALook(t *testing.T) {
	for name, swapped := range map[string]bool{"the enrolled hardware": false, "other hardware": true} {
		t.Run(name, func(t *testing.T) {
			s := offered(t)
			bind, err := s.send(contract.VerbBind, bindI1)
			require.NoError(t, err)
			s.until(contract.ActivityDiscover)
			if swapped {
				s.swapped()
			}
			unbind, err := s.send(contract.VerbUnbind, ofI1)
			require.NoError(t, err)
			for unbind.Call != nil { // whatever it asks, the answer comes before that of the host
				s.end(unbind)
			}
			cleans := s.d.Cleans
			s.rest()
			require.NoError(t, unbind.Err)
			require.Equal(t, []bool{swapped, swapped}, []bool{bind.Err != nil, unbind.Result.Already})
			if swapped {
				require.Equal(t, device.Error, s.d.Device.State)
			} else {
				require.Equal(t, []any{device.Available, cleans + 1}, []any{s.d.Device.State, s.d.Cleans})
			}
		})
	}
}

// What changes during the look of a bind is looked at before the burn.
//
// F39
func TestAnEventDuringALook(t *testing.T) {
	s := offered(t)
	bind, err := s.send(contract.VerbBind, bindI1)
	require.NoError(t, err)
	s.until(contract.ActivityDiscover)
	s.decide(changed)
	s.next() // the look of the bind, which sees what was there before
	s.swapped()
	s.made = nil
	s.rest()
	r, _ := contract.RefusalOf(bind.Err)
	require.Equal(t, device.CodeConflict, r.Fault.Code)
	require.NotContains(t, s.made, contract.ActivityReserveForBind)
	require.Equal(t, device.CodeIdentityChanged, s.d.Fault.Code)
}

// A burn after a look is in the history before it writes: the task of its write may be lost, and the repeated one may
// see another request first.
//
// F24, F39
func TestABurnIsRecordedBeforeItsWrite(t *testing.T) {
	s := offered(t)
	_, err := s.send(contract.VerbBind, bindI1)
	require.NoError(t, err)
	s.until(contract.ActivityDiscover)
	s.next()
	require.True(t, s.d.Device.Claim.Burning)
	require.Empty(t, s.d.Due(), "its write waits for a moment, which ends the task")
	at, _ := s.d.Next()
	require.True(t, at.After(s.now))
	s.pass(at.Sub(s.now))
	require.Equal(t, contract.ActivityReserveForBind, s.d.Due()[0].Activity)
}
