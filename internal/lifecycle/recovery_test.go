package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A device whose workflow ended is unknown, reserved and dirty: it is cleaned where its record says that nobody has it,
// also if that ended during its clean; and it is its instance's where the record or the ended run say so, for whatever
// time the inventory is away, and however often it is terminated meanwhile.
//
// F10, F24
func TestRecovery(t *testing.T) {
	for name, c := range map[string]struct {
		lead, then func(*scene)
		bound      bool
	}{
		"unused":         {func(s *scene) { s.offers() }, func(*scene) {}, false},
		"during a clean": {func(s *scene) { s.offers().boundTo("i1").released("i1"); s.until("verify") }, func(*scene) {}, false},
		"bound":          {leads["allocated"], func(*scene) {}, true},
		"bound, by its run": {leads["allocated"], func(s *scene) {
			s.inv.Tenant = nil
			s.previous = contract.PreviousRun{RunID: "ended", Instance: "i1"}
		}, true},
		"bound, by a listing that lags": {leads["allocated"], func(s *scene) {
			s.inv.Tenant = nil
			s.until(contract.ActivityFindPreviousRun)
			s.answers(contract.ActivityFindPreviousRun)
			s.previous = contract.PreviousRun{RunID: "ended", Instance: "i1"}
		}, true},
		"bound, and terminated again": {leads["allocated"], func(s *scene) {
			s.inv.InjectFault = away
			for range 3 {
				s.lasts(2 * time.Minute)
				s.terminated()
			}
			require.Equal(s, device.Unknown, s.d.Device.State)
			s.inv.InjectFault = nil
		}, true},
		"reset to before its enrollment": {leads["allocated"], func(s *scene) {
			s.d = New("d1", s.now)
			s.hostStarts()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.lead(s)
			s.terminated()
			c.then(s)
			s.offeredClean()
			s.lasts(time.Hour)
			if c.bound {
				require.Equal(t, []any{device.Allocated, "i1", "i1", true, 1},
					[]any{s.d.Device.State, s.d.instance(), s.bytes, s.d.Device.Dirty, s.inv.Reserved})
				s.refusal(device.CodeRefused, contract.VerbUnbind, of("i2"))
				s.released("i1")
			}
			s.returned()
			require.False(t, s.d.Device.NotSanitized)
		})
	}
}

// A device whose operation is not known, because its host is away or fails, does not count as one that nothing cleans.
//
// D4
func TestRecoveryUnknownOperationIsNotUncleanable(t *testing.T) {
	for name, lead := range map[string]func(*scene){
		"away":  func(s *scene) { s.away = true },
		"fails": func(s *scene) { s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeIO) },
	} {
		t.Run(name, func(t *testing.T) {
			s := tenant(t)
			s.terminated()
			lead(s)
			s.offeredClean()
			s.lasts(2 * time.Minute)
			s.released("i1")
			s.lasts(time.Minute)
			delete(s.faults, contract.ActivityDiscover)
			s.hostStarts()
			s.lasts(time.Hour)
			if s.d.Device.State == device.Error {
				s.ok(contract.VerbClean, all)
			}
			s.returned()
		})
	}
}

