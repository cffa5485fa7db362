package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// Every clean reads and reserves the device before its first step; one that is in use is not erased.
//
// F4
func TestReservedBeforeAnyStep(t *testing.T) {
	s := tenant(t)
	s.made, s.inv.Writes = nil, nil
	s.turnsOver("i1")
	require.Equal(t, []string{"EnsureReserved", "FindBySerial", "zero", "verify", "Unreserve"}, s.made)
	// The clean's own write comes first: earlier writes that are still on their way then conflict.
	require.Equal(t, []int{1, 0}, []int{s.inv.Writes[0].Reserved, s.inv.Writes[1].Reserved})
	eachOwner(t, func(s *scene) {
		s.offers().boundTo("i1")
		s.inv.AllocateUnchecked("c1")
		wiped := s.wiped
		s.released("i1")
		s.bytes = "c1"
		s.kept(device.Allocated, "")
		require.Equal(s, []any{"c1", "c1", wiped, true}, []any{s.d.instance(), s.bytes, s.wiped, s.d.Device.Dirty})
	})
}

// A use is found during a clean, also while it is planned again: its step is no longer due, and only when it has
// stopped is the device allocated to the consumer.
//
// F4
func TestUseFoundDuringAClean(t *testing.T) {
	for _, step := range []string{"zero", "verify", contract.ActivityDiscover} {
		t.Run(step, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				s.offers().boundTo("i1").released("i1")
				if step == contract.ActivityDiscover {
					s.host.Steps["verify"] = 2
				}
				s.until(step)
				s.inv.AllocateUnchecked("c1")
				wiped := s.wiped
				s.bytes, s.stopping = "c1", true
				s.hint()
				s.answers(contract.ActivityReadReservation)
				require.Equal(s, []any{device.Cleaning, 1}, []any{s.d.Device.State, len(s.d.Undue())})
				s.stopping = false
				s.kept(device.Allocated, "")
				require.Equal(s, []any{"c1", "c1", wiped, "in_use"}, []any{s.d.instance(), s.bytes, s.wiped, s.lastClean().Outcome})
			})
		})
	}
}

// Who was seen with the device during a clean may have left it before the clean has stopped: then it is cleaned, and
// not given back to them.
//
// F6, F36
func TestAUseThatEndsBeforeTheCleanHasStopped(t *testing.T) {
	eachOwner(t, func(s *scene) {
		s.offers().boundTo("i1").released("i1")
		s.until("verify")
		s.inv.AllocateUnchecked("c1")
		s.bytes, s.stopping = "c1", true
		s.hint()
		s.answers(contract.ActivityReadReservation)
		s.inv.Free("c1")
		s.stopping = false
		s.returned()
		require.Nil(s, s.d.Device.Binding)
	})
}

// A binding by Nova ends when its consumer is gone, whichever hint made the device check. One that is not reserved yet
// is, also when its provider was re-created.
//
// F6, S0.15, S0.19
func TestNovasBindingEndsWhenItsConsumerIsGone(t *testing.T) {
	s := novas(t).offers()
	require.True(t, s.inv.Allocate("c1"))
	s.bytes = "c1"
	s.hint()
	s.kept(device.Allocated, "")
	s.decide(Hinted{Signal: contract.SignalReleased})
	s.lasts(time.Hour)
	require.Equal(t, "c1", s.d.instance(), "a hint alone ends nothing")
	s.inv.Recreate("nova-2")
	s.inv.AllocateUnchecked("c1")
	s.hint()
	s.kept(device.Allocated, "")
	require.Equal(t, "c1", s.bytes)
	s.inv.Free("c1")
	s.decide(Hinted{Signal: contract.SignalReleased})
	s.returned()
}

// With owner self, used = 0 does not end a binding; a device that is not allocatable does not stay free.
//
// F6
func TestSelfOwnedBindingOutlivesEveryHint(t *testing.T) {
	s := tenant(t)
	s.inv.WriteByOther(0)
	for _, signal := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh} {
		s.decide(Hinted{Signal: signal})
		s.decide(Hinted{Signal: signal})
	}
	s.hostStarts()
	s.lasts(time.Hour)
	s.kept(device.Allocated, "")
	require.Equal(t, []any{"i1", "i1"}, []any{s.d.instance(), s.bytes})
}

