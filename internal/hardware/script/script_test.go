package script

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/pci"
	"burnish/internal/testkit/suites/hardwaretest"
)

// S0.24, S0.31
func TestAProgramOfTheOperatorDoesTheSteps(t *testing.T) {
	r := newFakeHost(t)
	found := r.discover(t)
	require.Equal(t, device.Identity{
		Serial: "S1", Vendor: "10de", Product: "20b5", Model: "A100", Firmware: "92.00", Size: 40 << 30, Capacity: 40 << 30,
		Path: address,
	}, found.Identity)
	require.Equal(t, device.Script, found.Operation)
	require.Equal(t, map[device.Operation]time.Duration{device.Script: 20 * time.Minute}, found.Estimates)
	require.Equal(t, []string{"erase_device", "verify", "firmware_reflash", "pci_reset"}, found.SupportedSteps)
	require.Nil(t, found.Capabilities)
	require.False(t, found.LiveMigratable)
	specs, err := pci.ParseSpecs([]byte(`{"vendor_id": "10de", "live_migratable": "yes"}`))
	require.NoError(t, err)
	r.driver.host.Specs = func() (pci.Specs, error) { return specs, nil }
	require.True(t, r.discover(t).LiveMigratable)
	require.FileExists(t, filepath.Join(r.dir, "memory"))

	h := r.open(t, true)
	require.Equal(t, int64(40<<30), h.Size())
	_, err = perform(t, h, "verify")
	requireFault(t, err, device.CodeStepFailed, "the memory holds something")
	for _, step := range found.SupportedSteps {
		note, err := perform(t, h, step)
		require.NoError(t, err, step)
		require.Contains(t, note, "script gpu, sha256 "+r.rules["gpu"].SHA256[:12], "the record names the program that ran")
		require.Equal(t, step == "erase_device", strings.HasSuffix(note, ": all of it"), note)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "memory"))
	require.NoError(t, err)
	require.Empty(t, text)
	require.NoError(t, h.Check(t.Context()))
	require.NoError(t, h.Close())
}

// Every verb is a step that can be planned.
//
// S0.31
func TestVerbsAreSteps(t *testing.T) {
	for _, verb := range programSteps {
		require.Contains(t, steps.All().Versions(), verb)
	}
}

// A step that the program no longer supports is not called, even if it is in the plan.
//
// F22
func TestOnlySupportedStepsAreCalled(t *testing.T) {
	r := newFakeHost(t)
	h := r.open(t, true)
	r.write(t, "identity", identity("S1", "A100", 42949672960, "erase_device", "verify"))
	_, err := perform(t, h, "firmware_reflash")
	requireFault(t, err, device.CodeNoSuchStep, "does not offer firmware_reflash")
	r.write(t, "identity", `{"serial": "S1"}`)
	_, err = perform(t, h, "erase_device")
	requireFault(t, err, device.CodeToolOutputInvalid, "does not offer erase_device")
	require.NotContains(t, r.calls(t), "erase_device")
	require.NotContains(t, r.calls(t), "firmware_reflash")
}

