package nvme_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
	"burnish/internal/testkit/suites/hardwaretest"
)

// changes are the commands that change a drive.
var changes = []uint8{nvmesim.ManageNamespace, nvmesim.AttachNamespace, nvmesim.SanitizeDrive, nvmesim.SetFeatures,
	nvmesim.Reset, nvmesim.Rescan}

// provenCommands requires that each command went to the enrolled drive, and that each
// change was preceded by an identify of the same controller, with no other change between.
func provenCommands(t *testing.T, site *nvmesim.Host, serial string) {
	t.Helper()
	const controller = 1 // CNS
	identified := map[string]bool{}
	for i, c := range site.Log() {
		require.Equal(t, serial, c.Serial, "command %d (opcode 0x%x)", i, c.Opcode)
		switch {
		case c.Opcode == nvmesim.Identify && c.CDW[0]&0xff == controller:
			identified[c.Path] = true
		case slices.Contains(changes, c.Opcode):
			require.True(t, identified[c.Path], "opcode 0x%x went to a drive that was not identified just before", c.Opcode)
			clear(identified)
		}
	}
}

// A whole clean by each operation: the plan as the workflow makes it, every step, and no
// byte of the tenant left.
//
// S2.24, S2.100
func TestCleanByEachOperation(t *testing.T) {
	t.Parallel()
	for _, operation := range []device.Operation{device.CryptoErase, device.BlockErase, device.WriteZeroes, device.Shred} {
		t.Run(string(operation), func(t *testing.T) {
			t.Parallel()
			drive := nvmesim.Drive("S1")
			drive.Sanitize.Leaves = map[device.Operation]nvmesim.Leaves{device.CryptoErase: "random",
				device.BlockErase: "ff"}[operation]
			b := newDriveFixture(t, drive, nvmesim.Drive("CONTROL"))
			found := b.enroll(0)
			require.Equal(t, device.LayoutWhole, found.Layout)
			b.writeAsTenant(0)
			b.writeAsTenant(1)
			control := b.tenantBlocks(1)
			require.Positive(t, control)
			require.Equal(t, control, b.tenantBlocks(0))
			b.site.ClearLog()

			r := b.clean(0, found, operation)
			names := r.plan(*found.Capabilities)
			require.Equal(t, []string{"security_check", "wear_check"}, names[:2])
			_, err := r.all(t.Context(), names...)
			require.NoError(t, err)
			require.Zero(t, b.tenantBlocks(0))
			require.Equal(t, control, b.tenantBlocks(1), "the other drive")
			provenCommands(t, b.site, "S1")
			t.Logf("%v: %+v", names, r.done)

			verified := r.done["verify"]
			require.Equal(t, found.Identity.Size, verified.Bytes)
			if operation.Overwrites() {
				require.Equal(t, "full", verified.Method)
			} else {
				require.Equal(t, "provenance", verified.Method)
				require.Contains(t, verified.Note, "128 of 128 planted blocks changed, 0 unreadable; 0 could not be planted")
			}
			sent := slices.ContainsFunc(b.site.Log(), func(c nvmesim.Command) bool { return c.Opcode == nvmesim.SanitizeDrive })
			require.Equal(t, operation.Sanitizes(), sent, "no other operation than the one locked in")
		})
	}
}

// sanitized runs sanitize and verify alone.
func (r *cleanRun) sanitized(t *testing.T) (string, error) {
	t.Helper()
	return r.all(t.Context(), "sanitize", "verify")
}

// After a sanitize any data is accepted except what was there before.
//
// F19
func TestSanitizeMustChangeTheData(t *testing.T) {
	t.Parallel()
	for leaves, wrong := range map[nvmesim.Leaves]bool{"zero": false, "ff": false, "random": false, "readerror": false,
		"unchanged": true} {
		t.Run(string(leaves), func(t *testing.T) {
			t.Parallel()
			drive := nvmesim.Drive("S1")
			drive.Sanitize.Leaves = leaves
			b := newDriveFixture(t, drive)
			found := b.enroll(0)
			b.writeAsTenant(0)
			r := b.clean(0, found, device.CryptoErase)
			step, err := r.sanitized(t)
			if wrong {
				f := fault(t, device.CodeVerifyFailed, err)
				require.Contains(t, f.Message, "is still there")
				require.Equal(t, "sanitize", step)
				return
			}
			require.NoError(t, err)
			if leaves == "readerror" {
				require.Contains(t, r.done["verify"].Note, "0 of 128 planted blocks changed, 128 unreadable")
			} else {
				require.Zero(t, b.tenantBlocks(0))
			}
		})
	}
}

