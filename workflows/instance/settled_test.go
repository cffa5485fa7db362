package instance

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A burn that was refused may have taken effect: a refused bind, attach, migration or evacuation
// leaves no device bound that was not, whatever the devices answered.
//
// F42
func TestRefusedBurnIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{contract.VerbInstanceBind.Update(), contract.VerbInstanceAttach.Update(),
		contract.VerbInstanceMigrate.Update(), contract.VerbInstanceEvacuate.Update()} {
		for _, all := range []bool{false, true} {
			t.Run(verb, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				e.add("h1", "NVME", "h1_a", "h1_b")
				e.add("h2", "NVME", "h2_a", "h2_b")
				e.find("h2_a").burnsAllTheSame, e.find("h2_b").burnsAllTheSame = true, all
				var refused *answer
				own := []string{}
				switch verb {
				case contract.VerbInstanceBind.Update(), contract.VerbInstanceAttach.Update():
					e.then(func() {
						refused = e.update("u1", verb, contract.InstanceBindInput{Devices: choices("h2_a", "h2_b")})
					})
				default:
					own = []string{"h1_a", "h1_b"}
					e.then(func() { e.bind("u0", own...) })
					e.then(func() {
						refused = e.update("u1", verb, contract.InstanceMoveInput{To: "h2", Devices: choices("h2_a", "h2_b")})
					})
				}
				check := func() {
					requireRefused(t, refused, device.CodeRefused, "h2_a: the device was taken")
					require.Equal(t, own, e.held(guest))
					require.Equal(t, own, devicesOf(e.status()))
					require.Empty(t, e.status().Unsettled)
				}
				if len(own) > 0 {
					e.then(func() { check(); e.release() })
				}
				e.run(nil)
				if len(own) == 0 {
					check()
				}
			})
		}
	}
}

// While devices are burned or unbound the instance remembers them, so that a run that is terminated
// meanwhile leaves none that nobody releases.
//
// F42
func TestDevicesThatHaveNotAnsweredAreRemembered(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	seen := map[string][]string{}
	e.onAsk = func(activity string, _ []string) {
		s := e.status()
		for _, d := range slices.Concat(s.Devices, s.Unsettled) {
			if !slices.Contains(seen[activity], d.Name) {
				seen[activity] = append(seen[activity], d.Name)
			}
		}
	}
	e.then(func() { e.bind("u1", "h1_a", "h1_b") })
	e.then(func() {
		require.Empty(t, e.status().Unsettled)
		e.update("u2", contract.VerbInstanceDetach.Update(), contract.InstanceDetachInput{Devices: []string{"h1_a"}})
	})
	e.then(func() { e.release() })
	e.run(nil)
	require.Equal(t, []string{"h1_a", "h1_b"}, seen[contract.ActivityBurnDevices])
	require.Equal(t, []string{"h1_b", "h1_a"}, seen[contract.ActivityUnbindDevices])
	require.Empty(t, e.status().Unsettled)
}

// A release gives back also what the instance does not know of: the devices are asked that say they
// are bound to it.
//
// F42
func TestReleaseAsksTheDevicesThatNameTheInstance(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	stray := func(name string) {
		d := e.find(name)
		require.NoError(t,
			d.do(contract.ActivityClaimDevices, contract.DevicesCall{Instance: guest, Request: "lost",
				Deadline: e.now().Add(claimFor)}, contract.DeviceCall{}, e.now()))
		require.NoError(t, d.do(contract.ActivityBurnDevices, contract.DevicesCall{Instance: guest},
			contract.DeviceCall{}, e.now()))
	}
	e.then(func() { e.bind("u1", "h1_a") })
	e.then(func() {
		stray("h1_b")
		require.Equal(t, []string{"h1_a", "h1_b"}, e.held(guest))
		e.release()
	})
	e.run(nil)
	require.Empty(t, e.held(guest))
}

// A device that the instance does not know of says itself whether it is bound to it: only then is it
// detached, or refused; what is refused detaches none of the others.
//
// F38
func TestDetachAsksADeviceThatTheInstanceDoesNotKnow(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	detach := func(id string, names ...string) *answer {
		return e.update(id, contract.VerbInstanceDetach.Update(), contract.InstanceDetachInput{Devices: names})
	}
	var refused, detached *answer
	e.then(func() { e.bind("u1", "h1_a", "h1_b") })
	e.then(func() { // it forgets one
		e.SignalWorkflow(contract.SignalDeviceLeft,
			contract.DeviceLeft{Device: "h1_b", Binding: e.find("h1_b").Binding.Number})
	})
	e.then(func() {
		require.Equal(t, []string{"h1_a"}, devicesOf(e.status()))
		refused = detach("u2", "h1_a", "h1_c")
	})
	e.then(func() {
		requireRefused(t, refused, device.CodeNotFound, "does not have h1_c")
		require.Equal(t, []string{"h1_a", "h1_b"}, e.held(guest))
		detached = detach("u3", "h1_b")
	})
	e.then(func() {
		require.NoError(t, detached.err)
		require.Equal(t, []string{"h1_a"}, e.held(guest))
		e.release()
	})
	e.run(nil)
}

