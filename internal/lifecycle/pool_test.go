package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// server is a server of a shared pool that is not enrolled yet. No step and no power reaches it while others have it.
func server(t *testing.T) *scene {
	t.Helper()
	s := newScene(t).shares()
	mine := func(o Outcome) Outcome {
		require.False(s, s.pool.taken(), "it works at a server that another user has")
		return o
	}
	s.ends["zero"], s.ends["verify"], s.ends[contract.ActivityPower] = mine, mine, mine
	return s
}

// polled is what a poll sends; noProfile requires that the server is offered without a profile.
func (s *scene) polled(signal string) {
	s.decide(Hinted{Signal: signal, Hint: contract.Hint{Source: "poll"}})
	s.lasts(3 * time.Second)
	s.rest()
}

func (s *scene) noProfile() {
	s.Helper()
	s.returned()
	require.Equal(s, []any{0, contract.PoolState{Tag: fmt.Sprint(s.pool.version)}, false},
		[]any{len(s.pool.profiles), *s.d.Pool, s.d.Device.InMaintenance()})
}

// isTaken requires that the device waits until the others leave its server; leaves has them leave it.
func (s *scene) isTaken() {
	s.Helper()
	s.reach(device.Manageable)
	s.rest()
	v := s.d.Status()
	require.Equal(s, []any{true, true, "taken: another user of rack1 has the server", 1},
		[]any{v.Dirty, v.Pool.Taken, v.MaintenanceReason, s.inv.Reserved})
	require.Contains(s, s.refusal(device.CodeRefused, contract.VerbBind, binds("i9")).Remedy, "take another server")
}

func (s *scene) leaves() {
	s.Helper()
	s.bytes = "theirs"
	s.pool.leave()
	s.polled(contract.SignalFreed)
	s.noProfile()
}

// uses has another user take the server, write to it and leave it.
func (s *scene) uses() {
	if s.pool.profile == "" {
		s.bytes = "theirs"
	}
	s.pool.use()
}

func (s *scene) takeProfileAway() {
	delete(s.pool.profiles, s.pool.profile)
	s.pool.profile = ""
	s.pool.version++
}

func (s *scene) applianceAway() {
	s.pool.injectFault = func(string, bool) error { return unreachable() }
}

// A server has a profile of Burnish's only while it is cleaned or in use: a temporary one for its first clean, also for
// named steps, the tenant's own for the clean after it. A clean that failed keeps it. One that is on no server any more
// is forgotten.
//
// S4.19, S4.20, S4.21, S4.22, S4.24
func TestASharedServerHasAProfileOnlyWhileItIsUsed(t *testing.T) {
	s := server(t).offers()
	require.Equal(t, []string{"read", "apply", "remove"}, s.pool.calls)
	s.noProfile()
	s.pool.calls = nil
	s.boundTo("i1")
	require.Equal(t, []string{"read", "apply"}, s.pool.calls)
	require.Equal(t, []any{s.pool.profile, false}, []any{s.d.Pool.Profile, s.d.Pool.Applying})
	s.renewed()
	s.pool.calls = nil
	s.released("i1")
	s.noProfile()
	require.Equal(t, []string{"read", "remove"}, s.pool.calls)

	s.boundTo("i2").failsToClean()
	require.Equal(t, []any{s.pool.profile, 1}, []any{s.d.Pool.Profile, s.pool.ours()})
	made := s.pool.made
	s.ok(contract.VerbClean, all)
	s.noProfile()
	require.Equal(t, made, s.pool.made, "the next clean uses it again")
	s.boundTo("i3").failsToClean()
	s.takeProfileAway()
	s.polled(contract.SignalFreed)
	require.Equal(t, []any{device.Error, ""}, []any{s.d.Device.State, s.d.Pool.Profile})
	s.ok(contract.VerbClean, all)
	s.noProfile()

	s = server(t).enrolled(false)
	s.ok(contract.VerbClean, only("zero"))
	s.until("zero")
	require.Equal(t, 1, s.pool.ours())
	s.reach(device.Manageable)
	s.rest()
	require.Equal(t, []any{0, ""}, []any{s.pool.ours(), s.d.Pool.Profile})
}