// A hint for another binding, or from before this binding began, does not cause a read.
//
// F6
func TestOldHintsAreDropped(t *testing.T) {
	s := tenant(t)
	old := s.now.UTC().Format(time.RFC3339Nano)
	s.pass(time.Second)
	s.turnsOver("i1")
	s.boundTo("i2").rest()
	s.made = nil
	for _, h := range []contract.Hint{
		{Binding: 1}, {Binding: 3}, {ObservedAt: old}, {ObservedAt: old, Binding: 2}, {ObservedAt: "yesterday"},
	} {
		s.decide(Hinted{Signal: contract.SignalReleased, Hint: h})
	}
	s.lasts(time.Hour)
	require.Empty(t, s.made)
	s.decide(Hinted{Signal: contract.SignalReleased,
		Hint: contract.Hint{Binding: 2, ObservedAt: s.now.UTC().Format(time.RFC3339Nano)}})
	s.rest()
	require.Equal(t, []any{[]string{contract.ActivityReadReservation}, "i2"}, []any{s.made, s.d.instance()})
}

// No hint changes any state by itself, also when it is repeated.
//
// F6
func TestHintsNeverMoveAState(t *testing.T) {
	for name, lead := range leads {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			lead(s)
			before, wiped := s.d.place(), s.wiped
			for range 2 {
				for _, signal := range []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh} {
					s.decide(Hinted{Signal: signal, Hint: contract.Hint{Source: "sweep"}})
				}
				s.hostStarts()
			}
			require.Equal(t, before, s.d.place())
			s.lasts(time.Hour)
			if name == "cleaning" {
				s.returned()
				require.Equal(t, wiped+1, s.wiped, "cleaned once")
				return
			}
			require.Equal(t, before, s.d.place())
		})
	}
}

// What was used between two readings is cleaned, once: by a reservation, or by the generation of Nova's provider. One
// that was not used is never cleaned, however often it is read.
//
// D9, F10, F28, S0.9, S0.16
func TestUsedAndFreedBetweenTwoReads(t *testing.T) {
	for name, use := range map[string]func(*scene){
		"reserved and unused":  func(s *scene) { s.usedAndFreed("c1"); s.inv.WriteByOther(1) },
		"as free as before":    func(s *scene) { s.usedAndFreed("c1") },
		"after it was away":    func(s *scene) { s.usedAndFreed("c1"); s.inv.InjectFault = away },
		"while it was claimed": func(s *scene) { s.ok(contract.VerbClaim, s.claiming(time.Hour)); s.inv.WriteByOther(1) },
	} {
		t.Run(name, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				s.offers()
				idle := func() {
					wiped, writes := s.wiped, len(s.inv.Writes)
					for range 5 {
						s.hint()
						s.rest()
					}
					require.Equal(s, []int{wiped, writes}, []int{s.wiped, len(s.inv.Writes)}, "it is idle, and was not used")
				}
				idle()
				s.offeredClean()
				use(s)
				s.hint()
				s.lasts(10 * time.Minute)
				s.inv.InjectFault = nil
				s.hint()
				s.lasts(time.Minute)
				s.returned()
				require.Equal(s, 2, s.wiped)
				idle()
			})
		})
	}
}

// A read that failed wrote nothing: listings keep the generation, by which the sweep finds a use between two reads.
//
// F28
func TestListedGenerationAfterAFailedRead(t *testing.T) {
	s := novas(t).offers()
	require.Equal(t, s.inv.Generation, Memo(s.d.DeviceState).Generation)
	s.fails(contract.ActivityReadReservation, device.NeedsOperator, device.CodeInventoryInvalid)
	s.hint()
	s.lasts(10 * time.Second)
	memo := Memo(s.d.DeviceState)
	require.Equal(t, []any{device.Available, s.inv.Generation}, []any{s.d.Device.State, memo.Generation})
	require.NotEmpty(t, memo.LastError)
	delete(s.faults, contract.ActivityReadReservation)
	s.usedAndFreed("c1")
	d := device.Device{State: device.Available, Status: device.Enabled, Owner: memo.Owner}
	asked := device.Ask(device.AskReconcile, d, device.Known{Provider: memo.Provider, Generation: memo.Generation})
	o, _ := device.Observe(d, asked.Answered(device.Inventory{Generation: s.inv.Generation, Total: 1,
		Provider: memo.Provider}))
	require.True(t, o.Needs(device.RequestRecheck), "the sweep compares the listed generation")
	s.hint()
	s.lasts(time.Minute)
	s.returned()
	require.Equal(t, 2, s.wiped)
}

