package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// Maintenance changes the status and not the state; a clean changes the state and not the status. It reserves the
// device first, also during its clean, for as long as it lasts, and its end unreserves it: unused meanwhile, it is
// not cleaned.
//
// S2.50, S2.51
func TestMaintenanceReservesAndItsEndUnreserves(t *testing.T) {
	for _, at := range []string{"available", "cleaning", "allocated"} {
		t.Run(at, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				leads[at](s)
				state := s.d.Device.State
				s.ok(contract.VerbMaintain, fan)
				require.Equal(s, []any{state, device.Maintaining}, []any{s.d.Device.State, s.d.Device.Status})
				require.Contains(s, s.d.Status().MaintenanceReason, "fan")
				require.True(s, s.ok(contract.VerbMaintain, fan).Already)
				if at == "allocated" {
					s.released("i1")
				}
				s.lasts(24 * time.Hour)
				s.renewed()
				require.Equal(s, []any{device.Available, device.Maintaining, 1, ""},
					[]any{s.d.Device.State, s.d.Device.Status, s.inv.Reserved, s.bytes})
				s.refused(device.CodeRefused, contract.VerbBind, bindI2)
				wiped := s.wiped
				s.ok(contract.VerbMaintain, off)
				require.True(s, s.ok(contract.VerbMaintain, off).Already)
				s.returned()
				require.Equal(s, []any{device.Enabled, wiped}, []any{s.d.Device.Status, s.wiped})
				s.matchingGenerations()
				s.boundTo("i2")
			})
		})
	}
}

// Who uses it when maintenance ends keeps it; what was used and freed meanwhile is dirty, and its operator lets it go.
//
// F43
func TestUsedDuringMaintenance(t *testing.T) {
	for name, left := range map[string]bool{"in use": false, "freed": true} {
		t.Run(name, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				leads["held"](s)
				s.inv.AllocateUnchecked("c1")
				s.bytes = "c1"
				if left {
					s.inv.Free("c1")
				}
				s.offeredClean()
				_, _ = s.do(contract.VerbMaintain, off)
				s.lasts(time.Minute)
				if !left {
					s.kept(device.Allocated, "")
					require.Equal(s, []any{"c1", "c1"}, []any{s.d.instance(), s.bytes})
					return
				}
				if s.d.Device.InMaintenance() { // the first request was refused
					s.ok(contract.VerbMaintain, off)
				}
				s.lasts(24 * time.Hour)
				require.Equal(s, []any{device.Manageable, true, 1}, []any{s.d.Device.State, s.d.Device.Dirty, s.inv.Reserved})
				s.ok(contract.VerbProvide, noInput)
				s.returned()
			})
		})
	}
}

// A device that leaves the offer is reserved before its state changes; of a bind and such a request at the same time
// exactly one succeeds, and nothing is cleaned. One that is in use is its consumer's.
//
// S2.40
func TestLeavingTheOfferReservesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		v  contract.Verb
		in contract.Input
	}{"maintain": {contract.VerbMaintain, fan}, "manage": {contract.VerbManage, contract.TenantInput{}},
		"retire": {contract.VerbRetire, gaveUp("")}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).offers()
			before := s.d.place()
			out, err := s.send(c.v, c.in)
			require.NoError(t, err)
			for !out.Ended {
				if s.inv.Reserved == 0 {
					require.Equal(t, before, s.d.place())
				}
				require.True(t, s.next())
			}
			require.Equal(t, 1, s.inv.Reserved)
			require.True(t, s.ok(c.v, c.in).Already)
			for calls := range 4 {
				s := newScene(t).offers()
				out, err := s.send(c.v, c.in)
				require.NoError(t, err)
				for range calls {
					s.next()
				}
				_, bound := s.do(contract.VerbBind, bindI1)
				s.rest()
				require.True(t, (out.Err == nil) != (bound == nil), "%v, %v", out.Err, bound)
				s.lasts(time.Hour)
				require.Equal(t, []int{1, 1}, []int{s.inv.Reserved, s.wiped})
			}
			s = novas(t).offers()
			require.True(t, s.inv.Allocate("c1"))
			s.refusal(device.CodeInUse, c.v, c.in)
			s.kept(device.Allocated, "")
			require.Equal(t, "c1", s.d.instance())
		})
	}
}

