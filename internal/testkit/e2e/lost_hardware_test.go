package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/loops"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// A device's workflow is lost, and its hardware is enrolled under another name: its tenant keeps
// his bytes all the same.

// lostTenant is a disk that alice has. Its workflow was terminated while no worker of its host
// runs; the control worker does.
func lostTenant(t *testing.T, env ...string) (s *Site, d Device, control, host *Worker) {
	t.Helper()
	s = newSite(t)
	control, host = s.Run(t, "control", env...), s.Run(t, "host", "BURNISH_SWEEP_INTERVAL=0")
	d = s.Device(t, "block", "d1", 2*MiB, 0)
	s.Enroll(t, d, "--provide")
	s.AwaitReturned(t, d, 20*time.Second)
	s.Bind(t, "d1", "alice")
	d.Stamp(t, 2)
	host.Kill(t)
	require.NoError(t, s.Client.TerminateWorkflow(t.Context(), contract.WorkflowID("d1"), "", "by mistake"))
	return s, d, control, host
}

// newHost starts a worker of a host that has recorded nothing.
func (s *Site) newHost(t *testing.T, name string) *Worker {
	t.Helper()
	w := s.Worker(t, "host", "BURNISH_SWEEP_INTERVAL=0")
	w.Host, w.StateDir = name, filepath.Join(s.Dir, "elsewhere-"+name)
	w.Start(t)
	return w
}

// enrollOther is the command that enrolls a path under another name.
func enrollOther(name, host, path string, flags ...string) []string {
	args := []string{"enroll", name, "--host", host, "--driver", "block", "--set", "path=" + path, "--provide"}
	return append(args, flags...)
}

// The workflow and its history are gone, and so is what the host had recorded: the inventory
// alone knows whose the disk is. Whatever path leads to it, under whatever name and on whatever
// host it is enrolled, it is refused, until its device is back and its tenant has left it.
//
// F35
func TestALostTenantsDiskUnderAnotherName(t *testing.T) {
	t.Parallel()
	s, d, _, w := lostTenant(t, "BURNISH_CLEAN_ON_ENROLL=false")
	erase(t, s, "d1")
	other := site.NewHost()
	again := s.newHost(t, s.Host)
	s.newHost(t, other)
	n := 0
	refused := func(path string, flags ...string) {
		for _, host := range []string{s.Host, other} {
			n++
			r := s.Refused(t, device.CodeDuplicateSerial, enrollOther(fmt.Sprint("x", n), host, path, flags...)...)
			require.Contains(t, r.Stderr, Instance("alice"), path)
			require.Contains(t, r.Stderr, "move d1 ", path)
		}
	}
	refused(d.Path)
	refused(d.Path, "--clean")
	link, renamed := filepath.Join(s.Files, "link.img"), filepath.Join(s.Files, "renamed.img")
	require.NoError(t, os.Symlink(d.Path, link))
	refused(link)
	require.NoError(t, os.Rename(d.Path, renamed))
	refused(renamed)
	require.NoError(t, os.Rename(renamed, d.Path))
	fleet := s.writeFile(t, "fleet.yaml", fmt.Sprintf(
		"devices:\n  - {name: y1, host: %s, driver: block, set: {path: %s}, provide: true}\n", other, d.Path))
	r := s.Burnish(t, "enroll", "-f", fleet)
	require.NotZero(t, r.Code, r)
	require.Contains(t, r.Stderr, Instance("alice"))
	if os.Geteuid() == 0 {
		loop, err := loops.Attach(d.Path)
		require.NoError(t, err)
		s.Allow(t, loop, filepath.Join(s.Files, "*"))
		refused(loop)
		require.NoError(t, loops.Detach(loop))
	}
	s.RequireUntouched(t, d, 2, time.Second)
	s.RequireReserved(t, "d1", 1)

	again.Kill(t)
	w.Start(t) // its host brings it back
	s.AwaitTenant(t, d, "alice", 2, 30*time.Second)
	s.Unbind(t, "d1", "alice")
	s.AwaitReturned(t, d, 20*time.Second)
	d.Stamp(t, 3)
	s.Must(t, "retire", "d1", "--reason", "taken to another host")
	s.Must(t, enrollOther("x", other, d.Path)...)
	s.AwaitState(t, "x", 20*time.Second, device.Available)
	stamped, _, _ := d.Count(t, 3)
	require.Zero(t, stamped)

	// It is moved, another disk has its name, and comes into its slot: that is bob's.
	slot := filepath.Join(s.Files, "slot.img")
	s.Must(t, "manage", "x")
	require.NoError(t, os.Rename(d.Path, slot))
	s.Must(t, "move", "x", "y", "--set", "path="+slot)
	bobs := s.Device(t, "block", "x", 2*MiB, 0)
	s.Enroll(t, bobs, "--provide")
	s.AwaitReturned(t, bobs, 20*time.Second)
	s.Bind(t, "x", "bob")
	bobs.Stamp(t, 4)
	require.NoError(t, errors.Join(os.Remove(slot), os.Rename(bobs.Path, slot)))
	bobs.Path = slot
	require.Contains(t, s.Refused(t, device.CodeDuplicateSerial, "replace", "y", "--provide").Stderr, "move x y")
	s.RequireUntouched(t, bobs, 4, time.Second)
}