// A device for which no record speaks waits for its operator, who may clean, manage or retire it: automated cleaning
// does not decide, also not of one that is enrolled again after an earlier run.
//
// F24, D16
func TestWithoutARecordTheOperatorDecides(t *testing.T) {
	for name, act := range map[string]func(*scene){
		"clean":  func(s *scene) { s.ok(contract.VerbClean, all); s.returned() },
		"signal": func(s *scene) { s.decide(CleanAsked{}); s.returned() },
		"manage": func(s *scene) { s.ok(contract.VerbManage, contract.TenantInput{}); s.reach(device.Manageable) },
		"retire": func(s *scene) { s.ok(contract.VerbRetire, gaveUp("")); s.reach(device.Retired) },
	} {
		for how, begin := range map[string]func(*testing.T) *scene{
			"terminated": func(t *testing.T) *scene {
				s := tenant(t)
				s.inv.Tenant = nil
				s.terminated()
				return s
			},
			"enrolled again": func(t *testing.T) *scene {
				s := newScene(t)
				s.previous, s.bytes = contract.PreviousRun{RunID: "ended"}, "i1"
				s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
				return s
			},
		} {
			t.Run(how+", "+name, func(t *testing.T) {
				s := begin(t)
				s.lasts(time.Minute)
				s.hostStarts()
				s.lasts(24 * time.Hour)
				v := s.d.Status()
				require.Equal(t, []any{device.Unknown, string(device.CodeTenantUnrecorded), true, "i1", 1},
					[]any{v.DeviceState, v.Fault, v.NeedsOperator, s.bytes, s.inv.Reserved})
				require.Contains(t, v.LastError, "does not record who has the device")
				s.refused(device.CodeRefused, contract.VerbBind, bindI2)
				act(s)
				require.Empty(t, s.d.Status().Fault)
			})
		}
	}
	t.Run("enrolled again, and the earlier run had an instance", func(t *testing.T) {
		s := newScene(t)
		s.previous, s.bytes = contract.PreviousRun{RunID: "ended", Instance: "i0"}, "i0"
		s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
		s.lasts(time.Minute)
		require.Equal(t, []any{device.Allocated, "i0", "i0"}, []any{s.d.Device.State, s.d.instance(), s.bytes})
		s.turnsOver("i0")
		s.boundTo("i1")
		s.inv.WriteByOther(1) // invalidated: a run that ended before this one began does not count for its bindings
		s.refresh()
		s.lasts(time.Minute)
		require.Equal(t, []any{device.Allocated, "i1", "i1"}, []any{s.d.Device.State, s.d.instance(), s.bytes})
	})
}

// A host's record that is newer than a running workflow invalidates the device, once: it is cleaned before it is
// offered, or its operator lets it go, and the numbers go on from the host's.
//
// F10, F43
func TestHostIsAhead(t *testing.T) {
	for name, change := range map[string]func(*contract.HostDeviceRecord){
		"binding": func(r *contract.HostDeviceRecord) { r.Binding += 2 },
		"clean":   func(r *contract.HostDeviceRecord) { r.Clean += 2 },
		"seq":     func(r *contract.HostDeviceRecord) { r.Seq += 2 },
	} {
		for _, at := range []string{"manageable", "available", "cleaning", "error", "held"} {
			t.Run(name+" "+at, func(t *testing.T) {
				s := newScene(t)
				leads[at](s)
				s.bytes = "unknown data"
				change(&s.record)
				known := s.record
				looks := s.looks()
				s.hostStarts()
				s.offeredClean()
				s.lasts(24 * time.Hour)
				switch at { // its operator lets it go, nothing else (F43)
				case "error":
					require.Equal(t, []any{device.Error, "unknown data"}, []any{s.d.Device.State, s.bytes})
					s.ok(contract.VerbClean, all)
				case "manageable", "held":
					require.Equal(t, []any{device.Manageable, "unknown data", 1},
						[]any{s.d.Device.State, s.bytes, s.inv.Reserved})
					if at == "held" {
						s.ok(contract.VerbMaintain, off)
					}
					s.ok(contract.VerbProvide, noInput)
				}
				s.returned()
				require.Greater(t, s.looks(), looks, "its host discovered it again")
				last := s.inputs[len(s.inputs)-1]
				require.True(t, last.Seq > known.Seq && last.Number > known.Clean, "%+v", last)
				s.boundTo("i9")
				require.Greater(t, s.d.Device.Bindings, known.Binding)
				searched := s.calls(contract.ActivityFindPreviousRun)
				s.renewed()
				s.hostStarts() // nothing new any more
				s.lasts(time.Hour)
				require.Equal(t, []any{"i9", searched}, []any{s.d.instance(), s.calls(contract.ActivityFindPreviousRun)})
			})
		}
	}
}

