package nvme_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/nvmesim"
)

// open opens the drive as a step that writes does, and closes it with the test.
func (b *driveFixture) open(found hardware.Discovery) hardware.Handle {
	b.t.Helper()
	target := b.target(0)
	target.Step = "zero"
	h, err := b.driver.Open(b.t.Context(), target, found.Identity, true)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, h.Close()) })
	return h
}

// A namespace that appears while the last bytes are written, or between a sanitize and its
// verify, keeps its bytes: the layout is asked for after everything else.
//
// F17
func TestTheLayoutIsReadAfterTheLastWrite(t *testing.T) {
	t.Parallel()
	hidden := func(c *nvmesim.Controller) {
		c.Namespaces = append(c.Namespaces, nvmesim.Namespace{NSID: 2, Blocks: 8})
	}
	t.Run("zero", func(t *testing.T) {
		t.Parallel()
		r := enrolled(t, device.WriteZeroes)
		r.stop = func(_ string, offset int64) error {
			if offset == r.enrolled.Size {
				r.change(hidden)
			}
			return nil
		}
		fault(t, device.CodeNamespaceLayoutMismatch, r.step(t.Context(), "zero"))
	})
	t.Run("verify of a sanitize", func(t *testing.T) {
		t.Parallel()
		r := enrolled(t, device.CryptoErase)
		require.NoError(t, r.step(t.Context(), "sanitize"))
		r.change(hidden)
		fault(t, device.CodeNamespaceLayoutMismatch, r.step(t.Context(), "verify"))
	})
}

// After a command the drive is another one, although sysfs does not show it yet.
//
// F11
func TestIdentityIsReadAgainAfterACommand(t *testing.T) {
	r := enrolled(t, device.CryptoErase, func(c *nvmesim.Controller) {
		f := c.Features[6]
		f.Saved, f.Current = 0, 0
		c.Features[6] = f
		c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SetFeatures, Model: "Another"}}
	})
	fault(t, device.CodeIdentityChanged, r.step(t.Context(), "security_check"))
}

// A disk that appeared since the drive was opened is claimed by no process.
//
// F12
func TestADiskThatAppearsIsNoticed(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Namespaces[0].Blocks /= 2
	b := newDriveFixture(t, drive)
	h := b.open(b.enroll(0))
	require.NoError(t, h.Check(t.Context()))
	b.site.Change(0, func(c *nvmesim.Controller) {
		c.Namespaces = append(c.Namespaces, nvmesim.Namespace{NSID: 2, Blocks: 8, Attached: true, Offset: 8 << 20})
	})
	b.site.Rescan(0)
	require.Contains(t, fault(t, device.CodeTargetBusy, h.Check(t.Context())).Message, "appeared")
}

// The node belongs to the controller at the enrolled address, by its address and by its number.
//
// F11
func TestANodeOfAnotherControllerIsNotUsed(t *testing.T) {
	for attribute, value := range map[string]string{"address": "0000:7f:00.0", "dev": "1:5"} {
		t.Run(attribute, func(t *testing.T) {
			r := enrolled(t, device.CryptoErase)
			file := filepath.Join(r.site.Sys, "class/nvme/nvme0", attribute)
			require.NoError(t, os.WriteFile(file, []byte(value+"\n"), 0o600))
			_, err := r.driver.Discover(t.Context(), r.target, r.enrolled)
			fault(t, device.CodeIdentityChanged, err)
			fault(t, device.CodeIdentityChanged, r.step(t.Context(), "wear_check"))
			require.Empty(t, r.site.Log(), "no command reaches it")
		})
	}
}

// Another drive in the slot is not asked for its wear.
//
// F11
func TestReadsCompareTheSerial(t *testing.T) {
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	h, ok := b.open(b.enroll(0)).(hardware.HealthReporter)
	require.True(t, ok)
	_, err := h.Health(t.Context())
	require.NoError(t, err)
	file := filepath.Join(b.site.Sys, "class/nvme/nvme0/serial")
	require.NoError(t, os.WriteFile(file, []byte("S2\n"), 0o600))
	_, err = h.Health(t.Context())
	fault(t, device.CodeSerialMismatch, err)
}

// nvme-cli exits with 0 although the drive did nothing: that is noticed before anything else is sent.
//
// F17, F22
func TestExitCodeZeroProvesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		inject nvmesim.Injection
		says   string
	}{
		"delete":            {nvmesim.Injection{Opcode: nvmesim.ManageNamespace, CDW10: 1, Mask: 0xf}, "3 are left"},
		"delete and create": {nvmesim.Injection{Opcode: nvmesim.ManageNamespace}, "2 are left"},
		"create":            {nvmesim.Injection{Opcode: nvmesim.ManageNamespace, Mask: 0xf}, "has 0"},
		"attach":            {nvmesim.Injection{Opcode: nvmesim.AttachNamespace}, "only 0 are attached"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.inject.NoEffect = true
			r := used(t, device.WriteZeroes, func(c *nvmesim.Controller) {
				c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 10, Attached: true}, {NSID: 2, Blocks: 1 << 10}}
				c.Inject = []nvmesim.Injection{tt.inject}
			})
			f := fault(t, device.CodeNamespaceLayoutMismatch, r.step(t.Context(), "consolidate_namespaces"))
			require.Contains(t, f.Message, tt.says)
		})
	}
}
