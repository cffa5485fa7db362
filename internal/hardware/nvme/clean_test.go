package nvme_test

import (
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
			names := r.fullPlan()
			require.Equal(t, []string{"security_check", "wear_check"}, names[:2])
			r.requireClean(names...)
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
			require.Equal(t, operation.Sanitizes(), len(b.sent(nvmesim.SanitizeDrive)) > 0,
				"no other operation than the one locked in")
		})
	}
}

// sanitized runs sanitize and verify alone.
func (r *cleanRun) sanitized() (string, error) {
	r.t.Helper()
	return r.all(r.t.Context(), "sanitize", "verify")
}

// After a sanitize any data is accepted except what was there before, and blocks that cannot be read are counted.
//
// F19
func TestWhatASanitizeLeaves(t *testing.T) {
	t.Parallel()
	for leaves, says := range map[nvmesim.Leaves]string{"zero": "128 of 128 planted blocks changed",
		"readerror": "0 of 128 planted blocks changed, 128 unreadable"} {
		t.Run(string(leaves), func(t *testing.T) {
			t.Parallel()
			r := used(t, device.CryptoErase, func(c *nvmesim.Controller) { c.Sanitize.Leaves = leaves })
			_, err := r.sanitized()
			require.NoError(t, err)
			require.Contains(t, r.done["verify"].Note, says)
			require.Zero(t, r.tenantBlocks(0))
		})
	}
}

// The tenant's sanitize has the same command that ours will have, and erases nothing.
//
// F18, S2.54
func TestTenantsSanitizeIsAwaitedAndDoesNotCount(t *testing.T) {
	r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
		c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = 2, 4, false
		c.Sanitize.Polls, c.Sanitize.Leaves = 3, "unchanged"
	})
	r.stop = func(string, int64) error {
		if len(r.sent(nvmesim.SanitizeDrive)) == 0 && r.site.State(0).Sanitize.Status != 2 {
			r.change(func(c *nvmesim.Controller) { c.Sanitize.Leaves = "random" }) // ours erases
		}
		return nil
	}
	r.requireClean("sanitize", "verify")
	require.Len(t, r.sent(nvmesim.SanitizeDrive), 1)
	require.Equal(t, nvmesim.Success, r.sent(nvmesim.SanitizeDrive)[0].Status, "none is started while one runs")
}

// After a crash the next attempt starts the sanitize. An earlier one of a tenant, by the same command
// long ago and written to since, does not count.
//
// F18
func TestCrashBetweenIntentAndCommand(t *testing.T) {
	r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
		c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = 1, 4, false
	})
	r.stop = r.crashOnce(func() bool { return len(r.evidence) > 0 })
	require.ErrorIs(t, r.step(t.Context(), "sanitize"), errCrash)
	require.Contains(t, r.evidence, "sanitize", "the intent is recorded first")
	require.Empty(t, r.sent(nvmesim.SanitizeDrive))
	r.requireClean("sanitize", "verify")
	require.Len(t, r.sent(nvmesim.SanitizeDrive), 1)
}

// crashOnce ends the attempt at the first checkpoint at which this is so.
func (r *cleanRun) crashOnce(at func() bool) func(string, int64) error {
	crashed := false
	return func(string, int64) error {
		if !crashed && at() {
			crashed = true
			return errCrash
		}
		return nil
	}
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
			r := used(t, device.CryptoErase)
			came, crash := false, tt.crash
			r.stop = func(string, int64) error {
				switch sanitize := r.site.State(0).Sanitize; {
				case len(r.evidence) > 0 && !came:
					came = true
					r.change(func(c *nvmesim.Controller) {
						c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = 2, tt.command, false
						c.Sanitize.Leaves, c.Sanitize.Polls = "unchanged", 2
						if tt.lie {
							c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Times: 1, NoEffect: true}}
						}
					})
				case crash && sanitize.Status == 2:
					crash = false
					return errCrash
				case came && sanitize.Status != 2:
					r.change(func(c *nvmesim.Controller) { c.Sanitize.Leaves = "random" })
				}
				return nil
			}
			if tt.crash {
				require.ErrorIs(t, r.step(t.Context(), "sanitize"), errCrash)
			}
			r.requireClean("sanitize", "verify")
			require.True(t, came)
			require.True(t, slices.ContainsFunc(r.sent(nvmesim.SanitizeDrive),
				func(c nvmesim.Command) bool { return c.Status == nvmesim.Success }), "ours was started")
		})
	}
}

// Global-data-erased must still be set during verify.
//
// F18
func TestWritesAfterTheSanitizeAreDetected(t *testing.T) {
	t.Parallel()
	r := used(t, device.CryptoErase)
	require.NoError(t, r.step(t.Context(), "sanitize"))
	require.NoError(t, hardwaretest.Stamp(hardwaretest.File(r.site.Media(0)), 1<<20, tenant+1))
	r.site.MarkWritten(0)
	require.Contains(t, fault(t, device.CodeVerifyFailed, r.step(t.Context(), "verify")).Message, "written to since")
}