// Invalidated while bound: the instance of a previous run counts if that run ended after the binding began, as by a
// reset; without one the recorded binding stays, whatever an earlier run says that is listed late.
//
// F10, F25
func TestInvalidatedKeepsTheInstance(t *testing.T) {
	for name, c := range map[string]struct {
		previous contract.PreviousRun
		ended    time.Duration
		want     string
	}{
		"no previous run":                      {contract.PreviousRun{}, 0, "i1"},
		"the same instance":                    {contract.PreviousRun{RunID: "reset", Instance: "i1"}, time.Second, "i1"},
		"a later one, by a reset":              {contract.PreviousRun{RunID: "reset", Instance: "i7"}, time.Second, "i7"},
		"an earlier one, listed late":          {contract.PreviousRun{RunID: "r0", Instance: "i0"}, -time.Hour, "i1"},
		"an earlier one, unbound, listed late": {contract.PreviousRun{RunID: "r0"}, -time.Hour, "i1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tenant(t)
			s.pass(time.Second)
			c.previous.EndedAt = s.now.Add(c.ended)
			s.previous, s.inv.Tenant = c.previous, &c.want // a bind that a reset lost has recorded its instance
			if c.ended < 0 {
				s.inv.Tenant = nil // only the order of run and binding speaks for the binding
			}
			s.record.Binding += 3
			s.hostStarts()
			s.lasts(time.Hour)
			require.Equal(t, []any{device.Allocated, c.want, 1}, []any{s.d.Device.State, s.d.instance(), s.wiped})
		})
	}
}

// The inventory is unavailable while an unknown device is resolved: it needs the operator, also in a later run, and
// goes on when the inventory answers.
//
// F10
func TestUnknownWaitsForItsInventory(t *testing.T) {
	s := newScene(t).offers()
	s.inv.InjectFault = func(string, bool) error { return refusing(device.NeedsOperator, device.CodeInventoryInvalid) }
	s.record.Seq += 2
	s.hostStarts()
	s.lasts(10 * time.Minute)
	require.Equal(t, device.Unknown, s.d.Device.State)
	s.waits(device.CodeInventoryInvalid, true)
	s.inv.InjectFault = nil
	s.returned()
	require.False(t, s.d.Status().NeedsOperator)
}

// The database is put back, and the inventory records who has the device since, so that it is neither cleaned nor given
// to another instance, whatever is asked first. A former tenant is not bound already.
//
// F24, F31, F36, S0.39
func TestPutBackToBeforeTheBind(t *testing.T) {
	for from, lead := range map[string]func(*scene){
		"available": leads["available"], "manageable": func(s *scene) {
			s.offers().ok(contract.VerbManage,
				contract.TenantInput{})
		},
		"held": leads["held"], "allocated": func(s *scene) { s.offers().boundTo("i0") },
		"unbound": func(s *scene) { s.offers().boundTo("i0").turnsOver("i0") },
	} {
		for by, asks := range map[string]func(*scene){
			"nothing":   func(*scene) {},
			"a hint":    (*scene).hint,
			"its host":  func(s *scene) { s.hostStarts() },
			"a bind":    func(s *scene) { _, err := s.do(contract.VerbBind, binds("i9")); require.Error(s, err) },
			"its bind":  func(s *scene) { _, err := s.do(contract.VerbBind, binds("i0")); require.Error(s, err) },
			"provide":   func(s *scene) { _, _ = s.do(contract.VerbProvide, noInput) },
			"manage":    func(s *scene) { _, _ = s.do(contract.VerbManage, contract.TenantInput{Instance: "i0"}) },
			"maintain":  func(s *scene) { _, _ = s.do(contract.VerbMaintain, off) },
			"an unbind": func(s *scene) { _, _ = s.do(contract.VerbUnbind, of("i0")) },
			"rebuild":   func(s *scene) { _, _ = s.do(contract.VerbRebuild, of("i0")) },
			"retire":    func(s *scene) { _, err := s.do(contract.VerbRetire, gaveUp("i0")); require.Error(s, err) },
		} {
			t.Run(from+", "+by, func(t *testing.T) {
				s := newScene(t)
				lead(s)
				s.forgets(func() {
					switch d := s.d.Device; {
					case d.Binding != nil:
						s.turnsOver("i0")
					case d.InMaintenance():
						s.ok(contract.VerbMaintain, off)
					case d.State == device.Manageable:
						s.ok(contract.VerbProvide, noInput)
					}
					s.returned()
					s.boundTo("i1")
				})
				asks(s)
				s.lasts(time.Minute)
				s.hint()
				s.lasts(time.Hour)
				require.Equal(t, []any{device.Allocated, "i1", "i1", 1},
					[]any{s.d.Device.State, s.d.instance(), s.bytes, s.inv.Reserved})
				require.False(t, s.released("i1").Already)
				s.lasts(time.Minute)
				if s.d.Device.InMaintenance() {
					s.ok(contract.VerbMaintain, off)
				}
				s.returned()
			})
		}
	}
	t.Run("retire --lost", func(t *testing.T) { // it waits for no inventory, and the record stays
		s := tenant(t)
		s.forgets(func() { s.turnsOver("i1"); s.boundTo("i2") })
		s.ok(contract.VerbRetire, lost("i1"))
		s.lasts(time.Hour)
		require.Equal(t, []any{"i2", 1, "i2"}, []any{s.bytes, s.inv.Reserved, s.recorded()})
	})
}

