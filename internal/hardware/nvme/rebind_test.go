package nvme

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/pci"
)

const guestAddress = "0000:01:00.0"

// guestFixture is a host whose one drive is on the guests' driver. The function taken plays
// the kernel, which acts on what is written to sysfs.
func guestFixture(t *testing.T, on string) (*Driver, string) {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "sys/bus/pci/devices", guestAddress)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "dev/vfio"), 0o755))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range map[string]string{"vendor": "0x8086", "device": "0x0a54", "class": "0x010802",
		"driver_override": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "sys/bus/pci/drivers_probe"), nil, 0o600))
	if on != "" {
		bound(t, root, on)
	}
	require.NoError(t, os.Symlink("../../../kernel/iommu_groups/12", filepath.Join(dir, "iommu_group")))
	d := New(Host{Allow: func(pci.Device) error { return nil },
		Kernel: block.Kernel{Proc: "/proc", Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev")}})
	d.timeout = time.Second
	return d, root
}

// bound puts the drive on a driver.
func bound(t *testing.T, root, driver string) {
	t.Helper()
	link := filepath.Join(root, "sys/bus/pci/devices", guestAddress, "driver")
	home := filepath.Join(root, "sys/bus/pci/drivers", driver)
	require.NoError(t, os.MkdirAll(home, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, "unbind"), nil, 0o600))
	require.NoError(t, os.RemoveAll(link))
	require.NoError(t, os.Symlink(home, link))
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	require.NoError(t, err)
	return string(text)
}

// A drive is taken from the guests' driver only with rebind=yes, and never from another one.
//
// S2.60
func TestADriveOnAnotherDriverIsWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		on     string
		rebind bool
	}{
		"a guest's": {"vfio-pci", false}, "none": {"", false}, "another kernel driver's": {"uio_pci_generic", true},
	} {
		t.Run(name, func(t *testing.T) {
			d, root := guestFixture(t, tt.on)
			dev, err := privileged.FindController(d.sys, guestAddress)
			require.NoError(t, err)
			_, err = d.ensureHostDriver(t.Context(), dev, tt.rebind, nil)
			f, ok := device.AsFault(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, device.CodeTargetBusy, f.Code)
			require.Equal(t, device.Transient, f.Class, "the clean waits for it")
			require.Empty(t, read(t, root, "sys/bus/pci/drivers_probe"), "the driver is not changed")
		})
	}
}

// The VFIO group cannot be opened while a guest has the drive.
//
// F21
func TestDriveOfAGuestIsNotTaken(t *testing.T) {
	d, root := guestFixture(t, hardware.GuestDriver)
	asked := ""
	d.local.OpenGroup = func(path string) (int, error) { asked = path; return -1, unix.EBUSY }
	dev, err := privileged.FindController(d.sys, guestAddress)
	require.NoError(t, err)
	_, err = d.ensureHostDriver(t.Context(), dev, true, nil)
	f, ok := device.AsFault(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, device.CodeTargetBusy, f.Code)
	require.Contains(t, f.Message, "a guest still has the drive")
	require.Equal(t, filepath.Join(root, "dev/vfio/12"), asked)
	require.Empty(t, read(t, root, "sys/bus/pci/drivers", hardware.GuestDriver, "unbind"))
}

// The drive is unbound, offered to the driver nvme only, and the override is cleared.
//
// S2.60
func TestRebindTakesItBack(t *testing.T) {
	d, root := guestFixture(t, hardware.GuestDriver)
	d.local.OpenGroup = func(string) (int, error) { return unix.Open(os.DevNull, unix.O_RDONLY, 0) }
	dev, err := privileged.FindController(d.sys, guestAddress)
	require.NoError(t, err)
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		// This is what the kernel does.
		require.Eventually(t, func() bool { return read(t, root, "sys/bus/pci/drivers_probe") == guestAddress }, time.Minute,
			time.Millisecond)
		bound(t, root, privileged.HostDriver)
	}()
	dev, err = d.ensureHostDriver(t.Context(), dev, true, nil)
	<-probed
	require.NoError(t, err)
	require.Equal(t, privileged.HostDriver, dev.Driver)
	require.Equal(t, guestAddress, read(t, root, "sys/bus/pci/drivers", hardware.GuestDriver, "unbind"))
	require.Equal(t, "\n", read(t, root, "sys/bus/pci/devices", guestAddress, "driver_override"))
}

// Discovery changes nothing.
func TestDiscoveryDoesNotRebind(t *testing.T) {
	d, root := guestFixture(t, hardware.GuestDriver)
	d.local.OpenGroup = func(string) (int, error) { return unix.Open(os.DevNull, unix.O_RDONLY, 0) }
	_, err := d.Discover(t.Context(), hardware.Target{Address: guestAddress, Settings: map[string]string{"rebind": "yes"}},
		device.Identity{})
	f, ok := device.AsFault(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, device.CodeTargetBusy, f.Code)
	require.Empty(t, read(t, root, "sys/bus/pci/drivers", hardware.GuestDriver, "unbind"))
}

func TestUnknownSettingsAreRefused(t *testing.T) {
	for text, want := range map[string]string{"rebind=maybe": "rebind must be yes or no",
		"rebnd=yes": "no setting \"rebnd\"", "rebind=yes": "", "reset=no": ""} {
		t.Run(text, func(t *testing.T) {
			key, value, _ := strings.Cut(text, "=")
			_, err := settings(hardware.Target{Settings: map[string]string{key: value}})
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}
