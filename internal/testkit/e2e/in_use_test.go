package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/loops"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// Burnish does not write to a device that is in use on its host (F12, F14). The device is
// in state error and needs an operator until that use has ended and the operator cleans it.
//
// F12, F40
func TestInUseIsErrorUntilTheOperatorCleans(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	file := s.File("file", 4*MiB)
	file.Stamp(t, 1)
	all := []Device{file}
	if loop, ok := s.loop(t, "loop", 4*MiB); ok {
		all = append(all, loop)
	}
	if mapped, ok := s.loop(t, "mapped", 4*MiB); ok {
		all = append(all, mapped)
	}
	ends := map[string]func(){}
	for _, d := range all {
		s.Enroll(t, d, "--provide")
		s.AwaitReturned(t, d, 30*time.Second)
		s.Bind(t, d.Name, "alice")
		d.Stamp(t, 2)
		switch d.Name {
		case "mapped": // and no descriptor is left
			file, err := os.OpenFile(d.Path, os.O_RDWR, 0)
			require.NoError(t, err)
			memory, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			off := sync.OnceFunc(func() { require.NoError(t, unix.Munmap(memory)) })
			ends[d.Name] = off
			t.Cleanup(off)
		case "loop":
			// Swap needs nothing but a header, which the tenant wrote.
			command(t, "mkswap", d.Path)
			command(t, "swapon", d.Path)
			off := sync.OnceFunc(func() { command(t, "swapoff", d.Path) })
			ends[d.Name] = off
			t.Cleanup(off) // where the test failed before
		default:
			open, err := os.OpenFile(d.Path, os.O_RDWR, 0)
			require.NoError(t, err)
			ends[d.Name] = func() { require.NoError(t, open.Close()) }
		}
		s.Unbind(t, d.Name, "alice")
	}
	for _, d := range all {
		before, _, _ := d.Count(t, 2)
		v := s.AwaitDevice(t, d.Name, 60*time.Second, "to be in error", func(v contract.DeviceStatus) bool {
			return v.DeviceState == device.Error
		})
		require.Equal(t, string(device.CodeTargetBusy), v.Fault, v.LastError)
		require.True(t, v.NeedsOperator)
		require.True(t, v.Dirty)
		s.RequireReserved(t, d.Name, 1)
		after, _, _ := d.Count(t, 2)
		require.Equal(t, before, after, "nothing was written")
	}
	for _, d := range all {
		ends[d.Name]()
		s.Must(t, "clean", d.Name, "--wait")
		s.AwaitReturned(t, d, 30*time.Second)
	}
}

// loop is a loop device over a file of its own; ok is false where this is not root, who
// alone may make one.
func (s *Site) loop(t testing.TB, name string, size int64) (d Device, ok bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("without a loop device: this is not root")
		return d, false
	}
	under := s.File(name, size)
	under.Stamp(t, 1)
	path, err := loops.Attach(under.Path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loops.Detach(path)) })
	s.Allow(t, "/dev/loop*", filepath.Join(s.Files, "*"))
	return Device{Name: name, Driver: "block", Path: path, Size: size, Set: []string{"path=" + path}}, true
}

// command runs a program of the system that must succeed, and gives its output.
func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	r, err := proc.Run(exec.Command(name, args...))
	require.NoError(t, errors.Join(err, r.Err()))
	return strings.TrimSpace(r.Stdout)
}