// The database is put back, and another instance has the device since, or none: the record is read before the device is
// rebuilt, or its power changed, for who had it, and before either is refused to who has it.
//
// F31, F36
func TestPutBackWhoseActsCount(t *testing.T) {
	power := func(instance string) contract.PowerInput {
		return contract.PowerInput{Target: "off", Instance: instance}
	}
	for _, from := range []string{"available", "manageable", "held", "error", "allocated"} {
		for by, ask := range map[string]struct {
			v  contract.Verb
			in contract.Input
		}{
			"rebuild":            {contract.VerbRebuild, of("i1")},
			"power":              {contract.VerbPower, power("")},
			"power, by its name": {contract.VerbPower, power("i1")},
		} {
			for _, now := range []string{"", "i2"} {
				if now == "" && (by != "rebuild" || from != "allocated") {
					continue
				}
				t.Run(from+", "+by+", now "+now, func(t *testing.T) {
					s := newScene(t)
					leads[from](s)
					s.forgets(func() {
						if from == "allocated" {
							s.turnsOver("i1")
						} else {
							s.backInTheOffer()
						}
						if now != "" {
							s.boundTo(now)
						}
					})
					_, err := s.do(ask.v, ask.in)
					require.Error(t, err)
					require.Empty(t, s.powers)
					if now == "" {
						return
					}
					s.ok(contract.VerbRebuild, of(now))
					s.ok(contract.VerbPower, power(now))
					require.Equal(t, []string{"off"}, s.powers)
					require.Equal(t, []any{"i2", "i2", 1}, []any{s.bytes, s.recorded(), s.inv.Reserved})
				})
			}
		}
	}
}

// The tenant of whom the memory does not know unbinds: it has the device by the record, also during a clean that forgot
// it, and the history says by which numbers it was given back to it.
//
// F36
func TestATenantThatIsForgottenUnbinds(t *testing.T) {
	s := newScene(t).offers()
	s.forgets(func() { s.boundTo("i1") })
	require.False(t, s.released("i1").Already)
	s.returned()
	require.Empty(t, s.recorded())
	require.Equal(t, []string{"the inventory records binding 1 of i1; this workflow knew no binding after 0"},
		s.reasons(device.ObservedInUse))

	s = tenant(t)
	s.released("i1")
	s.until("verify")
	s.inv.Tenant = new("i2")
	s.inv.Rest = device.Record{Witness: device.WitnessBound, Tenant: "i2", Bindings: 7, Cleans: 9}
	s.inv.Generation += 5
	s.bytes = "i2"
	wiped := s.wiped
	unbind, err := s.send(contract.VerbUnbind, of("i2"))
	require.NoError(t, err)
	s.answers(contract.ActivityReadReservation)
	require.Equal(t, wiped, s.wiped, "it was erased before its instance left")
	s.returned()
	require.NoError(t, unbind.Err)
	require.False(t, unbind.Result.Already)
	require.Equal(t, 7, s.d.History[len(s.d.History)-1].Number)
}

// backInTheOffer has the operator of a device without an instance offer it.
func (s *scene) backInTheOffer() {
	s.Helper()
	switch {
	case s.d.Device.State == device.Error:
		s.ok(contract.VerbClean, all)
	case s.d.Device.InMaintenance():
		s.ok(contract.VerbMaintain, off)
	case s.d.Device.State == device.Manageable:
		s.ok(contract.VerbProvide, noInput)
	}
	s.returned()
}