// What others took is not bound, whichever moment they chose, and is not cleaned until they have left.
//
// S4.11, S4.13, S4.18, S4.22, S4.28
func TestOthersTakeTheServerBetweenAnyTwoCalls(t *testing.T) {
	for at := 0; ; at++ {
		s, took, over := server(t), false, false
		s.before = func() {
			if len(s.made) > at && !took && !over {
				took = s.pool.take() // as soon as it is free
			}
		}
		s.ok(contract.VerbEnroll, s.enrollment())
		for s.d.Device.State != device.Available && s.d.Device.State != device.Error {
			require.True(t, s.within(time.Hour))
		}
		s.rest()
		bound := false
		if s.d.Device.State == device.Available {
			_, err := s.do(contract.VerbBind, bindI1)
			if bound = err == nil; !bound {
				s.faultOf(device.CodeServerTaken, err)
				require.Equal(t, []any{device.Error, true, true}, []any{s.d.Device.State, s.d.Device.LostRace, s.d.Device.Dirty})
			}
			require.False(t, bound && s.pool.taken())
		}
		if bound {
			s.bytes = "i1"
			s.released("i1")
			s.lasts(time.Minute)
		}
		if over = true; !took {
			require.True(t, s.pool.take())
		}
		s.polled(contract.SignalTaken)
		s.isTaken()
		require.Len(t, s.pool.profiles, 1, "theirs alone")
		s.leaves()
		if !took {
			require.Greater(t, at, 12, "the points of a life")
			return
		}
	}
}

// The same request sent twice waits for the same end, also for a race that is lost during it. Without an answer of the
// appliance a server is not bound, and nothing changes; a profile that is refused has it cleaned.
//
// S4.13
func TestABindOfASharedServer(t *testing.T) {
	for name, taken := range map[string]bool{"applied": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			s := server(t).offers()
			first, err := s.send(contract.VerbBind, bindI1)
			require.NoError(t, err)
			s.until(contract.ActivityApplyProfile)
			require.True(t, s.d.Pool.Applying, "the state says so first")
			second, err := s.send(contract.VerbBind, bindI1)
			require.NoError(t, err)
			s.refusal(device.CodeRefused, contract.VerbBind, bindI2)
			if taken {
				require.True(t, s.pool.take())
				s.bytes = "theirs"
			}
			s.rest()
			require.True(t, first.Ended && second.Ended)
			if taken {
				s.faultOf(device.CodeServerTaken, first.Err)
				s.faultOf(device.CodeServerTaken, second.Err)
				s.polled(contract.SignalTaken)
				s.isTaken()
				return
			}
			require.Equal(t, []any{1, true, 1}, []any{first.Result.Binding, second.Result.Already, s.pool.ours()})
		})
	}
	s := server(t).offers()
	require.True(t, s.pool.take())
	s.pool.calls, s.made = nil, nil
	s.refusal(device.CodeServerTaken, contract.VerbBind, bindI1)
	require.NotContains(t, s.pool.calls, "apply")
	require.NotContains(t, s.made, contract.ActivityReserveForBind, "nothing is asked but that it stays reserved")
	s.leaves()
	writes := len(s.inv.Writes)
	s.applianceAway()
	s.refusal(device.CodeApplianceUnreachable, contract.VerbBind, bindI1)
	s.rest()
	require.Equal(t, []any{device.Available, false, writes}, []any{s.d.Device.State, s.d.Device.Dirty, len(s.inv.Writes)})
	for _, after := range []bool{false, true} {
		s.pool.injectFault = func(call string, lost bool) error {
			switch {
			case call != "apply" || lost != after:
				return nil
			case after:
				return unreachable() // for good: what was begun is found, and removed
			}
			return &device.Fault{Class: device.NeedsOperator, Code: device.CodeProfileFailed,
				Message: "the template does not fit"}
		}
		_, err := s.do(contract.VerbBind, contract.BindInput{Instance: "i1", Request: fmt.Sprint(after)})
		s.faultOf(map[bool]device.Code{false: device.CodeProfileFailed, true: device.CodeApplianceUnreachable}[after], err)
		s.pool.injectFault = nil
		s.noProfile()
	}
}

