package nvme_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// S0.32
func TestWearIsCheckedAgainstTheLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		health nvmesim.Health
		limits device.WearLimits
		says   string
	}{
		"new":                {nvmesim.Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10}, device.WearLimits{}, ""},
		"just within":        {nvmesim.Health{PercentUsed: 100, Spare: 10, SpareThreshold: 10}, device.WearLimits{}, ""},
		"used up":            {nvmesim.Health{PercentUsed: 101, Spare: 100, SpareThreshold: 10}, device.WearLimits{}, "101 percent of its life are used, the limit is 100"},
		"over a lower limit": {nvmesim.Health{PercentUsed: 81, Spare: 100, SpareThreshold: 10}, device.WearLimits{PercentUsed: 80}, "81 percent"},
		"a higher limit":     {nvmesim.Health{PercentUsed: 120, Spare: 100, SpareThreshold: 10}, device.WearLimits{PercentUsed: 150}, ""},
		"spare":              {nvmesim.Health{PercentUsed: 3, Spare: 9, SpareThreshold: 10}, device.WearLimits{}, "9 percent of its spare capacity left, the limit is 10"},
		"spare by policy":    {nvmesim.Health{PercentUsed: 3, Spare: 49, SpareThreshold: 10}, device.WearLimits{Spare: 50}, "the limit is 50"},
		"read only":          {nvmesim.Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10, CriticalWarning: 8}, device.WearLimits{}, "critical warning is 0x08"},
		"warm":               {nvmesim.Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10, CriticalWarning: 2}, device.WearLimits{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enrolled(t, device.CryptoErase, func(c *nvmesim.Controller) { c.Health = tt.health })
			r.settings.Wear = tt.limits
			err := r.step(t.Context(), "wear_check")
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.Contains(t, fault(t, device.CodeWearLimitExceeded, err).Message, tt.says)
		})
	}
}

// F20
func TestSecurityCheckFindsWhatTenantsLeave(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*nvmesim.Controller)
		code   device.Code
		says   string
	}{
		"nothing":                {func(*nvmesim.Controller) {}, "", "TCG"},
		"Opal owned":             {func(c *nvmesim.Controller) { c.Opal = nvmesim.Opal{Supported: true, Enabled: true} }, device.CodeSecurityLocked, "owned by TCG Opal"},
		"Opal locked":            {func(c *nvmesim.Controller) { c.Opal = nvmesim.Opal{Supported: true, Enabled: true, Locked: true} }, device.CodeSecurityLocked, "locked true"},
		"Opal at rest":           {func(c *nvmesim.Controller) { c.Opal = nvmesim.Opal{Supported: true} }, "", "TCG locking not enabled"},
		"Opal set up, unlocked":  {func(c *nvmesim.Controller) { c.Opal = nvmesim.Opal{Supported: true, BlockSID: true, Owned: true} }, device.CodeSecurityLocked, "owner's password set true"},
		"Opal, without an owner": {func(c *nvmesim.Controller) { c.Opal = nvmesim.Opal{Supported: true, BlockSID: true} }, "", "TCG locking not enabled, not owned"},
		"staged firmware":        {func(c *nvmesim.Controller) { c.Slots.AFI = 2<<4 | 1; c.Slots.Revisions[1] = "EVIL" }, device.CodeFirmwareChanged, `"EVIL" staged in slot 2`},
		"other firmware":         {func(c *nvmesim.Controller) { c.Firmware = "9.9.9" }, device.CodeFirmwareChanged, `runs firmware "9.9.9"`},
		"saved features":         {func(c *nvmesim.Controller) { f := c.Features[6]; f.Saved, f.Current = 0, 0; c.Features[6] = f }, "", "features restored: 0x06"},
		"no security commands":   {func(c *nvmesim.Controller) { c.OACS &^= 1 }, "", "no security commands"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enrolled(t, device.CryptoErase, tt.change)
			err := r.step(t.Context(), "security_check")
			if tt.code == "" {
				require.NoError(t, err)
				require.Contains(t, r.done["security_check"].Note, tt.says)
				require.Equal(t, r.site.State(0).Features[6].Default, r.site.State(0).Features[6].Saved)
			} else {
				require.Contains(t, fault(t, tt.code, err).Message, tt.says)
			}
			if tt.code == device.CodeFirmwareChanged {
				// A verify that an operator names by itself does not reset it either.
				fault(t, tt.code, r.step(t.Context(), "verify"))
			}
			require.Empty(t, r.sent(nvmesim.Reset), "no reset before the staged firmware is known")
		})
	}
}

