package pci

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
)

// aliased is a region whose second half shows its first.
func aliased(t *testing.T, size int) []byte {
	t.Helper()
	fd, err := unix.MemfdCreate("aliased", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, int64(size/2)))
	all, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	for half := range 2 {
		at := uintptr(half * size / 2)
		_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(unsafe.Pointer(unsafe.SliceData(all)))+at,
			uintptr(size/2), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED, uintptr(fd), 0)
		require.Zero(t, errno)
	}
	require.NoError(t, unix.Close(fd))
	return all
}

// class makes a device that a driver made of a function, in a subsystem.
func (h *fakeHost) class(address, subsystem, name string, files map[string]string) {
	h.t.Helper()
	folder := node(address) + subsystem + "/" + name
	h.link("../../../../../class/"+subsystem, folder+"/subsystem")
	for file, text := range files {
		h.file(folder+"/"+file, text)
	}
	if subsystem == "net" {
		h.file(folder+"/flags", "0x1002\n")
		h.link("../../devices/pci0000:00/"+address+"/net/"+name, "sys/class/net/"+name)
	}
}

// What cannot be shown to be free is busy: no part of the host's own network, disks and displays is ever
// touched.
//
// F12, F21, F40
func TestADeviceInUseIsBusy(t *testing.T) {
	const nic, gpu, card = "15b3:1017", "1af4:1050", "1af4:1110"
	nicWith := func(use func(h *fakeHost)) func(h *fakeHost) {
		return func(h *fakeHost) {
			h.class(address, "net", "eth0", nil)
			use(h)
		}
	}
	has := func(name, text string) func(*fakeHost) { return func(h *fakeHost) { h.file(name, text) } }
	makes := func(subsystem, name, enabled string) func(*fakeHost) {
		return func(h *fakeHost) { h.class(address, subsystem, name, map[string]string{"enabled": enabled}) }
	}
	for name, tt := range map[string]struct {
		ids, class, driver string
		use                func(h *fakeHost)
		says               string
	}{
		"a guest": {card, "050000", "vfio-pci", func(h *fakeHost) {
			h.group(address, "12")
			h.kernel.OpenGroup = func(path string) (int, error) { return -1, unix.EBUSY }
		}, "a guest still has"},
		"on a guests' driver without a group": {card, "050000", "vfio-pci", nil, "cannot check whether a guest has"},
		"an interface that is up": {nic, "020000", "mlx5_core", nicWith(func(h *fakeHost) {
			h.file(node(address)+"net/eth0/flags", "0x1003\n")
		}), "is up"},
		"an address": {nic, "020000", "mlx5_core", nicWith(func(h *fakeHost) {
			h.addresses = []net.Addr{&net.IPAddr{IP: net.IPv4(192, 0, 2, 1)}}
		}), "192.0.2.1"},
		"a VLAN, bond or bridge": {nic, "020000", "mlx5_core", nicWith(func(h *fakeHost) {
			h.file(node(address)+"net/eth0/upper_eth0.5", "")
		}), "is below eth0.5"},
		"an interface in another namespace": {nic, "020000", "mlx5_core", nil, "0 of 1 network interfaces"},
		"a port in another namespace": {nic, "120000", "mlx5_core", func(h *fakeHost) {
			h.devlink(address)
			h.program("devlink -j port show", `{"port": {"pci/`+address+`/0": {"type": "eth", "flavour": "physical"}}}`, "")
		}, "another network namespace"},
		"an interface that cannot be read": {nic, "020000", "mlx5_core", nicWith(func(h *fakeHost) {
			require.NoError(t, os.Remove(filepath.Join(h.root, node(address)+"net/eth0/flags")))
		}), "comes or goes"},
		"the host's display": {gpu, "030000", "", has(node(address)+"boot_vga", "1\n"), "is the display"},
		"the host's console": {gpu, "038000", "bochs-drm", makes("graphics", "fb0", ""), "console"},
		"a monitor":          {gpu, "038000", "amdgpu", makes("drm", "card0-DP-1", "enabled\n"), "drives a display"},
		"a module that is in use": {gpu, "030200", "nvidia", has("sys/bus/pci/drivers/nvidia/module/refcnt", "2\n"),
			"in use (2 times)"},
		"what nobody knows": {gpu, "030200", "nvidia", makes("block", "sdz", ""), "cannot be shown to be free"},
		"a virtual function that was given away": {nic, "020000", "", func(h *fakeHost) {
			h.add("0000:01:00.2", "15b3:1018", "020000", "vfio-pci", 0)
			h.link("../0000:01:00.2", node(address)+"virtfn0")
			h.link("../"+address, node("0000:01:00.2")+"physfn")
		}, "cannot check whether a guest has"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(address, tt.ids, tt.class, "", 7)
			known := h.enroll().Identity
			h.driver(address, tt.driver)
			if tt.use != nil {
				tt.use(h)
			}
			h.wrote = nil
			require.Contains(t, h.fails(known, device.CodeTargetBusy).Message, tt.says)
			_, err := h.Open(t.Context(), h.target(), known, true)
			hardwaretest.RequireFault(t, err, device.CodeTargetBusy)
			require.Empty(t, h.wrote)
			require.Empty(t, h.ran)
		})
	}
}

func TestWhatThisDriverDoesNotClean(t *testing.T) {
	for class, says := range map[string]string{"010802": "is storage", "060400": "is a bridge"} {
		h := newFakeHost(t)
		h.add(address, "1af4:1110", class, "", 7)
		require.Contains(t, h.fails(device.Identity{}, device.CodeInvalidSetting).Message, says)
		found, err := h.Find(t.Context())
		require.NoError(t, err)
		require.Empty(t, found)
	}
	h := newFakeHost(t)
	h.add(address, "15b3:1017", "020000", "", 7)
	h.add("0000:01:00.2", "15b3:1018", "020000", "", 0)
	h.link("../0000:01:00.2", node(address)+"virtfn0")
	h.link("../"+address, node("0000:01:00.2")+"physfn")
	_ = h.fails(device.Identity{}, device.CodeTargetShared)
	target := h.target()
	target.Address = "0000:01:00.2"
	_, err := h.Discover(t.Context(), target, device.Identity{})
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeInvalidSetting).Message, "virtual function")
}

// F40
func TestAProcessThatHasTheMemoryOrANodeIsFound(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "accel", 7)
	h.class(address, "accel", "accel0", map[string]string{"dev": "1:7\n"}) // /dev/full
	see := func(pid int) {
		require.NoError(t, os.Symlink(fmt.Sprintf("/proc/%d", pid), fmt.Sprintf("%s/%d", h.kernel.Search.Proc, pid)))
	}
	see(os.Getpid())
	known := h.enroll().Identity
	for name, path := range map[string]string{"memory": h.root + "/" + node(address) + "resource2", "node": "/dev/full"} {
		t.Run(name, func(t *testing.T) {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = h.Discover(t.Context(), h.target(), known)
			require.NoError(t, err, "this worker itself")
			holder := exec.Command("sleep", "60")
			holder.ExtraFiles = []*os.File{file}
			require.NoError(t, holder.Start())
			see(holder.Process.Pid)
			require.NoError(t, file.Close())
			fault := h.fails(known, device.CodeTargetBusy)
			require.Contains(t, fault.Message, fmt.Sprintf("process %d (sleep)", holder.Process.Pid))
			require.NoError(t, holder.Process.Kill())
			require.Error(t, holder.Wait())
			require.NoError(t, os.Remove(fmt.Sprintf("%s/%d", h.kernel.Search.Proc, holder.Process.Pid)))
		})
	}
}
