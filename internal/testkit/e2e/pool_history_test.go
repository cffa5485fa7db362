package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/workflows/contract"
)

// The workflows of three servers are lost, with their histories: of one that a tenant has, of one
// in the middle of its clean, of one that is available. Each comes back, and its profile is found
// by its name: it is not taken for another user's, and none is left behind. The tenant's server is
// not cleaned.
//
// F24
func TestASharedServersHistoryIsLost(t *testing.T) {
	t.Parallel()
	s := newPoolSite(t, newSite(t), []string{"rack1"}, oneviewsim.Servers(3))
	rack := s.appliances["rack1"]
	w := s.Run(t, "all", append(s.env(), "BURNISH_SWEEP_INTERVAL=2s")...)
	devices := map[string]Device{}
	for name, server := range map[string]string{"allocated": "server-1", "cleaned": "server-2", "free": "server-3"} {
		devices[name] = s.shared(t, name, "rack1", server, true)
		s.enroll(t, devices[name], "--provide")
	}
	each(t, []string{"allocated", "cleaned"}, func(_ int, name string) {
		s.awaitState(t, name, time.Minute, device.Available)
		s.Must(t, "bind", name, "--instance", Instance("alice"), "--timeout", "2m")
	})
	s.awaitState(t, "free", time.Minute, device.Available)
	devices["allocated"].Stamp(t, 2)
	tenants := s.server(t, "rack1", "server-1").Profile
	// The clean waits for its profile's removal, and dies there.
	require.NoError(t, rack.Inject(oneviewsim.Fault{Method: "DELETE", Path: profileOne, Kind: oneviewsim.HangBefore}))
	s.Unbind(t, "cleaned", "alice")
	Await(t, time.Minute, "the removal", func() (bool, string) {
		counts, err := rack.Counts()
		return err == nil && counts.Faulted == 1, ""
	})
	w.Kill(t)
	each(t, []string{"allocated", "cleaned", "free"}, func(_ int, name string) { erase(t, s.Site, name) })
	w.Start(t)

	v := s.awaitState(t, "allocated", time.Minute, device.Allocated)
	require.Equal(t, Instance("alice"), *v.InstanceUUID)
	s.requireIdle(t, "cleaned", "rack1", "server-2")
	s.requireIdle(t, "free", "rack1", "server-3")
	s.lookNow(t, "rack1")
	s.AwaitStatus(t, "allocated", 20*time.Second, "to have its profile recorded", func(v contract.DeviceStatus) bool { return v.Pool.Profile == tenants })
	require.Regexp(t, `(?m)^pool +ok +ours, profile `+tenants+`$`, s.Must(t, "validate", "allocated"))
	s.requireRules(t, "rack1", tenants)
	devices["allocated"].RequireStamps(t, 2)
	s.Refused(t, device.CodeRefused, "bind", "allocated", "--instance", Instance("bob"))
	s.Unbind(t, "allocated", "alice")
	v = s.requireIdle(t, "allocated", "rack1", "server-1")
	require.Equal(t, "cleaned", v.Cleans[len(v.Cleans)-1].Outcome)
	devices["allocated"].RequireZero(t)
	s.requireRules(t, "rack1")
}

// The database is put back to an earlier hour. Of a server that was bound since, the profile is
// found by its name: it is its tenant's, and is not cleaned. Of one that was cleaned since, and
// taken by others, the recorded profile is gone: nothing of theirs is touched, and what they free
// is cleaned.
//
// F24
func TestADatabasePutBackForASharedServer(t *testing.T) {
	t.Parallel()
	s := newPoolSite(t, ownServer(t), []string{"rack1"}, oneviewsim.Servers(2))
	rack := s.appliances["rack1"]
	w := s.Run(t, "all", s.env()...)
	bound, gone := s.shared(t, "bound", "rack1", "server-1", true), s.shared(t, "gone", "rack1", "server-2", true)
	for _, d := range []Device{bound, gone} {
		s.enroll(t, d, "--provide")
	}
	for _, d := range []Device{bound, gone} {
		s.awaitState(t, d.Name, time.Minute, device.Available)
	}
	s.Must(t, "bind", "gone", "--instance", Instance("bob"), "--timeout", "2m")
	w.Kill(t)
	database, backup := filepath.Join(s.Server.Dir, "temporal.db"), filepath.Join(t.TempDir(), "temporal.db")
	require.NoError(t, s.Server.Stop())
	copyDatabase(t, database, backup)
	require.NoError(t, s.Server.Start(t.Context()))
	w.Start(t)
	s.Unbind(t, "gone", "bob")
	s.Must(t, "bind", "bound", "--instance", Instance("alice"), "--timeout", "2m")
	bound.Stamp(t, 2)
	alices := s.server(t, "rack1", "server-1").Profile
	s.requireIdle(t, "gone", "rack1", "server-2")
	require.NoError(t, rack.Take("server-2"))
	gone.Stamp(t, 7)
	theirs := s.server(t, "rack1", "server-2").Profile
	w.Kill(t)
	require.NoError(t, s.Server.Stop())
	copyDatabase(t, backup, database)
	require.NoError(t, s.Server.Start(t.Context()))
	w.Start(t)

	v := s.awaitState(t, "bound", time.Minute, device.Allocated)
	require.Equal(t, Instance("alice"), *v.InstanceUUID)
	s.lookNow(t, "rack1")
	s.AwaitStatus(t, "bound", 20*time.Second, "to have its profile recorded", func(v contract.DeviceStatus) bool { return v.Pool.Profile == alices })
	require.Regexp(t, `(?m)^pool +ok +ours, profile `+alices+`$`, s.Must(t, "validate", "bound"))
	bound.RequireStamps(t, 2)
	s.requireRules(t, "rack1", alices)
	if v, err := s.Workflows().Query(t.Context(), "gone"); err == nil && v.DeviceState == device.Allocated {
		s.Unbind(t, "gone", "bob")
	}
	s.AwaitStatus(t, "gone", time.Minute, "to be found taken", func(v contract.DeviceStatus) bool { return v.DeviceState == device.Error && v.Pool.LostRace })
	s.lookNow(t, "rack1")
	s.requireMaintained(t, "gone")
	gone.RequireStamps(t, 7)
	require.Equal(t, theirs, s.server(t, "rack1", "server-2").Profile)
	require.NoError(t, rack.Free("server-2"))
	s.lookNow(t, "rack1")
	s.requireIdle(t, "gone", "rack1", "server-2")
	gone.RequireZero(t)

	s.Unbind(t, "bound", "alice")
	s.requireIdle(t, "bound", "rack1", "server-1")
	bound.RequireZero(t)
	s.requireRules(t, "rack1")
}