// Write protection ends before anything is erased, also if the worker dies before the
// kernel rescans the disk. Then each operation reaches the protected bytes.
//
// F20
func TestWriteProtectionIsEnded(t *testing.T) {
	t.Parallel()
	for _, operation := range []device.Operation{device.CryptoErase, device.WriteZeroes, device.Shred} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the worker dies %t", operation, dies), func(t *testing.T) {
				t.Parallel()
				r := used(t, operation, func(c *nvmesim.Controller) { c.Namespaces[0].WriteProtected = true })
				if dies {
					r.stop = r.crashOnce(func() bool { return !r.site.State(0).Namespaces[0].WriteProtected })
					require.ErrorIs(t, r.step(t.Context(), "security_check"), errCrash)
				}
				r.requireClean()
				require.False(t, r.site.State(0).Namespaces[0].WriteProtected)
				provenCommands(t, r.site, "S1")
			})
		}
	}
}

// Host metadata is deleted from the controller and its namespaces, if the drive supports
// it. The record has the number of elements.
//
// F20
func TestHostMetadataIsDeleted(t *testing.T) {
	t.Parallel()
	left := []nvmesim.Element{{Feature: 0x7d, Type: 1}, {Feature: 0x7e, Type: 3}, {Feature: 0x7e, Type: 63},
		{Feature: 0x7f, Type: 2, NSID: 1}}
	for name, tt := range map[string]struct {
		has     bool
		left    []nvmesim.Element
		inject  []nvmesim.Injection
		note    string
		refused bool
	}{
		"deleted":          {has: true, left: left, note: "host metadata deleted: 4 elements"},
		"none left":        {has: true},
		"no such features": {},
		"refused":          {has: true, left: left, inject: []nvmesim.Injection{{Opcode: nvmesim.SetFeatures, Status: nvmesim.InvalidField}}, refused: true},
		"a drive lies":     {has: true, left: left, inject: []nvmesim.Injection{{Opcode: nvmesim.SetFeatures, NoEffect: true}}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enrolled(t, device.CryptoErase, func(c *nvmesim.Controller) {
				c.HostMetadata, c.Metadata, c.Inject = tt.has, slices.Clone(tt.left), tt.inject
			})
			err := r.step(t.Context(), "security_check")
			if tt.refused {
				fault(t, device.CodeCommandRefused, err)
				require.Equal(t, left, r.site.State(0).Metadata)
				return
			}
			require.NoError(t, err)
			require.Empty(t, r.site.State(0).Metadata)
			require.Len(t, r.sent(nvmesim.SetFeatures), len(tt.left))
			require.Equal(t, tt.note != "", strings.Contains(r.done["security_check"].Note, "metadata"))
			require.Contains(t, r.done["security_check"].Note, tt.note)
			provenCommands(t, r.site, "S1")
		})
	}
}

