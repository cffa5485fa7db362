package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/site"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// smallDisk mounts a file system of so many KiB; where it may not be mounted the test
// is skipped.
func smallDisk(t *testing.T, dir string, kib int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk,mode=0700", kib))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skipf("needs the right to mount a small file system: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// fill leaves no free byte in dir; the function that it returns takes it back.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	out, err := os.Create(path)
	require.NoError(t, err)
	page := make([]byte, 4096)
	for err == nil {
		_, err = out.Write(page)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, out.Close())
	return func() { require.NoError(t, os.Remove(path)) }
}

// The host's state directory is full in mid-wipe: the step is tried again, says why, and goes
// on when there is space.
//
// F2, F29
func TestStateDirectoryFull(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "control", "BURNISH_TELL_AFTER=6s")
	w := s.Worker(t, "host")
	w.StateDir = filepath.Join(s.Dir, "small")
	smallDisk(t, w.StateDir, 128)
	w.Start(t)
	d := enrollDirty(t, s, "block", 256*MiB, 0)
	PollFast(t, 20*time.Second, "d1 to be in mid-wipe", func() (bool, string) {
		e, _, err := site.ReadJournal(w.StateDir, "d1")
		require.NoError(t, err)
		return e.Step == "zero" && e.Offset >= steps.Chunk, fmt.Sprintf("%+v", e)
	})
	empty := fill(t, w.StateDir)
	s.awaitFailure(t, "d1", "zero", "no space left")
	v := s.Show(t, "d1")
	require.Equal(t, device.Cleaning, v.DeviceState)
	require.NotNil(t, v.Waiting, "the cause is shown at once")
	require.Contains(t, v.Waiting.Message, "no space left")
	PollFast(t, 20*time.Second, "the progress to say why", func() (bool, string) {
		// Between two attempts it waits for the worker, which may take the next one late.
		waiting := s.Show(t, "d1").Progress.Waiting
		return strings.Contains(waiting, "no space left"), waiting
	})
	s.requireTold(t, "d1", device.CodeStateDirError)
	s.RequireReserved(t, "d1", 1)
	e, _, err := site.ReadJournal(w.StateDir, "d1")
	require.NoError(t, err)
	_, zero, _ := d.Count(t, 1)
	require.LessOrEqual(t, e.Offset, int64(zero)*hardwaretest.Block, "the journal is ahead of the device")
	empty()
	v = s.AwaitReturned(t, d, 60*time.Second)
	require.Len(t, v.Cleans, 1)
	s.requireQuiet(t, "d1")
}

// requireTold waits until show and list name what the device waits for, and then until the
// operator is called.
func (s *Site) requireTold(t *testing.T, name string, code device.Code) {
	t.Helper()
	s.AwaitDevice(t, name, 15*time.Second, "to show its wait", func(v contract.DeviceStatus) bool {
		return v.Waiting != nil && v.Waiting.Code == code && v.Fault == string(code) && v.Remedy != ""
	})
	for _, called := range []bool{false, true} {
		Await(t, 20*time.Second, fmt.Sprintf("the listing to name the wait, needs_operator %v", called),
			func() (bool, string) {
				all, err := s.List(t.Context())
				require.NoError(t, err)
				i := slices.IndexFunc(all, func(v contract.DeviceStatus) bool { return v.Name == name })
				if i < 0 {
					return false, "it is not listed"
				}
				v := all[i]
				named := v.Waiting != nil && v.Waiting.Code == code && v.Fault == string(code) && v.LastError != ""
				return named && (v.NeedsOperator || !called), fmt.Sprintf("%+v", v)
			})
	}
	v := s.Show(t, name)
	require.True(t, v.NeedsOperator)
	require.Equal(t, string(code), v.Fault)
	require.NotEmpty(t, v.Remedy)
}

// requireQuiet asserts that nothing is left of a wait.
func (s *Site) requireQuiet(t *testing.T, name string) {
	t.Helper()
	v := s.Show(t, name)
	require.Nil(t, v.Waiting)
	require.False(t, v.NeedsOperator)
	require.Empty(t, v.Fault)
	require.Empty(t, v.LastError)
}

// awaitFailure waits until an attempt of a step has failed with this text.
func (s *Site) awaitFailure(t *testing.T, name, step, text string) {
	t.Helper()
	Await(t, 20*time.Second, "an attempt to fail with "+text, func() (bool, string) {
		p := s.Pending(t, name, step)
		return p.GetAttempt() > 1 && strings.Contains(p.GetLastFailure().GetMessage(), text), p.String()
	})
}
