package block

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// disks are what sysfs shows for disks of each kind, and their identity.
var disks = map[string]struct {
	bus        string
	attributes map[string]string
	who        device.Identity
}{
	"scsi": {
		"scsi", map[string]string{
			"device/wwid": "naa.5000c500a1b2c3d4\n", "device/vendor": "SEAGATE \n", "device/model": "ST4000NM0033    \n",
			"device/rev":  "0003\n",
			"device/type": "0\n", "device/vpd_pg80": "\x00\x80\x00\x08Z1Z00001",
		},
		device.Identity{Serial: "naa.5000c500a1b2c3d4", Vendor: "SEAGATE", Model: "ST4000NM0033", Firmware: "0003"},
	},
	"sata_of_qemu": {
		"scsi", map[string]string{"device/wwid": "t10.ATA     QEMU HARDDISK                           QM00001             \n",
			"device/model": "QEMU HARDDISK   \n"},
		device.Identity{Serial: "t10.ATA_QEMU_HARDDISK_QM00001", Model: "QEMU_HARDDISK"},
	},
	"scsi_without_a_wwid": {
		"scsi", map[string]string{"device/vpd_pg80": "\x00\x80\x00\x0a  Z1Z00001\x00\x00", "device/model": "OLD\n"},
		device.Identity{Serial: "Z1Z00001", Model: "OLD"},
	},
	"scsi_with_a_zero_wwid": {
		"scsi", map[string]string{"device/wwid": "naa.0000000000000000\n", "device/vpd_pg80": "\x00\x80\x00\x08Z1Z00001"},
		device.Identity{Serial: "Z1Z00001"},
	},
	"usb_bridge_that_counts_its_disks": {
		"scsi", map[string]string{"device/wwid": "naa.5000000000000001\n", "device/vpd_pg80": "\x00\x80\x00\x08Z1Z00001"},
		device.Identity{Serial: "Z1Z00001"},
	},
	"usb_bridge_with_a_serial_in_order": {
		"scsi", map[string]string{
			"device/wwid": "t10.JMicron Generic         0123456789ABCDEF\n", "device/vendor": "JMicron \n",
			"device/model":    "Generic         \n",
			"device/vpd_pg80": "\x00\x80\x00\x08Z1Z00001",
		},
		device.Identity{Serial: "Z1Z00001", Vendor: "JMicron", Model: "Generic"},
	},
	"scsi_whose_wwid_is_its_model": {
		"scsi", map[string]string{
			"device/wwid": "t10.VENDOR  Mass Storage\n", "device/vendor": "VENDOR  \n", "device/model": "Mass Storage    \n",
			"device/vpd_pg80": "\x00\x80\x00\x08Z1Z00001",
		},
		device.Identity{Serial: "Z1Z00001", Vendor: "VENDOR", Model: "Mass_Storage"},
	},
	"model_that_reads_like_none": {
		"scsi", map[string]string{"device/wwid": "naa.5000c500a1b2c3d4\n", "device/model": "Default string  \n"},
		device.Identity{Serial: "naa.5000c500a1b2c3d4", Model: "Default_string"},
	},
	"nvme_whose_serial_is_none": {
		"nvme", map[string]string{"device/serial": "00000000000000000000\n", "device/model": "M\n",
			"wwid": "eui.0025385b71b0a1b2\n"},
		device.Identity{Serial: "eui.0025385b71b0a1b2", Model: "M"},
	},
	"virtio": {
		"virtio", map[string]string{"serial": "vol-1", "device/vendor": "0x1af4\n"},
		device.Identity{Serial: "vol-1", Model: "virtio"},
	},
	"nvme": {
		"nvme", map[string]string{
			"device/serial": "S4EVNX0R123456      \n", "device/model": "Samsung SSD 970 EVO Plus 1TB            \n",
			"device/firmware_rev": "2B2QEXM7\n", "wwid": "eui.0025385b71b0a1b2\n", "metadata_bytes": "0\n",
		},
		device.Identity{Serial: "S4EVNX0R123456", Model: "Samsung_SSD_970_EVO_Plus_1TB", Firmware: "2B2QEXM7"},
	},
	"nvme_multipath": {
		"nvme-subsystem", map[string]string{"device/model": "M\n", "wwid": "nvme.1b36-5331-51454d55-00000001\n"},
		device.Identity{Serial: "nvme.1b36-5331-51454d55-00000001", Model: "M"},
	},
}

