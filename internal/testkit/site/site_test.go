package site_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
)

// A site is started, used, killed and started again, without any help of the testing package.
func TestSiteOutlivesItsServerAndWorker(t *testing.T) {
	dir := t.TempDir()
	programs, err := site.Build("../../..", dir)
	require.NoError(t, err)
	server := &site.Server{Program: programs.Server, Dir: dir}
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	s, err := site.New(programs, server, site.DefaultNamespace, site.NewHost(), dir)
	require.NoError(t, err)
	w := s.Worker("all")
	require.NoError(t, w.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, w.Stop()) })

	d := s.FakeDevice("d1", site.MiB)
	require.NoError(t, d.Stamp(1))
	_, err = s.Must(t.Context(), s.EnrollArgs(d, "--provide")...)
	require.NoError(t, err)
	_, err = s.AwaitState(t.Context(), "d1", time.Minute, device.Available)
	require.NoError(t, err)
	_, err = s.Must(t.Context(), "bind", "d1", "--instance", "no UUID")
	require.ErrorContains(t, err, "exit code")

	address := server.Address
	require.NoError(t, server.Kill())
	require.NoError(t, w.Kill())
	require.NoError(t, server.Start(t.Context()))
	require.Equal(t, address, server.Address)
	require.NoError(t, w.Start(t.Context()))
	require.NoError(t, proc.AwaitSlowly(t.Context(), time.Minute, "the listing, which lags behind", func() (bool, string) {
		all, err := s.List(t.Context())
		return err == nil && len(all) == 1, fmt.Sprint(all, err)
	}))
	stamped, zero, other, err := d.Count(1)
	require.NoError(t, err)
	require.Equal(t, [3]int{0, d.Blocks(), 0}, [3]int{stamped, zero, other})
	require.Len(t, s.Controls(), 2)
	require.Len(t, server.Processes, 2)
}
