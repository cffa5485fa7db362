package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/loops"
	"burnish/workflows/contract"
)

// overwrite writes foreign bytes over the device's file, in its place.
func (d Device) overwrite(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("foreign"), 4096)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A device that changes while it is offered is bound to nobody: its host looks before the bind is
// answered, and receives the kernel's events. Foreign bytes in another device stay, those in the enrolled
// one are erased.
//
// F39
func TestADeviceThatChangesWhileItIsOffered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control")
	host := s.Run(t, "host", "BURNISH_SWEEP_INTERVAL=0")
	enroll := func(name string) Device {
		d := s.Device(t, "block", name, 2*MiB, 0)
		s.Enroll(t, d, "--provide")
		return d
	}
	swapped, written, away, watched := enroll("swapped"), enroll("written"), enroll("away"), enroll("watched")
	held, lost := enroll("held"), enroll("lost")
	disk, attached := s.loop(t, "disk", 2*MiB)
	if attached {
		s.Enroll(t, disk, "--provide")
		s.AwaitReturned(t, disk, 30*time.Second)
	}
	for _, d := range []Device{swapped, written, away, watched, held, lost} {
		s.AwaitReturned(t, d, 30*time.Second)
	}
	old := func(v contract.DeviceStatus) bool { return time.Since(v.StateSince) > 6*time.Second }
	s.AwaitDevice(t, watched.Name, 30*time.Second, "the look of its return to be old", old)

	t.Run("another file", func(t *testing.T) {
		swapped.swap(t)
		s.Refused(t, device.CodeSerialMismatch, "bind", swapped.Name, "--instance", Instance("i1"))
		s.AwaitState(t, swapped.Name, 30*time.Second, device.Error)
		s.AwaitReserved(t, swapped.Name, 1)
		swapped.RequireStamps(t, 9)
	})
	t.Run("written in its place", func(t *testing.T) {
		written.overwrite(t)
		s.Refused(t, device.CodeForeignWrite, "bind", written.Name, "--instance", Instance("i1"))
		s.AwaitReturned(t, written, 30*time.Second)
		written.RequireZero(t)
		s.Bind(t, written.Name, "i1")
	})
	t.Run("another file behind its loop", func(t *testing.T) {
		if !attached {
			t.Skip("no loop devices here")
		}
		s.swapLoop(t, disk)
		s.AwaitState(t, disk.Name, 30*time.Second, device.Error)
		s.AwaitReserved(t, disk.Name, 1)
	})
	t.Run("another file behind its loop as soon as it is offered", func(t *testing.T) {
		d, attached := s.loop(t, "hasty", 2*MiB)
		if !attached {
			t.Skip("no loop devices here")
		}
		s.Enroll(t, d, "--provide")
		s.AwaitReturned(t, d, 30*time.Second)
		s.swapLoop(t, d)
		s.AwaitState(t, d.Name, 30*time.Second, device.Error)
		s.AwaitReserved(t, d.Name, 1)
	})
	t.Run("held open by somebody", func(t *testing.T) { // F40
		f, err := os.OpenFile(held.Path, os.O_RDWR, 0)
		require.NoError(t, err)
		s.Refused(t, device.CodeTargetBusy, "bind", held.Name, "--instance", Instance("i1"))
		require.NoError(t, f.Close())
		s.AwaitState(t, held.Name, 30*time.Second, device.Error)
		s.AwaitReserved(t, held.Name, 1)
	})
	t.Run("its host has lost its record", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(host.StateDir, "devices", lost.Name+".json")))
		lost.overwrite(t)
		s.Refused(t, device.CodeForeignWrite, "bind", lost.Name, "--instance", Instance("i1"))
		s.AwaitReturned(t, lost, 30*time.Second)
		lost.RequireZero(t)
	})
	host.Kill(t)
	t.Run("its host is silent", func(t *testing.T) {
		s.Refused(t, device.CodeHostUnreachable, "bind", away.Name, "--instance", Instance("i1"), "--timeout", "60s")
		require.Equal(t, device.Available, s.Show(t, away.Name).DeviceState)
		s.RequireReserved(t, away.Name, 0)
	})
	host.Env = []string{"BURNISH_SWEEP_INTERVAL=1s"}
	host.Start(t)
	t.Run("its host is back", func(t *testing.T) { s.Bind(t, away.Name, "i1") })
	t.Run("written, and compared", func(t *testing.T) {
		cleans := len(s.Show(t, watched.Name).Cleans)
		watched.overwrite(t)
		s.AwaitDevice(t, watched.Name, 30*time.Second, "its clean", func(v contract.DeviceStatus) bool {
			return len(v.Cleans) == cleans+1
		})
		s.AwaitReturned(t, watched, 30*time.Second)
		watched.RequireZero(t)
	})
}

// swapLoop puts another file behind a loop device.
func (s *Site) swapLoop(t testing.TB, d Device) {
	t.Helper()
	other := s.Device(t, "block", "other than "+d.Name, 2*MiB, 0)
	other.Stamp(t, 9)
	release, err := loops.Keep()
	require.NoError(t, err)
	defer release()
	for _, args := range [][]string{{"--detach", d.Path}, {d.Path, other.Path}} {
		out, err := exec.Command("losetup", args...).CombinedOutput()
		require.NoError(t, err, "losetup %v: %s", args, out)
	}
}
