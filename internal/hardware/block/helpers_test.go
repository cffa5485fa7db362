package block

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/loops"
	"burnish/internal/testkit/suites/hardwaretest"
)

const (
	nonce = 0xb10c
	kib   = 1 << 10
	mib   = 1 << 20
	// oddSize has a tail that O_DIRECT refuses.
	oddSize = 5*mib + 777
	// evenSize is a possible size of a device, with a tail of one sector.
	evenSize = 5*mib + 512
)

// allowAll allows every path.
type allowAll struct{}

func (allowAll) AllowPath(string) error { return nil }

// newDriver is a driver that waits less for others than a worker's, and looks for users in this
// process only: to look through all processes of the machine takes longer than most tests.
func newDriver(t *testing.T) *Driver {
	t.Helper()
	d := New(allowAll{})
	d.sys.busyTimeout = 100 * time.Millisecond
	d.sys.proc = t.TempDir()
	for _, name := range []string{"self", "swaps", "fs", strconv.Itoa(os.Getpid())} {
		require.NoError(t, os.Symlink(filepath.Join("/proc", name), filepath.Join(d.sys.proc, name)))
	}
	return d
}

// workDir is a temporary directory on a file system that overwrites in place.
func workDir(t *testing.T) string {
	t.Helper()
	for _, parent := range []string{"", "/dev/shm"} {
		dir, err := os.MkdirTemp(parent, "burnish-block-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		dir, err = filepath.EvalSymlinks(dir)
		require.NoError(t, err)
		if overwritesInPlace(t, dir) {
			return dir
		}
	}
	t.Skip("neither the directory for temporary files nor /dev/shm is on ext, xfs or tmpfs")
	return ""
}

// overwritesInPlace: the directory's file system is in the allow-list.
func overwritesInPlace(t *testing.T, dir string) bool {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, _, err = realSystem().fileSystemOf(fd, dir)
	return err == nil
}

// requireTools skips the test unless it runs as root and these tools are there.
func requireTools(t *testing.T, tools ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts, attaches or swaps")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs the tool %s: %v", tool, err)
		}
	}
}

// run runs a tool, which must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// runOrSkip runs a tool, or skips the test if this environment does not allow it.
func runOrSkip(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Skipf("this environment refuses %s %s: %v: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
}

// attach attaches a file to a loop device until the test ends.
func attach(t *testing.T, image string, args ...string) string {
	t.Helper()
	loop, _ := attached(t, image, args...)
	return loop
}

// attached is attach with a function that detaches the loop device earlier.
func attached(t *testing.T, image string, args ...string) (loop string, detach func()) {
	t.Helper()
	requireTools(t, "losetup")
	loop, err := loops.Attach(image, args...)
	if err != nil {
		t.Skipf("this environment has no loop device: %v", err)
	}
	// Not require, whose FailNow in a OnceFunc is a panic.
	detach = sync.OnceFunc(func() { assert.NoError(t, loops.Detach(loop)) })
	t.Cleanup(detach)
	return loop, detach
}

// image makes a sparse file to hold a file system.
func image(t *testing.T, dir string, size int64) string {
	t.Helper()
	file, err := os.CreateTemp(dir, "image-")
	require.NoError(t, err)
	require.NoError(t, file.Truncate(size))
	require.NoError(t, file.Close())
	return file.Name()
}

// mounted makes a file system on a loop device in dir and mounts it until the test ends.
// mkfs is the tool with its arguments, options are those of mount.
func mounted(t *testing.T, dir string, mkfs []string, options string, loopArgs ...string) string {
	t.Helper()
	requireTools(t, mkfs[0], "losetup", "mount")
	file := image(t, dir, 400*mib)
	run(t, mkfs[0], append(mkfs[1:len(mkfs):len(mkfs)], file)...)
	return mountDevice(t, attach(t, file, loopArgs...), options)
}

// unmount unmounts a file system that no test uses any more. Another process may have it for
// a moment: one that searches the mounts, or a child between its fork and its exec.
func unmount(t *testing.T, point string) {
	t.Helper()
	const patience = 30 * time.Second
	var err error
	ended := assert.Eventually(t, func() bool {
		err = unix.Unmount(point, 0)
		return !errors.Is(err, unix.EBUSY)
	}, patience, 20*time.Millisecond, "umount %s", point)
	if !ended || !assert.NoError(t, err, "umount %s", point) {
		run(t, "umount", "--lazy", point) // a failed test may have left it in use
	}
}

// mountDevice mounts one device until the test ends.
func mountDevice(t *testing.T, device, options string, args ...string) string {
	t.Helper()
	point := t.TempDir()
	runOrSkip(t, "mount", append(append([]string{"-o", "rw," + options}, args...), device, point)...)
	t.Cleanup(func() {
		unmount(t, point)
	})
	point, err := filepath.EvalSymlinks(point)
	require.NoError(t, err)
	return point
}

// stamped makes a file filled with a tenant's stamps.
func stamped(t *testing.T, path string, size int64) hardwaretest.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(size))
	require.NoError(t, hardwaretest.Stamp(file, size, nonce))
	require.NoError(t, file.Sync())
	require.NoError(t, file.Close())
	return hardwaretest.File(path)
}