// An appliance that is away, or is not in the worker's file, delays a clean, which shows it, calls the operator, and
// goes on by itself.
func TestACleanWaitsForTheAppliance(t *testing.T) {
	for code, pools := range map[device.Code]bool{device.CodeApplianceUnreachable: true, device.CodeInvalidConfig: false} {
		s := server(t)
		appliances := s.pools.Pools
		if pools {
			s.applianceAway()
		} else {
			s.pools.Pools = nil
		}
		s.ok(contract.VerbEnroll, s.enrollment())
		s.lasts(time.Minute)
		s.waits(code, false)
		require.Equal(t, contract.WaitAppliance, s.d.Status().Waiting.For)
		s.lasts(time.Hour)
		s.waits(code, true)
		require.Empty(t, s.inputs)
		s.pool.injectFault, s.pools = nil, activities.Pools{Pools: appliances, Log: s.pools.Log}
		s.noProfile()
		s.waitsNot()
	}
}

// A server that the appliance shows with its profile after that was removed is not offered.
//
// S4.21
func TestAServerThatKeepsItsProfileIsNotOffered(t *testing.T) {
	s := server(t).offers().boundTo("i1")
	s.ends[contract.ActivityRemoveProfile] = func(Outcome) Outcome {
		return Outcome{Found: &contract.PoolSnapshot{Ownership: device.PoolOurs, Profile: s.d.Pool.Profile}}
	}
	s.released("i1")
	s.kept(device.Error, device.CodeProfileFailed)
}

// Hints never move the state: the appliance decides, and only what is in maintenance because others took it, and for no
// other reason, is cleaned when they leave.
//
// S4.8, S4.9
func TestPollsOnlyGiveHints(t *testing.T) {
	s := server(t).offers()
	s.polled(contract.SignalTaken)
	s.polled(contract.SignalFreed)
	require.Equal(t, device.Available, s.d.Device.State, "it was not taken")
	require.True(t, s.pool.take())
	s.applianceAway()
	s.decide(Hinted{Signal: contract.SignalTaken})
	s.lasts(time.Hour)
	require.Equal(t, device.Available, s.d.Device.State, "the appliance did not say so")
	s.pool.injectFault = nil
	s.polled(contract.SignalTaken)
	s.isTaken()
	require.Contains(t, s.reasons(device.Taken)[0], "poll")
	s.polled(contract.SignalFreed)
	s.isTaken()
	require.Contains(t, s.ok(contract.VerbMaintain, off).Note, "another user of rack1 has the server")
	s.ok(contract.VerbMaintain, fan) // the operator's outlasts what others do
	s.pool.leave()
	s.polled(contract.SignalFreed)
	require.Equal(t, []any{device.Manageable, false}, []any{s.d.Device.State, s.d.Status().Pool.Taken})
	s.ok(contract.VerbMaintain, off)
	s.leaves()
	s.ok(contract.VerbMaintain, fan) // and begins before they take it
	require.True(t, s.pool.take())
	s.polled(contract.SignalTaken)
	s.pool.leave()
	s.polled(contract.SignalFreed)
	require.Equal(t, []any{device.Manageable, device.Maintaining}, []any{s.d.Device.State, s.d.Device.Status})
	s.ok(contract.VerbMaintain, off)
	s.leaves()
	s.boundTo("i1").failsToClean() // a clean that failed for another reason is not theirs
	s.takeProfileAway()
	require.True(t, s.pool.take())
	s.polled(contract.SignalTaken)
	require.Equal(t, device.Error, s.d.Device.State)
}