// F18, S2.54
func TestTenantsSanitizeIsAwaitedAndDoesNotCount(t *testing.T) {
	drive := nvmesim.Drive("S1")
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	b.writeAsTenant(0)
	// The tenant's sanitize has the same command that ours will have, and erases nothing.
	b.site.Change(0, func(c *nvmesim.Controller) {
		c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = 2, 4, false
		c.Sanitize.Polls, c.Sanitize.Leaves = 3, "unchanged"
		c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Times: 0, Skip: 1 << 20}}
	})
	b.site.ClearLog()
	r := b.clean(0, found, device.CryptoErase)
	started := 0
	r.stop = func(string, int64) error {
		log := b.site.Log()
		if now :=
			len(
				slices.DeleteFunc(log, func(c nvmesim.Command) bool { return c.Opcode != nvmesim.SanitizeDrive })); now > started {
			started = now
		} else if b.site.State(0).Sanitize.Status != 2 {
			// The tenant's sanitize has ended. Ours erases.
			b.site.Change(0, func(c *nvmesim.Controller) { c.Sanitize.Leaves = "random" })
		}
		return nil
	}
	_, err := r.sanitized(t)
	require.NoError(t, err)
	require.Zero(t, b.tenantBlocks(0))
	for _, c := range b.site.Log() {
		if c.Opcode == nvmesim.SanitizeDrive {
			require.Equal(t, nvmesim.Success, c.Status, "none is started while one runs")
			started = 1
		}
	}
	require.Equal(t, 1, started)
}

// After a crash the next attempt starts the sanitize. An earlier sanitize of a tenant
// does not count.
//
// F18
func TestCrashBetweenIntentAndCommand(t *testing.T) {
	drive := nvmesim.Drive("S1")
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	b.writeAsTenant(0)
	// A tenant sanitized by the same command long ago, and has written since.
	b.site.Change(0, func(c *nvmesim.Controller) {
		c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = 1, 4, false
	})
	r := b.clean(0, found, device.CryptoErase)
	crash := errors.New("crash")
	r.stop = func(string, int64) error {
		if len(r.evidence) > 0 {
			return crash
		}
		return nil
	}
	require.ErrorIs(t, r.step(t.Context(), "sanitize"), crash)
	require.Contains(t, r.evidence, "sanitize", "the intent is recorded first")
	b.site.ClearLog()
	r.stop = nil
	_, err := r.sanitized(t)
	require.NoError(t, err)
	require.Zero(t, b.tenantBlocks(0))
	require.True(t,
		slices.ContainsFunc(b.site.Log(), func(c nvmesim.Command) bool { return c.Opcode == nvmesim.SanitizeDrive }))
}

// A sanitize that another process starts after our intent is awaited and does not count, even
// with the same command. Ours follows.
//
// F18
func TestAnotherSanitizeBetweenIntentAndCommand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command    uint32
		crash, lie bool
	}{
		"by another command":                     {command: 2},
		"by the same":                            {command: 4},
		"by the same, and the worker dies":       {command: 4, crash: true},
		"by another, and ours seems to be taken": {command: 2, lie: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			found := b.enroll(0)
			b.writeAsTenant(0)
			r := b.clean(0, found, device.CryptoErase)
			died := errors.New("died")
			came, crash := false, tt.crash
			r.stop = func(string, int64) error {
				switch sanitize := b.site.State(0).Sanitize; {
				case len(r.evidence) > 0 && !came:
					came = true
					b.site.Change(0, func(c *nvmesim.Controller) {
						c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = 2, tt.command, false
						c.Sanitize.Leaves, c.Sanitize.Polls = "unchanged", 2
						if tt.lie {
							c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Times: 1, NoEffect: true}}
						}
					})
				case crash && sanitize.Status == 2:
					crash = false
					return died
				case came && sanitize.Status != 2:
					b.site.Change(0, func(c *nvmesim.Controller) { c.Sanitize.Leaves = "random" })
				}
				return nil
			}
			if tt.crash {
				require.ErrorIs(t, r.step(t.Context(), "sanitize"), died)
			}
			_, err := r.sanitized(t)
			require.NoError(t, err)
			require.True(t, came)
			require.Zero(t, b.tenantBlocks(0))
			require.True(t, slices.ContainsFunc(b.site.Log(), func(c nvmesim.Command) bool {
				return c.Opcode == nvmesim.SanitizeDrive && c.Status == nvmesim.Success
			}), "ours was started")
		})
	}
}

