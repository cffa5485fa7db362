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
