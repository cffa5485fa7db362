package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

var (
	fan = contract.MaintenanceInput{Reason: "fan"}
	off = contract.MaintenanceInput{Off: true}
	all = contract.CleanInput{}
)

func only(steps ...string) contract.CleanInput { return contract.CleanInput{Steps: steps} }

func binds(instance string) contract.BindInput {
	return contract.BindInput{Instance: instance, Request: "r-" + instance}
}

func of(instance string) contract.UnbindInput { return contract.UnbindInput{Instance: instance} }

func gaveUp(instance string) contract.RetireInput {
	return contract.RetireInput{Reason: "worn", Instance: instance, Caller: contract.Caller{By: "op@h1"}}
}

func lost(instance string) contract.RetireInput {
	in := gaveUp(instance)
	in.Lost = true
	return in
}

// claiming is a claim of i1 for so long.
func (s *scene) claiming(within time.Duration) contract.BindInput {
	in := bindI1
	in.Deadline = s.now.Add(within).Format(time.RFC3339)
	return in
}

// leads bring a device from nothing into a state.
var leads = map[string]func(*scene){
	"manageable": func(s *scene) { s.enrolled(false) },
	"available":  func(s *scene) { s.offers() },
	"claimed":    func(s *scene) { s.offers().ok(contract.VerbClaim, s.claiming(1000*time.Hour)) },
	"held":       func(s *scene) { s.offers().ok(contract.VerbMaintain, fan); s.rest() },
	"allocated":  func(s *scene) { s.offers().boundTo("i1") },
	"cleaning":   func(s *scene) { s.offers().boundTo("i1").released("i1"); s.until("zero") },
	"error":      func(s *scene) { s.offers().boundTo("i1").failsToClean() },
	"retired":    func(s *scene) { s.offers().ok(contract.VerbRetire, gaveUp("")); s.rest() },
}

// unchanged requires that do changes nothing that the device hands over.
func (s *scene) unchanged(do func()) {
	s.Helper()
	before := s.copied(s.d.DeviceState)
	do()
	require.Equal(s, before, s.copied(s.d.DeviceState))
}

func TestOfTwoBindsAtOnceOneWins(t *testing.T) {
	s := newScene(t).offers()
	var jobs []*Job
	for _, instance := range []string{"i1", "i2", "i3", "i4"} {
		if j, err := s.send(contract.VerbBind, binds(instance)); err == nil {
			jobs = append(jobs, j)
		} else {
			s.faultOf(device.CodeRefused, err)
		}
	}
	s.rest()
	require.Len(t, jobs, 1)
	require.NoError(t, jobs[0].Err)
	require.Equal(t, []any{"i1", 1}, []any{s.d.instance(), s.inv.Reserved})
}

// S2.42
func TestBindIsRefusedFromAnyOtherState(t *testing.T) {
	for name, lead := range leads {
		if name == "available" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			lead(s)
			before := s.d.Device
			s.refusal(device.CodeRefused, contract.VerbBind, binds("i9"))
			require.Equal(t, before, s.d.Device)
		})
	}
}

// S2.41
func TestBindAgainIsTheSameBinding(t *testing.T) {
	s := tenant(t)
	writes := len(s.inv.Writes)
	again := func() {
		for range 2 {
			r := s.ok(contract.VerbBind, binds("i1"))
			require.Equal(t, []any{1, true}, []any{r.Binding, r.Already})
			s.renewed()
		}
	}
	again()
	require.Equal(t, 1, s.ok(contract.VerbBind, contract.BindInput{Instance: "i1"}).Binding,
		"who has it, without a request")
	for _, in := range []contract.BindInput{{Instance: "i1", Request: "another"}, {Instance: "i9"},
		{Instance: "i9", Request: "r-i1"}} {
		s.refusal(device.CodeRefused, contract.VerbBind, in)
	}
	require.Len(t, s.inv.Writes, writes)
	s.released("i1")
	for range 2 {
		s.refusal(device.CodeBindingEnded, contract.VerbBind, binds("i1"))
		s.renewed()
	}
	require.Equal(t, 2, s.ok(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "r2"}).Binding)
	s.refusal(device.CodeBindingEnded, contract.VerbBind, binds("i1"))
}

