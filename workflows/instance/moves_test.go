package instance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// act sends release, rebuild, confirm or revert.
func (e *env) act(id, verb string) *answer { return e.update(id, verb, contract.ReasonInput{}) }

func (e *env) move(id, verb, to string, names ...string) *answer {
	return e.update(id, verb, contract.InstanceMoveInput{To: to, Devices: choices(names...)})
}

// onTwoHosts is an instance with h1_a (tag db) and h1_n on h1, which has the like of them on h2.
func onTwoHosts(t *testing.T) *env {
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a")
	e.add("h1", "NIC", "h1_n")
	e.add("h2", "NIC", "h2_n")
	e.add("h2", "NVME", "h2_x", "h2_a")
	e.find("h2_x").info.Model = "another"
	for _, name := range []string{"h1_a", "h1_n", "h2_a", "h2_n"} {
		e.find(name).info.LiveMigratable = true
	}
	e.then(func() {
		e.update("bind", contract.VerbInstanceBind.Update(), contract.InstanceBindInput{Devices: []contract.DeviceChoice{
			{Name: "h1_a", Tag: "db", Guest: []contract.GuestAddress{{Bus: "pci", Address: "0000:00:05.0"}}}, {Name: "h1_n"},
		}})
	})
	return e
}

// S0.21: from the migration on the document shows the destination, with the tags and
// without the guest's old addresses; confirm cleans the source.
func TestMigrateAndConfirm(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{contract.VerbInstanceMigrate.Update(), contract.VerbInstanceLiveMigrate.Update()} {
		e := onTwoHosts(t)
		var moved *answer
		e.then(func() { moved = e.move("u1", verb, "h2") })
		e.then(func() {
			require.NoError(t, moved.err)
			s := e.status()
			require.Equal(t, contract.InstanceMigrating, s.Phase)
			require.Equal(t, []string{"h2_a", "h2_n"}, devicesOf(s))
			require.Equal(t, "db", s.Devices[0].Tag)
			require.Empty(t, s.Devices[0].Guest)
			require.Equal(t, "h2", s.Host)
			require.Equal(t, []string{verb, "h1", "h2"}, []string{s.Move.Verb, s.Move.From, s.Move.To})
			require.Equal(t, "h1_a", s.Move.Source[0].Name)
			require.Equal(t, []string{"h1_a", "h1_n", "h2_n", "h2_a"}, e.held(guest))
			require.Empty(t, e.cleaned())
			e.act("u2", contract.VerbInstanceConfirm.Update())
		})
		e.then(func() {
			s := e.status()
			require.Equal(t, contract.InstanceActive, s.Phase)
			require.Nil(t, s.Move)
			require.Equal(t, []string{"h2_a", "h2_n"}, devicesOf(s))
			require.Equal(t, []string{"h2_n", "h2_a"}, e.held(guest))
			require.Equal(t, []string{"h1_a", "h1_n"}, e.cleaned())
			e.release()
		})
		e.run(nil)
		require.NoError(t, e.GetWorkflowError())
	}
}

// S0.22: revert cleans the destination; the instance has the source again, as it was.
func TestMigrateAndRevert(t *testing.T) {
	t.Parallel()
	e := onTwoHosts(t)
	var before contract.InstanceStatus
	e.then(func() {
		before = e.status()
		e.move("u1", contract.VerbInstanceMigrate.Update(), "h2")
	})
	e.then(func() { e.act("u2", contract.VerbInstanceRevert.Update()) })
	e.then(func() {
		s := e.status()
		require.Equal(t, contract.InstanceActive, s.Phase)
		require.Equal(t, before.Devices, s.Devices)
		require.Equal(t, "0000:00:05.0", s.Devices[0].Guest[0].Address)
		require.Equal(t, []string{"h1_a", "h1_n"}, e.held(guest))
		require.Equal(t, []string{"h2_n", "h2_a"}, e.cleaned())
		e.release()
	})
	e.run(nil)
}

// S0.24: every device on both sides must be marked; otherwise nothing is claimed.
func TestLiveMigrateNeedsMarkedDevices(t *testing.T) {
	t.Parallel()
	for _, unmarked := range []string{"h1_n", "h2_n"} {
		e := onTwoHosts(t)
		e.find(unmarked).info.LiveMigratable = false
		var moved, picked *answer
		e.then(func() {
			moved = e.move("u1", contract.VerbInstanceLiveMigrate.Update(), "h2", "h2_a", "h2_n")
			picked = e.move("u2", contract.VerbInstanceLiveMigrate.Update(), "h2")
		})
		e.then(func() {
			requireRefused(t, moved, device.CodeRefused, unmarked+" is not marked")
			require.Error(t, picked.err)
			require.Equal(t, 1, e.count(contract.ActivityClaimDevices))
			require.Equal(t, contract.InstanceActive, e.status().Phase)
			e.release()
		})
		e.run(nil)
	}
}