// F11
func TestDiskIdentity(t *testing.T) {
	for name, tc := range disks {
		t.Run(name, func(t *testing.T) {
			f := newDisk(t, mib, tc.bus, tc.attributes)
			// Neither another disk nor the hidden path of a multipath disk matters.
			f.disk(t, "sdb", "8:16", "scsi", map[string]string{"device/wwid": "naa.5000c500ffffffff\n"})
			hidden := maps.Clone(tc.attributes)
			hidden["hidden"] = "1\n"
			f.disk(t, "nvme0c0n1", "259:77", tc.bus, hidden)
			f.enroll(t)
			want := tc.who
			want.Size, want.Given, want.Path, want.Device = mib, f.path, f.path, f.number(t)
			require.Equal(t, want, f.identity)
			found, err := f.driver.Discover(t.Context(), f.target, f.identity)
			require.NoError(t, err)
			require.Equal(t, device.Shred, found.Operation)
			require.Contains(t, found.Note, tc.bus)
		})
	}
}

// newDisk is a loop device that the driver sees as the disk sda. It is not enrolled.
func newDisk(t *testing.T, size int64, bus string, attributes map[string]string, args ...string) *fixture {
	t.Helper()
	f := loopFixture(t, workDir(t), size, args...)
	f.path = f.node(t, "sda")
	f.driver.sys.sys = filepath.Join(f.dir, "sys")
	f.disk(t, "sda", formatNumber(f.number(t)), bus, attributes)
	return f
}

// TestDiskSuite runs the suite on disks.
func TestDiskSuite(t *testing.T) {
	dir, made, driver := workDir(t), 0, newDriver(t)
	driver.sys.sys, driver.sys.dev = filepath.Join(dir, "sys"), filepath.Join(dir, "dev")
	require.NoError(t, os.Mkdir(driver.sys.dev, 0o700))
	hardwaretest.Run(t, hardwaretest.Fixture{
		Driver: driver,
		Write:  writeSize,
		Sizes:  []int64{hardware.Align, hardware.Align + 512},
		New: func(t *testing.T, size int64) hardwaretest.Device {
			made++
			name := fmt.Sprintf("vd%d", made)
			f := loopFixture(t, filepath.Join(dir, name), size)
			f.driver = driver
			number := formatNumber(f.number(t)) // another disk has it when the loop is detached
			t.Cleanup(func() { require.NoError(t, os.Remove(filepath.Join(driver.sys.sys, "dev/block", number))) })
			f.disk(t, name, number, "virtio", map[string]string{"serial": name})
			return hardwaretest.Device{Target: targetAt(f.node(t, name)), Backdoor: hardwaretest.File(f.image)}
		},
	})
}