// A client that was killed during its bind repeats the request: it gets the result of that bind.
func TestBindAgainWhileTheFirstIsUnderWay(t *testing.T) {
	s := newScene(t).offers()
	first, err := s.send(contract.VerbBind, bindI1)
	require.NoError(t, err)
	s.until(contract.ActivityReserveForBind)
	require.Equal(t, 1, s.ok(contract.VerbBind, bindI1).Binding)
	require.Equal(t, 1, first.Result.Binding)
}

// F6
func TestUnbindNamesItsInstance(t *testing.T) {
	s := tenant(t)
	for _, instance := range []string{"i2", ""} {
		s.refusal(device.CodeRefused, contract.VerbUnbind, of(instance))
	}
	require.Equal(t, device.Allocated, s.d.Device.State)
	s.released("i1")
	require.True(t, s.released("i1").Already, "repeated while it is cleaned")
	s.rest()
	require.True(t, s.released("i1").Already)
	s.boundTo("i2").renewed()
	require.True(t, s.released("i1").Already, "the unbind of an earlier binding does not end the new one")
	require.Equal(t, "i2", s.d.instance())
	s.refusal(device.CodeRefused, contract.VerbUnbind, of("i3"))
}

// S0.18, S3.26
func TestRebuildKeepsTheDevice(t *testing.T) {
	s := tenant(t)
	s.made = nil
	for range 2 {
		s.ok(contract.VerbRebuild, of("i1"))
	}
	s.refusal(device.CodeRefused, contract.VerbRebuild, of("i2"))
	s.lasts(time.Hour)
	require.Equal(t, len(s.made), s.calls(contract.ActivityReadReservation), "no clean and no burn")
	require.Equal(t, []any{1, "i1"}, []any{s.d.Device.Binding.Number, s.bytes})
	s.released("i1")
	s.refusal(device.CodeRefused, contract.VerbRebuild, of("i1"))
}

// S0.5
func TestClaimThenBurn(t *testing.T) {
	s := newScene(t).offers()
	claim := s.claiming(time.Hour)
	require.Zero(t, s.ok(contract.VerbClaim, claim).Binding)
	require.Zero(t, s.inv.Reserved, "burned as late as possible")
	require.True(t, s.ok(contract.VerbClaim, claim).Already)
	other := bindI2
	other.Deadline = claim.Deadline
	for _, v := range []contract.Verb{contract.VerbClaim, contract.VerbBind, contract.VerbBurn, contract.VerbUnclaim} {
		s.refusal(device.CodeRefused, v, other)
	}
	s.renewed()
	for range 2 {
		require.Equal(t, 1, s.ok(contract.VerbBurn, bindI1).Binding)
	}
	require.Equal(t, 1, s.inv.Reserved)
}

func TestBindTakesUpItsOwnClaim(t *testing.T) {
	s := newScene(t).offers()
	s.ok(contract.VerbClaim, s.claiming(time.Hour))
	require.Equal(t, 1, s.ok(contract.VerbBind, bindI1).Binding)
}