// The inventory does not answer: maintenance is refused, and the device re-checks.
//
// F43
func TestMaintenanceThatCouldNotReserve(t *testing.T) {
	for _, after := range []bool{false, true} {
		s := newScene(t).offers()
		s.inv.InjectFault = inventorysim.Times(1, "PutReserved", after,
			inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
		s.refusal(device.CodeInventoryInvalid, contract.VerbMaintain, fan)
		s.lasts(time.Minute)
		want := []any{device.Available, false, 0}
		if after { // what was written says that it is the operator's
			want = []any{device.Manageable, true, 1}
		}
		require.Equal(t, want, []any{s.d.Device.State, s.d.Device.InMaintenance(), s.inv.Reserved})
		s.ok(contract.VerbMaintain, fan)
		require.Equal(t, 1, s.inv.Reserved)
	}
}

// The hardware is gone: neither host nor inventory is asked, and the reservation follows when the inventory answers.
//
// D10
func TestRetireLostWithoutHostAndInventory(t *testing.T) {
	for name, lead := range leads {
		if name == "manageable" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			lead(s)
			s.away, s.inv.InjectFault = true, away
			retire, err := s.send(contract.VerbRetire, lost("i1"))
			require.NoError(t, err)
			require.True(t, retire.Ended && retire.Err == nil)
			s.lasts(time.Hour)
			s.inv.InjectFault = nil
			s.lasts(time.Hour)
			s.kept(device.Retired, "")
			s.renewed()
		})
	}
}

// Forget ends a retired device, whatever its host says or if it is away: then its name is left for the host. It is
// refused while the inventory shows a consumer, and waits for one that is away.
//
// D10, F25
func TestForgetEndsARetiredDevice(t *testing.T) {
	for name, before := range map[string]func(*scene){
		"at once":              func(*scene) {},
		"with a hint":          (*scene).refresh,
		"with a newer host":    func(s *scene) { s.hostStarts(func(r *contract.HostDeviceRecord) { r.Seq += 3 }); s.rest() },
		"its host unreachable": func(s *scene) { s.away = true },
		"in use": func(s *scene) {
			s.inv.AllocateUnchecked("c1")
			s.refusal(device.CodeInUse, contract.VerbForget, contract.TenantInput{})
			s.inv.Free("c1")
		},
		"its inventory away": func(s *scene) {
			s.inv.InjectFault = away
			_, err := s.do(contract.VerbForget, contract.TenantInput{})
			require.Error(s, err)
			s.inv.InjectFault = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).offers()
			s.refused(device.CodeRefused, contract.VerbForget, contract.TenantInput{})
			s.ok(contract.VerbRetire, gaveUp(""))
			s.rest()
			before(s)
			require.Equal(t, device.Retired, s.d.Device.State)
			hostAway := s.away
			s.ok(contract.VerbForget, contract.TenantInput{})
			require.NoError(t, s.d.FinishErr)
			require.Equal(t, []any{true, false, hostAway, hostAway},
				[]any{s.d.Finished, s.inv.Exists, s.known, len(s.names) == 1})
		})
	}
	s := newScene(t).offers()
	s.ok(contract.VerbRetire, gaveUp(""))
	forget, err := s.send(contract.VerbForget, contract.TenantInput{})
	require.NoError(t, err)
	s.until(contract.ActivityDeleteProvider)
	s.inv.AllocateUnchecked("c1")
	s.rest()
	s.faultOf(device.CodeInUse, forget.Err)
	require.Equal(t, []any{device.Retired, false, true}, []any{s.d.Device.State, s.d.Finished, s.inv.Exists})
}