// reasons are those of the device's acts of a kind.
func (s *scene) reasons(kind device.EventKind) (all []string) {
	for _, a := range s.d.Acts {
		if a.Verb == string(kind) {
			all = append(all, a.Reason)
		}
	}
	return all
}

// The same instance has a later binding than the memory: the earlier request is not answered with it.
//
// F36
func TestALaterBindingOfTheSameInstance(t *testing.T) {
	s := tenant(t)
	later := contract.BindInput{Instance: "i1", Request: "later"}
	s.forgets(func() { s.turnsOver("i1"); s.ok(contract.VerbBind, later) })
	s.refusal(device.CodeBindingEnded, contract.VerbBind, binds("i1"))
	require.Equal(t, 2, s.ok(contract.VerbBind, later).Binding)
}

// An instance that has the device by its memory asks whether it does: the record is read, no act comes of it, and
// nothing is bound anew, be it free, claimed for the same instance by another request, or another's. While it is not
// known who has it, the question waits.
//
// F36
func TestWhatAnInstanceHoldsIsConfirmed(t *testing.T) {
	for _, request := range []string{bindI1.Request, ""} {
		held := contract.BindInput{Instance: "i1", Request: request, Managed: true, Held: true}
		bound := func(t *testing.T) *scene {
			s := newScene(t).offers()
			s.ok(contract.VerbBind, bindI1)
			s.made = nil
			return s
		}
		s := bound(t)
		acts, writes := s.copied(s.d.DeviceState).Acts, s.inv.Generation
		result := s.ok(contract.VerbBurn, held)
		require.True(t, result.Already)
		require.Equal(t, 1, result.Binding)
		require.Equal(t, 1, s.calls(contract.ActivityReadReservation))
		require.Equal(t, []any{acts, writes}, []any{s.d.Acts, s.inv.Generation})

		s = bound(t)
		s.terminated()
		require.Equal(t, device.Unknown, s.d.Device.State)
		require.Equal(t, 1, s.ok(contract.VerbBurn, held).Binding)

		for now, happens := range map[string]func(*scene){
			"ended":   func(s *scene) { s.released("i1") },
			"offered": func(s *scene) { s.turnsOver("i1") },
			"claimed": func(s *scene) {
				s.turnsOver("i1")
				in := s.claiming(time.Hour)
				in.Request = "another"
				s.ok(contract.VerbClaim, in)
			},
			"another's": func(s *scene) { s.turnsOver("i1"); s.boundTo("i2") },
			"another's since": func(s *scene) {
				s.forgets(func() { s.turnsOver("i1"); s.boundTo("i2") })
			},
		} {
			s := bound(t)
			happens(s)
			_, err := s.do(contract.VerbBurn, held)
			refusal, ok := contract.RefusalOf(err)
			require.True(t, ok, "%s, %q: %v", now, request, err)
			require.Contains(t, []device.Code{device.CodeBindingEnded, device.CodeConflict}, refusal.Fault.Code, now)
			s.lasts(time.Minute)
			require.NotEqual(t, "i1", s.d.instance(), now)
		}
	}
}