// Another device is refused with a reason, before it is opened if sysfs shows what it is.
//
// F14
func TestOnlyWholeDisksAreAccepted(t *testing.T) {
	scsi := disks["scsi"]
	for name, tc := range map[string]struct {
		bus        string
		attributes map[string]string
		prepare    func(t *testing.T, f *fixture)
		says       string
		code       device.Code
	}{
		"partition":            {says: "is a partition, but only whole disks", attributes: map[string]string{"partition": "1\n"}},
		"device-mapper volume": {says: "is a device-mapper volume", attributes: map[string]string{"dm/name": "vg-lv\n"}},
		"md array":             {says: "is an md array", attributes: map[string]string{"md/level": "raid1\n"}},
		"bcache":               {says: "is a bcache device", attributes: map[string]string{"bcache/state": "clean\n"}},
		"ram":                  {says: "is not a disk with an identity of its own", bus: "none"},
		"sd card":              {says: `bus "mmc"`, bus: "mmc"},
		"optical":              {says: "a SCSI device of type 5", attributes: map[string]string{"device/type": "5\n"}},
		"host-managed zones":   {says: "is zoned (host-managed)", attributes: map[string]string{"queue/zoned": "host-managed\n"}},
		"one path of another":  {says: "is hidden", attributes: map[string]string{"hidden": "1\n"}},
		"metadata":             {says: "has 8 bytes of metadata", attributes: map[string]string{"metadata_bytes": "8\n"}},
		"no serial":            {says: "neither a wwid nor a serial", attributes: map[string]string{"device/wwid": "", "device/vpd_pg80": ""}},
		"serial of zeroes":     {says: "neither a wwid nor a serial", attributes: map[string]string{"device/wwid": "0000\n", "device/vpd_pg80": ""}},
		"zero wwid": {says: "neither a wwid nor a serial", attributes: map[string]string{
			"device/wwid": "eui.0000000000000000\n", "device/vpd_pg80": "\x00\x80\x00\x0a0000000000",
		}},
		"placeholder of virtio": {says: "neither a wwid nor a serial", bus: "virtio", attributes: map[string]string{"serial": "(none)\n"}},
		"wwid that is made of a serial of zeroes": {says: "neither a wwid nor a serial", bus: "nvme",
			attributes: map[string]string{
				"device/serial": "00000000\n", "wwid": "nvme.1b36-3030303030303030-51454d55-00000001\n",
			}},
		"read-only": {says: "is read-only", attributes: map[string]string{"ro": "1\n"}, code: device.CodeNotAllowed},
		"no bytes": {says: "has no bytes", prepare: func(_ *testing.T, f *fixture) {
			f.driver.sys.size = func(int) (int64, error) { return 0, nil }
		}},
		"blocks of 8192": {says: "has blocks of 8192 bytes", prepare: func(_ *testing.T, f *fixture) {
			f.driver.sys.blockSize = func(int) (int, error) { return 8192, nil }
		}},
		"part of a block": {says: "not a multiple of its blocks", prepare: func(_ *testing.T, f *fixture) {
			f.driver.sys.size = func(int) (int64, error) { return mib - 512, nil }
			f.driver.sys.blockSize = func(int) (int, error) { return 4096, nil }
		}},
		"not answering": {says: "input/output error", code: device.CodeIO, prepare: func(_ *testing.T, f *fixture) {
			f.driver.sys.size = func(int) (int64, error) { return 0, unix.EIO }
		}},
		"second node": {says: "is a second name of", prepare: func(t *testing.T, f *fixture) {
			f.path = f.node(t, "tenant-disk")
		}},
		"second serial": {says: "have the same serial", code: device.CodeTargetShared,
			prepare: func(t *testing.T, f *fixture) {
				f.disk(t, "sdb", "8:16", "scsi", scsi.attributes)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			attributes := maps.Clone(scsi.attributes)
			maps.Copy(attributes, tc.attributes)
			if tc.bus == "" {
				tc.bus = scsi.bus
			}
			if tc.code == "" {
				tc.code = device.CodeInvalidSetting
			}
			f := newDisk(t, mib, tc.bus, attributes)
			if tc.prepare != nil {
				tc.prepare(t, f)
			}
			before := checksums(t, []string{f.image})
			_, err := f.driver.Discover(t.Context(), targetAt(f.path), device.Identity{})
			require.Contains(t, hardwaretest.RequireFault(t, err, tc.code).Message, tc.says)
			h, err := f.driver.Open(t.Context(), targetAt(f.path), device.Identity{Path: f.path, Size: mib}, true)
			require.Error(t, err)
			require.Nil(t, h)
			require.Equal(t, before, checksums(t, []string{f.image}))
		})
	}
}

// F14
func TestRealPartitionIsRefused(t *testing.T) {
	f := loopFixture(t, workDir(t), 16*mib)
	part := partition(t, f)
	_, err := newDriver(t).Discover(t.Context(), targetAt(part), device.Identity{})
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeInvalidSetting).Message, "enroll "+f.loop)
}

// F12
func TestOpenDeviceIsClaimedUntilClose(t *testing.T) {
	for _, kind := range []string{"loop", "disk"} {
		for _, writable := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/writable=%t", kind, writable), func(t *testing.T) {
				requireTools(t, "mount", "mkfs.ext4")
				f := enrollKind(t, kind, evenSize)
				run(t, "mkfs.ext4", "-q", "-F", f.loop)
				h := f.open(t, writable)
				require.Equal(t, []int{h.fd}, descriptorsOf(t, f.path), "one descriptor, which holds the claim and writes")

				_, err := unix.Open(f.loop, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
				require.ErrorIs(t, err, unix.EBUSY)
				point := t.TempDir()
				out, err := exec.Command("mount", "-o", "ro,noload", f.loop, point).CombinedOutput()
				require.Error(t, err, "%s", out)
				require.NoError(t, h.Check(t.Context()))

				require.NoError(t, h.Close())
				fd, err := unix.Open(f.loop, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
				require.NoError(t, err)
				require.NoError(t, unix.Close(fd))
			})
		}
	}
}

func enrollKind(t *testing.T, kind string, size int64) *fixture {
	t.Helper()
	if kind == "loop" {
		return enrollLoop(t, workDir(t), size)
	}
	return enrollDisk(t, workDir(t), size)
}