// Who gives a claim back, and who lets it expire, leaves the device as it was: nothing was used, nothing is cleaned.
func TestAClaimThatEndsLeavesTheDeviceAsItWas(t *testing.T) {
	for name, ends := range map[string]func(*scene){
		"unclaimed": func(s *scene) {
			other := contract.BindInput{Instance: "i1", Request: "another"}
			require.True(s, s.ok(contract.VerbUnclaim, other).Already, "of another request")
			require.NotNil(s, s.d.Device.Claim)
			require.False(s, s.ok(contract.VerbUnclaim, bindI1).Already)
			require.True(s, s.ok(contract.VerbUnclaim, bindI1).Already)
		},
		"unbound": func(s *scene) {
			s.refusal(device.CodeRefused, contract.VerbUnbind, of("i2"))
			s.released("i1")
		},
		"expired": func(s *scene) {
			s.renewed()
			s.pass(time.Hour - time.Millisecond)
			require.NotNil(s, s.d.Device.Claim)
			s.pass(time.Millisecond)
			require.Contains(s, s.d.LastRefusal, "claim")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).offers()
			writes, wiped := len(s.inv.Writes), s.wiped
			s.ok(contract.VerbClaim, s.claiming(time.Hour))
			ends(s)
			require.Nil(t, s.d.Device.Claim)
			s.lasts(2 * time.Hour)
			require.Equal(t, []any{device.Available, writes, wiped}, []any{s.d.Device.State, len(s.inv.Writes), s.wiped})
			s.refusal(device.CodeRefused, contract.VerbBurn, bindI1)
			s.boundTo("i2")
		})
	}
}

func TestClaimNeedsADeadlineAhead(t *testing.T) {
	s := newScene(t).offers()
	for _, in := range []contract.BindInput{s.claiming(-time.Second), {Instance: "i1", Deadline: "tomorrow"},
		{Deadline: "2031-01-01T00:00:00Z"}} {
		s.refusal(device.CodeInvalid, contract.VerbClaim, in)
	}
}

// A burn that began holds the device past its claim's deadline.
func TestDeadlineDoesNotEndABurn(t *testing.T) {
	s := newScene(t).offers()
	s.ok(contract.VerbClaim, s.claiming(3*time.Second))
	burn, err := s.send(contract.VerbBurn, bindI1)
	require.NoError(t, err)
	s.until(contract.ActivityReserveForBind)
	s.pass(time.Minute)
	s.rest()
	require.Equal(t, 1, burn.Result.Binding)
}

// A request never gets a second binding, also when more bindings came after it than the history lists.
//
// F41
func TestRequestGetsNoSecondBindingAfterManyOthers(t *testing.T) {
	s := newScene(t).offers()
	bind := func(request string) { s.ok(contract.VerbBind, contract.BindInput{Instance: "i1", Request: request}) }
	for n := range contract.KeptBindings + 4 {
		bind(fmt.Sprint("r", n))
		s.turnsOver("i1")
	}
	first := s.claiming(time.Hour)
	first.Request = "r0"
	s.refusal(device.CodeBindingEnded, contract.VerbBind, first)
	s.refusal(device.CodeBindingEnded, contract.VerbClaim, first)
	s.ok(contract.VerbBind, contract.BindInput{Instance: "i2", Request: "r0"}) // another instance's is another one
}

// S1.35: a tag has 1 to 60 characters, whatever their bytes, and neither comma nor slash.
func TestTagCountsCharacters(t *testing.T) {
	for tag, legal := range map[string]bool{
		strings.Repeat("ä", 60): true, strings.Repeat("ä", 61): false, strings.Repeat("x", 60): true,
		"a,b": false, "a/b": false, "a\nb=\"c d\"": true,
	} {
		_, err := newScene(t).offers().do(contract.VerbBind, contract.BindInput{Instance: "i1", Tag: tag})
		require.Equal(t, legal, err == nil, "%q: %v", tag, err)
	}
}