// Global-data-erased must still be set during verify.
//
// F18
func TestWritesAfterTheSanitizeAreDetected(t *testing.T) {
	t.Parallel()
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	b.writeAsTenant(0)
	r := b.clean(0, found, device.CryptoErase)
	require.NoError(t, r.step(t.Context(), "sanitize"))
	media := hardwaretest.File(b.site.Media(0))
	require.NoError(t, hardwaretest.Stamp(media, 1<<20, tenant+1))
	b.site.MarkWritten(0)
	require.Contains(t, fault(t, device.CodeVerifyFailed, r.step(t.Context(), "verify")).Message, "written to since")
}

// The sanitize runs although its command seemed to fail.
//
// F18
func TestLostAnswerToSanitize(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Times: 1, Errno: 5, AfterEffect: true}}
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	b.writeAsTenant(0)
	r := b.clean(0, found, device.BlockErase)
	fault(t, device.CodeIO, r.step(t.Context(), "sanitize"))
	b.site.ClearLog()
	_, err := r.sanitized(t)
	require.NoError(t, err)
	require.Zero(t, b.tenantBlocks(0))
	require.False(t, slices.ContainsFunc(b.site.Log(), func(c nvmesim.Command) bool {
		return c.Opcode == nvmesim.SanitizeDrive
	}), "it is followed, not started again")
}

// The drive reports success without an erase, whatever its log said before.
//
// F18
func TestSanitizeThatErasesNothingIsDetected(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]nvmesim.Sanitize{
		"never":                       {},
		"done by the same command":    {Status: 1, CDW10: 4, GlobalErased: true},
		"done by another":             {Status: 1, CDW10: 2},
		"done, and written to since":  {Status: 1, CDW10: 4},
		"done by another, and erased": {Status: 1, CDW10: 2, GlobalErased: true},
		"done, whatever is written":   {Status: 1, CDW10: 4, GlobalErased: true, IgnoresWrites: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive := nvmesim.Drive("S1")
			b := newDriveFixture(t, drive)
			found := b.enroll(0)
			b.writeAsTenant(0)
			b.site.Change(0, func(c *nvmesim.Controller) {
				c.Sanitize.Status, c.Sanitize.CDW10 = before.Status, before.CDW10
				c.Sanitize.GlobalErased, c.Sanitize.IgnoresWrites = before.GlobalErased, before.IgnoresWrites
				c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, NoEffect: true}}
			})
			_, err := b.clean(0, found, device.CryptoErase).sanitized(t)
			f := fault(t, device.CodeSanitizeFailed, err)
			require.Contains(t, f.Message, "does not prove")
		})
	}
}

// A sanitize that fails, is refused or stalls needs the operator.
//
// S2.27
func TestNoOtherOperationAfterAFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*nvmesim.Controller)
		code   device.Code
		says   string
	}{
		"failed": {func(c *nvmesim.Controller) { c.Sanitize.FailIt = true }, device.CodeSanitizeFailed, "its sanitize failed"},
		"refused": {func(c *nvmesim.Controller) {
			c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Status: nvmesim.InvalidOpcode}}
		}, device.CodeCommandRefused, "status 0x1"},
		"no capability any more": {func(c *nvmesim.Controller) { c.SANICAP = 0 }, device.CodeCommandRefused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			found := b.enroll(0)
			b.writeAsTenant(0)
			b.site.Change(0, tt.change)
			b.site.ClearLog()
			_, err := b.clean(0, found, device.CryptoErase).sanitized(t)
			require.Contains(t, fault(t, tt.code, err).Message, tt.says)
			for _, c := range b.site.Log() {
				require.NotEqual(t, nvmesim.ManageNamespace, c.Opcode)
				if c.Opcode == nvmesim.SanitizeDrive {
					require.Equal(t, uint32(4), c.CDW[0])
				}
			}
		})
	}
}

// Only progress of the sanitize itself ends the wait.
//
// F19
func TestStalledSanitizeNeedsTheOperator(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Sanitize.Polls, drive.Sanitize.StallAt = 100, 655
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	r := b.clean(0, found, device.CryptoErase)
	r.settings.SanitizeStall = 300 * time.Millisecond
	_, err := r.sanitized(t)
	require.Contains(t, fault(t, device.CodeSanitizeStalled, err).Message, "has been at")
	require.Equal(t, uint8(2), uint8(b.site.State(0).Sanitize.Status)&7, "it continues to run")
}

// F18
func TestMediaVerificationIsLeftFirst(t *testing.T) {
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	b.writeAsTenant(0)
	b.site.Change(0, func(c *nvmesim.Controller) {
		c.Sanitize.Status, c.Sanitize.Verifying, c.Sanitize.CDW10 = 2, true, 4
	})
	b.site.ClearLog()
	_, err := b.clean(0, found, device.CryptoErase).sanitized(t)
	require.NoError(t, err)
	var actions []uint32
	for _, c := range b.site.Log() {
		if c.Opcode == nvmesim.SanitizeDrive {
			actions = append(actions, c.CDW[0])
		}
	}
	require.Equal(t, []uint32{5, 4}, actions)
	require.Zero(t, b.tenantBlocks(0))
}