// A migration changes the allocation's consumer, with both for a while, or back: nothing is erased.
//
// S0.21, S0.22
func TestConsumerChangesDuringAMigration(t *testing.T) {
	s := novas(t).offers().allocated("vm")
	for _, hands := range [][]string{{"vm", "migration"}, {"migration"}, {"migration", "vm"}, {"vm"}} {
		s.inv.Consumers = hands
		s.inv.Generation++
		s.hint()
		s.rest()
		require.Contains(t, hands, s.d.instance())
		require.Equal(t, "vm", s.bytes)
	}
	s.inv.Free("vm")
	s.hint()
	s.returned()
}

// An allocated device without a recorded binding, because the inventory names no consumer, is cleaned automatically
// when its host starts and it is not in use any more, not before.
//
// S2.69
func TestAllocatedWithoutABindingAtHostStart(t *testing.T) {
	eachOwner(t, func(s *scene) {
		s.offers()
		s.inv.AllocateUnchecked("")
		s.bytes = "c1"
		s.hostStarts()
		s.kept(device.Allocated, "")
		require.Nil(s, s.d.Device.Binding)
		s.hostStarts()
		s.lasts(time.Hour)
		require.Equal(s, []any{device.Allocated, "c1"}, []any{s.d.Device.State, s.bytes})
		s.inv.Free("")
		s.hostStarts()
		s.lasts(time.Minute)
		s.returned()
	})
}

// importing imports the device with this state of its provider.
func (s *scene) importing(reserved int, consumers ...string) *scene {
	s.inv.Recreate("nova-1")
	s.inv.Reserved, s.inv.Consumers, s.inv.Generation = reserved, consumers, 7
	s.bytes = "past"
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Import: true})
	return s
}

// The import follows Placement's record, whatever hint comes meanwhile; after a previous run a free provider does not
// show that the device is clean. Nothing is offered unseen.
//
// S0.10, S2.84, D8, S2.85
func TestImportFollowsTheInventory(t *testing.T) {
	for name, c := range map[string]struct {
		reserved int
		consumer []string
		previous string
		away     bool
		wiped    int
		ends     device.State
	}{
		"in use and burned":      {reserved: 1, consumer: []string{"c1"}, ends: device.Allocated},
		"in use, not burned yet": {consumer: []string{"c1"}, ends: device.Allocated},
		"burned and unused":      {reserved: 1, wiped: 1, ends: device.Available},
		"free":                   {ends: device.Available},
		"free, its host is unreachable for a while":   {away: true, ends: device.Available},
		"free, a previous run":                        {previous: "r", wiped: 1, ends: device.Available},
		"in use, a previous run":                      {reserved: 1, consumer: []string{"c1"}, previous: "r", ends: device.Allocated},
		"free, and its inventory fails for some time": {ends: device.Available},
	} {
		t.Run(name, func(t *testing.T) {
			s := novas(t)
			s.away, s.previous = c.away, contract.PreviousRun{RunID: c.previous}
			s.importing(c.reserved, c.consumer...)
			require.Equal(t, device.Unknown, s.d.Device.State)
			if name == "free, and its inventory fails for some time" {
				s.fails(contract.ActivityReadReservation, device.NeedsOperator, device.CodeInventoryInvalid)
				s.lasts(time.Second)
				delete(s.faults, contract.ActivityReadReservation)
			}
			s.hint()
			if c.away {
				s.lasts(10 * time.Minute)
				s.kept(device.Cleaning, device.CodeHostUnreachable)
				s.away = false
			}
			s.lasts(time.Hour)
			s.reach(c.ends)
			require.Equal(t, []any{c.wiped, c.ends == device.Allocated}, []any{s.wiped, s.inv.Reserved == 1})
		})
	}
}

