package block

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// The tables show what not every environment can create, such as a btrfs on two disks. They are read of a disk that
// another driver claims, too.
//
// F12
func TestKernelTablesAreParsed(t *testing.T) {
	for name, tc := range map[string]struct {
		mountinfo, swaps string // %DEV is the driver's /dev, %N the disk's number
		code             device.Code
		says             string
	}{
		"nothing": {mountinfo: "1 0 0:99 / / rw - btrfs /dev/other rw\n"},
		"mounted by number": {
			mountinfo: "1 0 %N / /mnt rw - ext4 /dev/root rw\n",
			code:      device.CodeTargetBusy, says: `sda is mounted at "/mnt"`,
		},
		"partition mounted by number": {
			mountinfo: "1 0 8:1 / /mnt\\040two rw - ext4 /dev/root rw\n",
			code:      device.CodeTargetBusy, says: `sda1 is mounted at "/mnt two"`,
		},
		"btrfs, which has a number of its own": {
			mountinfo: "1 0 0:35 / /mnt rw - btrfs %DEV/sda rw\n",
			code:      device.CodeTargetBusy, says: `sda is mounted at "/mnt"`,
		},
		"swap": {
			mountinfo: "1 0 0:99 / / rw - tmpfs none rw\n", swaps: "Filename Type\n%DEV/sda partition 1 0 -2\n",
			code: device.CodeTargetBusy, says: "sda is used as swap",
		},
		"another form": {mountinfo: "1 0 8:1 / /mnt\n", code: device.CodeIO, says: "line of unknown form"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newDisk(t, mib, "scsi", disks["scsi"].attributes)
			f.set(t, "sda", map[string]string{"sda1/partition": "1\n", "sda1/dev": "8:1\n"})
			f.enroll(t)
			fill := func(text string) string {
				return strings.NewReplacer("%DEV", f.driver.sys.dev, "%N", formatNumber(f.number(t))).Replace(text)
			}
			f.driver.sys.proc = tables(t, map[string]string{"self/mountinfo": fill(tc.mountinfo), "swaps": fill(tc.swaps)})
			for _, known := range []device.Identity{{}, f.identity} {
				_, err := f.driver.Discover(t.Context(), f.target, known)
				requireCode(t, err, tc.code)
				if tc.code != "" {
					require.ErrorContains(t, err, tc.says)
				}
			}
			h, err := f.driver.Open(t.Context(), f.target, f.identity, true)
			requireCode(t, err, tc.code)
			if err == nil {
				require.NoError(t, h.Close())
			}
			kernel := Kernel{Proc: f.driver.sys.proc, Sys: f.driver.sys.sys, Dev: f.driver.sys.dev}
			disk, err := kernel.Claim(t.Context(), f.path, false)
			if err == nil {
				require.NoError(t, disk.Close())
			}
			requireCode(t, err, tc.code)
		})
	}
}

// F12
func TestDiskUnderTheSystemByItsMount(t *testing.T) {
	f := newDisk(t, mib, "scsi", disks["scsi"].attributes)
	f.enroll(t)
	// A root on btrfs has no directory in sysfs, so the source of the mount counts.
	var root unix.Stat_t
	require.NoError(t, unix.Stat("/", &root))
	f.driver.sys.proc = tables(t, map[string]string{
		"self/mountinfo": "1 0 " + formatNumber(root.Dev) + " / /elsewhere rw - btrfs " + f.path + " rw\n",
	})
	_, err := f.driver.Discover(t.Context(), f.target, f.identity)
	fault := hardwaretest.RequireFault(t, err, device.CodeNotAllowed)
	require.Contains(t, fault.Message, "is the disk below /")
	require.Equal(t, device.NeedsOperator, fault.Class)
}

// F12
func TestDeviceUnderTheStateDirectoryIsRefused(t *testing.T) {
	requireTools(t, "mkfs.ext4", "mount")
	f := loopFixture(t, workDir(t), 16*mib)
	run(t, "mkfs.ext4", "-q", "-F", f.loop)
	state := filepath.Join(mountDevice(t, f.loop, "noload,ro"), ".")
	_, err := New(allowAll{}, state).Discover(t.Context(), targetAt(f.loop), device.Identity{})
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeNotAllowed).Message, "is the disk below "+state)
	_, err = newDriver(t).Discover(t.Context(), targetAt(f.loop), device.Identity{})
	hardwaretest.RequireFault(t, err, device.CodeTargetBusy)
}