// The polls touch no pre-allocated server, and neither does anything else. A migration to a dynamic one records the
// profile of a server in use and removes that of an idle one, which is not offered meanwhile; once more, it changes
// nothing.
//
// S4.34, S4.35, S4.36, S4.37
func TestMigrationToDynamic(t *testing.T) {
	preAllocated := func(t *testing.T) *scene {
		s := newScene(t).shares()
		s.e.Pool.Dynamic, s.inv.OnWrite = false, nil
		s.offers()
		s.polled(contract.SignalTaken)
		s.polled(contract.SignalFreed)
		require.Equal(t, []any{device.Available, 0}, []any{s.d.Device.State, len(s.pool.calls)})
		require.True(t, s.pool.take()) // by whoever allocated it before
		return s
	}
	for name, lead := range map[string]func(*scene){
		"in use":   func(s *scene) { s.boundTo("i1") },
		"in error": func(s *scene) { s.boundTo("i1").failsToClean() },
	} {
		t.Run(name, func(t *testing.T) {
			s := preAllocated(t)
			lead(s)
			state := s.d.Device.State
			s.ok(contract.VerbMigratePool, noInput)
			require.Equal(t, []any{theirProfile, state}, []any{s.d.Pool.Profile, s.d.Device.State})
			require.True(t, s.ok(contract.VerbMigratePool, noInput).Already)
			if state == device.Error {
				s.ok(contract.VerbClean, all)
			} else {
				s.released("i1")
			}
			s.noProfile()
		})
	}
	t.Run("available", func(t *testing.T) {
		s := preAllocated(t)
		s.applianceAway()
		s.refusal(device.CodeApplianceUnreachable, contract.VerbMigratePool, noInput)
		require.Equal(t, []any{false, device.Available}, []any{s.d.Enrollment.Pool.Dynamic, s.d.Device.State})
		s.pool.injectFault, s.away = nil, true
		s.refusal(device.CodeHostUnreachable, contract.VerbMigratePool, noInput)
		require.Equal(t, device.Manageable, s.d.Device.State)
		s.away = false
		s.pool.injectFault = func(call string, _ bool) error {
			require.False(t, call == "remove" && s.inv.Reserved == 0, "it is offered while its profile is removed")
			return nil
		}
		s.renewed()
		require.True(t, s.ok(contract.VerbMigratePool, noInput).Device.Pool.Dynamic)
		s.noProfile()
		require.True(t, s.ok(contract.VerbMigratePool, noInput).Already)
		s.boundTo("i1")
	})
}

// An enrollment with a pool that cannot be used is refused in one line.
func TestPoolsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   string
	}{
		"an NVMe device":               {func(s *scene) { s.e.Type = "NVME" }, "whole servers"},
		"a type that its host finds":   {func(s *scene) { s.host.Type, s.e.Type = "NVME", "" }, ""},
		"owner nova":                   {func(s *scene) { s.e.Owner = device.OwnerNova }, "owner=nova"},
		"no appliance":                 {func(s *scene) { s.e.Pool.Appliance = "" }, "oneview \"\""},
		"no hardware":                  {func(s *scene) { s.e.Pool.Hardware = "" }, "server_hardware_uri"},
		"another kind of hardware":     {func(s *scene) { s.e.Pool.Hardware = "/rest/server-hardware/1/x" }, "server_hardware_uri"},
		"a template that is a profile": {func(s *scene) { s.e.Pool.Template = "/rest/server-profiles/1" }, "server_profile_template_uri"},
	} {
		s := server(t)
		c.change(s)
		f := s.refusal(device.CodeInvalid, contract.VerbEnroll, s.enrollment())
		require.Contains(t, f.Message, c.want, name)
		require.NotContains(t, f.Error(), "\n")
		require.False(t, s.inv.Exists)
	}
	s := server(t).enrolled(false)
	in := s.enrollment()
	other := *s.e.Pool
	other.Template += "x"
	in.Enrollment.Pool = &other
	require.Contains(t, s.refusal(device.CodeAlreadyExists, contract.VerbEnroll, in).Message, "another pool")
}

// A database that is put back to before a bind, or a workflow that was lost, has no record of the tenant's profile,
// which is found by its name: the server is not taken for another user's, and its bind is granted again, but not while
// its appliance is silent. So does a device that is enrolled again find its own.
//
// F24
func TestAForgottenProfileIsFoundByItsName(t *testing.T) {
	for by, asks := range map[string]func(*scene){
		"a poll":      func(s *scene) { s.polled(contract.SignalTaken) },
		"a bind":      func(s *scene) { _, err := s.do(contract.VerbBind, binds("i9")); require.Error(s, err) },
		"its host":    func(s *scene) { s.hostStarts(func(r *contract.HostDeviceRecord) { r.Seq = 1 << 20 }) },
		"the tenant":  func(s *scene) { s.ok(contract.VerbRebuild, of("i1")) },
		"an operator": func(s *scene) { _, _ = s.do(contract.VerbManage, contract.TenantInput{}) },
		"terminated":  func(s *scene) { s.terminated() },
	} {
		t.Run(by, func(t *testing.T) {
			s := server(t).offers()
			s.forgets(func() { s.boundTo("i1") })
			asks(s)
			s.lasts(time.Minute)
			s.hint()
			s.lasts(time.Hour)
			require.Equal(t, []any{device.Allocated, "i1", "i1", 1},
				[]any{s.d.Device.State, s.d.instance(), s.bytes, s.pool.ours()})
			s.applianceAway()
			s.refusal(device.CodeApplianceUnreachable, contract.VerbBind, contract.BindInput{Instance: "i1", Request: "r7"})
			s.pool.injectFault = nil
			require.True(t, s.ok(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "r8"}).Already)
			s.released("i1")
			s.noProfile()
		})
	}
	s := server(t)
	s.pool.profile = "/rest/server-profiles/ours-0"
	s.pool.profiles[s.pool.profile] = s.pool.uuid
	s.offers().noProfile()
	s.boundTo("i1").failsToClean()
	s.terminated()
	s.lasts(time.Hour)
	require.Equal(t, device.Manageable, s.d.Device.State)
	s.ok(contract.VerbProvide, noInput) // it was in error: its operator has it (F43)
	s.noProfile()
}