// Nothing can clean it: one-time-use, it needs the operator, who can but retire it; else it is returned and marked not
// sanitized.
//
// D4
func TestWithoutAnErasePath(t *testing.T) {
	s := uncleanable(t)
	require.Equal(t, []any{string(device.CodeNoErasePath), true, true},
		[]any{s.d.Status().Fault, s.d.Status().NeedsOperator, s.d.Device.Dirty})
	s.refused(device.CodeNoErasePath, contract.VerbClean, all)
	s.lasts(24 * time.Hour)
	s.kept(device.Error, device.CodeNoErasePath)
	s.ok(contract.VerbRetire, gaveUp(""))
	for _, oneTimeUse := range []bool{true, false} {
		s := newScene(t)
		s.e.OneTimeUse, s.host.Operation = oneTimeUse, ""
		s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
		if oneTimeUse {
			s.kept(device.Error, device.CodeNoErasePath)
			continue
		}
		s.reach(device.Available)
		s.boundTo("i1").turnsOver("i1")
		require.Equal(t, []any{true, 0, 0}, []any{s.d.Device.NotSanitized, s.inv.Reserved, s.wiped})
		s.matchingGenerations()
	}
}

// Automated cleaning is off. A one-time-use device waits for the operator, by update or by signal, whatever happens
// meanwhile and whatever made it dirty; other devices return at once, marked not sanitized until the next full clean.
//
// D7, S3.6
func TestAutomatedCleaningIsOff(t *testing.T) {
	for name, dirty := range map[string]func(*scene){
		"unbound": func(s *scene) { s.boundTo("i1").released("i1") },
		"failed burn": func(s *scene) {
			s.inv.InjectFault = inventorysim.Times(1, "PutReserved", true,
				inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
			s.refusal(device.CodeInventoryInvalid, contract.VerbBind, bindI1)
		},
		"its host is ahead": func(s *scene) { s.hostStarts(func(r *contract.HostDeviceRecord) { r.Clean += 7 }) },
	} {
		for how, clean := range map[string]func(*scene){
			"update": func(s *scene) { s.ok(contract.VerbClean, all) },
			"signal": func(s *scene) { s.decide(CleanAsked{}) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				s := newScene(t)
				s.e.OneTimeUse = true
				s.offers()
				s.policy.Automated = false
				dirty(s)
				s.lasts(time.Hour)
				s.renewed()
				s.refresh()
				s.lasts(24 * time.Hour)
				s.kept(device.PendingCleaning, device.CodeAutomatedCleanOff)
				require.True(t, s.d.Status().NeedsOperator)
				require.Equal(t, 1, s.wiped)
				clean(s)
				s.returned()
				require.Equal(t, []any{"", false}, []any{s.d.Status().Fault, s.d.Device.NotSanitized})
			})
		}
	}
	s := newScene(t)
	s.offers()
	s.policy.Automated = false
	s.boundTo("i1").turnsOver("i1")
	require.Equal(t, []any{true, 1, 0}, []any{s.d.Device.NotSanitized, s.wiped, s.inv.Reserved})
	s.policy.Automated = true
	s.boundTo("i2").turnsOver("i2")
	require.Equal(t, []any{false, 2}, []any{s.d.Device.NotSanitized, s.wiped})
}