// Nova re-creates a provider as free, regardless of earlier use: only the provider that was imported shows that the
// device is clean. With another one it is reserved and cleaned, or waits for its operator where automated cleaning is
// off. A use counts for any provider.
//
// D8, S2.85
func TestOnlyTheImportedProviderIsKnownClean(t *testing.T) {
	changes := map[string]func(s *scene, recreate func(string)){
		"missing, then another": func(s *scene, recreate func(string)) {
			s.importing(1).inv.ProviderGone = true
			s.lasts(2 * time.Second)
			recreate("nova-2")
		},
		"missing, and back under its own UUID": func(s *scene, recreate func(string)) {
			s.importing(1).inv.ProviderGone = true
			s.lasts(2 * time.Second)
			recreate("nova-1")
		},
		"between the import and the first read": func(s *scene, recreate func(string)) {
			s.importing(0)
			recreate("nova-2")
		},
		"between the listing and the import": func(s *scene, recreate func(string)) {
			recreate("nova-2")
			s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Import: true, Provider: "nova-1"})
		},
	}
	for name, lead := range changes {
		for what, c := range map[string]struct{ manual, used bool }{"free": {}, "by hand": {manual: true},
			"used": {used: true}} {
			t.Run(name+" "+what, func(t *testing.T) {
				s := novas(t)
				s.policy.Automated, s.bytes = !c.manual, "past"
				s.offeredClean()
				lead(s, func(id string) {
					s.inv.Recreate(id)
					s.bytes = "past"
					if c.used {
						s.inv.AllocateUnchecked("c1")
						s.bytes = "c1"
					}
				})
				s.hint()
				switch {
				case c.used:
					s.kept(device.Allocated, "")
					require.Equal(t, []any{"c1", "c1"}, []any{s.d.instance(), s.bytes})
				case c.manual:
					s.kept(device.PendingCleaning, device.CodeAutomatedCleanOff)
					s.lasts(time.Hour)
					require.Equal(t, []any{device.PendingCleaning, "past"}, []any{s.d.Device.State, s.bytes})
				default:
					s.returned()
					require.Equal(t, 1, s.wiped)
				}
			})
		}
	}
	for _, listed := range []string{"", "nova-1"} {
		s := novas(t)
		s.inv.Recreate("nova-1")
		s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Import: true, Provider: listed})
		s.reach(device.Available)
		s.lasts(time.Hour)
		require.Equal(t, []int{0, 0}, []int{s.wiped, s.inv.Reserved}, "the same provider, free: available at once")
	}
}

// A use between the import and the return is found, however long that takes, and however often it was tried.
//
// F5
func TestUsedBetweenTheImportAndTheReturn(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		s := novas(t).importing(0)
		s.until(contract.ActivityEnsureReserved)
		s.inv.InjectFault = away
		s.lasts(time.Hour)
		s.inv.InjectFault = nil
		if recreated {
			s.recreated(true)
		} else {
			s.usedAndFreed("c1")
			s.inv.WriteByOther(1)
		}
		s.returned()
		require.Equal(t, 1, s.wiped)
	}
}

// A device without a provider reads the inventory once for each hint, and not periodically.
//
// F6
func TestWithoutAProviderItReadsOncePerHint(t *testing.T) {
	s := novas(t).offers().allocated("c1")
	s.inv.ProviderGone = true
	s.made = nil
	s.hint()
	s.lasts(6 * time.Hour)
	require.Len(t, s.made, 1)
	s.waits(device.CodeNoProvider, true)
	require.Contains(t, s.d.Status().LastError, "Nova has no provider")
	s.inv.Recreate("nova-2")
	s.hint()
	s.returned()
	s.waitsNot()
	s.allocated("c2")
	s.inv.ProviderGone = true
	s.hint()
	s.rest()
	s.waits(device.CodeNoProvider, false)
	s.ok(contract.VerbRetire, gaveUp("c2"))
	s.lasts(time.Hour)
	s.waitsNot() // a retired device needs none
}

// Forget does not delete Nova's provider, and leaves it reserved.
//
// S0.17
func TestForgetKeepsNovasProvider(t *testing.T) {
	s := novas(t).offers()
	s.ok(contract.VerbRetire, gaveUp(""))
	s.ok(contract.VerbForget, contract.TenantInput{})
	require.Equal(t, []any{true, true, 1}, []any{s.d.Finished, s.inv.Exists, s.inv.Reserved})
}

// Nova re-creates the provider at any time during a clean and the return, by coincidence with the same generation:
// Burnish does not unreserve it for the clean under the old provider.
//
// F5
func TestProviderRecreatedDuringAClean(t *testing.T) {
	for _, activity := range []string{"EnsureReserved", "FindBySerial", "zero", "verify", "Unreserve"} {
		for name, c := range map[string]struct{ after, used bool }{"before": {}, "before, used": {used: true},
			"after": {after: true}, "after, used": {after: true, used: true}} {
			t.Run(activity+" "+name, func(t *testing.T) {
				s := novas(t).offers().allocated("c1")
				s.inv.Free("c1")
				s.hint()
				s.until(activity)
				s.offeredClean()
				if c.after {
					s.answers(activity)
				}
				s.recreated(c.used)
				s.hint()
				s.lasts(time.Hour)
				if s.d.Device.State == device.Error { // it read the other instance's data
					require.Equal(t, device.CodeVerifyFailed, s.d.Fault.Code)
					s.ok(contract.VerbClean, all)
				}
				s.returned()
			})
		}
	}
}