// F11, F12, F13, F21, S0.13
func TestUnsupportedDevicesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, r *fakeHost)
		code   device.Code
		says   string
	}{
		"no script":            {func(_ *testing.T, r *fakeHost) { r.target.Settings = nil }, device.CodeInvalidSetting, "--set script=NAME"},
		"a misspelled setting": {func(_ *testing.T, r *fakeHost) { r.target.Settings["scripts"] = "gpu" }, device.CodeInvalidSetting, `"scripts"`},
		"no address":           {func(_ *testing.T, r *fakeHost) { r.target.Address = "" }, device.CodeInvalidSetting, "--address"},
		"nothing there":        {func(_ *testing.T, r *fakeHost) { r.target.Address = "0000:82:00.0" }, device.CodeTargetMissing, "0000:82:00.0"},
		"storage":              {func(t *testing.T, r *fakeHost) { r.setAttribute(t, "class", "0x010802\n") }, device.CodeInvalidSetting, "storage"},
		"a virtual function": {func(t *testing.T, r *fakeHost) {
			require.NoError(t, os.Symlink("../0000:81:00.1", filepath.Join(r.deviceDir(), "physfn")))
		}, device.CodeInvalidSetting, "virtual function"},
		"one with virtual functions": {func(t *testing.T, r *fakeHost) {
			require.NoError(t, os.Symlink("../0000:81:00.4", filepath.Join(r.deviceDir(), "virtfn0")))
		}, device.CodeTargetShared, "1 virtual functions"},
		"not this one": {func(_ *testing.T, r *fakeHost) {
			r.driver.host.Allow = func(d pci.Device) error {
				return hardware.Refused(device.CodeNotAllowed, "allow it", "not %s", d.Product)
			}
		}, device.CodeNotAllowed, "not 20b5"},
		"no such script": {func(_ *testing.T, r *fakeHost) { r.rules = nil }, device.CodeNotAllowed, `no script "gpu"`},
		"a guest has it": {func(t *testing.T, r *fakeHost) {
			require.NoError(t, os.Symlink("../../../../kernel/iommu_groups/7", filepath.Join(r.deviceDir(), "iommu_group")))
			r.guest = unix.EBUSY
		}, device.CodeTargetBusy, "a guest still has the device"},
		"the host has it": {func(t *testing.T, r *fakeHost) { r.upInterface(t, "net/", "eth0") },
			device.CodeTargetBusy, "eth0 is up"},
		"its interface comes or goes": {func(t *testing.T, r *fakeHost) {
			r.upInterface(t, "net/", "eth0")
			require.NoError(t, os.Remove(filepath.Join(r.sys, "class/net/eth0/flags")))
		}, device.CodeTargetBusy, "comes or goes"},
		"the host's display": {func(t *testing.T, r *fakeHost) { r.setAttribute(t, "boot_vga", "1\n") },
			device.CodeTargetBusy, "is the display of this host"},
		"a process has a node of it open": {func(t *testing.T, r *fakeHost) {
			r.setAttribute(t, "drm/card0/dev", "1:3\n") // /dev/null
			require.NoError(t, os.Symlink("../../../../../class/drm", filepath.Join(r.deviceDir(), "drm/card0/subsystem")))
			file, err := os.Open(os.DevNull)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, file.Close()) })
		}, device.CodeTargetBusy, "held open by process"},
		"a process has its memory mapped": {func(t *testing.T, r *fakeHost) {
			r.setAttribute(t, "resource1", strings.Repeat("\x00", 4096))
			file, err := os.OpenFile(filepath.Join(r.deviceDir(), "resource1"), os.O_RDWR, 0)
			require.NoError(t, err)
			memory, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
		}, device.CodeTargetBusy, "mapped by process"},
		"a process has its configuration open": {func(t *testing.T, r *fakeHost) {
			file, err := os.OpenFile(filepath.Join(r.deviceDir(), "config"), os.O_RDWR, 0)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, file.Close()) })
		}, device.CodeTargetBusy, "held open by process"},
		"a guest may have it": {func(t *testing.T, r *fakeHost) {
			require.NoError(t, os.Symlink("../../../drivers/vfio-pci", filepath.Join(r.deviceDir(), "driver")))
			require.NoError(t, os.Symlink("../../../../kernel/iommu_groups/7", filepath.Join(r.deviceDir(), "iommu_group")))
		}, device.CodeTargetBusy, "cannot check whether"},
		"no VFIO group for its guest": {func(t *testing.T, r *fakeHost) {
			require.NoError(t, os.Symlink("../../../../kernel/iommu_groups/7", filepath.Join(r.deviceDir(), "iommu_group")))
			r.guest = unix.EACCES
		}, device.CodeNotAllowed, "cannot check whether"},
		"the host has its virtio interface": {func(t *testing.T, r *fakeHost) { r.upInterface(t, "virtio1/net/", "eth1") },
			device.CodeTargetBusy, "eth1 is up"},
		"off its bus":         {func(t *testing.T, r *fakeHost) { r.setAttribute(t, "config", "\xff\xff\xff\xff") }, device.CodeTargetMissing, "does not answer"},
		"not what sysfs says": {func(t *testing.T, r *fakeHost) { r.setAttribute(t, "config", "\xde\x10\xb6\x20") }, device.CodeIdentityChanged, "20b6"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			who := r.discover(t).Identity
			before := len(r.calls(t))
			tt.change(t, r)
			_, err := r.driver.Discover(t.Context(), r.target, device.Identity{})
			requireFault(t, err, tt.code, tt.says)
			_, err = r.driver.Open(t.Context(), r.target, who, true)
			require.Error(t, err)
			require.Len(t, r.calls(t), before, "nothing was called")
		})
	}
}

// F21
func TestOnlyItsOwnVFIOGroupIsOpened(t *testing.T) {
	r := newFakeHost(t)
	require.NoError(t, os.Symlink("../../../../kernel/iommu_groups/7", filepath.Join(r.deviceDir(), "iommu_group")))
	r.discover(t)
	require.Equal(t, []string{filepath.Join(r.dev, "vfio/7"), filepath.Join(r.dev, "vfio/noiommu-7")}, r.opened)
}