// A device that somebody has is retired only by naming the instance, and the history says who did it. Its provider is
// deleted only by naming the instance again.
//
// F31
func TestRetireNamesTheTenant(t *testing.T) {
	for name, in := range map[string]func(string) contract.RetireInput{"retire": gaveUp, "lost": lost} {
		t.Run(name, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				s.offers()
				if s.e.Owner == device.OwnerNova {
					s.allocated("i1")
				} else {
					s.boundTo("i1")
				}
				for _, named := range []string{"", "i2"} {
					f := s.refusal(device.CodeInUse, contract.VerbRetire, in(named))
					require.Contains(s, f.Message+f.Remedy, "--instance i1")
				}
				require.Equal(s, "i1", s.d.instance())
				s.ok(contract.VerbRetire, in("i1"))
				s.kept(device.Retired, "")
				require.Equal(s, "retired by op@h1: worn", s.d.History[len(s.d.History)-1].Ended)
				f := s.refusal(device.CodeInUse, contract.VerbForget, contract.TenantInput{})
				require.Contains(s, f.Remedy, "forget d1 --instance i1")
				require.Equal(s, "i1", s.bytes, "nothing was written")
				s.ok(contract.VerbForget, contract.TenantInput{Instance: "i1"})
				require.True(s, s.d.Finished)
			})
		})
	}
}

// allocated has Nova allocate and reserve the device, and the device see it.
func (s *scene) allocated(consumer string) *scene {
	s.Helper()
	require.True(s, s.inv.Allocate(consumer))
	s.inv.WriteByOther(1)
	s.bytes = consumer
	s.hint()
	s.reach(device.Allocated)
	s.rest()
	require.Equal(s, consumer, s.d.instance())
	return s
}

// An instance that only the inventory's record names is no less a tenant, whatever state the workflow has: the device
// is not taken from it in silence, and neither is its record destroyed by other hardware or another slot. An operator
// is not answered that it is his already.
//
// F31, F36
func TestManageAndRetireNameTheRecordedTenant(t *testing.T) {
	for _, verb := range []contract.Verb{contract.VerbManage, contract.VerbRetire} {
		for _, recorded := range []string{"i1", device.TenantUUID("i1")} { // Placement records a name by a UUID made of it
			t.Run(verb.Name+" "+recorded, func(t *testing.T) {
				s := newScene(t).offers().boundTo("i0").failsToClean()
				s.inv.Tenant = &recorded
				in := func(instance string) contract.Input {
					if verb.Name == contract.VerbManage.Name {
						return contract.TenantInput{Instance: instance}
					}
					return gaveUp(instance)
				}
				f := s.refusal(device.CodeInUse, verb, in(""))
				require.Contains(t, f.Remedy, verb.Name+" d1 --instance "+recorded)
				s.refusal(device.CodeInUse, verb, in("i2"))
				require.Equal(t, device.Error, s.d.Device.State)
				s.ok(verb, in("i1"))
				require.NotEqual(t, device.Error, s.d.Device.State)
				require.Equal(t, recorded, *s.inv.Tenant, "the record is kept")
			})
			t.Run("already "+verb.Name+" "+recorded, func(t *testing.T) {
				s := manageable(t, false)
				in := func(instance string) contract.Input {
					if verb.Name == contract.VerbManage.Name {
						return contract.TenantInput{Instance: instance}
					}
					return gaveUp(instance)
				}
				if verb.Name == contract.VerbRetire.Name {
					s.ok(verb, in(""))
					s.rest()
				}
				writes := s.inv.Generation
				require.True(t, s.ok(verb, in("")).Already)
				s.inv.Tenant = &recorded
				require.Contains(t, s.refusal(device.CodeInUse, verb, in("")).Remedy, verb.Name+" d1 --instance "+recorded)
				require.Error(t, s.repeated(fmt.Sprintf("%s-%d", verb.Name, s.asked-1), verb, in("")))
				require.True(t, s.ok(verb, in("i1")).Already)
				require.Equal(t, writes, s.inv.Generation)
				s.fails(contract.ActivityReadReservation, device.Transient, device.CodeInventoryUnavailable)
				s.refusal(device.CodeInventoryUnavailable, verb, in("i1"))
				if verb.Name == contract.VerbRetire.Name {
					require.True(t, s.ok(verb, lost("")).Already, "it waits for no inventory")
				}
			})
		}
	}
	for verb, in := range map[string]func(string) contract.Input{
		"replace": func(i string) contract.Input { return contract.ReplaceInput{Instance: i} },
		"move": func(i string) contract.Input {
			return contract.MoveInput{Enrollment: contract.Enrollment{Name: "d2"}, Instance: i}
		},
	} {
		t.Run(verb, func(t *testing.T) {
			s := novas(t).enrolled(true)
			s.inv.AllocateUnchecked("i1") // not seen yet
			if verb == "replace" {
				s.host.Identity.Serial = "S2"
			}
			v := map[string]contract.Verb{"replace": contract.VerbReplace, "move": contract.VerbMove}[verb]
			require.Contains(t, s.refusal(device.CodeInUse, v, in("")).Remedy, " --instance i1")
			require.Empty(t, s.moved)
			s.ok(v, in("i1"))
		})
	}
}