// The sanitize runs although its command seemed to fail: it is followed, not started again.
//
// F18
func TestLostAnswerToSanitize(t *testing.T) {
	r := used(t, device.BlockErase, func(c *nvmesim.Controller) {
		c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Times: 1, Errno: 5, AfterEffect: true}}
	})
	fault(t, device.CodeIO, r.step(t.Context(), "sanitize"))
	r.requireClean("sanitize", "verify")
	require.Len(t, r.sent(nvmesim.SanitizeDrive), 1)
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
			r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
				c.Sanitize.Status, c.Sanitize.CDW10 = before.Status, before.CDW10
				c.Sanitize.GlobalErased, c.Sanitize.IgnoresWrites = before.GlobalErased, before.IgnoresWrites
				c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, NoEffect: true}}
			})
			_, err := r.sanitized()
			require.Contains(t, fault(t, device.CodeSanitizeFailed, err).Message, "does not prove")
		})
	}
}

// A sanitize that fails, is refused or stalls needs the operator. Only progress of the sanitize itself
// ends the wait.
//
// S2.27, F19
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
		"stalls":                 {func(c *nvmesim.Controller) { c.Sanitize.Polls, c.Sanitize.StallAt = 100, 655 }, device.CodeSanitizeStalled, "has been at"},
	} {
		t.Run(name, func(t *testing.T) {
			r := used(t, device.CryptoErase, tt.change)
			r.settings.SanitizeStall = 300 * time.Millisecond
			_, err := r.sanitized()
			require.Contains(t, fault(t, tt.code, err).Message, tt.says)
			require.Empty(t, r.sent(nvmesim.ManageNamespace))
			for _, c := range r.sent(nvmesim.SanitizeDrive) {
				require.Equal(t, uint32(4), c.CDW[0])
			}
		})
	}
}

// F18
func TestMediaVerificationIsLeftFirst(t *testing.T) {
	r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
		c.Sanitize.Status, c.Sanitize.Verifying, c.Sanitize.CDW10 = 2, true, 4
	})
	r.requireClean("sanitize", "verify")
	var actions []uint32
	for _, c := range r.sent(nvmesim.SanitizeDrive) {
		actions = append(actions, c.CDW[0])
	}
	require.Equal(t, []uint32{5, 4}, actions)
}

// Zeroing continues after an interruption, on the same drive only.
func TestZeroResumes(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Capacity = 96 << 20
	drive.Namespaces[0].Blocks = 96 << 20 / 512
	b := newDriveFixture(t, drive)
	found := b.enroll(0)
	b.writeAsTenant(0)
	r := b.clean(0, found, device.WriteZeroes)
	r.stop = r.crashOnce(func() bool { return r.offsets["zero"] == 64<<20 })
	require.ErrorIs(t, r.step(t.Context(), "zero"), errCrash)
	require.Positive(t, b.tenantBlocks(0))
	r.requireClean("zero", "verify")
	require.Equal(t, "write_zeroes", r.done["zero"].Method)

	// Another drive is in the slot: it gets no command.
	b.site.Swap(0, "S2")
	b.writeAsTenant(0)
	b.site.ClearLog()
	r.again(device.WriteZeroes).requireRefused(device.CodeSerialMismatch, "zero")
	require.Empty(t, b.sent())
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
			r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
				c.Inject = []nvmesim.Injection{{Opcode: opcode, Skip: skip, Times: 1, AfterEffect: true, SwapTo: "S2"}}
			})
			_, err := r.sanitized()
			for _, c := range r.sent() {
				require.Equal(t, "S1", c.Serial, "opcode 0x%x", c.Opcode)
			}
			if r.site.State(0).Serial == "S2" {
				swapped.Add(1)
				require.Error(t, err)
			}
		})
	}
}

// A drive that is mounted or held gets no command, and cannot be mounted during a clean. While it is offered, each
// discovery finds that.
//
// F12, F39, F40
func TestDriveInUseIsNotTouched(t *testing.T) {
	r := used(t, device.CryptoErase)
	r.showThisProcess()
	node, offered := r.site.Dev+"/nvme0n1", r.target
	offered.Offered = true
	for name, flags := range map[string]int{"claimed": os.O_RDONLY | os.O_EXCL, "written": os.O_RDWR} {
		t.Run(name, func(t *testing.T) {
			held, err := os.OpenFile(node, flags, 0)
			require.NoError(t, err)
			for _, step := range []string{"sanitize", "zero", "consolidate_namespaces", "security_check"} {
				f := r.requireRefused(device.CodeTargetBusy, step)
				require.Regexp(t, `process \d+ \(\S+\)`, f.Message, "the holder has a name")
			}
			_, err = r.driver.Discover(t.Context(), r.target, r.enrolled)
			require.NoError(t, err, "a step or its tenant may have it")
			_, err = r.driver.Discover(t.Context(), offered, r.enrolled)
			require.Regexp(t, `process \d+ \(\S+\)`, fault(t, device.CodeTargetBusy, err).Message)
			require.NoError(t, held.Close())
			_, err = r.driver.Discover(t.Context(), offered, r.enrolled)
			require.NoError(t, err)
			require.Empty(t, r.sent())
		})
	}
	t.Run("a second controller", func(t *testing.T) {
		r.change(func(c *nvmesim.Controller) { c.CMIC, c.Others = 2, []uint16{7} })
		r.requireRefused(device.CodeTargetShared, "sanitize")
	})
}