// Hardware that was swapped while a clean device was out of the offer is not offered: a silent host refuses the
// request, or fails it, and one that answers finds other hardware. Once the enrolled one is back it is cleaned first.
//
// F27
func TestSwappedHardwareIsNotOffered(t *testing.T) {
	for name, c := range map[string]struct {
		out, back contract.Verb
		in, off   contract.Input
	}{
		"maintenance": {contract.VerbMaintain, contract.VerbMaintain, fan, off},
		"manageable":  {contract.VerbManage, contract.VerbProvide, contract.TenantInput{}, noInput},
	} {
		t.Run(name, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				s.offers().ok(c.out, c.in)
				s.rest()
				was := s.host.Identity
				s.away = true
				f := s.refusal(device.CodeHostUnreachable, c.back, c.off)
				require.Contains(s, f.Message+f.Remedy, "not offered unseen")
				require.Contains(s, f.Remedy, "start burnish-worker on h1")
				s.away = false
				s.fails(contract.ActivityDiscover, device.Permanent, device.CodeTargetBusy)
				s.refusal(device.CodeTargetBusy, c.back, c.off)
				require.Equal(s, 1, s.inv.Reserved)
				delete(s.faults, contract.ActivityDiscover)
				s.host.Identity.Serial, s.bytes = "S2", "unknown data"
				s.offeredClean()
				s.refusal(device.CodeIdentityChanged, c.back, c.off)
				s.lasts(24 * time.Hour)
				require.Equal(s, []any{true, string(device.CodeIdentityChanged), 1, "unknown data"},
					[]any{s.d.Device.Dirty, s.d.Status().Fault, s.inv.Reserved, s.bytes})
				s.host.Identity = was
				if s.d.Device.State == device.Error {
					s.ok(contract.VerbClean, all)
				} else {
					s.ok(contract.VerbProvide, noInput)
				}
				s.reach(device.Available)
				if s.d.Device.InMaintenance() {
					s.ok(contract.VerbMaintain, off)
				}
				s.returned()
			})
		})
	}
}

// A device that is returned without a clean is looked at first, because its tenant had it. The end of a clean is a
// look; if the inventory lets the device be returned much later, its host looks again.
//
// F27, D4, D7, S0.39
func TestReturnedWithoutACleanOnlyIfSeen(t *testing.T) {
	for name, c := range map[string]struct{ lead func(*scene) }{
		"no erase path":          {func(s *scene) { s.host.Operation = ""; s.offers().boundTo("i1") }},
		"automated cleaning off": {func(s *scene) { s.offers().boundTo("i1"); s.policy.Automated = false }},
		"late": {func(s *scene) {
			s.offers().boundTo("i1").released("i1")
			s.until(contract.ActivityUnreserve)
			s.inv.InjectFault = away
			s.lasts(10 * time.Minute)
		}},
	} {
		for _, swapped := range []bool{true, false} {
			s := newScene(t)
			c.lead(s)
			if swapped {
				s.host.Identity.Serial, s.bytes = "S2", "unknown data"
				s.offeredClean()
			}
			looks := s.looks()
			if name != "late" {
				s.released("i1")
			}
			s.inv.InjectFault = nil
			if swapped {
				s.kept(device.Error, device.CodeIdentityChanged)
				require.True(t, s.d.Device.Dirty)
			} else {
				s.reach(device.Available)
			}
			require.Equal(t, looks+1, s.looks(), name)
		}
	}
}

// An available device of which its host cannot say that it is the enrolled one leaves the pool, whatever the fault,
// and a bound one shows it; only a host that does not answer leaves it there.
//
// F11, F27
func TestAFailedLookTakesTheDeviceOutOfTheOffer(t *testing.T) {
	for _, code := range []device.Code{
		device.CodeNotAllowed, device.CodeInvalidSetting, device.CodeTargetShared, device.CodeTargetBusy, device.CodeIO,
		device.CodeToolOutputInvalid, device.CodeFilesystemSignature, device.CodeOverwriteUnsupported,
		device.CodeStateDirError, device.CodeUnknownDriver, device.CodeInternal, device.CodeIdentityChanged,
		device.CodeTargetMissing,
	} {
		s := newScene(t).offers()
		s.fails(contract.ActivityDiscover, device.Permanent, code)
		s.bytes = "unknown data"
		s.hostStarts()
		s.lasts(24 * time.Hour)
		s.kept(device.Error, code)
		require.Equal(t, []any{true, true, "unknown data"}, []any{s.d.Device.Dirty, s.d.Status().NeedsOperator, s.bytes})
		delete(s.faults, contract.ActivityDiscover)
		s.ok(contract.VerbClean, all)
		s.returned()
	}
	s := newScene(t).offers()
	s.away = true
	s.refresh()
	s.lasts(time.Hour)
	require.Equal(t, device.Available, s.d.Device.State)
	require.Contains(t, s.d.Status().LastError, "no worker of this host took its task")
	s = tenant(t)
	s.swapped()
	s.refresh()
	require.Equal(t, []any{string(device.CodeIdentityChanged), true, "S1", 1},
		[]any{s.d.Status().Fault, s.d.Device.Dirty, s.d.Host.Identity.Serial, s.inv.Reserved})
}