// F20
func TestWriteProtectionThatCannotBeEnded(t *testing.T) {
	t.Parallel()
	for name, inject := range map[string]nvmesim.Injection{
		"refused":      {Opcode: nvmesim.SetFeatures, Status: nvmesim.InvalidField},
		"a drive lies": {Opcode: nvmesim.SetFeatures, NoEffect: true},
		"it is lost":   {Opcode: nvmesim.SetFeatures, Errno: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := used(t, device.WriteZeroes, func(c *nvmesim.Controller) {
				c.Namespaces[0].WriteProtected = true
				c.Inject = []nvmesim.Injection{inject}
			})
			code := device.CodeWriteProtected
			if inject.Errno != 0 {
				code = device.CodeIO
			}
			r.requireRefused(code, "security_check")
			r.requireRefused(device.CodeWriteProtected, "zero")
		})
	}
}

// A failed sanitize, or a tenant's that runs, defers the check to the next step. Even then
// the check comes before anything resets the drive.
//
// F20, S2.54
func TestSanitizeDefersTheSecurityCheck(t *testing.T) {
	t.Parallel()
	const runs, failed = 2, 3
	for name, tt := range map[string]struct {
		status uint8
		change func(*nvmesim.Controller)
		code   device.Code
	}{
		"failed, nothing left":    {failed, func(*nvmesim.Controller) {}, ""},
		"failed, Opal owned":      {failed, func(c *nvmesim.Controller) { c.Opal = nvmesim.Opal{Supported: true, Enabled: true} }, device.CodeSecurityLocked},
		"failed, staged firmware": {failed, func(c *nvmesim.Controller) { c.Slots.AFI = 2<<4 | 1; c.Slots.Revisions[1] = "EVIL" }, device.CodeFirmwareChanged},
		"runs, nothing left":      {runs, func(*nvmesim.Controller) {}, ""},
		"runs, staged firmware":   {runs, func(c *nvmesim.Controller) { c.Slots.AFI = 2<<4 | 1; c.Slots.Revisions[1] = "EVIL" }, device.CodeFirmwareChanged},
		"runs and stands still":   {runs, func(c *nvmesim.Controller) { c.Sanitize.Polls, c.Sanitize.StallAt = 100, 655 }, device.CodeSanitizeStalled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := used(t, device.CryptoErase, func(c *nvmesim.Controller) {
				c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.Polls = tt.status, 4, 3
			}, tt.change)
			r.settings.SanitizeStall = 300 * time.Millisecond
			step, err := r.all(t.Context(), r.fullPlan()...)
			if tt.code == "" {
				require.NoError(t, err)
				require.Zero(t, r.tenantBlocks(0))
				require.Contains(t, r.done["security_check"].Note, "deferred")
				require.Contains(t, r.done["sanitize"].Note, "TCG")
				return
			}
			fault(t, tt.code, err)
			require.Equal(t, "sanitize", step)
			require.Empty(t, r.sent(nvmesim.Reset), "no reset before the staged firmware is known")
			// A retry of the step gives the same fault.
			fault(t, tt.code, r.step(t.Context(), "sanitize"))
		})
	}
	for status, code := range map[uint8]device.Code{failed: device.CodeSanitizeFailed, runs: device.CodeSanitizeRunning} {
		t.Run("zeroes, "+string(code), func(t *testing.T) {
			t.Parallel()
			r := enrolled(t, device.WriteZeroes, func(c *nvmesim.Controller) {
				c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.Polls = status, 4, 1000
			})
			fault(t, code, r.step(t.Context(), "security_check"))
		})
	}
	t.Run("zeroes, and the sanitize stalls", func(t *testing.T) {
		t.Parallel()
		r := enrolled(t, device.WriteZeroes, func(c *nvmesim.Controller) {
			c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.Polls, c.Sanitize.StallAt = runs, 4, 100, 655
		})
		r.settings.SanitizeStall = time.Nanosecond
		var err error
		for range 1000 { // its progress has to come to where it stands first
			err = r.step(t.Context(), "security_check")
			if f, ok := device.AsFault(err); !ok || f.Code != device.CodeSanitizeRunning {
				break
			}
		}
		require.Contains(t, fault(t, device.CodeSanitizeStalled, err).Message, "has been at 655")
	})
}