// A device that is kept clean and reserved, or offered, has a new provider: it may have been used, so it is cleaned
// before it is offered, once its operator provides it. Bind and claim take that into account, too.
//
// D9, F5, F28, F43
func TestProviderRecreatedWhileKeptClean(t *testing.T) {
	for name, c := range map[string]struct {
		lead, back func(*scene)
		held       bool
	}{
		"in maintenance": {func(s *scene) { s.ok(contract.VerbMaintain, fan) },
			func(s *scene) { _, _ = s.do(contract.VerbMaintain, off) }, true},
		"manageable": {func(s *scene) { s.ok(contract.VerbManage, contract.TenantInput{}) },
			func(s *scene) { s.ok(contract.VerbProvide, noInput) }, true},
		"available": {func(*scene) {}, func(*scene) {}, false},
		"available, bound": {func(*scene) {}, func(s *scene) {
			_, err := s.do(contract.VerbBind, bindI1)
			require.Error(s, err)
		}, false},
		"claimed, and burned": {func(s *scene) { s.ok(contract.VerbClaim, s.claiming(time.Hour)) }, func(s *scene) {
			_, err := s.do(contract.VerbBurn, bindI1)
			require.Error(s, err)
		}, false},
		"claimed, and unclaimed": {func(s *scene) { s.ok(contract.VerbClaim, s.claiming(time.Hour)) },
			func(s *scene) { s.ok(contract.VerbUnclaim, bindI1) }, false},
	} {
		for _, hinted := range []bool{false, true} {
			if name == "available" && !hinted {
				continue
			}
			t.Run(name+map[bool]string{true: ", hinted"}[hinted], func(t *testing.T) {
				s := novas(t).offers()
				c.lead(s)
				s.rest()
				s.recreated(true)
				if !c.held {
					s.recreated(false) // free again
				}
				s.offeredClean()
				if hinted {
					s.hint()
					s.lasts(time.Hour)
					if c.held {
						require.True(t, s.d.Device.Dirty)
						require.NotEqual(t, device.Available, s.d.Device.State, "its operator lets it go, nothing else (F43)")
					}
				}
				if !hinted || c.held {
					c.back(s)
				}
				s.lasts(time.Hour)
				if s.d.Device.InMaintenance() {
					s.ok(contract.VerbMaintain, off)
				}
				if s.d.Device.State == device.Manageable {
					s.ok(contract.VerbProvide, noInput)
				}
				s.returned()
				require.Equal(t, 2, s.wiped)
			})
		}
	}
}

// Maintenance that begins during the return reserves the device again; a use in between is found.
//
// F5, F28, F43
func TestUsedBetweenTheReturnAndMaintenance(t *testing.T) {
	s := novas(t).offers().allocated("c1")
	s.inv.Free("c1")
	s.hint()
	s.until(contract.ActivityUnreserve)
	s.ok(contract.VerbMaintain, fan)
	s.until(contract.ActivityEnsureReserved)
	s.usedAndFreed("c2")
	s.inv.WriteByOther(1)
	s.offeredClean()
	s.lasts(time.Hour)
	_, _ = s.do(contract.VerbMaintain, off)
	s.lasts(time.Hour)
	if s.d.Device.InMaintenance() {
		s.ok(contract.VerbMaintain, off)
	}
	if s.d.Device.State == device.Manageable {
		s.ok(contract.VerbProvide, noInput)
	}
	s.returned()
}

// A clean whose reservation is gone stops, also one that waits for its host, because a scheduler may allocate the
// device; what an instance writes there stays. It begins again with its reservation: one full plan.
//
// F4, F5
func TestACleanStopsWhenItsReservationIsGone(t *testing.T) {
	for name, hostAway := range map[string]bool{"at work": false, "its host is away": true} {
		t.Run(name, func(t *testing.T) {
			s := novas(t).offers().allocated("c1")
			s.inv.Free("c1")
			s.hint()
			s.until("zero")
			s.away = hostAway
			s.inv.Recreate("again")
			s.fails(contract.ActivityEnsureReserved, device.NeedsOperator, device.CodeInventoryInvalid)
			s.hint()
			s.answers(contract.ActivityReadReservation)
			s.lasts(2 * time.Second)
			require.True(t, s.d.Status().NeedsOperator)
			require.True(t, s.inv.Allocate("c2"))
			s.inv.WriteByOther(1)
			s.bytes, s.away = "c2", false
			s.lasts(time.Minute)
			delete(s.faults, contract.ActivityEnsureReserved)
			s.hint()
			s.reach(device.Allocated)
			s.rest()
			require.Equal(t, []any{"c2", "c2"}, []any{s.d.instance(), s.bytes})
			s.inv.Free("c2")
			s.hint()
			s.reach(device.Manageable) // its operator was called before
			s.rest()
			s.ok(contract.VerbProvide, noInput)
			s.returned()
		})
	}
	eachOwner(t, func(s *scene) {
		s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
		s.until("zero")
		s.inv.WriteByOther(0)
		s.hint()
		s.answers(contract.ActivityReadReservation)
		s.returned()
		require.Equal(s, []string{"zero", "verify"}, s.stepsRun(), "the stopped one reached nothing")
		s.matchingGenerations()
	})
}