// A retired device is permanently reserved, also if it was not before, again when Nova re-creates its provider, and as
// soon as an inventory answers that was away.
//
// F30
func TestRetiredIsReserved(t *testing.T) {
	t.Run("an import", func(t *testing.T) {
		for _, consumer := range []string{"", "c1"} {
			s := novas(t)
			s.inv.Recreate("nova-1")
			if consumer != "" {
				s.inv.AllocateUnchecked(consumer)
			}
			s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Import: true})
			s.ok(contract.VerbRetire, lost(consumer))
			s.kept(device.Retired, "")
			s.inv.Recreate("nova-2")
			s.hint()
			s.kept(device.Retired, "")
		}
	})
	t.Run("unknown, and the inventory is away", func(t *testing.T) {
		s := newScene(t).offers()
		s.inv.InjectFault = away
		s.terminated()
		s.ok(contract.VerbRetire, lost(""))
		s.lasts(time.Hour)
		require.Zero(t, s.inv.Reserved)
		s.inv.InjectFault = nil
		s.lasts(time.Minute)
		s.kept(device.Retired, "")
	})
}

func away(string, bool) error { return inventorysim.LostAnswer() }

// An unbind during the instance's own burn waits for it and ends the binding that it made, also where an earlier
// binding of that instance has ended.
//
// F30
func TestUnbindDuringItsOwnBurn(t *testing.T) {
	for name, earlier := range map[string]bool{"its first": false, "its second": true} {
		for what, fails := range map[string]bool{"succeeds": false, "fails": true} {
			t.Run(name+" "+what, func(t *testing.T) {
				s := newScene(t).offers()
				if earlier {
					s.boundTo("i1").turnsOver("i1")
				}
				bind, err := s.send(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "r2"})
				require.NoError(t, err)
				s.until(contract.ActivityReserveForBind)
				if fails {
					s.inv.InjectFault = inventorysim.Times(1, "PutReserved", false,
						inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
				}
				unbind, err := s.send(contract.VerbUnbind, of("i1"))
				require.NoError(t, err)
				require.False(t, unbind.Ended, "it waits for the burn")
				s.rest()
				require.Equal(t, []bool{fails, fails}, []bool{bind.Err != nil, unbind.Result.Already})
				require.NoError(t, unbind.Err)
				s.returned()
			})
		}
	}
}

// The bind's write records the instance, and the clean's first write that no instance has the device; no other write
// changes that. What a burn has recorded that failed, the clean after it clears.
//
// F24
func TestTheProviderRecordsWhoHasTheDevice(t *testing.T) {
	s := newScene(t)
	var writes []string
	s.inv.OnWrite = func(what string) {
		if what == "put" {
			writes = append(writes, s.recorded())
		}
	}
	s.offers().boundTo("i1").turnsOver("i1")
	require.Equal(t, []string{"no record", "", "", "i1", "", ""}, writes, "enrolled, cleaned, returned, and again")
	gone := false
	s.inv.InjectFault = func(call string, after bool) error {
		if gone = gone || call == "PutReserved" && after; gone {
			return inventorysim.LostAnswer()
		}
		return nil
	}
	s.refusal(device.CodeInventoryUnavailable, contract.VerbBind, bindI2)
	require.Equal(t, "i2", s.recorded())
	s.inv.InjectFault = nil
	s.returned()
	require.Empty(t, s.recorded())
	s.boundTo("i3")
	require.Equal(t, "i3", s.recorded())
}

