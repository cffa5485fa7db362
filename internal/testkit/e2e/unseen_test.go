package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// swap puts another file, full of foreign bytes, in the device's place; back undoes it.
func (d Device) swap(t testing.TB) (back func()) {
	t.Helper()
	require.NoError(t, os.Rename(d.Path, d.Path+".enrolled"))
	d.Stamp(t, 9)
	return func() {
		require.NoError(t, os.Remove(d.Path))
		require.NoError(t, os.Rename(d.Path+".enrolled", d.Path))
	}
}

// A disk that was swapped while it was out of the offer is not offered: the host must see the
// enrolled one first. Without an answer of the host the request is refused.
//
// F27
func TestSwappedDiskIsNotOffered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control")
	host := s.Run(t, "host")
	type story struct {
		d         Device
		out, back []string
		undo      func()
	}
	var all []*story
	for name, how := range map[string][2][]string{
		"managed":    {{"manage", "managed"}, {"provide", "managed"}},
		"maintained": {{"maintain", "maintained", "--reason", "test"}, {"maintain", "maintained", "--off"}},
	} {
		d := s.Device(t, "block", name, 2*MiB, 0)
		s.Enroll(t, d, "--provide")
		all = append(all, &story{d: d, out: how[0], back: how[1]})
	}
	moved := s.Device(t, "block", "old", 2*MiB, 0)
	s.Enroll(t, moved, "--provide")
	s.AwaitReturned(t, moved, 30*time.Second)
	for _, a := range all {
		s.AwaitReturned(t, a.d, 30*time.Second)
		s.Must(t, a.out...)
	}

	host.Kill(t)
	for _, a := range all {
		a.undo = a.d.swap(t)
	}
	each(t, all, func(_ int, a *story) {
		s.Refused(t, device.CodeHostUnreachable, append(a.back, "--timeout", "60s")...)
		s.RequireReserved(t, a.d.Name, 1)
	})
	host.Start(t)
	for _, a := range all {
		// Refused, or in state error already: the host discovered it at its start.
		r := s.Burnish(t, append(a.back, "--timeout", "60s")...)
		require.True(t, r.Code == 1 || s.Show(t, a.d.Name).DeviceState == device.Error, r)
		a.d.RequireStamps(t, 9)
		s.RequireReserved(t, a.d.Name, 1)
		require.True(t, s.Show(t, a.d.Name).Dirty)
		a.undo()
	}

	// A clean device that is moved is dirty in its new slot, whatever is there by then.
	s.Must(t, "manage", "old")
	s.Must(t, "move", "old", "new")
	require.True(t, s.Show(t, "new").Dirty)
	moved.Stamp(t, 9)
	s.Must(t, "provide", "new")
	at := moved
	at.Name = "new"
	s.AwaitReturned(t, at, 30*time.Second)
}

// An available device of which its host cannot say any more that it is the enrolled one
// leaves the offer, and its operator is called.
//
// F27
func TestFailedLookTakesTheDeviceOutOfTheOffer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	host := s.Run(t, "all")
	d := s.Device(t, "block", "d1", 2*MiB, 0)
	s.Enroll(t, d, "--provide")
	s.AwaitReturned(t, d, 30*time.Second)

	host.Kill(t)
	s.Allow(t, filepath.Join(s.Files, "another"))
	back := d.swap(t)
	host.Start(t)
	v := s.AwaitState(t, "d1", 30*time.Second, device.Error)
	require.Equal(t, string(device.CodeSerialMismatch), v.Fault, "the identity is compared before the host's rules")
	require.True(t, v.NeedsOperator)
	s.AwaitReserved(t, "d1", 1)
	d.RequireStamps(t, 9)

	back()
	s.Refused(t, device.CodeRefused, "bind", "d1", "--instance", Instance("alice"))
	s.Must(t, "clean", "d1")
	s.AwaitDevice(t, "d1", 30*time.Second, "to be refused by the host's rules", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Error && v.Fault == string(device.CodeNotAllowed)
	})
	s.Allow(t, s.Files+"/**")
	s.Must(t, "clean", "d1", "--wait", "--timeout", "30s")
	s.AwaitReturned(t, d, time.Second)
}
