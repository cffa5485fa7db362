package nvme_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// randomClean cleans one drive while random faults happen, and returns whether it finished.
func randomClean(t *testing.T, seed uint64) bool {
	random := rand.New(rand.NewPCG(seed, 4))
	pick := func(n int) int { return random.IntN(n) }
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	operation := []device.Operation{device.CryptoErase, device.BlockErase, device.WriteZeroes, device.Shred}[pick(4)]
	leaves := []nvmesim.Leaves{"random", "zero", "ff", "unchanged"}[pick(4)]
	b.writeAsTenant(0)
	const blocks = 16 << 20 / 512
	layouts := [][]nvmesim.Namespace{
		{{NSID: 1, Blocks: blocks, Attached: true}},
		{{NSID: 1, Blocks: blocks / 2, Attached: true}, {NSID: 2, Blocks: blocks / 2}},
		{{NSID: 3, Blocks: blocks / 4, Format: 1, Attached: true}}, {},
	}
	b.site.Change(0, func(c *nvmesim.Controller) {
		c.Sanitize.Leaves, c.Sanitize.Polls = leaves, pick(4)
		c.Namespaces = layouts[pick(len(layouts))]
		for i := range c.Namespaces {
			c.Namespaces[i].WriteProtected = pick(4) == 0
		}
		if of := pick(6); of < 4 { // the tenant's own is at work, waits in media verification, or failed
			c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased = []uint8{2, 2, 2, 3}[of], uint32(2+2*pick(2)), false
			c.Sanitize.Verifying = of == 2
		}
	})
	b.site.Rescan(0)
	var last error
	for tries := 0; tries < 12; tries++ {
		r := b.clean(0, found, operation)
		names := r.fullPlan()
		for attempts := 0; attempts < 4; {
			if pick(2) == 0 && tries < 8 {
				injection := nvmesim.Injection{Opcode: changes[pick(len(changes))], Times: 1, Skip: pick(2)}
				switch pick(4) {
				case 0:
					injection.Errno, injection.AfterEffect = 5, true
				case 1:
					injection.NoEffect = true
				case 2:
					injection.Status = nvmesim.Status(6)
				case 3:
					injection.Kill = true
				}
				b.site.Change(0, func(c *nvmesim.Controller) { c.Inject = []nvmesim.Injection{injection} })
			} else {
				b.site.Change(0, func(c *nvmesim.Controller) { c.Inject = nil })
			}
			countdown := -1
			if pick(3) == 0 && tries < 8 {
				countdown = pick(5)
			}
			r.stop = func(string, int64) error {
				if countdown--; countdown == -1 {
					return errCrash
				}
				return nil
			}
			_, err := r.all(t.Context(), names...)
			if err == nil {
				require.Zero(t, b.tenantBlocks(0), "seed %d: %s, the drive's sanitize leaves %s", seed, operation, leaves)
				return true
			}
			if last = err; !errors.Is(err, errCrash) {
				break // an operator cleans again
			}
			// The host restarts: steps that are done stay done, the others continue.
			for len(names) > 0 && r.done[names[0]].Method != "" {
				names = names[1:]
			}
			attempts++
		}
	}
	// No more faults follow, so a clean that fails now would always fail.
	lies, failed := operation.Sanitizes() && leaves == "unchanged", operation.Overwrites() &&
		b.site.State(0).Sanitize.Status == 3
	require.True(t, lies || failed, "seed %d: %s does not come to its end: %v", seed, operation, last)
	return false
}

// At random points commands fail, report false success or get lost, and the host dies. A plan
// that ends without an error has left no byte of the tenant. A drive that erases nothing never
// gets there; every other drive does once the faults stop.
func TestRandomFaultsNeverLeaveTenantData(t *testing.T) {
	const seeds = 8
	var ended atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				if randomClean(t, uint64(seed)) {
					ended.Add(1)
				}
			})
		}
	})
	require.Positive(t, ended.Load(), "no clean finished")
}
