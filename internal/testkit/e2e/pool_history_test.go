package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/workflows/contract"
)

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
	putBack := s.backup(t)
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
	putBack()
	w.Start(t)

	v := s.awaitState(t, "bound", time.Minute, device.Allocated)
	require.Equal(t, Instance("alice"), *v.InstanceUUID)
	s.lookNow(t, "rack1")
	s.AwaitStatus(t, "bound", 20*time.Second, "to have its profile recorded", func(v contract.DeviceStatus) bool {
		return v.Pool.Profile == alices
	})
	require.Regexp(t, `(?m)^pool +ok +ours, profile `+alices+`$`, s.Must(t, "validate", "bound"))
	bound.RequireStamps(t, 2)
	s.requireRules(t, "rack1", alices)
	if v, err := s.Workflows().Query(t.Context(), "gone"); err == nil && v.DeviceState == device.Allocated {
		s.Unbind(t, "gone", "bob")
	}
	s.AwaitStatus(t, "gone", time.Minute, "to be found taken", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Error && v.Pool.LostRace
	})
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