// A run that follows one that was terminated in mid-act gives back what that one left unsettled, before it does what
// is asked of it, and by itself if that is nothing; what the instance has stays its own.
//
// F38, F42
func TestWhatATerminatedRunLeftUnsettledIsGivenBack(t *testing.T) {
	t.Parallel()
	attach := contract.InstanceBindInput{Devices: choices("h1_d")}
	detach := contract.InstanceDetachInput{Devices: []string{"h1_b"}}
	for name, c := range map[string]struct {
		verb    contract.Verb
		in      contract.Input
		alone   bool // it has nothing but what is unsettled
		refused device.Code
		held    []string
	}{
		"nothing is asked":        {held: []string{"h1_a"}},
		"attach":                  {verb: contract.VerbInstanceAttach, in: attach, held: []string{"h1_a", "h1_d"}},
		"detach":                  {verb: contract.VerbInstanceDetach, in: detach, held: []string{"h1_a"}},
		"rebuild":                 {verb: contract.VerbInstanceRebuild, in: contract.ReasonInput{}, held: []string{"h1_a"}},
		"confirm":                 {verb: contract.VerbInstanceConfirm, in: contract.ReasonInput{}, refused: device.CodeRefused, held: []string{"h1_a"}},
		"evacuate":                {verb: contract.VerbInstanceEvacuate, in: contract.InstanceMoveInput{To: "h2"}, held: []string{"h2_a"}},
		"release":                 {verb: contract.VerbInstanceRelease, in: contract.ReasonInput{}, held: []string{}},
		"alone: nothing is asked": {alone: true, held: []string{}},
		"alone: bind":             {verb: contract.VerbInstanceBind, in: attach, alone: true, held: []string{"h1_d"}},
		"alone: detach":           {verb: contract.VerbInstanceDetach, in: detach, alone: true, held: []string{}},
		"alone: rebuild":          {verb: contract.VerbInstanceRebuild, in: contract.ReasonInput{}, alone: true, refused: device.CodeNotFound, held: []string{}},
		"alone: release":          {verb: contract.VerbInstanceRelease, in: contract.ReasonInput{}, alone: true, held: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.add("h1", "NVME", "h1_a", "h1_b", "h1_c", "h1_d")
			e.add("h2", "NVME", "h2_a")
			burned := func(name string) contract.HeldDevice {
				d := e.find(name)
				require.NoError(t, d.apply(device.Event{Kind: device.ClaimEvent, Instance: guest, Request: "u0"}))
				require.NoError(t, d.apply(device.Event{Kind: device.BurnStarted, Instance: guest}))
				require.NoError(t, d.apply(device.Event{Kind: device.Burned}))
				held := d.info
				held.Binding, held.Request = d.Binding.Number, "u0"
				return held
			}
			state := &contract.InstanceState{Schema: contract.InstanceSchema, UUID: guest, Phase: contract.InstanceActive,
				Addresses: []string{"10.0.0.9"}, Unsettled: []contract.HeldDevice{burned("h1_b"), {Name: "h1_c", Request: "u0"}}}
			e.addresses["10.0.0.9"] = guest
			if !c.alone {
				state.Devices = []contract.HeldDevice{burned("h1_a")}
			}
			var asked *answer
			if c.in != nil {
				e.then(func() { asked = e.update("u1", c.verb.Update(), c.in) })
			}
			lives := len(c.held) == 0 // then it has ended by itself
			e.RegisterDelayedCallback(func() {
				lives = true
				require.Equal(t, c.held, e.held(guest))
				require.Equal(t, c.held, devicesOf(e.status()))
				require.Empty(t, e.status().Unsettled)
				e.release()
			}, 2*startedFor)
			e.run(state)
			if c.refused != "" {
				requireRefused(t, asked, c.refused, "")
			} else if c.in != nil {
				require.NoError(t, asked.err)
			}
			require.True(t, lives)
			require.Empty(t, e.held(guest))
			require.Empty(t, e.addresses, "they are returned")
			require.Equal(t, contract.InstanceReleased, e.status().Phase)
		})
	}
}
