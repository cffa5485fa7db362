package nvme_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// A drive that says "sanitized" and erases nothing is found out whatever the tenant left, and
// one that erases passes; nvme-cli, the driver and the bytes are real. Each drive's second
// namespace is as full as its first.
//
// F33
func TestALyingDriveIsFoundOut(t *testing.T) {
	t.Parallel()
	const failed = 3
	secret := make([]byte, 4096) // in one block only, where no sample is
	copy(secret, "secret")
	for name, tt := range map[string]struct {
		prepare    func(b *driveFixture)
		change     func(*nvmesim.Controller)
		sanitizes  int
		alsoErases bool // what differs from "nothing written" where the drive erases
	}{
		"nothing written":   {sanitizes: 1, alsoErases: true},
		"one block written": {prepare: func(b *driveFixture) { b.site.Write(0, 5<<20+8192, secret) }},
		"constant data":     {prepare: func(b *driveFixture) { b.site.Fill(0, 0x41) }},
		"after a failed one": { // the first one makes the drive take writes
			prepare: func(b *driveFixture) { b.writeAsTenant(0) }, sanitizes: 2, alsoErases: true,
			change: func(c *nvmesim.Controller) { c.Sanitize.Status, c.Sanitize.CDW10 = failed, 4 },
		},
		"without management, two": {
			prepare: func(b *driveFixture) { b.writeAsTenant(0) }, sanitizes: 1, alsoErases: true,
			change: func(c *nvmesim.Controller) {
				c.OACS &^= 1 << 3
				c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 14, Attached: true},
					{NSID: 2, Blocks: 1 << 14, Attached: true, Offset: 8 << 20}}
			},
		},
	} {
		for _, leaves := range []nvmesim.Leaves{"unchanged", "random"} {
			if leaves == "random" && !tt.alsoErases {
				continue
			}
			t.Run(name+", "+string(leaves), func(t *testing.T) {
				t.Parallel()
				b := newDriveFixture(t, nvmesim.Drive("S1"))
				found := b.enroll(0)
				if tt.prepare != nil {
					tt.prepare(b)
				}
				r := b.changed(found, device.CryptoErase, func(c *nvmesim.Controller) {
					c.Sanitize.Leaves = leaves
					if tt.change != nil {
						tt.change(c)
					}
				})
				_, err := r.sanitized()
				if leaves == "unchanged" {
					require.Contains(t, fault(t, device.CodeVerifyFailed, err).Message, "is still there")
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