// An abort is not lost while a clean waits to begin again.
//
// F9
func TestAbortWhileACleanWaitsToBeginAgain(t *testing.T) {
	s := novas(t)
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
	s.until("zero")
	s.inv.Recreate("again")
	s.hint()
	s.answers(contract.ActivityReadReservation)
	s.inv.ProviderGone = true
	s.lasts(5 * time.Minute)
	s.ok(contract.VerbAbort, noInput)
	s.inv.ProviderGone = false
	s.hint()
	s.kept(device.Error, device.CodeAborted)
	require.Zero(t, s.wiped)
}

// What a refused request reads does not explain a use: the provider of a manageable, clean device was re-created, and
// an instance uses it, or did so. It is not offered with the instance's data.
//
// D9, F34
func TestReadOfARefusedRequestExplainsNothing(t *testing.T) {
	for name, left := range map[string]bool{"the instance has left": true, "it uses the device": false} {
		t.Run(name, func(t *testing.T) {
			s := novas(t).offers()
			s.ok(contract.VerbManage, contract.TenantInput{})
			s.inv.Recreate("again")
			require.True(t, s.inv.Allocate("c2"))
			s.inv.WriteByOther(1)
			s.bytes = "c2"
			s.offeredClean()
			if left {
				s.inv.Free("c2")
				retire, err := s.send(contract.VerbRetire, gaveUp(""))
				require.NoError(t, err)
				_, err = s.send(contract.VerbProvide, noInput)
				require.NoError(t, err)
				for s.d.Device.State == device.Manageable {
					s.answers(contract.ActivityDiscover)
				}
				s.rest()
				s.faultOf(device.CodeRefused, retire.Err)
			} else {
				s.refusal(device.CodeInUse, contract.VerbRetire, gaveUp(""))
				s.inv.Free("c2")
				s.lasts(time.Minute)
				s.ok(contract.VerbProvide, noInput)
			}
			s.returned()
		})
	}
}

// An instance used an available device of Nova's, and left it as free as before, or leaves it while an operator's
// request reserves it: the operator does not get it as clean, and does not give it back so.
//
// D9, F28, F34
func TestAUseBeforeTheDeviceLeavesTheOfferIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		v  contract.Verb
		in contract.Input
	}{
		"manage":   {contract.VerbManage, contract.TenantInput{}},
		"maintain": {contract.VerbMaintain, fan},
		"retire":   {contract.VerbRetire, gaveUp("")},
	} {
		for what, use := range map[string]func(*scene){
			"the same provider":    func(s *scene) { s.usedAndFreed("c2") },
			"another provider":     func(s *scene) { s.inv.Recreate("again"); s.usedAndFreed("c2") },
			"leaves in between":    func(s *scene) { s.leavesAtTheRead() },
			"reserved, and leaves": func(s *scene) { s.leavesAtTheRead(); s.inv.WriteByOther(1) },
			"after the read":       (*scene).recreatedBeforeItsWrite,
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				s := novas(t).offers()
				use(s)
				s.offeredClean()
				_, err := s.do(c.v, c.in)
				if err == nil && name == "retire" {
					s.kept(device.Retired, "")
					return
				}
				code := device.CodeInUse
				if what == "after the read" {
					code = device.CodeInventoryGenerationAhead // the write finds it
				}
				s.faultOf(code, err)
				s.lasts(time.Minute)
				s.hint()
				s.lasts(time.Minute)
				s.returned()
			})
		}
	}
}

// leavesAtTheRead: an instance uses the device until it is read.
func (s *scene) leavesAtTheRead() {
	require.True(s, s.inv.Allocate("c1"))
	s.bytes = "c1"
	s.inv.InjectFault = func(call string, after bool) error {
		if call == "Reservation" && after {
			s.inv.Free("c1")
		}
		return nil
	}
}

