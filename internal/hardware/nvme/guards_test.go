package nvme_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme"
	"burnish/internal/pci"
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

// A delete-ns that did nothing is noticed before anything else is sent.
//
// F17, F22
func TestWhatIsLeftAfterDeletingIsLookedAt(t *testing.T) {
	r := enrolled(t, device.WriteZeroes, func(c *nvmesim.Controller) {
		c.Namespaces[0].Attached = false
		c.Inject = []nvmesim.Injection{{Opcode: nvmesim.ManageNamespace, CDW10: 1, Mask: 0xf, NoEffect: true}}
	})
	f := fault(t, device.CodeNamespaceLayoutMismatch, r.step(t.Context(), "consolidate_namespaces"))
	require.Contains(t, f.Message, "1 are left")
	require.Len(t, r.sent(nvmesim.ManageNamespace), 1)
}

// The kernel's tables show a mount or swap that holds no claim that this worker sees.
//
// F12
func TestMountsAndSwapAreLookedAt(t *testing.T) {
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	node := filepath.Join(b.site.Dev, "nvme0n1")
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(node, &stat))
	number := fmt.Sprintf("%d:%d", unix.Major(uint64(stat.Rdev)), unix.Minor(uint64(stat.Rdev)))
	const other = "1 0 0:99 / / rw - tmpfs none rw\n"
	for name, tt := range map[string]struct{ mounts, swaps, says string }{
		"mount": {mounts: "30 1 " + number + " / /mnt rw - ext4 /dev/root rw\n", says: "is mounted at"},
		"swap":  {mounts: other, swaps: "Filename Type\n" + node + " partition 1 0 -2\n", says: "is used as swap"},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(proc, "self"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(proc, "self/mountinfo"), []byte(tt.mounts), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(proc, "swaps"), []byte(tt.swaps), 0o600))
			c := *b
			c.driver = nvme.New(nvme.Host{
				Allow: func(pci.Device) error { return nil }, Tool: b.site.Tool(), Run: b.site.Run,
				Kernel: block.Kernel{Proc: proc, Sys: b.site.Sys, Dev: b.site.Dev},
			})
			for _, step := range []string{"zero", "sanitize", "wear_check"} {
				require.Contains(t, fault(t, device.CodeTargetBusy, c.clean(0, found, device.WriteZeroes).step(t.Context(), step)).
					Message, tt.says)
			}
		})
	}
}