// Of a device of Nova's the inventory is asked first when its hardware changes: a guest that starts takes it from the
// host's driver. One that others wrote to is cleaned.
//
// F39
func TestAnEventOfANovaDevice(t *testing.T) {
	s := novas(t).offers()
	require.True(t, s.inv.Allocate("c1"))
	s.fails(contract.ActivityDiscover, device.Transient, device.CodeTargetBusy)
	looks := s.looks()
	s.decide(changed)
	s.lasts(time.Hour)
	require.Equal(t, []any{device.Allocated, looks, ""}, []any{s.d.Device.State, s.looks(), s.d.Status().LastError})
	s = novas(t).offers()
	s.written()
	s.bytes = "unknown data"
	s.decide(changed)
	s.lasts(time.Minute)
	s.returned()
	require.Equal(t, 2, s.wiped)
}

// Power is changed where nobody else works with the device: not while it is cleaned or claimed, and for a tenant only
// by its name.
//
// S3.28, S3.29, F31
func TestPowerByState(t *testing.T) {
	on := contract.PowerInput{Target: "on"}
	for name, lead := range leads {
		s := newScene(t)
		lead(s)
		switch name {
		case "claimed", "cleaning":
			s.refusal(device.CodeRefused, contract.VerbPower, on)
			require.Empty(t, s.powers, "nothing reached the hardware")
		case "allocated":
			s.refusal(device.CodeInUse, contract.VerbPower, on)
			s.refusal(device.CodeInUse, contract.VerbPower, contract.PowerInput{Target: "on", Instance: "i2"})
			s.refusal(device.CodeInvalid, contract.VerbPower, contract.PowerInput{Target: "burn", Instance: "i1"})
			require.Empty(t, s.powers)
			s.ok(contract.VerbPower, contract.PowerInput{Target: "on", Instance: "i1"})
			require.Equal(t, "i1", s.d.instance())
		default:
			r := s.ok(contract.VerbPower, contract.PowerInput{Target: "off"})
			require.Equal(t, "power off was carried out; the device is off", r.Note)
			require.Equal(t, []string{"off"}, s.powers)
		}
	}
	s := newScene(t)
	s.host.Power = false
	_, err := s.enrolled(false).do(contract.VerbPower, on)
	require.ErrorContains(t, err, "power")
	require.Empty(t, s.powers)
}

// A reset is sent at most once, also where its answer was lost; on and off are repeated. A host that is away got
// nothing.
func TestAResetIsSentOnce(t *testing.T) {
	reset := contract.PowerInput{Target: "reset"}
	s := manageable(t, false)
	lost := true
	s.power = func(action string) (contract.PowerResult, *device.Fault) {
		switch {
		case action == "on" && lost:
			lost = false
			return contract.PowerResult{}, refusing(device.Transient, device.CodeWorkerRestarted)
		case action == "reset":
			return contract.PowerResult{}, refusing(device.Transient, device.CodeTimeout)
		}
		return contract.PowerResult{State: "on"}, nil
	}
	f := s.refusal(device.CodePowerUnknown, contract.VerbPower, reset)
	require.Contains(t, f.Message, "whether the device was reset is not known")
	require.Contains(t, f.Message, "it is on now")
	s.ok(contract.VerbPower, contract.PowerInput{Target: "on"})
	require.Equal(t, []string{"reset", "", "on", "on"}, s.powers)
	s.fails(contract.ActivityPower, device.NeedsOperator, device.CodeTargetBusy)
	s.refusal(device.CodeTargetBusy, contract.VerbPower, reset)
	delete(s.faults, contract.ActivityPower)
	s.away = true
	s.refusal(device.CodeHostUnreachable, contract.VerbPower, reset)
	require.Len(t, s.powers, 4)
}
