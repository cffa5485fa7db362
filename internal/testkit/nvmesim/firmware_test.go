package nvmesim_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/testkit/nvmesim"
)

func TestFirmwareIsDownloadedCommittedAndActivated(t *testing.T) {
	t.Parallel()
	file := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return "--fw=" + path
	}
	image := file(nvmesim.Image("2.0.0", 20<<10))
	for name, tt := range map[string]struct {
		update nvmesim.Update
		status nvmecli.Status
		// runs is the revision after the commit, a reset of the controller, of the
		// subsystem, and a power cycle.
		runs [4]string
	}{
		"by a reset":           {nvmesim.Update{}, 0, [4]string{"1.0.0", "2.0.0", "2.0.0", "2.0.0"}},
		"at once":              {nvmesim.Update{By: nvmesim.AtOnce}, 0, [4]string{"2.0.0", "2.0.0", "2.0.0", "2.0.0"}},
		"by a subsystem reset": {nvmesim.Update{Answer: nvmesim.NeedsSubsystemReset, By: nvmesim.BySubsystemReset}, nvmecli.StatusNeedsSubsystemReset, [4]string{"1.0.0", "1.0.0", "2.0.0", "2.0.0"}},
		"by a power cycle":     {nvmesim.Update{Answer: nvmesim.NeedsReset, By: nvmesim.ByPowerCycle}, nvmecli.StatusNeedsReset, [4]string{"1.0.0", "1.0.0", "1.0.0", "2.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive := nvmesim.Drive("S1")
			drive.Update = tt.update
			s := nvmesim.New(t, drive)
			node := s.Node(0)
			done(t, s, "fw-download", node, image)
			if commit := []string{"fw-commit", node, "--slot=2", "--action=1"}; tt.status == 0 {
				done(t, s, commit...)
			} else {
				refused(t, s, tt.status, commit...)
			}
			require.Equal(t, tt.runs[0], s.State(0).Firmware)
			done(t, s, "reset", node)
			require.Equal(t, tt.runs[1], s.State(0).Firmware)
			done(t, s, "subsystem-reset", node)
			require.Equal(t, tt.runs[2], s.State(0).Firmware)
			s.PowerCycle(0)
			require.Equal(t, tt.runs[3], s.State(0).Firmware)
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		drive := nvmesim.Drive("S1")
		drive.FRMW, drive.SubsystemResets = drive.FRMW|1, false
		s := nvmesim.New(t, drive)
		node := s.Node(0)
		refused(t, s, nvmecli.StatusInvalidFirmwareImage, "fw-commit", node, "--slot=2", "--action=1")
		done(t, s, "fw-download", node, image)
		refused(t, s, nvmecli.StatusInvalidFirmwareSlot, "fw-commit", node, "--slot=1", "--action=1")
		done(t, s, "reset", node) // the download is lost
		refused(t, s, nvmecli.StatusInvalidFirmwareImage, "fw-commit", node, "--slot=2", "--action=1")
		// In the middle of a download too.
		s.Change(0, func(c *nvmesim.Controller) {
			c.Inject = []nvmesim.Injection{{Opcode: nvmesim.DownloadFirmware, Skip: 2, Times: 1, Resets: true}}
		})
		done(t, s, "fw-download", node, image)
		refused(t, s, nvmecli.StatusInvalidFirmwareImage, "fw-commit", node, "--slot=2", "--action=1")
		done(t, s, "fw-download", node, image)
		done(t, s, "fw-commit", node, "--slot=2", "--action=1")
		_, complaint, err := nvme(t, s, "subsystem-reset", node)
		require.Error(t, err)
		require.Contains(t, string(complaint), "not supported")
		require.Equal(t, "1.0.0", s.State(0).Firmware)
	})
}
