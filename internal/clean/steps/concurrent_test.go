package steps_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/testkit/loops"
	"burnish/internal/testkit/suites/hardwaretest"
)

type allowAll struct{}

func (allowAll) AllowPath(string) error { return nil }

// Sixteen real targets, files and (for root) loop devices, are zeroed and read back at once.
// The process may grow by the buffers of each read and a little more. What is allocated in all depends
// on the machine's processes, whose tables are read as text.
func TestSixteenAtOnceKeepMemoryFlat(t *testing.T) {
	const wipes, size = 16, 9 * mib
	const readBuffers, little = wipes * 4 * 2 * mib, 8 * mib
	driver := block.New(allowAll{})
	targets, files := make([]hardware.Target, wipes), make([]hardwaretest.File, wipes)
	who := make([]device.Identity, wipes)
	for i := range targets {
		targets[i], files[i] = realTarget(t, i, size)
		found, err := driver.Discover(t.Context(), targets[i], device.Identity{})
		require.NoError(t, err)
		who[i] = found.Identity
		require.NoError(t, hardwaretest.Stamp(files[i], size, 1))
	}

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	failed := make([]error, wipes)
	var all, opened sync.WaitGroup
	opened.Add(wipes)
	for i := range targets {
		all.Go(func() {
			failed[i] = wipe(t, driver, targets[i], who[i], &opened)
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	require.NoError(t, errors.Join(failed...))
	allocated, grown := int64(after.TotalAlloc-before.TotalAlloc), int64(after.HeapSys-before.HeapSys)
	t.Logf("%d wipes of %d MiB, read back: grown by %d KiB, allocated %d KiB in all", wipes, size/mib, grown/kib,
		allocated/kib)
	require.Less(t, grown, int64(readBuffers+little))
	for _, file := range files {
		hardwaretest.RequireCount(t, file, 1, 0, int(size/hardwaretest.Block), 0)
	}
}

// wipe zeroes and verifies one target once all targets are open.
func wipe(t *testing.T, driver hardware.Driver, target hardware.Target, who device.Identity,
	opened *sync.WaitGroup) error {
	handle, err := driver.Open(t.Context(), target, who, true)
	opened.Done()
	if err != nil {
		return err
	}
	opened.Wait()
	work := &steps.Work{Device: handle, Operation: device.Shred, Record: func(int64) error { return nil }}
	for _, step := range []steps.Step{steps.Zero(), steps.Verify()} {
		out, stepErr := step.Run(t.Context(), work)
		if stepErr == nil && out.Bytes != who.Size {
			stepErr = fmt.Errorf("%s dealt with %d bytes", step.Name, out.Bytes)
		}
		err = errors.Join(err, stepErr)
	}
	return errors.Join(err, handle.Close())
}

// realTarget makes a file, and for every second one a loop device.
func realTarget(t *testing.T, i int, size int64) (hardware.Target, hardwaretest.File) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	file := hardwaretest.File(path)
	if i%2 == 1 && os.Geteuid() == 0 {
		if loop, err := loops.Attach(path); err == nil {
			path = loop
			t.Cleanup(func() { require.NoError(t, loops.Detach(loop)) })
		} else {
			t.Logf("no loop device here (%v): a file instead", err)
		}
	}
	return hardware.Target{Name: fmt.Sprintf("d%d", i), Driver: "block", Settings: map[string]string{"path": path}}, file
}