// A retired device leaves no profile, and none is forgotten with one; of lost hardware it is tried, and said. Theirs
// stays. Hardware that moves leaves none either.
func TestARetiredServerLeavesNoProfile(t *testing.T) {
	removeFails := func(s *scene) {
		s.pool.injectFault = func(call string, _ bool) error {
			if call == "remove" {
				return unreachable()
			}
			return nil
		}
	}
	s := server(t).offers().boundTo("i1").failsToClean()
	removeFails(s)
	require.Contains(t, s.ok(contract.VerbRetire, gaveUp("")).Note, "forget tries again")
	s.refusal(device.CodeApplianceUnreachable, contract.VerbForget, contract.TenantInput{})
	s.pool.injectFault = nil
	s.ok(contract.VerbForget, contract.TenantInput{})
	require.Empty(t, s.pool.profiles)
	s = server(t).offers().boundTo("i1").failsToClean()
	require.Contains(t, s.ok(contract.VerbRetire, gaveUp("")).Note, "was removed")
	require.Empty(t, s.pool.profiles)
	s = server(t).offers().boundTo("i1")
	removeFails(s)
	require.Contains(t, s.ok(contract.VerbRetire, lost("i1")).Note, "remove it on rack1")
	s.ok(contract.VerbForget, contract.TenantInput{Instance: "i1"})
	require.Equal(t, 1, s.pool.ours())
	s = server(t).offers()
	require.True(t, s.pool.take())
	s.ok(contract.VerbRetire, gaveUp(""))
	s.ok(contract.VerbForget, contract.TenantInput{})
	require.True(t, s.pool.taken(), "theirs stays")
	s = server(t).offers().boundTo("i1").failsToClean()
	e := s.e
	e.Name = "d2"
	s.applianceAway()
	s.refusal(device.CodeApplianceUnreachable, contract.VerbMove, contract.MoveInput{Enrollment: e})
	s.pool.injectFault = nil
	s.ok(contract.VerbMove, contract.MoveInput{Enrollment: e})
	require.Equal(t, []any{0, *s.e.Pool, contract.PoolState{}},
		[]any{len(s.pool.profiles), *s.moved[0].Enrollment.Pool, *s.moved[0].Pool})
}

// The power of a server that others have is not changed, and neither is it where the appliance cannot be asked. Power
// that Burnish changes within a blink is no use by others; in a change that takes longer they may have used the server.
//
// S4.26, F34
func TestPowerOfASharedServer(t *testing.T) {
	for name, took := range map[string]time.Duration{"within a blink": 0, "slowly": device.Blink} {
		t.Run(name, func(t *testing.T) {
			s := server(t).offers()
			s.power = func(string) (contract.PowerResult, *device.Fault) {
				s.pool.version++
				return contract.PowerResult{State: "on"}, nil
			}
			s.ends[contract.ActivityReadPool] = func(o Outcome) Outcome { s.now = s.now.Add(took); return o }
			wiped := s.wiped
			s.ok(contract.VerbPower, contract.PowerInput{Target: "on"})
			delete(s.ends, contract.ActivityReadPool)
			s.polled(contract.SignalFreed)
			s.noProfile()
			require.Equal(t, took > 0, s.wiped > wiped)
		})
	}
	s := server(t).offers()
	require.True(t, s.pool.take())
	s.refusal(device.CodeServerTaken, contract.VerbPower, contract.PowerInput{Target: "on"})
	s.pool.leave()
	s.applianceAway()
	s.refusal(device.CodeApplianceUnreachable, contract.VerbPower, contract.PowerInput{Target: "on"})
	require.Empty(t, s.powers)
}