// recorded is who has the device by its provider's record.
func (s *scene) recorded() string {
	if s.inv.Tenant == nil {
		return "no record"
	}
	return *s.inv.Tenant
}

// A binding that an instance's workflow holds ends otherwise than by that workflow: the device signals it, once. No
// other binding's end is signaled.
func TestInstanceIsSignaledThatADeviceLeftIt(t *testing.T) {
	left := []any{contract.DeviceLeft{Device: "d1", Binding: 1}}
	byItself := contract.UnbindInput{Instance: "i0", ByInstance: true}
	for name, c := range map[string]struct {
		managed bool
		end     func(*scene)
		want    []any
	}{
		"unbind by a client": {true, func(s *scene) { s.released("i0") }, left},
		"unbind by itself":   {true, func(s *scene) { s.ok(contract.VerbUnbind, byItself) }, nil},
		"retire":             {true, func(s *scene) { s.ok(contract.VerbRetire, gaveUp("i0")) }, left},
		"lost":               {true, func(s *scene) { s.ok(contract.VerbRetire, lost("i0")) }, left},
		"invalidated, released": {true, func(s *scene) {
			s.forgets(func() { s.ok(contract.VerbUnbind, byItself) })
			s.hint()
		}, left},
		"invalidated, another instance": {true, func(s *scene) {
			s.forgets(func() { s.ok(contract.VerbUnbind, byItself); s.rest(); s.boundTo("i1") })
			s.hint()
		}, left},
		"not managed":          {false, func(s *scene) { s.released("i0") }, nil},
		"not managed, retired": {false, func(s *scene) { s.ok(contract.VerbRetire, gaveUp("i0")) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).offers()
			in := s.claiming(time.Hour)
			in.Instance, in.Managed = "i0", c.managed
			s.ok(contract.VerbClaim, in)
			s.ok(contract.VerbBurn, in)
			s.bytes = "i0"
			c.end(s)
			s.rest()
			require.NotEqual(t, "i0", s.d.instance())
			var got []any
			for _, m := range s.d.Mail {
				if m.Signal == contract.SignalDeviceLeft {
					require.Equal(t, "instance/i0", m.To)
					got = append(got, m.In)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

const askedInstance = "11111111-2222-3333-4444-555555555555"

// A device that comes back as an instance's asks that instance, once. One that says that it has left leaves the device
// to the operator, who is called: nothing is erased, and his unbind ends it.
//
// F38
func TestDeviceThatComesBackAsksItsInstance(t *testing.T) {
	for name, c := range map[string]struct {
		byItsRun, left, late bool
	}{
		"it has it": {}, "it has left": {left: true}, "it has left, after a while": {left: true, late: true},
		"it has left, by its run": {left: true, byItsRun: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).offers().boundTo(askedInstance)
			require.Empty(t, s.asks, "bound by a request")
			s.says = contract.InstanceAnswer{Left: c.left}
			if c.byItsRun {
				s.previous = contract.PreviousRun{RunID: "ended", Instance: askedInstance}
			}
			if c.late {
				s.fails(contract.ActivityAskInstance, device.Transient, device.CodeServerUnreachable)
			}
			s.terminated()
			s.lasts(5 * time.Minute)
			delete(s.faults, contract.ActivityAskInstance)
			s.lasts(2 * time.Hour)
			require.Equal(t, []contract.InstanceQuestion{{Instance: askedInstance, Device: "d1"}}, s.asks)
			v := s.d.Status()
			require.Equal(t, []any{device.Allocated, c.left, c.left, askedInstance},
				[]any{v.DeviceState, v.NeedsOperator, v.Fault == string(device.CodeTenantLeft), s.bytes})
			s.released(askedInstance)
			s.returned()
			require.Empty(t, s.d.Status().Fault)
		})
	}
}