// A writer may have opened the device without a claim.
//
// F12
func TestWriterIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		fdinfo string
		code   device.Code
	}{
		"reads":                   {"pos:\t0\nflags:\t0100000\nmnt_id:\t9\n", ""},
		"writes":                  {"pos:\t0\nflags:\t0100001\nmnt_id:\t9\n", device.CodeTargetBusy},
		"reads and writes":        {"pos:\t0\nflags:\t02100002\nmnt_id:\t9\n", device.CodeTargetBusy},
		"only holds its path":     {"pos:\t0\nflags:\t012000002\nmnt_id:\t9\n", ""},
		"closed since":            {"", ""},
		"without its flags":       {"pos:\t0\n", device.CodeIO},
		"with flags of otherwise": {"flags:\tnone\n", device.CodeIO},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(workDir(t), "f")
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			sys := realSystem()
			files := map[string]string{"77/comm": "qemu-system\n", "78/comm": "no files\n", "swaps": ""}
			if tc.fdinfo != "" {
				files["77/fdinfo/5"] = tc.fdinfo
			}
			sys.proc = tables(t, files)
			require.NoError(t, os.Mkdir(filepath.Join(sys.proc, "77/fd"), 0o700))
			require.NoError(t, os.Symlink(path, filepath.Join(sys.proc, "77/fd/5")))
			require.NoError(t, os.Symlink("/nowhere", filepath.Join(sys.proc, "77/fd/6")))
			want, err := inodeAt(path)
			require.NoError(t, err)
			_, err = sys.checkNoWriters(t.Context(), path,
				hardware.Search{Ours: -1, Is: func(stat *unix.Statx_t) bool { return stat.Ino == want.ino }})
			requireCode(t, err, tc.code)
			if tc.code == device.CodeTargetBusy {
				require.ErrorContains(t, err, "by process 77 (qemu-system)")
			}
		})
	}
	sys := realSystem()
	sys.proc = filepath.Join(t.TempDir(), "none")
	_, err := sys.checkNoWriters(t.Context(), "/f",
		hardware.Search{Ours: -1, Is: func(*unix.Statx_t) bool { return true }})
	hardwaretest.RequireFault(t, err, device.CodeIO)
}

// F40
func TestANodeForCommandsWithoutANumberIsAFault(t *testing.T) {
	sys := realSystem()
	dir := filepath.Join(tables(t, map[string]string{"sda/device/scsi_generic/sg3/dev": "none"}), "sda")
	_, err := sys.commandNodes(node{name: "sda", dir: dir})
	hardwaretest.RequireFault(t, err, device.CodeIO)
}

// A process that sends commands to a disk has not claimed it, and has another node of it.
// Open with a node of that kind, here /dev/zero in its place, which no other program has open: also to read, which the
// kernel does not ask for a command. The controller of an NVMe drive is open in the driver of this process, and in what
// it starts.
//
// F40
func TestAnOpenNodeForCommandsIsAUse(t *testing.T) {
	const node = "/dev/zero"
	f := enrollLoop(t, workDir(t), mib)
	h := f.open(t, true)
	defer func() { require.NoError(t, h.Close()) }()
	disk := h.target.(*target)
	disk.sys.proc = "/proc"
	v, dir := disk.info, t.TempDir()
	for name, c := range map[string]struct {
		at   string // where the kernel shows it
		open func(t *testing.T)
		busy bool
	}{
		"to write":                      {"nvme0n1/device/scsi_generic/sg3/dev", openAs(node, unix.O_WRONLY), true},
		"to read":                       {"nvme0n1/device/scsi_generic/sg3/dev", openAs(node, unix.O_RDONLY), true},
		"by its path alone":             {"nvme0n1/device/scsi_generic/sg3/dev", openAs(node, unix.O_PATH), false},
		"another of SCSI's":             {"nvme0n1/device/bsg/0:0:0:0/dev", openAs(node, unix.O_RDONLY), true},
		"NVMe generic":                  {"ng0n1/dev", openAs(node, unix.O_RDONLY), true},
		"of another namespace":          {"ng0n2/dev", openAs(node, unix.O_RDONLY), false},
		"the controller":                {"dev", openedByAnother(node), true},
		"the controller, by this":       {"dev", openAs(node, unix.O_RDONLY), false},
		"a controller of many":          {"../nvme-subsys0/nvme12/dev", openedByAnother(node), true},
		"another drive's controller":    {"../nvme1/dev", openedByAnother(node), false},
		"a controller that is not open": {"dev", func(*testing.T) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			below, at := "nvme0", filepath.Clean(c.at)
			if strings.HasPrefix(at, "../nvme-subsys") {
				below = "nvme-subsys0"
			}
			v.node.name, v.node.dir = "nvme0n1", filepath.Join(dir, name, below, "nvme0n1")
			file := filepath.Join(dir, name, "nvme0", at)
			require.NoError(t, os.MkdirAll(v.node.dir, 0o700))
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, []byte("1:5\n"), 0o600))
			c.open(t)
			err := disk.checkNoWriters(t.Context(), v, h.fd)
			if !c.busy {
				require.NoError(t, err)
				return
			}
			require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeTargetBusy).Message, "held open")
		})
	}
}