// Neither the host nor the inventory has a record: the serial of the workflow that ended is found
// in the server's listing, until its device is given up.
//
// F35
func TestTheHardwareOfAnEndedWorkflowIsFound(t *testing.T) {
	t.Parallel()
	s, d, control, w := lostTenant(t)
	control.Kill(t)
	emptyDir(t, filepath.Join(s.State, "inventory"))
	control.Start(t)
	other := site.NewHost()
	s.newHost(t, other)
	Await(t, 20*time.Second, "the ended workflow to be listed", func() (bool, string) {
		last, _, err := s.Workflows().LastRun(t.Context(), "d1")
		require.NoError(t, err)
		found, err := s.Workflows().FindBySerial(t.Context(), last.Status.Serial, "x", "")
		require.NoError(t, err)
		return found.Ended.Name == "d1", ""
	})
	said := s.Refused(t, device.CodeDuplicateSerial, enrollOther("x", other, d.Path)...).Stderr
	require.Regexp(t, `belongs to d1, whose workflow was terminated at \S+ by .+ \(by mistake\)`, said)
	d.RequireStamps(t, 2)

	w.Start(t)
	s.AwaitTenant(t, d, "alice", 2, 30*time.Second)
	s.Must(t, "retire", "d1", "--instance", Instance("alice"), "--reason", "given up")
	s.Must(t, "forget", "d1", "--instance", Instance("alice"))
	s.Must(t, enrollOther("x", other, d.Path)...)
	s.AwaitState(t, "x", 20*time.Second, device.Available)
}

// The same where the inventory is Placement, which cannot be asked for the hardware of Nova's devices:
// the disks of tenants whose workflows are lost are refused under other names, and no command says of
// a tenant that left meanwhile that he has no device. Each comes back as what Placement says by then.
//
// F35, F38
func TestLostWorkflowsOverPlacement(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "control", c.Env("BURNISH_SWEEP_INTERVAL=0")...)
	host := c.Run(t, "host", "BURNISH_SWEEP_INTERVAL=0")
	own := c.OwnDevice(t, "d1", 2*MiB)
	c.Enroll(t, own, "--provide")
	c.AwaitState(t, own.Name, 20*time.Second, device.Available)
	stays, pStays := c.NovaDevice(t, "0000:01:00.0", 2*MiB)
	leaves, pLeaves := c.NovaDevice(t, "0000:02:00.0", 2*MiB)
	c.EnrollNovaDevice(t, stays)
	c.EnrollNovaDevice(t, leaves)
	c.Bind(t, own.Name, "alice")
	stayer, leaver := c.Spawn(t, pStays), c.Spawn(t, pLeaves)
	c.ReconcileNow(t, contract.ReconcileRequest{})
	for _, d := range []Device{own, stays, leaves} {
		c.AwaitState(t, d.Name, 20*time.Second, device.Allocated)
		d.Stamp(t, 2)
	}
	host.Kill(t)
	for _, d := range []Device{own, stays, leaves} {
		require.NoError(t, c.Client.TerminateWorkflow(t.Context(), contract.WorkflowID(d.Name), "", "by mistake"))
	}
	erase(t, c.Site, own.Name) // of it Placement alone has a record

	other := site.NewHost()
	c.newHost(t, other)
	for _, d := range []Device{own, stays, leaves} {
		r := c.Refused(t, device.CodeDuplicateSerial, enrollOther("x-"+d.Name, other, d.Path)...)
		require.Contains(t, r.Stderr, d.Name)
	}
	// It is imported again while its host is away, so that only the workflow before has its serial.
	_, address, _ := strings.Cut(stays.Name, "_")
	again := contract.EnrollInput{Import: true, Enrollment: contract.Enrollment{
		Name: stays.Name, Host: c.Host, Address: address, Driver: "block", Type: "DISK",
		Settings: map[string]string{"path": stays.Path}, Owner: device.OwnerNova, OneTimeUse: true,
	}}
	_, err := c.Workflows().Do(t.Context(), stays.Name, contract.VerbEnroll, again)
	require.NoError(t, err)
	c.AwaitState(t, stays.Name, 30*time.Second, device.Allocated)
	c.Refused(t, device.CodeDuplicateSerial, enrollOther("x-"+stays.Name, other, stays.Path)...)

	c.Destroy(t, leaver)
	for _, left := range [][]string{
		{"unbind", own.Name, "--instance", Instance("alice")},
		{"unbind", leaves.Name, "--instance", leaver},
		{"instance", "release", leaver},
	} {
		r := c.Burnish(t, append(left, "--timeout", "4s")...)
		if left[1] == own.Name || r.Code != 0 {
			require.Equal(t, 4, r.Code, r) // accepted, and still running
			continue
		}
		// A minute after its end a workflow counts as gone, and Placement says that the tenant has left.
		require.NotContains(t, r.Stdout, "allocated")
	}
	for _, d := range []Device{own, stays, leaves} {
		d.RequireStamps(t, 2)
	}

	host.Start(t)
	c.AwaitState(t, own.Name, 30*time.Second, device.Available)
	own.RequireZero(t)
	Await(t, 30*time.Second, leaves.Name+" to be available", func() (bool, string) {
		c.ReconcileNow(t, contract.ReconcileRequest{}) // as the sweeps do, which are off: it may not be back yet
		v, err := c.Workflows().Query(t.Context(), leaves.Name)
		return err == nil && v.DeviceState == device.Available, fmt.Sprint(v.DeviceState, err)
	})
	leaves.RequireZero(t)
	c.RequireStock(t, pLeaves, 0)
	v := c.AwaitState(t, stays.Name, 30*time.Second, device.Allocated)
	require.Equal(t, stayer, *v.InstanceUUID)
	stays.RequireStamps(t, 2)
	c.RequireStock(t, pStays, 1)
}
