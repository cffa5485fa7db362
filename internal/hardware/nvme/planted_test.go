package nvme_test

import (
	"fmt"
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
	for name, prepare := range map[string]func(b *driveFixture, c *nvmesim.Controller){
		"nothing written":    func(*driveFixture, *nvmesim.Controller) {},
		"one block written":  func(b *driveFixture, _ *nvmesim.Controller) { b.site.Write(0, 5<<20+8192, secret) },
		"constant data":      func(b *driveFixture, _ *nvmesim.Controller) { b.site.Fill(0, 0x41) },
		"after a failed one": func(_ *driveFixture, c *nvmesim.Controller) { c.Sanitize.Status, c.Sanitize.CDW10 = failed, 4 },
		"without management, two": func(_ *driveFixture, c *nvmesim.Controller) {
			c.OACS &^= 1 << 3
			c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 14, Attached: true},
				{NSID: 2, Blocks: 1 << 14, Attached: true, Offset: 8 << 20}}
		},
	} {
		for _, leaves := range []nvmesim.Leaves{"unchanged", "random"} {
			if leaves == "random" && (name == "one block written" || name == "constant data") {
				continue // as with nothing written
			}
			t.Run(name+", "+string(leaves), func(t *testing.T) {
				t.Parallel()
				b := newDriveFixture(t, nvmesim.Drive("S1"))
				found := b.enroll(0)
				if name == "after a failed one" || name == "without management, two" {
					b.writeAsTenant(0)
				}
				b.site.Change(0, func(c *nvmesim.Controller) { c.Sanitize.Leaves = leaves })
				var c nvmesim.Controller
				b.site.Change(0, func(now *nvmesim.Controller) { c = *now })
				prepare(b, &c)
				b.site.Change(0, func(now *nvmesim.Controller) {
					now.Sanitize.Status, now.Sanitize.CDW10 = c.Sanitize.Status, c.Sanitize.CDW10
					now.Namespaces, now.OACS = c.Namespaces, c.OACS
				})
				b.site.Rescan(0)
				b.site.ClearLog()
				r := b.clean(0, found, device.CryptoErase)
				_, err := r.all(t.Context(), "sanitize", "verify")
				if leaves == "unchanged" {
					require.Contains(t, fault(t, device.CodeVerifyFailed, err).Message, "is still there")
					return
				}
				require.NoError(t, err)
				require.Zero(t, b.tenantBlocks(0))
				require.Contains(t, r.done["sanitize"].Note, "128 of 128 planted blocks changed, 0 unreadable; 0 could not be "+
					"planted")
				require.Contains(t, r.done["verify"].Note, "128 of 128 planted blocks changed")
				started := 0
				for _, c := range b.site.Log() {
					if c.Opcode == nvmesim.SanitizeDrive && c.Status == nvmesim.Success {
						started++
					}
				}
				want := 1
				if c.Sanitize.Status == failed {
					want = 2 // the first one makes the drive take writes
				}
				require.Equal(t, want, started)
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
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	b.writeAsTenant(0)
	b.site.Change(0, func(c *nvmesim.Controller) {
		c.OACS &^= 1
		c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.Polls, c.Sanitize.AnswersLogs, c.Sanitize.Leaves = 2, 4, 9,
			true, "unchanged"
	})
	all := b.tenantBlocks(0)
	r := b.clean(0, found, device.WriteZeroes)
	for _, step := range []string{"security_check", "zero"} {
		f := fault(t, device.CodeSanitizeRunning, r.step(t.Context(), step))
		require.Equal(t, device.Transient, f.Class)
		require.Contains(t, f.Message, "of 65536 done")
	}
	require.Equal(t, all, b.tenantBlocks(0))
	for range 9 { // its end comes with reads of its log
		_ = r.step(t.Context(), "security_check")
	}
	_, err := r.all(t.Context(), "security_check", "zero", "verify")
	require.NoError(t, err)
	require.Zero(t, b.tenantBlocks(0))
}

// A sanitize that the drive refuses because firmware is staged has a fault of its own.
//
// F20
func TestStagedFirmwareFoundByASanitize(t *testing.T) {
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	b.site.Change(0, func(c *nvmesim.Controller) { c.Slots.AFI, c.Slots.Revisions[1] = 2<<4|1, "EVIL" })
	f := fault(t, device.CodeFirmwareChanged, b.clean(0, found, device.CryptoErase).step(t.Context(), "sanitize"))
	require.Contains(t, f.Message, "status 0x10b")
	require.Contains(t, f.Remedy, "commit the present slot again")
}

// A serial with blanks inside has one form, whichever driver reads it, and is the same drive for
// every command.
//
// F23
func TestASerialWithBlanksHasOneForm(t *testing.T) {
	for i, serial := range []string{"S 1", "S  1 x", "S_1"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := newDriveFixture(t, nvmesim.Drive(serial))
			found := b.enroll(0)
			require.Equal(t, []string{"S_1", "S_1_x", "S_1"}[i], found.Identity.Serial)
			b.writeAsTenant(0)
			_, err := b.clean(0, found, device.CryptoErase).sanitized(t)
			require.NoError(t, err)
			require.Zero(t, b.tenantBlocks(0))
			_, err = b.driver.Discover(t.Context(), b.target(0), found.Identity)
			require.NoError(t, err)
		})
	}
}