// Zeroing continues after an interruption, on the same drive only.
func TestZeroResumes(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Capacity = 160 << 20
	drive.Namespaces[0].Blocks = 160 << 20 / 512
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	b.writeAsTenant(0)
	r := b.clean(0, found, device.WriteZeroes)
	crash := errors.New("crash")
	r.stop = func(_ string, offset int64) error {
		if offset == 64<<20 {
			return crash
		}
		return nil
	}
	require.ErrorIs(t, r.step(t.Context(), "zero"), crash)
	require.Positive(t, b.tenantBlocks(0))
	r.stop = nil
	_, err := r.all(t.Context(), "zero", "verify")
	require.NoError(t, err)
	require.Zero(t, b.tenantBlocks(0))
	require.Equal(t, "write_zeroes", r.done["zero"].Method)

	// Another drive is in the slot: it gets no command.
	b.writeAsTenant(0)
	b.site.Swap(0, "S2")
	b.writeAsTenant(0)
	all := b.tenantBlocks(0)
	b.site.ClearLog()
	fault(t, device.CodeSerialMismatch, b.clean(0, found, device.WriteZeroes).step(t.Context(), "zero"))
	require.Equal(t, all, b.tenantBlocks(0))
	for _, c := range b.site.Log() {
		require.NotContains(t, changes, c.Opcode)
	}
}

// The drive is replaced between two commands. No command that changes something reaches the
// other drive.
//
// F11
func TestSwappedBetweenTwoCommands(t *testing.T) {
	t.Parallel()
	var swapped atomic.Int32
	t.Cleanup(func() { require.Greater(t, swapped.Load(), int32(6), "most of these moments are in a clean") })
	for after := range 14 {
		opcode, skip := nvmesim.Identify, after
		if after > 8 { // and after a read of its log
			opcode, skip = nvmesim.GetLog, after-9
		}
		t.Run(fmt.Sprintf("0x%x %d", opcode, skip), func(t *testing.T) {
			t.Parallel()
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			found := b.enroll(0)
			b.writeAsTenant(0)
			b.site.Change(0, func(c *nvmesim.Controller) {
				c.Inject = []nvmesim.Injection{{Opcode: opcode, Skip: skip, Times: 1, AfterEffect: true, SwapTo: "S2"}}
			})
			b.site.ClearLog()
			r := b.clean(0, found, device.CryptoErase)
			_, err := r.sanitized(t)
			for _, c := range b.site.Log() {
				if slices.Contains(changes, c.Opcode) {
					require.Equal(t, "S1", c.Serial, "opcode 0x%x", c.Opcode)
				}
			}
			if b.site.State(0).Serial == "S2" {
				swapped.Add(1)
				require.Error(t, err)
			}
		})
	}
}

// A drive that is mounted or held gets no command, and cannot be mounted during a clean.
//
// F12
func TestDriveInUseIsNotTouched(t *testing.T) {
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	b.showThisProcess()
	found := b.enroll(0)
	b.writeAsTenant(0)
	all := b.tenantBlocks(0)
	node := b.site.Dev + "/nvme0n1"
	for name, open := range map[string]func() (*os.File, error){
		"claimed": func() (*os.File, error) { return os.OpenFile(node, os.O_RDONLY|os.O_EXCL, 0) },
		"written": func() (*os.File, error) { return os.OpenFile(node, os.O_RDWR, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			held, err := open()
			require.NoError(t, err)
			b.site.ClearLog()
			for _, step := range []string{"sanitize", "zero", "consolidate_namespaces", "security_check"} {
				f := fault(t, device.CodeTargetBusy, b.clean(0, found, device.CryptoErase).step(t.Context(), step))
				require.Regexp(t, `process \d+ \(\S+\)`, f.Message, "the holder has a name")
			}
			require.NoError(t, held.Close())
			for _, c := range b.site.Log() {
				require.NotContains(t, changes, c.Opcode)
			}
			require.Equal(t, all, b.tenantBlocks(0))
		})
	}
	t.Run("a second controller", func(t *testing.T) {
		b.site.Change(0, func(c *nvmesim.Controller) { c.CMIC, c.Others = 2, []uint16{7} })
		fault(t, device.CodeTargetShared, b.clean(0, found, device.CryptoErase).step(t.Context(), "sanitize"))
		b.site.Change(0, func(c *nvmesim.Controller) { c.CMIC, c.Others = 0, nil })
	})
}