// fixture is one enrolled target in its own directory.
type fixture struct {
	driver *Driver
	dir    string // dir/d/target is the file, dir/dev/… the node of a device
	path   string
	// image is the file behind a device, loop the kernel's own name of the device. Both are
	// "" for a file.
	image, loop string
	detach      func() // takes the file from the loop device, which stays free until the test ends
	target      hardware.Target
	identity    device.Identity
}

// enroll makes and enrolls a stamped file in dir.
func enroll(t *testing.T, dir string, size int64) *fixture {
	t.Helper()
	parent := filepath.Join(dir, "d")
	require.NoError(t, os.MkdirAll(parent, 0o700))
	f := &fixture{driver: newDriver(t), dir: dir, path: filepath.Join(parent, "target")}
	stamped(t, f.path, size)
	f.target = targetAt(f.path)
	found, err := f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)
	f.identity = found.Identity
	return f
}

// enrollLoop makes and enrolls a loop device over a stamped file in dir. The driver's /dev is
// dir/dev with its own node, so that a test can move it.
func enrollLoop(t *testing.T, dir string, size int64) *fixture {
	t.Helper()
	f := loopFixture(t, dir, size)
	f.path = f.node(t, filepath.Base(f.loop))
	f.enroll(t)
	return f
}

// loopFixture is a loop device over a stamped file, not enrolled.
func loopFixture(t *testing.T, dir string, size int64, args ...string) *fixture {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o700))
	f := &fixture{driver: newDriver(t), dir: dir, image: filepath.Join(dir, "d", "image")}
	f.driver.sys.dev = filepath.Join(dir, "dev")
	require.NoError(t, os.MkdirAll(f.driver.sys.dev, 0o700))
	stamped(t, f.image, size)
	var detach func()
	f.loop, detach = attached(t, f.image, append(args, "--partscan")...)
	f.detach = func() {
		release, err := loops.Keep()
		require.NoError(t, err)
		t.Cleanup(release)
		detach()
	}
	return f
}

// node creates a node of the loop device in the driver's /dev.
func (f *fixture) node(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(f.driver.sys.dev, name)
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(f.number(t))); err != nil {
		t.Skipf("this environment does not allow device nodes: %v", err)
	}
	return path
}

// number is the loop device's number.
func (f *fixture) number(t *testing.T) uint64 {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(f.loop, &stat))
	return stat.Rdev
}

// enroll enrolls the target by its path.
func (f *fixture) enroll(t *testing.T) {
	t.Helper()
	f.target = targetAt(f.path)
	found, err := f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)
	f.identity = found.Identity
}

// enrollDisk makes and enrolls what the driver takes for a SCSI disk: a loop device with a
// sysfs that the test wrote.
func enrollDisk(t *testing.T, dir string, size int64) *fixture {
	t.Helper()
	f := loopFixture(t, dir, size)
	f.path = f.node(t, "sda")
	f.driver.sys.sys = filepath.Join(dir, "sys")
	f.disk(t, "sda", formatNumber(f.number(t)), "scsi", map[string]string{
		"device/wwid": "naa.5000c500a1b2c3d4\n", "device/vendor": "ATA     \n", "device/model": "DISK 1         \n",
		"device/rev": "2.5+\n",
	})
	f.enroll(t)
	return f
}

// disk adds a disk to the driver's sysfs.
func (f *fixture) disk(t *testing.T, name, number, bus string, attributes map[string]string) {
	t.Helper()
	root := f.driver.sys.sys
	dir := filepath.Join(root, "devices", name)
	for _, each := range []string{"device", "holders", "queue"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, each), 0o700))
	}
	for _, each := range []string{"block", "dev/block"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, each), 0o700))
	}
	f.set(t, name, map[string]string{"dev": number + "\n", "ro": "0\n", "hidden": "0\n", "queue/zoned": "none\n"})
	f.set(t, name, attributes)
	require.NoError(t, os.Symlink("../../../bus/"+bus, filepath.Join(dir, "device/subsystem")))
	require.NoError(t, os.Symlink("../devices/"+name, filepath.Join(root, "block", name)))
	require.NoError(t, os.Symlink("../../devices/"+name, filepath.Join(root, "dev/block", number)))
}

// set writes attributes of a disk.
func (f *fixture) set(t *testing.T, name string, attributes map[string]string) {
	t.Helper()
	for key, value := range attributes {
		path := filepath.Join(f.driver.sys.sys, "devices", name, key)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(value), 0o600))
	}
}

// targetAt is the target with this path.
func targetAt(path string) hardware.Target {
	return hardware.Target{Name: "d1", Driver: "block", Settings: map[string]string{"path": path}}
}

// open opens the enrolled target until the test ends.
func (f *fixture) open(t *testing.T, writable bool) *handle {
	t.Helper()
	opened, err := f.driver.Open(t.Context(), f.target, f.identity, writable)
	require.NoError(t, err)
	h := opened.(*handle)
	t.Cleanup(func() {
		if h.fd >= 0 {
			require.NoError(t, h.Close())
		}
	})
	return h
}