// A server that others have may be made manageable, and is cleaned before it is available again; so is each that an
// operator provides, because others may have used and left it unseen. The end of a maintenance offers none that others
// have taken or used meanwhile.
//
// S4.7, S4.28, F34
func TestAProvidedSharedServerIsCleaned(t *testing.T) {
	for name, c := range map[string]struct{ out, back func(*scene) }{
		"taken, and made manageable": {func(s *scene) {
			require.True(s, s.pool.take())
			s.pool.calls = nil
			s.ok(contract.VerbManage, contract.TenantInput{})
			require.True(s, s.pool.taken(), "theirs stays")
			require.NotContains(s, s.pool.calls, "apply")
			s.bytes = "theirs"
			s.pool.leave()
		}, func(s *scene) { s.ok(contract.VerbProvide, noInput) }},
		"manageable, and used": {func(s *scene) { s.ok(contract.VerbManage, contract.TenantInput{}); s.uses() },
			func(s *scene) {
				require.False(s, s.d.Device.Dirty)
				require.True(s, s.ok(contract.VerbProvide, noInput).Device.Dirty, "said at once")
			}},
		"in maintenance, and used": {func(s *scene) {
			s.ok(contract.VerbMaintain, fan)
			s.uses()
			s.refusal(device.CodeConflict, contract.VerbPower, contract.PowerInput{Target: "on"})
			s.polled(contract.SignalFreed)
		}, func(s *scene) { s.ok(contract.VerbMaintain, off) }},
		"in maintenance, and taken": {func(s *scene) {
			s.ok(contract.VerbMaintain, fan)
			s.applianceAway()
			s.refusal(device.CodeApplianceUnreachable, contract.VerbMaintain, off)
			s.pool.injectFault = nil
			require.True(s, s.pool.take())
			s.refusal(device.CodeServerTaken, contract.VerbMaintain, off)
			s.reach(device.Manageable)
			s.ok(contract.VerbMaintain, off)
			s.isTaken()
		}, (*scene).leaves},
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t).offers()
			wiped := s.wiped
			c.out(s)
			require.Equal(t, 1, s.inv.Reserved)
			c.back(s)
			s.noProfile()
			require.Equal(t, wiped+1, s.wiped)
		})
	}
}

// Free is not unused: what others use before Burnish's own act is answered, between a question and the tenant's
// profile, or between two polls, is cleaned before it is offered or bound, once. A record that was read proves
// nothing of it.
//
// S4.28, F34, F42
func TestAServerThatOthersUseWhileItIsReturnedIsCleaned(t *testing.T) {
	once := func(name string, do func()) func(string) {
		done := false
		return func(call string) {
			if call == name && !done {
				done = true
				do()
			}
		}
	}
	for name, use := range map[string]func(*scene){
		"before the answer to the removal": func(s *scene) { s.pool.meanwhile = once("removed", s.uses) },
		"after an answer that is lost": func(s *scene) {
			s.pool.injectFault = inventorysim.Times(1, "remove", true, func() error { s.uses(); return unreachable() })
		},
		"because its profile was taken away": func(s *scene) {
			s.pool.injectFault = inventorysim.Times(1, "remove", false,
				func() error { s.takeProfileAway(); s.uses(); return nil })
		},
		"while the return waits for its host": func(s *scene) {
			s.pool.meanwhile = once("removed", func() {
				s.now = s.now.Add(4 * time.Minute) // by then the host's last look is old
				s.away = true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t).offers().boundTo("i1")
			wiped := s.wiped
			use(s)
			s.released("i1")
			s.lasts(10 * time.Minute)
			if s.away {
				s.uses()
				s.away = false
			}
			s.lasts(time.Minute)
			s.noProfile()
			require.Equal(t, wiped+2, s.wiped)
			s.boundTo("i2")
		})
	}
	for name, asks := range map[string]func(*scene){
		"a poll": func(s *scene) { s.uses(); s.polled(contract.SignalFreed) },
		"a bind": func(s *scene) {
			s.uses()
			require.Contains(s, s.refusal(device.CodeConflict, contract.VerbBind, bindI1).Message,
				"another user may have had it")
		},
		"in a bind, before its burn":    inABind(contract.ActivityReserveForBind),
		"in a bind, before its profile": inABind(contract.ActivityApplyProfile),
		"a burn that only the record knows": func(s *scene) {
			s.inv.Reserved, s.inv.Generation, s.inv.Tenant = 1, s.inv.Generation+1, new("i1")
			s.uses()
			s.hint()
			s.reach(device.Allocated)
			s.refusal(device.CodeConflict, contract.VerbBind, bindI1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t).offers()
			wiped := s.wiped
			asks(s)
			s.lasts(time.Minute)
			s.noProfile()
			require.Equal(t, wiped+1, s.wiped)
			s.polled(contract.SignalFreed)
			require.Equal(t, wiped+1, s.wiped, "a server that did not change is cleaned again")
			s.boundTo("i2")
		})
	}
}

