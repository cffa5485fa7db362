package nvme_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
)

// S2.3, S2.97
func TestWithoutNvmeCliTheDriverDoesNotStart(t *testing.T) {
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "nvme")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		return path
	}
	for name, tt := range map[string]struct {
		tool string
		code device.Code
		says string
	}{
		"missing":        {filepath.Join(t.TempDir(), "nvme"), device.CodeToolMissing, "cannot run nvme-cli"},
		"not to be run":  {os.DevNull, device.CodeToolMissing, "cannot run nvme-cli"},
		"broken":         {script("echo libnvme.so.1: no such file >&2; exit 127"), device.CodeToolMissing, "libnvme.so.1"},
		"its usage":      {script(`printf '\033[1mUsage:\033[0m nvme \a<device>\033]0;x\007\n' >&2; exit 1`), device.CodeToolMissing, "Usage: nvme <device>"},
		"too old":        {script("echo nvme version 1.8"), device.CodeToolTooOld, "1.12 or later is needed"},
		"something else": {script("echo hello"), device.CodeToolOutputInvalid, "no version in"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fault(t, tt.code, nvme.New(nvme.Host{Tool: tt.tool}).Init(t.Context()))
			require.Contains(t, f.Message, tt.says)
		})
	}
	err := nvme.New(nvme.Host{Tool: script("echo nvme version 2.3 '(git 2.3)'")}).Init(t.Context())
	if os.Geteuid() != 0 {
		require.Contains(t, fault(t, device.CodeNotAllowed, err).Remedy, "BURNISH_NVME_HELPER")
		return
	}
	require.NoError(t, err)
}

// The drive is found by its PCI address and identified by its controller.
//
// S2.10, S2.32
func TestDriveIdentity(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Model, drive.Firmware, drive.Address, drive.VendorID, drive.ProductID = "Best 9000", "FW1", "0000:3b:00.0",
		0x8086, 0x0a54
	b := newDriveFixture(t, nvmesim.Drive("S0"), drive)
	found := b.enroll(1)
	require.Equal(t, device.Identity{
		Serial: "S1", Vendor: "8086", Product: "0a54", Model: "Best 9000", Firmware: "FW1",
		Subsystem: b.site.State(1).SubsystemNQN,
		Size:      16 << 20, Capacity: 16 << 20, BlockSize: 512, Path: "0000:3b:00.0",
	}, found.Identity)
	require.Equal(t, nvme.Type, found.Type)
	require.Empty(t, found.Operation, "the policy chooses the operation")
	require.Equal(t, &device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true, ManageNamespaces: true},
		found.Capabilities)
	require.Equal(t, map[device.Operation]time.Duration{device.CryptoErase: 2 * time.Second,
		device.BlockErase: 40 * time.Second}, found.Estimates)
	require.Empty(t, b.sent(), "discovery changes nothing")

	// A tenant's namespaces and firmware do not change the identity (F11). The enrolled
	// firmware stays the one to compare with (F20).
	b.site.Change(1, func(c *nvmesim.Controller) {
		c.Firmware = "FW2"
		c.Namespaces = []nvmesim.Namespace{{NSID: 4, Blocks: 100, Format: 1, Attached: true}}
	})
	b.site.Rescan(1)
	again, err := b.driver.Discover(t.Context(), b.target(1), found.Identity)
	require.NoError(t, err)
	require.Equal(t, found.Identity, again.Identity)
	require.Equal(t, device.LayoutSplit, again.Layout)
	require.Contains(t, again.Note, "FW1")
}