// The write of a burn was made, and its task lost: the claim's request, tag and instance's workflow have the device,
// and the burn that comes again is granted, whatever the inventory and the host say meanwhile, or its device is not
// bound. Who gives such a claim back ends the binding.
//
// F42
func TestABurnThatWasLostWithItsTask(t *testing.T) {
	burnt := func(t *testing.T) *scene {
		s := newScene(t).offers()
		in := s.claiming(time.Hour)
		in.Tag, in.Managed = "t1", true
		s.ok(contract.VerbClaim, in)
		s.forgets(func() { s.ok(contract.VerbBurn, in) })
		s.bytes = "i1"
		return s
	}
	for name, meanwhile := range map[string]func(*scene){
		"at once":      func(*scene) {},
		"after a hint": func(s *scene) { s.hostStarts(); s.rest() },
		"later":        func(s *scene) { s.pass(time.Minute) },
		"host silent":  func(s *scene) { s.pass(time.Minute); s.away = true },
		"look fails": func(s *scene) {
			s.pass(time.Minute)
			s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeIO)
		},
		"read in a look":  func(s *scene) { s.pass(time.Minute); s.decide(Hinted{Signal: contract.SignalRefresh}) },
		"during its read": func(s *scene) { s.hint(); s.until(contract.ActivityReadReservation) },
	} {
		t.Run(name, func(t *testing.T) {
			s := burnt(t)
			meanwhile(s)
			again := bindI1
			again.Tag, again.Managed = "t1", true
			r, err := s.do(contract.VerbBurn, again)
			s.lasts(time.Hour)
			require.Equal(t, err == nil, s.d.Device.State == device.Allocated, "%v", err)
			if err == nil {
				b := s.d.Device.Binding
				require.Equal(t, []any{1, "i1", "r1", "t1", true}, []any{r.Binding, b.Instance, b.Request, b.Tag, b.Managed})
				require.Equal(t, 1, s.ok(contract.VerbBurn, again).Binding)
			}
		})
	}
	for name, back := range map[string]func(*scene){
		"unbind":  func(s *scene) { s.released("i1") },
		"unclaim": func(s *scene) { s.ok(contract.VerbUnclaim, bindI1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := burnt(t)
			back(s)
			s.returned()
			require.Empty(t, s.recorded())
		})
	}
	t.Run("a bind in one request", func(t *testing.T) {
		s := newScene(t).offers()
		s.forgets(func() { s.ok(contract.VerbBind, bindI1) })
		s.hostStarts()
		s.lasts(time.Minute)
		s.refusal(device.CodeRefused, contract.VerbBind, bindI2)
		in := bindI1
		in.Tag = "t1"
		require.Equal(t, 1, s.ok(contract.VerbBind, in).Binding)
		require.Equal(t, []any{"r1", "t1"}, []any{s.d.Device.Binding.Request, s.d.Device.Binding.Tag})
		s.turnsOver("i1")
		s.refusal(device.CodeBindingEnded, contract.VerbBind, bindI1)
	})
}

// What an operator holds stays the operator's: after a clean that was lost with its task, or others' writes, it becomes
// dirty, and nothing is erased; a clean that is asked for again meanwhile is carried out, unless others wrote.
//
// F43
func TestWhatAnOperatorHoldsStaysTheOperators(t *testing.T) {
	managed := func(s *scene) { s.offers().ok(contract.VerbManage, contract.TenantInput{}) }
	named := func(s *scene) { s.ok(contract.VerbClean, only("verify")); s.until("verify"); s.d.Intent.Abort = true }
	foreign := func(s *scene) { s.inv.Generation++ }
	for name, c := range map[string]struct {
		lead, lost func(*scene)
		owner      device.Owner
		state      device.State
	}{
		"named steps":                  {managed, named, device.OwnerSelf, device.Manageable},
		"written by others":            {managed, foreign, device.OwnerSelf, device.Manageable},
		"in error, written by others":  {leads["error"], foreign, device.OwnerSelf, device.Error},
		"Nova's, and written by other": {managed, foreign, device.OwnerNova, device.Manageable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.e.Owner = c.owner
			c.lead(s)
			s.forgets(func() { c.lost(s) })
			s.bytes = "the operator's bytes"
			s.hostStarts()
			s.lasts(24 * time.Hour)
			require.Equal(t, []any{c.state, true, 1, "the operator's bytes"},
				[]any{s.d.Device.State, s.d.Device.Dirty, s.inv.Reserved, s.bytes})
		})
	}
	for name, ours := range map[string]bool{"its own write": true, "another write": false} {
		t.Run("asked for again during a read: "+name, func(t *testing.T) {
			s := newScene(t)
			managed(s)
			s.rest()
			s.inv.Generation++
			if ours {
				s.inv.Rest.Cleans++
			}
			s.hint()
			s.until(contract.ActivityReadReservation)
			s.ok(contract.VerbClean, only("zero"))
			s.lasts(time.Hour)
			require.Equal(t, []any{device.Manageable, !ours, ours},
				[]any{s.d.Device.State, s.d.Device.Dirty, s.lastClean().Outcome == "steps_done"})
		})
	}
	t.Run("a clean that another's write stops is named", func(t *testing.T) {
		s := failed(t)
		s.inv.Generation++
		s.hint()
		s.until(contract.ActivityReadReservation)
		s.ok(contract.VerbClean, all)
		s.lasts(time.Hour)
		require.Equal(t, []any{device.Manageable, true}, []any{s.d.Device.State, s.d.Device.Dirty})
		require.Contains(t, s.d.Status().LastError,
			"a clean that was requested meanwhile has not taken place; provide d1 cleans it")
		s.ok(contract.VerbProvide, noInput)
		s.returned()
		require.Empty(t, s.d.Status().LastError)
	})
	t.Run("an unbind during the read that shows an operator's write", func(t *testing.T) {
		s := tenant(t)
		s.forgets(func() {
			s.turnsOver("i1")
			s.ok(contract.VerbManage, contract.TenantInput{})
			s.bytes = "the operator's bytes"
		})
		s.hint()
		s.until(contract.ActivityReadReservation)
		s.released("i1")
		s.lasts(time.Hour)
		require.Equal(t, "the operator's bytes", s.bytes)
	})
}