// inABind has others use the server while a bind is about to make a call: it is refused.
func inABind(before string) func(*scene) {
	return func(s *scene) {
		bind, err := s.send(contract.VerbBind, bindI1)
		require.NoError(s, err)
		s.until(before)
		s.uses()
		s.rest()
		s.faultOf(device.CodeConflict, bind.Err)
	}
}

// An appliance that changes an idle server again and again has it cleaned more and more rarely, and the operator is
// called.
func TestAnApplianceThatChangesIdleServersCallsTheOperator(t *testing.T) {
	s := server(t).offers()
	for i := 0; !s.d.Status().NeedsOperator; i++ {
		require.Less(t, i, 4)
		s.lasts(time.Minute)
		s.pool.version++
		s.polled(contract.SignalFreed)
	}
	require.Contains(t, s.d.Status().Remedy, "ignore_etags")
	s.lasts(time.Hour)
	s.noProfile()
}

// A server whose profile is gone after a pause of its clean is cleaned from the first step on.
//
// F34
func TestACleanBeginsAgainWhereOthersMayHaveHadTheServer(t *testing.T) {
	s := newScene(t).shares()
	s.host.Steps["bios_reset"], s.host.SupportedSteps = 1, []string{"bios_reset"}
	s.policy.Runbooks = []clean.Runbook{{Name: "held", Match: &clean.Match{Type: "NODE"}, Steps: []clean.RunbookStep{
		{Step: "zero"}, {Step: "verify"}, {Step: "hold", Args: []byte(`{"reason":"look at it"}`)}, {Step: "bios_reset"}}}}
	s.ok(contract.VerbEnroll, s.enrollment())
	s.rest()
	wiped := s.wiped
	s.takeProfileAway()
	s.uses()
	s.ok(contract.VerbReleaseHold, noInput)
	s.lasts(time.Minute)
	require.Equal(t, []any{wiped + 1, string(device.CodeOnHold), "failed"},
		[]any{s.wiped, s.d.Status().Fault, s.lastClean().Outcome})
	s.ok(contract.VerbReleaseHold, noInput)
	s.noProfile()
}

// What others took is not returned without a clean: they may write to it until a poll finds that they have left it.
// Then it is cleaned, or, where no operation erases it, its operators decide.
func TestAServerThatOthersTookIsNotOverridden(t *testing.T) {
	s := server(t)
	s.e.OneTimeUse = true
	s.signed = uncleanable(t).signed
	s.offers()
	s.host.Operation = ""
	s.refresh()
	require.True(t, s.pool.take())
	s.polled(contract.SignalTaken)
	s.isTaken()
	s.bytes = "theirs"
	s.ok(contract.VerbProvide, noInput) // which finds no operation for it
	s.reach(device.Error)
	s.rest()
	require.Contains(t, s.refusal(device.CodeRefused, contract.VerbOverride,
		s.sign("alice", s.newOverride("x1"))).Remedy, "manage d1")
	s.pool.leave()
	s.polled(contract.SignalFreed)
	require.Equal(t, device.Error, s.d.Device.State)
	s.ok(contract.VerbManage, contract.TenantInput{})
	s.polled(contract.SignalFreed)
	s.reach(device.Error)
	s.rest()
	s.requested("x1")
	s.ok(contract.VerbOverride, s.sign("bob", approval))
	s.reach(device.Available)
	s.rest()
	require.False(t, s.d.Device.InMaintenance())
	s.boundTo("i2")
}