// S0.19, S0.20: the destination is burned first, then the source is unbound at once.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	e := onTwoHosts(t)
	var moved *answer
	e.then(func() { moved = e.move("u1", contract.VerbInstanceEvacuate.Update(), "h2", "h2_a", "h2_n") })
	e.then(func() {
		require.NoError(t, moved.err)
		s := e.status()
		require.Equal(t, contract.InstanceActive, s.Phase)
		require.Nil(t, s.Move)
		require.Equal(t, []string{"h2_a", "h2_n"}, devicesOf(s))
		require.Equal(t, "db", s.Devices[0].Tag)
		require.Equal(t, []string{"h1_a", "h1_n"}, e.cleaned())
		require.Equal(t, []string{"h2_n", "h2_a"}, e.held(guest))
		e.release()
	})
	e.run(nil)
}

// A move that fails leaves the instance as it was.
func TestMoveThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{contract.VerbInstanceMigrate.Update(), contract.VerbInstanceEvacuate.Update()} {
		e := onTwoHosts(t)
		e.find("h2_n").failBurns = true
		var wrongHost, wrongType, wrongTag, failed *answer
		e.then(func() {
			wrongHost = e.move("u1", verb, "h2", "h2_a", "h1_n")
			wrongType = e.move("u2", verb, "h2", "h2_n", "h2_a")
			wrongTag = e.move("u3", verb, "h2", "h2_a", "h2_n web")
			failed = e.move("u4", verb, "h2")
		})
		e.then(func() {
			requireRefused(t, wrongHost, device.CodeRefused, "h1_n is on host h1")
			requireRefused(t, wrongType, device.CodeRefused, "h2_n is of type NIC")
			requireRefused(t, wrongTag, device.CodeRefused, "takes the place of h1_n")
			requireRefused(t, failed, device.CodeRefused, "h2_n: the burn failed")
			s := e.status()
			require.Equal(t, contract.InstanceActive, s.Phase)
			require.Equal(t, []string{"h1_a", "h1_n"}, devicesOf(s))
			require.Equal(t, []string{"h1_a", "h1_n"}, e.held(guest))
			require.Equal(t, []string{"h2_n", "h2_a"}, e.cleaned(), "what was burned of the destination")
			e.release()
		})
		e.run(nil)
	}
}

// While an instance migrates, only confirm, revert, release and rebuild are legal.
func TestWhatAMigratingInstanceAccepts(t *testing.T) {
	t.Parallel()
	e := onTwoHosts(t)
	e.add("h2", "NVME", "h2_b")
	var refused []*answer
	var rebuilt, released *answer
	e.then(func() { e.move("u1", contract.VerbInstanceMigrate.Update(), "h2") })
	e.then(func() {
		refused = []*answer{
			e.attach("u2", "h2_b"),
			e.update("u3", contract.VerbInstanceDetach.Update(), contract.InstanceDetachInput{Devices: []string{"h2_a"}}),
			e.move("u4", contract.VerbInstanceMigrate.Update(), "h1"),
			e.move("u5", contract.VerbInstanceEvacuate.Update(), "h1"),
			e.move("u6", contract.VerbInstanceLiveMigrate.Update(), "h1"),
		}
		rebuilt = e.act("u7", contract.VerbInstanceRebuild.Update())
	})
	e.then(func() {
		for _, a := range refused {
			requireRefused(t, a, device.CodeRefused, "migrating from h1 to h2")
		}
		require.NoError(t, rebuilt.err)
		require.Empty(t, e.cleaned())
		released = e.act("u8", contract.VerbInstanceRelease.Update())
	})
	e.run(nil)
	require.NoError(t, released.err)
	require.Equal(t, []string{"h1_a", "h1_n", "h2_n", "h2_a"}, e.cleaned(), "release unbinds both sides")
	require.Empty(t, e.held(guest))
}

// A side whose devices have all left by themselves cannot be what remains, nor one of which a device says that its
// binding has ended: the other side keeps the instance's data.
//
// F36
func TestMoveToASideThatIsGone(t *testing.T) {
	t.Parallel()
	for verb, gone := range map[string][]string{
		contract.VerbInstanceRevert.Update():  {"h1_a", "h1_n"},
		contract.VerbInstanceConfirm.Update(): {"h2_a", "h2_n"},
	} {
		for _, left := range []bool{true, false} {
			e := onTwoHosts(t)
			var ended *answer
			e.then(func() { e.move("u1", contract.VerbInstanceMigrate.Update(), "h2") })
			e.then(func() {
				if !left {
					e.ends(gone[1])
					return
				}
				for _, name := range gone {
					e.SignalWorkflow(contract.SignalDeviceLeft, contract.DeviceLeft{Device: name, Binding: 1})
				}
			})
			e.then(func() { ended = e.act("u2", verb) })
			e.then(func() {
				if left {
					requireRefused(t, ended, device.CodeRefused, "is the instance's any more")
				} else {
					requireRefused(t, ended, device.CodeBindingEnded, gone[1]+": the binding")
					require.Equal(t, contract.InstanceMigrating, e.status().Phase)
				}
				require.Empty(t, e.cleaned())
				e.release()
			})
			e.run(nil)
			require.NoError(t, e.GetWorkflowError())
		}
	}
}