// The reservation of a device in use, whose memory is older, is not written before the device was read: the write would
// be the only thing that says that its instance still has it.
//
// F36
func TestAnOlderMemoryDoesNotRecordItsInstanceAgain(t *testing.T) {
	for name, since := range map[string]func(*scene){
		"it has left":    func(s *scene) { s.turnsOver("i1") },
		"another has it": func(s *scene) { s.turnsOver("i1"); s.boundTo("i2") },
	} {
		t.Run(name, func(t *testing.T) {
			s := tenant(t)
			s.forgets(func() { since(s) })
			s.d.Intent.EnsureReserved = true
			s.hint()
			if name == "it has left" {
				s.returned()
				return
			}
			s.kept(device.Allocated, "")
			require.Equal(t, []any{"i2", "i2", "i2"}, []any{s.d.instance(), s.bytes, s.recorded()})
		})
	}
}

// A database that is put back into a clean meets the same instance with its next binding: what stops the clean is not
// taken for the record of the binding that has ended, once the clean has stopped.
//
// F36
func TestAnOlderCleanMeetsItsInstanceAgain(t *testing.T) {
	s := tenant(t)
	s.released("i1")
	s.until("verify")
	memory := s.d.Clone()
	s.reach(device.Available)
	s.rest()
	s.ok(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "its next one"})
	s.bytes = "i1"
	s.d, s.stopping = memory, true
	s.hint()
	s.answers(contract.ActivityReadReservation)
	s.stopping = false
	s.kept(device.Allocated, device.CodeReservationChanged)
	require.Equal(t, []any{"i1", "i1", "i1"}, []any{s.d.instance(), s.bytes, s.recorded()})
}

// An inventory that is put back to an earlier binding does not give the device back to who had it then.
//
// F36
func TestAnOlderRecordDoesNotEndALaterBinding(t *testing.T) {
	s := tenant(t)
	before := *s.inv
	s.turnsOver("i1")
	s.boundTo("i2")
	s.inv.Generation, s.inv.Reserved = before.Generation, before.Reserved
	s.inv.Tenant, s.inv.Rest = before.Tenant, before.Rest
	_, err := s.do(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "again"})
	require.ErrorContains(t, err, "cannot bind")
	for range 2 {
		_, err = s.do(contract.VerbUnbind, contract.UnbindInput{Instance: "i1"})
		require.NoError(t, err, "it has ended")
		s.hint()
		s.kept(device.Allocated, "")
		require.Equal(t, []any{"i2", "i2"}, []any{s.d.instance(), s.bytes})
	}
	s.released("i2")
	s.kept(device.Allocated, device.CodeReservationChanged) // an operator is asked whether i1 has left it
	s.turnsOver("i1")
	require.Empty(t, s.bytes)
}

// What an operator holds is the operator's too once its workflow was terminated: the record says so.
//
// F43
func TestAHoldOutlivesTheWorkflow(t *testing.T) {
	for name, c := range map[string]struct {
		v           contract.Verb
		in          contract.Input
		maintenance bool
	}{
		"managed": {contract.VerbManage, contract.TenantInput{}, false}, "maintenance": {contract.VerbMaintain, fan, true},
		"retired": {contract.VerbRetire, gaveUp(""), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).offers()
			s.ok(c.v, c.in)
			s.rest()
			s.bytes = "the operator's bytes"
			s.terminated()
			s.lasts(24 * time.Hour)
			require.Equal(t, []any{device.Manageable, true, c.maintenance, 1, "the operator's bytes"},
				[]any{s.d.Device.State, s.d.Device.Dirty, s.d.Device.InMaintenance(), s.inv.Reserved, s.bytes})
			if c.maintenance {
				s.ok(contract.VerbMaintain, off)
			}
			s.ok(contract.VerbProvide, noInput)
			s.returned()
		})
	}
}

