package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/testkit/site"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// What a host keeps in its state directory is of one server, and of one history of it.

// clusterOf asks a server for its ID.
func clusterOf(t *testing.T, server *site.Server, namespace string) string {
	t.Helper()
	c, err := server.Dial(namespace)
	require.NoError(t, err)
	defer c.Close()
	info, err := c.WorkflowService().GetClusterInfo(t.Context(), &workflowservice.GetClusterInfoRequest{})
	require.NoError(t, err)
	return info.GetClusterId()
}

// emptyServer starts another server with the site's namespace, which knows nothing of the site.
func (s *Site) emptyServer(t *testing.T) *site.Server {
	t.Helper()
	other := newServer(t.TempDir())
	other.Fast = true
	require.NoError(t, other.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, other.Stop()) })
	require.NoError(t, other.NewNamespace(t.Context(), s.Namespace))
	return other
}

// A host's worker is started with the address of another, empty server, which knows no
// instance that has a device. It refuses in one line, until an operator accepts that server. With
// the same inventory the device is its tenant's then; with another one, which records nothing, it
// waits for the operator.
//
// F24, F25
func TestAWorkerRefusesAnotherServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all")
	d := s.BoundDevice(t, "d1", "alice")
	w.Kill(t)

	other := s.emptyServer(t)
	first, second := clusterOf(t, s.Server, s.Namespace), clusterOf(t, other, s.Namespace)
	require.NotEqual(t, first, second)

	w.Address = other.Address
	require.NoError(t, w.Launch())
	code, err := w.Wait(site.StartWithin)
	require.NoError(t, err)
	require.Equal(t, 1, code)
	var said []string
	for line := range strings.SplitSeq(w.Log(), "\n") {
		if strings.HasPrefix(line, "burnish-worker: ") {
			said = append(said, line)
		}
	}
	require.Len(t, said, 1, "%q", w.Log())
	for _, text := range []string{first, second, s.Namespace, "BURNISH_ACCEPT_SERVER=" + second + "/" + s.Namespace} {
		require.Contains(t, said[0], text)
	}
	s.RequireUntouched(t, d, 2, time.Second)

	w.Address = s.Server.Address
	w.Start(t)
	s.AwaitTenant(t, d, "alice", 2, 20*time.Second)
	w.Kill(t)

	accept := func(server *site.Server) {
		t.Helper()
		s.serve(t, server)
		w.Address, w.Env = server.Address,
			[]string{"BURNISH_ACCEPT_SERVER=" + clusterOf(t, server, s.Namespace) + "/" + s.Namespace}
		w.Start(t)
	}
	accept(other)
	s.AwaitTenant(t, d, "alice", 2, 20*time.Second)
	w.Kill(t)
	w.Env = nil
	w.Start(t) // what was accepted once stays
	s.RequireUntouched(t, d, 2, 4*time.Second)
	w.Kill(t)

	emptyDir(t, filepath.Join(s.State, "inventory"))
	accept(s.emptyServer(t))
	v := s.AwaitDevice(t, "d1", 20*time.Second, "to wait for its operator", func(v contract.DeviceStatus) bool {
		return v.NeedsOperator
	})
	require.Equal(t, string(device.CodeTenantUnrecorded), v.Fault)
	require.Equal(t, device.Unknown, v.DeviceState)
	s.RequireUntouched(t, d, 2, 2*time.Second)
}

// The server's database is put back to the moment before a device was unbound and cleaned,
// while the host's worker runs. The workflow gives out numbers once more, with which the journal has
// seen other steps: no record of those counts. Verify reads samples only: the zeroes alone
// keep the tenant's bytes from the next one.
//
// F26
func TestADatabasePutBackMeetsTheHostsJournal(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	s.Run(t, "all", "BURNISH_VERIFY=sample:64")
	d := s.Device(t, "fake", "d1", 66*MiB, 0)
	s.Enroll(t, d, "--provide")
	s.AwaitReturned(t, d, 30*time.Second)
	s.Bind(t, "d1", "alice")

	putBack := s.backup(t)
	s.Unbind(t, "d1", "alice")
	s.AwaitReturned(t, d, 30*time.Second)
	ahead, _ := s.Journal(t, "d1")
	require.Equal(t, "zero", ahead.Step, "the verify that followed it left the journal alone")
	require.True(t, ahead.Done)

	putBack()
	// In the middle of the device, where the samples are few: 256 blocks.
	_, err := hardwaretest.File(d.Path).WriteAt(bytes.Repeat([]byte("the tenant's own"), 256*512/16), 20*MiB)
	require.NoError(t, err)
	Await(t, 30*time.Second, "the device to be unbound once more", func() (bool, string) {
		r := s.Burnish(t, "unbind", "d1", "--instance", Instance("alice"))
		return r.Code == 0, r.String()
	})
	s.AwaitDevice(t, "d1", 60*time.Second, "to be available once more", func(v contract.DeviceStatus) bool {
		now, _ := s.Journal(t, "d1")
		return v.DeviceState == device.Available && now.Seq > ahead.Seq
	})
	v := s.AwaitReturned(t, d, 60*time.Second) // which reads every byte
	last := v.Cleans[len(v.Cleans)-1]
	require.Equal(t, []string{"zero", "verify"}, stepNames(last))
}