// Another drive is recognized by each part of the identity.
//
// F11
func TestAnotherDriveInTheSlot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*nvmesim.Controller)
		code   device.Code
	}{
		"serial":    {func(c *nvmesim.Controller) { c.Serial = "S2" }, device.CodeSerialMismatch},
		"model":     {func(c *nvmesim.Controller) { c.Model = "Other" }, device.CodeIdentityChanged},
		"subsystem": {func(c *nvmesim.Controller) { c.SubsystemNQN = "nqn.2014-08.org.nvmexpress:uuid:other" }, device.CodeIdentityChanged},
		"capacity":  {func(c *nvmesim.Controller) { c.Capacity += 4096 }, device.CodeIdentityChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enrolled(t, device.CryptoErase, tt.change)
			_, err := r.driver.Discover(t.Context(), r.target, r.enrolled)
			fault(t, tt.code, err)
			fault(t, tt.code, r.step(t.Context(), "sanitize"))
			require.Empty(t, r.sent())
		})
	}
	t.Run("gone", func(t *testing.T) {
		b := newDriveFixture(t, nvmesim.Drive("S1"))
		found := b.enroll(0)
		target := b.target(0)
		b.site.Remove(0)
		_, err := b.driver.Discover(t.Context(), target, found.Identity)
		fault(t, device.CodeTargetMissing, err)
	})
	t.Run("renumbered", func(t *testing.T) {
		b := newDriveFixture(t, nvmesim.Drive("S1"), nvmesim.Drive("S2"))
		found := b.enroll(0)
		b.writeAsTenant(0)
		b.writeAsTenant(1)
		others := b.tenantBlocks(1)
		b.site.Renumber(0, "nvme7")
		b.clean(0, found, device.WriteZeroes).requireClean("zero", "verify")
		require.Equal(t, others, b.tenantBlocks(1))
	})
	t.Run("multipath", func(t *testing.T) {
		drive := nvmesim.Drive("S1")
		drive.Multipath = true
		b := newDriveFixture(t, drive)
		found := b.enroll(0)
		require.Equal(t, device.LayoutWhole, found.Layout)
		b.writeAsTenant(0)
		b.clean(0, found, device.WriteZeroes).requireClean("zero", "verify")
	})
}

// A drive that the rules do not allow is not enrolled. If it is removed from the rules later,
// it gets no further command, and nothing of it stays claimed.
//
// F12, F13
func TestDriveThatIsNotAllowed(t *testing.T) {
	r := used(t, device.CryptoErase)
	all := r.tenantBlocks(0)
	no := &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed, Message: "no", Remedy: "none"}
	asked, allowed := 0, 0
	r.allow = func(pci.Device) error {
		if asked++; asked > allowed {
			return no
		}
		return nil
	}
	_, err := r.driver.Discover(t.Context(), r.target, device.Identity{})
	require.ErrorIs(t, err, no)
	for _, step := range []string{"sanitize", "zero", "consolidate_namespaces"} {
		require.ErrorIs(t, r.step(t.Context(), step), no)
	}
	// Removed from the rules after the disks are claimed, and between the open and the command.
	for allowed = 1; allowed <= 2; allowed++ {
		asked = 0
		require.ErrorIs(t, r.step(t.Context(), "sanitize"), no)
		require.Equal(t, allowed+1, asked)
	}
	require.Equal(t, all, r.tenantBlocks(0))
	r.allow = nil
	r.requireClean("sanitize", "verify") // nothing stayed claimed
}

// F15
func TestSignatureIsRefusedUntilAccepted(t *testing.T) {
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	label := append([]byte("LABELONE"), make([]byte, 16)...)
	b.site.Write(0, 0x200, append(label, "LVM2 001"...))
	_, err := b.driver.Discover(t.Context(), b.target(0), device.Identity{})
	require.Contains(t, fault(t, device.CodeFilesystemSignature, err).Remedy, "--accept-signature lvm2")
	target := b.target(0)
	target.AcceptSignature = "lvm2"
	_, err = b.driver.Discover(t.Context(), target, device.Identity{})
	require.NoError(t, err)
}

// A namespace that the host cannot read may be an owner's too.
//
// F15
func TestHiddenNamespaceIsRefusedUntilAccepted(t *testing.T) {
	t.Parallel()
	const half = 8 << 20 / 512
	for name, second := range map[string]nvmesim.Namespace{
		"detached":     {NSID: 2, Blocks: half},
		"key value":    {NSID: 2, Blocks: half, CSI: 1, Attached: true},
		"has metadata": {NSID: 2, Blocks: half, Format: 2, Attached: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive := nvmesim.Drive("S1")
			drive.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: half, Attached: true}, second}
			b := newDriveFixture(t, drive)
			_, err := b.driver.Discover(t.Context(), b.target(0), device.Identity{})
			f := fault(t, device.CodeFilesystemSignature, err)
			require.Contains(t, f.Remedy, "--accept-signature hidden_namespace")
			require.Contains(t, f.Message, "namespace 2")
			require.Empty(t, b.sent(), "nothing is attached to look")
			target := b.target(0)
			target.AcceptSignature = "lvm2,hidden_namespace"
			found, err := b.driver.Discover(t.Context(), target, device.Identity{})
			require.NoError(t, err)
			moved := b.target(0)
			moved.MovedFrom = "its other slot"
			_, err = b.driver.Discover(t.Context(), moved, device.Identity{})
			require.NoError(t, err, "its tenants left it")
			_, err = b.driver.Discover(t.Context(), b.target(0), found.Identity)
			require.NoError(t, err, "a tenant's later")
		})
	}
}