// A burn was lost with its task, and its claim is given back while the device is about to be compared: the first write
// after that removes the record, whoever makes it.
//
// F24
func TestTheFirstWriteAfterAnInstanceHasLeftRemovesItsRecord(t *testing.T) {
	s := newScene(t).offers()
	claim := bindI1
	claim.Deadline = s.now.Add(time.Minute).Format(time.RFC3339)
	s.ok(contract.VerbClaim, claim)
	s.inv.Reserved, s.inv.Generation, s.inv.Tenant = 1, s.inv.Generation+1, new("i1")
	_, err := s.send(contract.VerbUnclaim, bindI1)
	require.NoError(t, err)
	s.hint()
	s.answers(contract.ActivityReadReservation)
	require.Equal(t, device.PendingCleaning, s.d.Device.State)
	s.answers(contract.ActivityEnsureReserved)
	require.Empty(t, s.recorded())
}

// A lowering without an answer is not sent again once the device is retired: it would be offered for a moment.
//
// F5
func TestALoweringEndsWithTheOffer(t *testing.T) {
	s := newScene(t).offers()
	s.ok(contract.VerbMaintain, contract.MaintenanceInput{})
	s.rest()
	ends, err := s.send(contract.VerbMaintain, off)
	require.NoError(t, err)
	s.until(contract.ActivityUnreserve)
	s.fails(contract.ActivityUnreserve, device.Transient, device.CodeInventoryUnavailable)
	for ends.Phase != phLowerPause {
		s.end(ends)
	}
	sent := s.calls(contract.ActivityUnreserve)
	_, err = s.send(contract.VerbRetire, contract.RetireInput{Lost: true})
	require.NoError(t, err)
	s.lasts(time.Minute)
	require.Equal(t, []any{device.Retired, 1, sent},
		[]any{s.d.Device.State, s.inv.Reserved, s.calls(contract.ActivityUnreserve)})
	require.Error(t, ends.Err)
}

// A bound device whose record was removed, or says that no instance has the device, gets it written again, once.
//
// F24
func TestTheRecordOfABoundDeviceIsWrittenAgain(t *testing.T) {
	for name, record := range map[string]*string{"removed": nil, "no instance": new("")} {
		t.Run(name, func(t *testing.T) {
			s := tenant(t)
			s.inv.Tenant = record
			s.hint()
			s.rest()
			require.Equal(t, []any{"i1", device.Allocated}, []any{s.recorded(), s.d.Device.State})
			writes := len(s.inv.Writes)
			s.hint()
			s.rest()
			require.Len(t, s.inv.Writes, writes)
			s.turnsOver("i1")
		})
	}
}

// Another client's write between an unbind and the clean hides which binding the record is of: the device stays its
// former instance's, and the operator is called until that unbinds again, whatever its host finds and its operator does
// meanwhile.
//
// F24, F29
func TestAFormerInstanceThatMayBeBackCallsTheOperator(t *testing.T) {
	s := tenant(t)
	s.released("i1")
	s.inv.WriteByOther(1)
	s.lasts(time.Minute)
	doubted := func() {
		require.Equal(t, []any{device.Allocated, "i1", true},
			[]any{s.d.Device.State, s.d.instance(), s.d.Status().NeedsOperator})
		require.Contains(t, s.d.Status().Remedy, "--instance i1")
	}
	doubted()
	s.swapped()
	s.refresh()
	s.rest()
	doubted()
	require.Contains(t, s.d.Status().LastError, string(device.CodeIdentityChanged))
	s.ok(contract.VerbMaintain, contract.MaintenanceInput{})
	s.ok(contract.VerbMaintain, off)
	doubted()
	s.released("i1")
	s.returned()
	require.False(t, s.d.Status().NeedsOperator)
}