// The server's database is put back to the time of a former tenant, and the next one has the device. The former
// tenant's bind comes again, before anything could read the device's record, and after: by its request, by another one,
// by its instance. He does not have it, and the present tenant keeps it.
//
// F36
func TestADatabasePutBackBindsNoFormerTenant(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	control, h := s.Run(t, "control"), s.Run(t, "host")
	d := s.Device(t, "fake", "d1", 1*MiB, 0)
	s.Enroll(t, d, "--provide")
	s.AwaitReturned(t, d, 30*time.Second)
	alice := Instance("alice")
	s.Must(t, "instance", "bind", alice, "--device", "d1", "--request-id", "R")

	putBack := s.backup(t)
	s.Unbind(t, "d1", "alice")
	s.AwaitReturned(t, d, 30*time.Second)
	s.Bind(t, "d1", "bob")
	d.Stamp(t, 2)

	h.Kill(t)
	control.Kill(t)
	putBack()
	provider := filepath.Join(s.State, "inventory", contract.DeviceUUID("d1")+".json")
	record, err := os.ReadFile(provider)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(provider, []byte("{"), 0o600)) // no sweep learns from it who has the device
	control.Start(t)
	refused := func(bind ...string) {
		t.Helper()
		r := s.Burnish(t, bind...)
		require.NotZero(t, r.Code, "%v: %v", bind, r)
		require.NotContains(t, r.Stdout, "already", "%v", bind)
	}
	again := []string{"instance", "bind", alice, "--device", "d1", "--request-id", "R"}
	refused(again...)
	require.NoError(t, os.WriteFile(provider, record, 0o600))
	refused(again...)
	refused("instance", "bind", alice, "--device", "d1")
	refused("instance", "attach", alice, "--device", "d1")
	refused("bind", "d1", "--instance", alice)
	h.Start(t)
	s.AwaitTenant(t, d, "bob", 2, 30*time.Second)
}

// backup stops the server, copies its database and starts it again. What it returns kills the server, puts the copy
// back and starts it.
func (s *Site) backup(t *testing.T) (putBack func()) {
	t.Helper()
	database, kept := filepath.Join(s.Server.Dir, "temporal.db"), filepath.Join(t.TempDir(), "temporal.db")
	require.NoError(t, s.Server.Stop())
	copyDatabase(t, database, kept)
	require.NoError(t, s.Server.Start(t.Context()))
	return func() {
		t.Helper()
		require.NoError(t, s.Server.Kill())
		copyDatabase(t, kept, database)
		require.NoError(t, s.Server.Start(t.Context()))
	}
}

// copyDatabase copies a database of SQLite, with what is written ahead of it, or that of a cluster.
func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		require.NoError(t, os.RemoveAll(to))
		require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		content, err := os.ReadFile(from + suffix)
		if os.IsNotExist(err) {
			require.NoError(t, removeIfThere(to+suffix))
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to+suffix, content, 0o600))
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// The verify is journaled, its answer is lost with the worker, and the disk is swapped
// before the worker starts again: what is recorded of the old disk does not offer the new one.
//
// F26
func TestADiskSwappedAfterItsVerifyIsNotOffered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control", "BURNISH_ON_INTERRUPT=error") // so each step has an entry in the journal
	proxy := NewProxy(t, s.Server.Address)
	w := s.Worker(t, "host")
	w.Address = proxy.Address
	w.Start(t)
	d := s.Device(t, "block", "d1", 192*MiB, 0) // read before the lease ends, also on a busy machine
	s.Enroll(t, d, "--provide")
	var e host.Entry
	late := 0
	for ; ; late++ {
		seen := e.Seq
		PollFast(t, 60*time.Second, "the verify to begin", func() (bool, string) {
			e, _ = s.Journal(t, "d1")
			return e.Step == "verify" && e.Seq > seen, fmt.Sprintf("%+v", e)
		})
		proxy.Partition()
		if e, _ = s.Journal(t, "d1"); !e.Done {
			break // its answer comes after its end
		}
		require.Less(t, late, 10, "the verify was too quick for this test")
		proxy.Heal()
		s.AwaitReturned(t, d, 60*time.Second)
		s.Bind(t, "d1", "alice")
		d.Stamp(t, 1)
		s.Unbind(t, "d1", "alice")
	}
	Await(t, 30*time.Second, "the verify to be journaled", func() (bool, string) {
		e, _ = s.Journal(t, "d1")
		return e.Done && e.Step == "verify", fmt.Sprintf("%+v", e)
	})
	w.Kill(t)
	// Another disk, full of someone's data, at the same path.
	require.NoError(t, os.Rename(d.Path, d.Path+".pulled"))
	require.NoError(t, os.WriteFile(d.Path, nil, 0o600))
	require.NoError(t, os.Truncate(d.Path, d.Size))
	d.Stamp(t, 9)
	w.Address = s.Server.Address // what the dead worker sent stays in the proxy
	w.Start(t)
	v := s.AwaitState(t, "d1", 60*time.Second, device.Error)
	require.True(t, v.NeedsOperator)
	require.True(t, v.Dirty)
	cleaned := 0
	for _, c := range v.Cleans { // the last one failed, or was ended by its host's look
		if c.Outcome == "cleaned" {
			cleaned++
		}
	}
	require.Equal(t, late, cleaned, "the record of the old disk ended the clean")
	s.RequireReserved(t, "d1", 1)
	d.RequireStamps(t, 9)
}