func openAs(path string, flags int) func(t *testing.T) {
	return func(t *testing.T) {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	}
}

// openedByAnother has a process that this one is no parent of open a file.
func openedByAnother(path string) func(t *testing.T) {
	return func(t *testing.T) {
		out, err := exec.Command("sh", "-c", "exec 3<"+path+"; sleep 60 >&- 2>&- & echo $!").Output()
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
			closed := func() bool { _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "fd/3")); return err != nil }
			require.Eventually(t, closed, 10*time.Second, time.Millisecond)
		})
	}
}

// A use that ends soon is waited for: a claim of a device, an open file. The wait ends with its context.
//
// F12, F14
func TestBriefUseIsWaitedFor(t *testing.T) {
	for kind, flags := range map[string]int{"file": os.O_RDONLY, "loop": os.O_RDONLY | unix.O_EXCL} {
		t.Run(kind, func(t *testing.T) {
			kinds := map[string]func(*testing.T, string, int64) *fixture{"file": enroll, "loop": enrollLoop}
			f := kinds[kind](t, workDir(t), mib)
			passing, err := os.OpenFile(f.path, flags, 0)
			require.NoError(t, err)
			closed := sync.OnceFunc(func() { require.NoError(t, passing.Close()) })
			h, err := f.driver.Open(onWait{t.Context(), closed}, f.target, f.identity, true)
			require.NoError(t, err)
			require.ErrorIs(t, passing.Close(), os.ErrClosed, "it never waited")

			writing, err := os.OpenFile(f.path, os.O_RDWR, 0)
			require.NoError(t, err)
			defer writing.Close()
			ctx, cancel := context.WithCancel(t.Context())
			require.ErrorIs(t, h.Check(onWait{ctx, cancel}), context.Canceled)
			require.NoError(t, h.Close())
		})
	}
}

// A refused claim does not show who uses the device. The kernel's tables do.
//
// F12
func TestFaultNamesTheUser(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(t *testing.T, f *fixture) []string
		says    string
	}{
		"mount": {mountIt, "is mounted at"},
		"swap":  {swapOnIt, "is used as swap"},
		"claim": {claimIt, "is claimed by a mount, a volume or another process"},
	} {
		t.Run(name, func(t *testing.T) {
			f := enrollLoop(t, workDir(t), mib)
			tc.happens(t, f)
			_, err := f.driver.Open(t.Context(), f.target, f.identity, true)
			require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeTargetBusy).Message, tc.says)

			// The fault of another device must not be that it is busy.
			stranger := f.identity
			stranger.Serial += "0"
			_, err = f.driver.Open(t.Context(), f.target, stranger, true)
			hardwaretest.RequireFault(t, err, device.CodeSerialMismatch)
		})
	}
}

// A worker that enrolled the file itself locks the file.
//
// F1
func TestTheFileBehindALoopIsLockedAsWell(t *testing.T) {
	f := enrollLoop(t, workDir(t), mib)
	file, err := os.Open(f.image)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	_, err = f.driver.Open(t.Context(), f.target, f.identity, true)
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeTargetBusy).Message, "locked by another")
	require.NoError(t, file.Close())

	h := f.open(t, true)
	file, err = os.Open(f.image)
	require.NoError(t, err)
	require.ErrorIs(t, unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	require.NoError(t, h.Close())
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, file.Close())
}