// F11
func TestDeviceIsCheckedBeforeEveryWrite(t *testing.T) {
	const size = 3*mib + 512 // written one after the other
	for name, tc := range map[string]struct {
		kind    string
		happens func(sys *system)
		says    string
	}{
		"another medium in the disk": {"disk", func(sys *system) {
			sys.diskSeq = func(int) (uint64, error) { return 1 << 40, nil }
		}, "was replaced after it was opened"},
		"another file behind the loop": {"loop", func(sys *system) {
			sys.diskSeq = func(int) (uint64, error) { return 1 << 40, nil }
		}, "was replaced after it was opened"},
		"disk shrunk": {"disk", func(sys *system) {
			sys.size = func(int) (int64, error) { return size - 512, nil }
		}, "(size)"},
		"offset of the loop": {"loop", func(sys *system) {
			sys.loopStatus = func(fd int) (*unix.LoopInfo64, error) {
				info, err := unix.IoctlLoopGetStatus64(fd)
				info.Offset = 512
				return info, err
			}
		}, "was attached to something else"},
		"file of the loop": {"loop", func(sys *system) {
			sys.loopStatus = func(fd int) (*unix.LoopInfo64, error) {
				info, err := unix.IoctlLoopGetStatus64(fd)
				info.Inode++
				return info, err
			}
		}, "was attached to something else"},
	} {
		t.Run(name, func(t *testing.T) {
			f := enrollKind(t, tc.kind, size)
			h := f.open(t, true)
			calls := record(t, h)
			write := h.sys.pwrite
			target := h.target.(*target)
			h.sys.pwrite = func(fd int, p []byte, offset int64) (int, error) {
				n, err := write(fd, p, offset)
				tc.happens(&target.sys)
				return n, err
			}
			fault := hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 0, size), device.CodeIdentityChanged)
			require.Contains(t, fault.Message, tc.says)
			require.Len(t, *calls, 1, "there is no further write")
			hardwaretest.RequireFault(t, h.Check(t.Context()), device.CodeIdentityChanged)
		})
	}
}

// A device's answer to a command to zero itself proves nothing. So the tenant's blocks are
// counted in the image of the file system below the loop's file.
//
// F16
func TestNoTenantDataStaysBehindALoop(t *testing.T) {
	requireTools(t, "mkfs.ext4", "losetup", "mount")
	for _, kind := range []string{"file", "loop", "disk"} {
		t.Run(kind, func(t *testing.T) {
			outer := image(t, workDir(t), 100*mib)
			run(t, "mkfs.ext4", "-q", outer)
			dir := mountDevice(t, attach(t, outer), "")
			enrolls := map[string]func(*testing.T, string, int64) *fixture{
				"file": enroll, "loop": enrollLoop, "disk": enrollDisk}[kind]
			f := enrolls(t, dir, evenSize)
			require.Equal(t, evenSize/hardwaretest.Block, stampsIn(t, outer))

			h := f.open(t, true)
			require.NoError(t, h.ZeroAt(t.Context(), 0, evenSize))
			require.NoError(t, h.Flush(t.Context()))
			require.Zero(t, stampsIn(t, outer))
		})
	}
}

// stampsIn counts the tenant's blocks in a file.
func stampsIn(t *testing.T, path string) int {
	t.Helper()
	all, err := os.ReadFile(path)
	require.NoError(t, err)
	found := 0
	for at := 0; at+hardwaretest.Block <= len(all); at += hardwaretest.Block {
		if bytes.HasPrefix(all[at:], []byte("BURNISH!")) {
			found++
		}
	}
	return found
}

// F14
func TestTailOfADeviceIsWrittenDirectAndNeverPastTheEnd(t *testing.T) {
	f := enrollKind(t, "loop", evenSize)
	h := f.open(t, true)
	calls := record(t, h)
	require.NoError(t, h.ZeroAt(t.Context(), 0, evenSize))
	require.Equal(t, append(wholeWrites(4*mib), call{4 * mib, mib + 512, true}), *calls)
	require.Equal(t, methodDirect, h.Method())
	require.NoError(t, h.Flush(t.Context()))
	hardwaretest.RequireCount(t, hardwaretest.File(f.image), nonce, 0, evenSize/512, 0)
}

func TestKernelErrorsAreReported(t *testing.T) {
	f := enrollKind(t, "loop", mib)
	for name, breaks := range map[string]func(sys *system){
		"diskseq": func(sys *system) { sys.diskSeq = func(int) (uint64, error) { return 0, unix.EIO } },
		"size":    func(sys *system) { sys.size = func(int) (int64, error) { return 0, unix.EIO } },
		"block":   func(sys *system) { sys.blockSize = func(int) (int, error) { return 0, unix.EIO } },
		"loop":    func(sys *system) { sys.loopStatus = func(int) (*unix.LoopInfo64, error) { return nil, unix.EIO } },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t)
			d.sys = f.driver.sys
			breaks(&d.sys)
			for _, known := range []device.Identity{{}, f.identity} {
				_, err := d.Discover(t.Context(), f.target, known)
				hardwaretest.RequireFault(t, err, device.CodeIO)
			}
			_, err := d.Open(t.Context(), f.target, f.identity, true)
			hardwaretest.RequireFault(t, err, device.CodeIO)
			require.Empty(t, descriptorsOf(t, f.path), "no refusal leaves a descriptor open")
			require.Empty(t, descriptorsOf(t, f.image))
		})
	}
}
