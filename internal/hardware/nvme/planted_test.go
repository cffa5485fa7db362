package nvme_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// A drive that says "sanitized" and erases nothing is found out, whatever the tenant left, and also where he hid it
// from the host's disks; one that erases passes. nvme-cli, the driver and the bytes are real. A second namespace is as
// full as the first.
//
// F19, F33
func TestALyingDriveIsFoundOut(t *testing.T) {
	t.Parallel()
	type drive = nvmesim.Controller
	failed := func(c *drive) { c.Sanitize.Status, c.Sanitize.CDW10 = 3, 4 }
	secret := make([]byte, 4096) // in one block only, where no sample is
	copy(secret, "secret")
	tenant := func(b *driveFixture) { b.writeAsTenant(0) }
	for name, tt := range map[string]struct {
		prepare   func(b *driveFixture)
		change    func(*drive)
		sanitizes int // 0: what differs from "nothing written" is only that the drive lies
	}{
		"nothing written":    {sanitizes: 1},
		"one block written":  {prepare: func(b *driveFixture) { b.site.Write(0, 5<<20+8192, secret) }},
		"constant data":      {prepare: func(b *driveFixture) { b.site.Fill(0, 0x41) }},
		"after a failed one": {prepare: tenant, change: failed, sanitizes: 2}, // the first makes the drive take writes
		"without management, two": {prepare: tenant, sanitizes: 1, change: func(c *drive) {
			c.OACS &^= 1 << 3
			c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 14, Attached: true},
				{NSID: 2, Blocks: 1 << 14, Attached: true, Offset: 8 << 20}}
		}},
		"no namespace":       {prepare: tenant, sanitizes: 1, change: func(c *drive) { c.Namespaces = nil }},
		"a detached one":     {prepare: tenant, sanitizes: 1, change: func(c *drive) { c.Namespaces[0].Attached = false }},
		"a small one":        {prepare: tenant, sanitizes: 1, change: func(c *drive) { c.Namespaces[0].Blocks = 8 }},
		"none, after a fail": {prepare: tenant, sanitizes: 2, change: func(c *drive) { c.Namespaces = nil; failed(c) }},
		"none, after a fail, refused otherwise": {prepare: tenant, sanitizes: 2, change: func(c *drive) {
			c.Namespaces = nil
			c.Inject = []nvmesim.Injection{{Opcode: nvmesim.ManageNamespace, Status: nvmesim.InvalidOpcode, Times: 1}}
			failed(c)
		}},
	} {
		for _, leaves := range []nvmesim.Leaves{"unchanged", "random"} {
			if leaves == "random" && tt.sanitizes == 0 {
				continue
			}
			t.Run(name+", "+string(leaves), func(t *testing.T) {
				t.Parallel()
				b := newDriveFixture(t, nvmesim.Drive("S1"))
				found := b.enroll(0)
				if tt.prepare != nil {
					tt.prepare(b)
				}
				r := b.changed(found, device.CryptoErase, func(c *drive) {
					c.Sanitize.Leaves = leaves
					if tt.change != nil {
						tt.change(c)
					}
				})
				plan := r.fullPlan()
				if b.site.State(0).OACS&(1<<3) == 0 {
					plan = []string{"sanitize", "verify"}
				}
				step, err := r.all(t.Context(), plan...)
				if leaves == "unchanged" {
					require.Contains(t, fault(t, device.CodeVerifyFailed, err).Message, "is still there")
					require.Equal(t, "sanitize", step)
					return
				}
				require.NoError(t, err)
				require.Zero(t, b.tenantBlocks(0))
				require.Contains(t, r.done["sanitize"].Note, "128 of 128 planted blocks changed, 0 unreadable; 0 could not be "+
					"planted")
				require.Contains(t, r.done["verify"].Note, "128 of 128 planted blocks changed")
				started := slices.DeleteFunc(r.sent(nvmesim.SanitizeDrive),
					func(c nvmesim.Command) bool { return c.Status != nvmesim.Success })
				require.Len(t, started, tt.sanitizes)
				provenCommands(t, b.site, "S1")
			})
		}
	}
}

// A drive that is to be zeroed, and whose tenant left a sanitize running: the clean waits for
// its end, also where the drive has no security commands and answers every other one.
//
// F18
func TestZeroesWaitForATenantsSanitize(t *testing.T) {
	r := used(t, device.WriteZeroes, func(c *nvmesim.Controller) {
		c.OACS &^= 1
		c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.Polls, c.Sanitize.AnswersLogs, c.Sanitize.Leaves = 2, 4, 9,
			true, "unchanged"
	})
	for _, step := range []string{"security_check", "zero"} {
		f := r.requireRefused(device.CodeSanitizeRunning, step)
		require.Equal(t, device.Transient, f.Class)
		require.Contains(t, f.Message, "of 65536 done")
	}
	for range 9 { // its end comes with reads of its log
		_ = r.step(t.Context(), "security_check")
	}
	r.requireClean("security_check", "zero", "verify")
}

// A sanitize that the drive refuses because firmware is staged has a fault of its own.
//
// F20
func TestStagedFirmwareFoundByASanitize(t *testing.T) {
	r := enrolled(t, device.CryptoErase, func(c *nvmesim.Controller) {
		c.Slots.AFI, c.Slots.Revisions[1] = 2<<4|1, "EVIL"
	})
	f := fault(t, device.CodeFirmwareChanged, r.step(t.Context(), "sanitize"))
	require.Contains(t, f.Message, "status 0x10b")
	require.Contains(t, f.Remedy, "commit the present slot again")
}

// A serial with blanks inside has one form, whichever driver reads it, and is the same drive for
// every command.
//
// F23
func TestASerialWithBlanksHasOneForm(t *testing.T) {
	for serial, want := range map[string]string{"S 1": "S_1", "S  1 x": "S_1_x", "S_1": "S_1"} {
		b := newDriveFixture(t, nvmesim.Drive(serial))
		found := b.enroll(0)
		require.Equal(t, want, found.Identity.Serial)
		_, err := b.driver.Discover(t.Context(), b.target(0), found.Identity)
		require.NoError(t, err)
		b.clean(0, found, device.CryptoErase).requireClean("sanitize")
	}
}

// After a crash the drive is made to show all its data again.
//
// F19
func TestCrashBeforeTheSamples(t *testing.T) {
	t.Parallel()
	for at := range 3 {
		r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
			c.Namespaces[0].Attached, c.Sanitize.Leaves = false, "unchanged"
		})
		r.stop = r.crashOnce(func() bool { return r.checkpoints == at+1 })
		require.ErrorIs(t, r.step(t.Context(), "sanitize"), errCrash)
		fault(t, device.CodeVerifyFailed, r.step(t.Context(), "sanitize"))
	}
}