// The drives that device_spec allows are found without a command to one. What the first entry that matches a drive says
// is read at each discovery, to which a change of it leads.
//
// S0.2, S0.24, S2.6, S2.105
func TestWhatDeviceSpecSays(t *testing.T) {
	t.Parallel()
	one, two := nvmesim.Drive("S1"), nvmesim.Drive("S2")
	one.VendorID, two.VendorID = 0x8086, 0x144d
	b := newDriveFixture(t, one, two)
	found := func(entries string) []hardware.Found {
		t.Helper()
		var err error
		b.specs, err = pci.ParseSpecs([]byte(entries))
		require.NoError(t, err)
		b.site.ClearLog()
		all, err := b.driver.Find(t.Context())
		require.NoError(t, err)
		require.Empty(t, b.site.Log(), "no drive gets a command")
		return all
	}
	all, err := b.driver.Find(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	const first = `{"vendor_id": "8086", "one_time_use": "yes", "bay": "3"}`
	all = found("[" + first + "]")
	require.Len(t, all, 1)
	require.Equal(t, b.site.State(0).Address, all[0].Address)
	require.Equal(t, "NVME", all[0].Type)
	require.True(t, all[0].OneTimeUse)
	digest := all[0].Digest
	require.Equal(t, digest, found("[" + first + "]")[0].Digest)
	has := b.enroll(0)
	require.Empty(t, has.ClearAction)
	require.False(t, has.LiveMigratable)

	b.site.Swap(0, "S3")
	for _, entries := range []string{
		first,
		`{"vendor_id": "144d", "clear_strategy": "block"}, {"vendor_id": "8086", "clear_action": "zero", "clear_strategy": ` +
			`"auto"}, {"clear_action": "sanitize"}`,
		`{"vendor_id": "8086", "live_migratable": "yes"}, {"live_migratable": "no"}`,
	} {
		all := found("[" + entries + "]")
		require.NotEqual(t, digest, all[0].Digest, entries)
		digest = all[0].Digest
		has := b.enroll(0)
		require.Equal(t, strings.Contains(entries, "yes\"}, {"), has.LiveMigratable)
		if strings.Contains(entries, "zero") {
			require.Equal(t, [2]string{"zero", "auto"}, [2]string{has.ClearAction, has.ClearStrategy})
			has = b.enroll(1)
			require.Equal(t, [2]string{"", "block"}, [2]string{has.ClearAction, has.ClearStrategy})
		}
	}
	digest = found("[" + first + "]")[0].Digest
	b.site.BindDriver(0, "vfio-pci")
	require.NotEqual(t, digest, found("[" + first + "]")[0].Digest, "its driver")
}

// A drive that does not report the command, also where the kernel does not know that yet, and
// one on which the kernel does not use it: the kernel would then write plain zeroes, and the
// record would say that the drive did.
//
// F16
func TestWriteZeroesOnlyWhereTheDriveHasIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*nvmesim.Controller){
		"not reported":          func(c *nvmesim.Controller) { c.ONCS = 0 },
		"not reported any more": func(c *nvmesim.Controller) { c.ONCS, c.KeptWriteZeroes = 0, true },
		"a quirk":               func(c *nvmesim.Controller) { c.WriteZeroesQuirk = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive := nvmesim.Drive("S1")
			change(&drive)
			b := newDriveFixture(t, drive)
			found := b.enroll(0)
			b.writeAsTenant(0)
			b.clean(0, found, device.WriteZeroes).requireRefused(device.CodeCommandRefused, "zero")
			r := b.clean(0, found, device.Shred)
			r.requireClean("zero", "verify")
			require.Equal(t, "o_direct", r.done["zero"].Method)
		})
	}
}

// Verify fails without this clean's own sanitize, and after another host's.
//
// F19
func TestAVerifyAloneProvesNothing(t *testing.T) {
	r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
		c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = 1, 4, true
	})
	fault(t, device.CodeVerifyFailed, r.step(t.Context(), "verify"))
	r.stop = r.crashOnce(func() bool { return len(r.evidence) > 0 })
	require.ErrorIs(t, r.step(t.Context(), "sanitize"), errCrash)
	// Every sample has changed, and the drive still reports that everything is erased.
	r.site.Fill(0, 0x33)
	r.change(func(c *nvmesim.Controller) { c.Sanitize.GlobalErased = true })
	require.Contains(t, fault(t, device.CodeVerifyFailed, r.step(t.Context(), "verify")).Message, "no record")
}
