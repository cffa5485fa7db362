package block

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
	"burnish/internal/hardware/hardwaretest"
)

// loopSizes are the sizes of the suite as devices have them: of whole sectors.
var loopSizes = []int64{hardware.Align, 9 * mib, hardware.ZeroesLen + 512, 2*hardware.ZeroesLen + hardware.Align + 1536, 512}

// loopOver makes a loop device over a new file of this size in dir.
func loopOver(t *testing.T, dir string, size int64, args ...string) (loop, file string) {
	t.Helper()
	file = image(t, dir, size)
	loop = attach(t, file, args...)
	return loop, file
}

// TestLoopSuite holds loop devices against the suite. The back door is the file
// behind: what the loop's own cache says of it is not what lies there.
func TestLoopSuite(t *testing.T) {
	for name, tc := range map[string]struct {
		dir   func(t *testing.T) string
		args  []string
		sizes []int64
	}{
		"here":                 {dir: workDir, sizes: loopSizes},
		"direct_io_below":      {dir: workDir, args: []string{"--direct-io=on"}, sizes: []int64{hardware.Align, 9 * mib}},
		"blocks_of_4096_bytes": {dir: workDir, args: []string{"--sector-size", "4096"}, sizes: []int64{hardware.Align, 9 * mib}},
		"tmpfs": {
			dir:   func(t *testing.T) string { return mount1(t, "none", "size=200m", "-t", "tmpfs") },
			sizes: []int64{hardware.ZeroesLen + 512},
		},
		"xfs": {
			dir:   func(t *testing.T) string { return mounted(t, workDir(t), []string{"mkfs.xfs", "-q"}, "") },
			sizes: []int64{hardware.ZeroesLen + 512},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tc.dir(t)
			hardwaretest.Run(t, hardwaretest.Fixture{
				Driver: New(allowAll{}),
				Sizes:  tc.sizes,
				New: func(t *testing.T, size int64) hardwaretest.Device {
					loop, file := loopOver(t, dir, size, tc.args...)
					t.Cleanup(func() { require.NoError(t, os.Remove(file)) })
					return hardwaretest.Device{Target: at(loop), Backdoor: hardwaretest.File(file)}
				},
			})
		})
	}
}