// recreatedBeforeItsWrite: Nova re-creates the provider after it was read, with the same generation by coincidence, and
// an instance uses it.
func (s *scene) recreatedBeforeItsWrite() {
	s.before = func() {
		if s.d.Due()[0].Activity == contract.ActivityEnsureReserved {
			s.before = nil
			s.recreated(true)
		}
	}
}

// matchingGenerations requires that each successful write of reserved = 0 used the generation of the reservation
// before.
func (s *scene) matchingGenerations() {
	s.Helper()
	for i, low := range s.inv.Writes {
		if low.Reserved != 0 || !low.Done {
			continue
		}
		raised := false
		for _, up := range s.inv.Writes[:i] {
			raised = raised || up.Reserved == 1 && up.Done && up.Generation+1 == low.Generation
		}
		require.True(s, raised, "unreserved with generation %d, which no reservation produced", low.Generation)
	}
}

// atUnreserve is a device of which a clean has ended, at the write that returns it.
func atUnreserve(t *testing.T, do func(*scene)) {
	t.Helper()
	eachOwner(t, func(s *scene) {
		s.offers().boundTo("i1").released("i1")
		s.until(contract.ActivityUnreserve)
		s.inv.Writes = nil
		do(s)
	})
}

// The end of the clean is recorded before the write that returns the device: whoever reads the state after that
// write, as a later run does, finds it on its way back, and clean.
//
// F5
func TestReturningIsRecordedBeforeTheWrite(t *testing.T) {
	atUnreserve(t, func(s *scene) {
		require.Equal(s, []any{device.Cleaning, false, "cleaned"},
			[]any{s.d.Device.State, s.d.Device.Dirty, s.lastClean().Outcome})
		s.returned()
	})
}

// A write that may have had effect is read back; it is repeated with the same generation if it had none. A generation
// that was only read is never used: what another client wrote meanwhile has the device cleaned again.
//
// F5
func TestALostUnreserveIsReadBack(t *testing.T) {
	for name, after := range map[string]bool{"its answer": true, "its request": false} {
		t.Run(name, func(t *testing.T) {
			atUnreserve(t, func(s *scene) {
				s.inv.InjectFault = inventorysim.Times(1, "PutReserved", after, inventorysim.LostAnswer)
				s.returned()
				require.Equal(s, []int{1, 2}, []int{len(s.inv.Unreserves()), s.wiped})
			})
		})
	}
}

// F5
func TestReservationChangedIsCleanedAgain(t *testing.T) {
	for name, interfere := range map[string]func(*scene){
		"reserved again":                    func(s *scene) { s.inv.WriteByOther(1) },
		"unreserved, used, freed, reserved": func(s *scene) { s.inv.WriteByOther(0); s.usedAndFreed("c"); s.inv.WriteByOther(1) },
		"unreserved, used, freed, same generation": func(s *scene) {
			s.inv.WriteByOther(0)
			s.usedAndFreed("c")
			s.inv.Reserved = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			atUnreserve(t, func(s *scene) {
				spent := s.inv.Generation
				interfere(s)
				s.bytes = "c"
				s.offeredClean()
				s.returned()
				require.Equal(s, 3, s.wiped)
				lowered := s.inv.Unreserves()
				require.Equal(s, []any{inventorysim.Write{Generation: spent}, 2, true},
					[]any{lowered[0], len(lowered), lowered[1].Done})
			})
		})
	}
}

