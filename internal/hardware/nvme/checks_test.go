package nvme_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmetest"
)

// TestS0_32_WearIsCheckedAgainstTheLimits.
func TestS0_32_WearIsCheckedAgainstTheLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		health nvmetest.Health
		limits device.WearLimits
		says   string
	}{
		"new":                {nvmetest.Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10}, device.WearLimits{}, ""},
		"just within":        {nvmetest.Health{PercentUsed: 100, Spare: 10, SpareThreshold: 10}, device.WearLimits{}, ""},
		"used up":            {nvmetest.Health{PercentUsed: 101, Spare: 100, SpareThreshold: 10}, device.WearLimits{}, "101 percent of its life are used, and 100 may be"},
		"over a lower limit": {nvmetest.Health{PercentUsed: 81, Spare: 100, SpareThreshold: 10}, device.WearLimits{PercentUsed: 80}, "81 percent"},
		"a higher limit":     {nvmetest.Health{PercentUsed: 120, Spare: 100, SpareThreshold: 10}, device.WearLimits{PercentUsed: 150}, ""},
		"spare":              {nvmetest.Health{PercentUsed: 3, Spare: 9, SpareThreshold: 10}, device.WearLimits{}, "9 percent of its spare capacity, and 10 are needed"},
		"spare by policy":    {nvmetest.Health{PercentUsed: 3, Spare: 49, SpareThreshold: 10}, device.WearLimits{Spare: 50}, "50 are needed"},
		"read only":          {nvmetest.Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10, CriticalWarning: 8}, device.WearLimits{}, "critical warning is 0x08"},
		"warm":               {nvmetest.Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10, CriticalWarning: 2}, device.WearLimits{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive := nvmetest.Drive("S1")
			b := newBench(t, drive)
			found := b.enrol(0)
			b.site.Change(0, func(c *nvmetest.Controller) { c.Health = tt.health })
			r := b.clean(0, found, device.CryptoErase)
			r.wear = tt.limits
			err := r.step(t.Context(), clean.StepWearCheck)
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.Contains(t, fault(t, device.CodeWornOut, err).Message, tt.says)
		})
	}
}

// TestF20_WhatTenantsLeave outside of user data.
func TestF20_WhatTenantsLeave(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*nvmetest.Controller)
		code   device.Code
		says   string
	}{
		"nothing":              {func(*nvmetest.Controller) {}, "", "TCG"},
		"Opal owned":           {func(c *nvmetest.Controller) { c.Opal = nvmetest.Opal{Supported: true, Enabled: true} }, device.CodeLocked, "owned by TCG Opal"},
		"Opal locked":          {func(c *nvmetest.Controller) { c.Opal = nvmetest.Opal{Supported: true, Enabled: true, Locked: true} }, device.CodeLocked, "locked true"},
		"Opal at rest":         {func(c *nvmetest.Controller) { c.Opal = nvmetest.Opal{Supported: true} }, "", "TCG locking not enabled"},
		"staged firmware":      {func(c *nvmetest.Controller) { c.Slots.AFI = 2<<4 | 1; c.Slots.Revisions[1] = "EVIL" }, device.CodeFirmwareChanged, `"EVIL" staged in slot 2`},
		"other firmware":       {func(c *nvmetest.Controller) { c.Firmware = "9.9.9" }, device.CodeFirmwareChanged, `runs firmware "9.9.9"`},
		"saved features":       {func(c *nvmetest.Controller) { f := c.Features[6]; f.Saved, f.Current = 0, 0; c.Features[6] = f }, "", "features put back: 0x06"},
		"no security commands": {func(c *nvmetest.Controller) { c.OACS &^= 1 }, "", "no security commands"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nvmetest.Drive("S1"))
			found := b.enrol(0)
			b.site.Change(0, tt.change)
			b.site.Forget()
			r := b.clean(0, found, device.CryptoErase)
			err := r.step(t.Context(), clean.StepSecurityCheck)
			if tt.code == "" {
				require.NoError(t, err)
				require.Contains(t, r.done[clean.StepSecurityCheck].Note, tt.says)
				require.Equal(t, b.site.Look(0).Features[6].Default, b.site.Look(0).Features[6].Saved)
			} else {
				require.Contains(t, fault(t, tt.code, err).Message, tt.says)
			}
			for _, c := range b.site.Log() {
				require.NotEqual(t, nvmetest.Reset, c.Opcode, "no reset before what is staged is known")
			}
			if tt.code == device.CodeFirmwareChanged {
				// A verify that an operator names by itself does not reset it either.
				fault(t, tt.code, r.step(t.Context(), clean.StepVerify))
				for _, c := range b.site.Log() {
					require.NotEqual(t, nvmetest.Reset, c.Opcode)
				}
			}
		})
	}
}