// A burn was carried out and lost with its task, and its bind comes again before the record is read: a bind that is
// refused because of what the appliance shows leaves nothing of it either.
//
// F42
func TestABindThatTheApplianceRefusesIsGivenBack(t *testing.T) {
	for name, others := range map[string]func(*scene){
		"used":  (*scene).uses,
		"taken": func(s *scene) { require.True(s, s.pool.take()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t).offers()
			wiped := s.wiped
			s.inv.Reserved, s.inv.Generation, s.inv.Tenant = 1, s.inv.Generation+1, new("i1")
			others(s)
			s.refusal(device.CodeConflict, contract.VerbBind, bindI1)
			s.lasts(time.Hour)
			require.NotEqual(t, device.Allocated, s.d.Device.State)
			if s.pool.taken() {
				s.leaves()
			}
			s.noProfile()
			require.Equal(t, wiped+1, s.wiped)
			s.boundTo("i2")
		})
	}
}

// The appliance answers a bind of a device whose state is not known any more: it is refused until the inventory was
// read.
//
// F42
func TestABindIsAnsweredWhileItsDeviceIsUnknown(t *testing.T) {
	s := server(t).offers()
	s.inv.Reserved, s.inv.Generation, s.inv.Tenant = 1, s.inv.Generation+1, new("i1")
	s.hint()
	s.reach(device.Allocated)
	s.rest()
	bind, err := s.send(contract.VerbBind, bindI1)
	require.NoError(t, err)
	s.answers(contract.ActivityReadReservation)
	s.inv.Tenant = new("")
	s.inv.WriteByOther(1)
	s.hint()
	s.answers(contract.ActivityReadReservation)
	require.Equal(t, device.Unknown, s.d.Device.State)
	s.answers(contract.ActivityReadPool)
	s.faultOf(device.CodeReservationUnknown, bind.Err)
	require.NoError(t, s.d.Defect)
	s.lasts(time.Hour)
	s.boundTo("i2")
}

// An inventory that was put back shows a tenant while the profile of his last clean is being removed: he gets the
// server once that has ended, with a profile or not at all.
//
// F42
func TestABindIsNotGrantedWhileAProfileIsRemoved(t *testing.T) {
	s := server(t).offers().boundTo("i1")
	s.released("i1")
	s.until("verify")
	s.inv.Tenant = new("i1")
	s.inv.WriteByOther(1)
	s.hint()
	s.answers("verify")
	s.answers(contract.ActivityReadReservation)
	require.Equal(t, device.Allocated, s.d.Device.State)
	require.True(t, s.d.poolChanges())
	bind, err := s.send(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "again"})
	require.NoError(t, err)
	s.answers(contract.ActivityEnsureReserved)
	for !bind.Ended {
		s.end(bind)
	}
	s.faultOf(device.CodeReservationUnknown, bind.Err)
}

// An operator's server that others have when its named steps would begin stays the operator's: when they leave it is
// neither cleaned nor offered, and shows what was found.
//
// F43
func TestAnOperatorsServerIsNotCleanedWhenOthersLeaveIt(t *testing.T) {
	for name, maintained := range map[string]bool{"manageable": false, "in maintenance": true} {
		t.Run(name, func(t *testing.T) {
			s := server(t).enrolled(false)
			if maintained {
				s.ok(contract.VerbMaintain, fan)
			}
			require.True(t, s.pool.take())
			s.bytes = "theirs"
			s.ok(contract.VerbClean, only("verify"))
			s.rest()
			require.Equal(t, device.Manageable, s.d.Device.State)
			require.Equal(t, string(device.CodeServerTaken), s.d.Status().Fault)
			require.Contains(t, s.d.Status().Remedy, "provide it")
			s.polled(contract.SignalTaken)
			s.pool.leave()
			s.polled(contract.SignalFreed)
			s.lasts(time.Hour)
			v := s.d.Status()
			require.Equal(t, []any{device.Manageable, true, maintained, 1, 0},
				[]any{v.DeviceState, v.Dirty, v.Maintenance, s.inv.Reserved, s.wiped})
			if maintained {
				s.ok(contract.VerbMaintain, off)
			}
			s.ok(contract.VerbProvide, noInput)
			s.noProfile()
		})
	}
}