// Used during the return, the consumer keeps the device; a permanent refusal calls the operator, and the device stays
// reserved, also if its write arrives late.
//
// F5, F28
func TestUnreserveIsRefused(t *testing.T) {
	t.Run("used", func(t *testing.T) {
		atUnreserve(t, func(s *scene) {
			s.inv.WriteByOther(0)
			require.True(s, s.inv.Allocate("c1"))
			s.bytes = "c1"
			s.kept(device.Allocated, "")
			require.Equal(s, []any{"c1", "c1"}, []any{s.d.instance(), s.bytes})
		})
	})
	t.Run("for good", func(t *testing.T) {
		atUnreserve(t, func(s *scene) {
			s.inv.InjectFault = inventorysim.Times(1, "PutReserved", false,
				inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
			s.kept(device.Error, device.CodeInventoryInvalid)
			require.True(s, s.d.Status().NeedsOperator && s.d.Device.Dirty)
			s.ok(contract.VerbClean, all)
			s.returned()
		})
	})
	t.Run("its read fails, and it arrives late", func(t *testing.T) {
		atUnreserve(t, func(s *scene) {
			late := s.inv.Generation
			s.ends[contract.ActivityUnreserve] = func(Outcome) Outcome {
				return Outcome{Fault: refusing(device.Transient,
					device.CodeTimeout)}
			}
			s.inv.InjectFault = away
			s.answers(contract.ActivityUnreserve)
			s.inv.InjectFault = inventorysim.Times(1, "Usages", false,
				inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
			s.reach(device.Error)
			_, _ = s.inv.PutReserved(s.Context(), s.inv.UUIDs[len(s.inv.UUIDs)-1], late, 0, nil)
			s.lasts(time.Hour)
			s.kept(device.Error, device.CodeInventoryInvalid)
		})
	})
	t.Run("an instance used it before a lost answer was read", func(t *testing.T) {
		s := novas(t).offers().allocated("c1")
		s.inv.Free("c1")
		s.hint()
		s.until(contract.ActivityUnreserve)
		s.inv.InjectFault = inventorysim.Times(1, "PutReserved", true, inventorysim.LostAnswer)
		s.answers(contract.ActivityUnreserve)
		s.usedAndFreed("c2")
		s.offeredClean()
		s.lasts(time.Minute)
		s.returned()
		require.Equal(t, 3, s.wiped)
	})
}

// What ends a return while its reservation is lowered, or in the place of a task that was lost after that write, has it
// reserved: whenever the write arrives, and whatever became of its answer.
//
// F5, F30
func TestWhatEndsAReturnRaisesIt(t *testing.T) {
	for name, c := range map[string]struct {
		v  contract.Verb
		in contract.Input
	}{
		"lost": {contract.VerbRetire, lost("")}, "maintain": {contract.VerbMaintain, fan},
		"abort": {contract.VerbAbort, noInput},
	} {
		for what, ends := range map[string]func(s *scene, act func()){
			"answered": func(s *scene, act func()) { act(); s.answers(contract.ActivityUnreserve) },
			"its answer is lost": func(s *scene, act func()) {
				act()
				s.inv.InjectFault = inventorysim.Times(1, "PutReserved", true, inventorysim.LostAnswer)
				s.answers(contract.ActivityUnreserve)
			},
			"its task was lost": nil,
		} {
			if name == "abort" && ends != nil {
				continue
			}
			t.Run(name+" "+what, func(t *testing.T) {
				eachOwner(t, func(s *scene) {
					s.offers().boundTo("i1").released("i1")
					act := func() { s.ok(c.v, c.in) }
					if ends == nil {
						s.until("verify")
						s.inv.WriteByOther(0)
						act()
					} else {
						s.until(contract.ActivityUnreserve)
						ends(s, func() {
							_, err := s.send(c.v, c.in)
							require.NoError(s, err)
						})
					}
					s.lasts(time.Hour)
					require.Equal(s, 1, s.inv.Reserved, "%s", s.d.Device.State)
					if name == "maintain" && ends != nil {
						s.ok(contract.VerbMaintain, off)
						s.returned()
						s.matchingGenerations()
					}
				})
			})
		}
	}
}

// Nova allocates a device that its operator holds: it is that consumer's, and the operator's again when it has left,
// dirty and reserved, until the operator provides it.
//
// F43
func TestAnOperatorsDeviceIsTheOperatorsAgainAfterAUse(t *testing.T) {
	for name, hold := range map[string]func(*scene){
		"manageable": func(*scene) {},
		"named steps": func(s *scene) {
			s.ok(contract.VerbClean, only("verify"))
			s.until("verify")
		},
		"error": func(s *scene) {
			s.fails("verify", device.NeedsOperator, device.CodeVerifyFailed)
			s.ok(contract.VerbClean, only("verify"))
			s.reach(device.Error)
			s.rest()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := novas(t).enrolled(false)
			hold(s)
			s.inv.WriteByOther(0) // as its host's nova-compute does that starts anew
			s.allocated("c1")
			s.inv.Free("c1")
			s.hint()
			s.reach(device.Manageable)
			s.lasts(time.Hour)
			v := s.d.Status()
			require.Equal(t, []any{device.Manageable, true, 1, 0, "c1"},
				[]any{v.DeviceState, v.Dirty, s.inv.Reserved, s.wiped, s.bytes})
			delete(s.faults, "verify")
			s.ok(contract.VerbProvide, noInput)
			s.returned()
		})
	}
}
