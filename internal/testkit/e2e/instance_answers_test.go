package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

func (f *fleet) terminate(t testing.TB, workflows ...string) {
	t.Helper()
	for _, id := range workflows {
		require.NoError(t, f.Client.TerminateWorkflow(t.Context(), id, "", "by mistake"))
	}
}

// The workflows of devices are terminated, and their tenants give them back before their host has
// brought them back: no command says that it is done, and each is done when the device is there. So
// it is where the instance's own workflow is lost too, and for the source of a migration.
//
// F38
func TestGivenBackWhileTheWorkflowsAreLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h1, h2 := f.host(t), f.host(t)
	devices := h1.enroll(t, "d1", "d2", "d3", "d4")
	other := h2.enroll(t, "e4")
	alice, bob, carol, dave := Instance("alice"), Instance("bob"), Instance("carol"), Instance("dave")
	for n, instance := range []string{alice, bob, carol, dave} {
		f.act(t, "bind", instance, named(devices[n])...)
	}
	f.act(t, "migrate", dave, "--to", h2.Host)
	stampAll(t, 2, devices...)
	h1.Kill(t)
	for _, d := range devices {
		f.terminate(t, contract.WorkflowID(d.Name))
	}
	f.terminate(t, contract.InstanceWorkflowID(bob), contract.InstanceWorkflowID(carol))

	for _, args := range [][]string{
		{"unbind", "d1", "--instance", alice}, {"unbind", "d2", "--instance", bob}, {"instance", "release", carol}, {"instance", "confirm", dave},
	} {
		r := f.Burnish(t, append(args, "--timeout", "4s")...)
		require.Equal(t, 4, r.Code, r)
		require.Contains(t, r.Stderr, "accepted; still running")
	}
	Await(t, 20*time.Second, "the instance to show what it waits for", func() (bool, string) {
		text := f.act(t, "show", alice)
		return strings.Contains(text, "not its own, and not answered yet") &&
			strings.Contains(text, "d1: its workflow ended before it had answered"), text
	})
	for _, d := range devices {
		d.RequireStamps(t, 2)
	}

	h1.Start(t)
	f.awaitReturned(t, devices...)
	f.requireHeldNow(t, dave, other...)
	for _, instance := range []string{alice, bob, carol} {
		Await(t, 20*time.Second, "the instance to be released", func() (bool, string) {
			v := f.instance(t, instance)
			return v.Phase == contract.InstanceReleased && len(v.Unsettled) == 0, ""
		})
		require.Contains(t, f.act(t, "release", instance), "already released")
	}
}

// requireHeldNow asserts that the instance has these devices, by its own word and by theirs.
func (f *fleet) requireHeldNow(t testing.TB, instance string, devices ...Device) {
	t.Helper()
	f.awaitAll(t, devices, "to be the instance's", heldBy(instance))
	v := f.instance(t, instance)
	require.Len(t, v.Devices, len(devices))
	for _, d := range devices {
		_, has := v.Has(d.Name)
		require.True(t, has, "%+v", v)
	}
}