// Another device, or the same at another address, gets no verb that changes anything.
//
// F11
func TestOnlyTheEnrolledDevice(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, r *fakeHost)
		code   device.Code
	}{
		"another serial": {func(t *testing.T, r *fakeHost) {
			r.write(t, "identity", identity("S2", "A100", 42949672960, "erase_device", "verify"))
		}, device.CodeSerialMismatch},
		"another model": {func(t *testing.T, r *fakeHost) {
			r.write(t, "identity", identity("S1", "H100", 42949672960, "erase_device", "verify"))
		}, device.CodeIdentityChanged},
		"another size": {func(t *testing.T, r *fakeHost) {
			r.write(t, "identity", identity("S1", "A100", 1, "erase_device", "verify"))
		}, device.CodeIdentityChanged},
		"another product": {func(t *testing.T, r *fakeHost) {
			r.setAttribute(t, "device", "0x20b7\n")
			r.setAttribute(t, "config", "\xde\x10\xb7\x20")
		}, device.CodeIdentityChanged},
		"taken away": {func(t *testing.T, r *fakeHost) { require.NoError(t, os.RemoveAll(r.deviceDir())) }, device.CodeTargetMissing},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			who := r.discover(t).Identity
			h := r.open(t, true)
			tt.change(t, r)
			_, err := perform(t, h, "erase_device")
			hardwaretest.RequireFault(t, err, tt.code)
			hardwaretest.RequireFault(t, h.Check(t.Context()), tt.code)
			require.NoError(t, h.Close())
			_, err = r.driver.Open(t.Context(), r.target, who, true)
			hardwaretest.RequireFault(t, err, tt.code)
			_, err = r.driver.Discover(t.Context(), r.target, who)
			hardwaretest.RequireFault(t, err, tt.code)
			require.NotContains(t, r.calls(t), "erase_device")
		})
	}
	t.Run("another slot", func(t *testing.T) {
		r := newFakeHost(t)
		who := r.discover(t).Identity
		who.Path = "0000:82:00.0"
		_, err := r.driver.Open(t.Context(), r.target, who, true)
		hardwaretest.RequireFault(t, err, device.CodeIdentityChanged)
	})
	t.Run("new firmware is not another card", func(t *testing.T) {
		r := newFakeHost(t)
		h := r.open(t, true)
		r.write(t, "firmware_reflash", `sed -i s/92.00/93.00/ identity`)
		_, err := perform(t, h, "firmware_reflash")
		require.NoError(t, err)
		require.NoError(t, h.Check(t.Context()))
	})
}

// A reset may take the device off its bus. What returns must be the enrolled device.
//
// F11
func TestDeviceThatReturnsIsOpenedAgain(t *testing.T) {
	r := newFakeHost(t)
	h := r.open(t, true)
	card := r.deviceDir()
	r.write(t, "pci_reset", "cp -r "+card+" "+card+".new; rm -r "+card+"; mv "+card+".new "+card)
	_, err := perform(t, h, "pci_reset")
	require.NoError(t, err)
	require.NoError(t, h.Check(t.Context()))
	_, err = r.driver.Open(t.Context(), r.target, r.discover(t).Identity, true)
	requireFault(t, err, device.CodeTargetBusy, "locked")
	r.write(t, "pci_reset", "rm -r "+card)
	_, err = perform(t, h, "pci_reset")
	hardwaretest.RequireFault(t, err, device.CodeTargetMissing)
}

// F1
func TestOneHolderAtATime(t *testing.T) {
	r := newFakeHost(t)
	h := r.open(t, false)
	who := r.discover(t).Identity // discovery is not a use
	_, err := r.driver.Open(t.Context(), r.target, who, false)
	requireFault(t, err, device.CodeTargetBusy, "locked")
	require.NoError(t, h.Close())
	again, err := r.driver.Open(t.Context(), r.target, who, false)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestReadOnlyHandleOnlyVerifies(t *testing.T) {
	r := newFakeHost(t)
	h := r.open(t, false)
	for _, step := range []string{"erase_device", "firmware_reflash", "pci_reset"} {
		_, err := perform(t, h, step)
		require.ErrorContains(t, err, "opened for reading only")
	}
	r.write(t, "memory", "")
	_, err := perform(t, h, "verify")
	require.NoError(t, err)
	require.ErrorIs(t, h.ZeroAt(t.Context(), 0, 4096), errNoBytes)
	_, err = h.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, errNoBytes)
}

// After the end of its context nothing is called, and without the right to write no program that changes something.
//
// F32
func TestNothingIsCalledWithoutTheRightTo(t *testing.T) {
	r := newFakeHost(t)
	h := r.open(t, true).(hardware.StepRunner)
	before, over := len(r.calls(t)), errors.New("it is over")
	erase := hardware.StepRun{Step: "erase_device", MayGoOn: neverStop}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	_, err := h.RunStep(ended, erase)
	require.ErrorIs(t, err, over)
	require.Len(t, r.calls(t), before)
	_, err = h.RunStep(hardware.WithLease(t.Context(), func(context.Context) error { return over }), erase)
	require.ErrorIs(t, err, over)
	require.NotContains(t, r.calls(t), "erase_device")
	_, err = h.RunStep(t.Context(), erase)
	require.NoError(t, err)
	require.Contains(t, r.calls(t), "erase_device")
}