// A workflow is terminated, or reset, while a bind waits for the inventory. That of the instance: the command says
// that the bind may still be carried out, and a release gives back what was. That of a device:
// it comes back with what the inventory records, and the instance has it, or nobody.
//
// F38, F42
func TestTerminatedInMidBind(t *testing.T) {
	t.Parallel()
	for _, whose := range []string{
		"instance, by a reset", "instance, then attach", "instance, then bind", "device", "device, by a reset",
	} {
		t.Run(whose, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			h := f.Worker(t, "host", "BURNISH_SWEEP_INTERVAL=2s")
			h.Start(t)
			devices := (&fleetHost{h, f}).enroll(t, "d1", "d2", "d3")
			others := devices[2:]
			devices = devices[:2]
			alice := Instance("alice")
			lock, err := os.OpenFile(filepath.Join(f.State, "inventory", ".lock"), os.O_RDWR, 0)
			require.NoError(t, err)
			defer func() { require.NoError(t, lock.Close()) }()
			require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
			bound := make(chan proc.Result, 1)
			bind := append([]string{"instance", "bind", alice, "--request-id", "R"}, named(devices...)...)
			go func() { bound <- f.Burnish(t, bind...) }()
			Await(t, 20*time.Second, "d1's burn to wait for the inventory", func() (bool, string) {
				return f.Pending(t, "d1", contract.ActivityReserveForBind) != nil, ""
			})
			if !strings.HasPrefix(whose, "device") {
				if id := contract.InstanceWorkflowID(alice); whose == "instance, by a reset" {
					resetTo(t, f.Site, runOf(id, ""), taskOf(t, f.Site, runOf(id, ""), ""), false)
				} else {
					f.terminate(t, id)
				}
				r := <-bound
				require.Equal(t, 5, r.Code, r)
				require.Contains(t, r.Stderr, "the request may still be carried out")
				require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_UN))
			} else {
				if whose == "device" {
					f.terminate(t, contract.WorkflowID("d1"))
				} else { // its burn is sent again, and refused: it is not enrolled yet
					d1 := runOf(contract.WorkflowID("d1"), "")
					resetTo(t, f.Site, d1, taskOf(t, f.Site, d1, ""), true)
				}
				require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_UN))
				r := <-bound
				require.NotEqual(t, 4, r.Code, r)
				if r.Code == 0 {
					f.requireHeldNow(t, alice, devices...)
				}
			}
			switch whose {
			case "instance, then attach": // what was never granted is given back
				f.act(t, "attach", alice, named(others...)...)
				f.requireHeldNow(t, alice, others...)
				f.awaitReturned(t, devices...)
			case "instance, then bind":
				f.Must(t, bind...)
				f.requireHeldNow(t, alice, devices...)
			}
			f.act(t, "release", alice)
			f.awaitReturned(t, append(devices, others...)...)
			require.Contains(t, f.act(t, "release", alice), "already released")
		})
	}
}

// The workflow of an instance is terminated again and again: whatever is asked of it next, it has what it had, and
// nothing else.
//
// F38, F41
func TestATerminatedInstanceHasWhatItHad(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h1, h2 := f.host(t), f.host(t)
	devices, other := h1.enroll(t, "d1", "d2", "d3"), h2.enroll(t, "e1", "e2")
	alice := Instance("alice")
	lost := func() { f.terminate(t, contract.InstanceWorkflowID(alice)) }
	f.act(t, "bind", alice, named(devices[0])...)
	lost()
	f.act(t, "attach", alice, append(named(devices[1]), "--request-id", "R")...)
	f.requireHeldNow(t, alice, devices[:2]...)
	lost()
	f.refuse(t, device.CodeConflict, "bind", alice, named(devices[2])...)
	f.requireHeldNow(t, alice, devices[:2]...)
	lost()
	require.Contains(t, f.Must(t, "bind", "d1", "--instance", alice), "already bound")
	lost()
	f.act(t, "detach", alice, "d2")
	f.awaitReturned(t, devices[1])
	lost()
	f.act(t, "attach", alice, append(named(devices[1]), "--request-id", "R")...) // which was granted, and ended
	f.requireHeldNow(t, alice, devices[0])
	f.act(t, "attach", alice, named(devices[2])...)
	lost()
	f.act(t, "migrate", alice, "--to", h2.Host)
	f.requireHeldNow(t, alice, other...)
	lost()
	f.act(t, "revert", alice)
	f.requireHeldNow(t, alice, devices[0], devices[2])
	f.awaitReturned(t, other...)
	lost()
	f.act(t, "evacuate", alice, "--to", h2.Host)
	f.requireHeldNow(t, alice, other...)
	lost()
	f.Must(t, "unbind", "e1", "--instance", alice)
	f.requireHeldNow(t, alice, other[1])
	lost()
	f.act(t, "release", alice)
	f.awaitReturned(t, append(devices, other...)...)
}
