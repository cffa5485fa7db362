package activities_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

func TestMain(m *testing.M) { os.Exit(nvmesim.Main(m)) }

// A worker stops while the drive sanitizes. What it planted before stands in the host's journal:
// the next attempt follows that sanitize, and finds out a drive that erased nothing, although a
// tenant left nothing but zeroes and one block.
//
// It starts programs: a fork holds each fence that another test has for a moment, so it runs before
// those that run in parallel.
//
// F33, F18
func TestPlantedDataIsInTheJournal(t *testing.T) {
	const secretAt = 5<<20 + 8192
	for leaves, code := range map[nvmesim.Leaves]device.Code{"random": "", "unchanged": device.CodeVerifyFailed} {
		t.Run(string(leaves), func(t *testing.T) {
			t.Parallel()
			drive := nvmesim.Drive("S1")
			drive.Sanitize.Polls, drive.Sanitize.StallAt, drive.Sanitize.Leaves = 8, 1, leaves
			emulated := nvmesim.New(t, drive)
			s := newTestHost(t)
			s.hardware.Drivers["nvme"] = nvme.New(nvme.Host{
				Allow: func(pci.Device) error { return nil }, Tool: emulated.Tool(), Run: emulated.Run,
				Kernel: block.Kernel{Proc: nvmesim.QuietProc(t), Sys: emulated.Sys, Dev: emulated.Dev},
			})
			in := s.input("sanitize")
			in.Operation, in.Enrollment.Driver, in.Enrollment.Address = device.CryptoErase, "nvme", emulated.State(0).Address
			found, err := s.discover(t, contract.DiscoverInput{Enrollment: in.Enrollment, UUID: contract.DeviceUUID("d1")})
			require.NoError(t, err)
			in.Identity = found.Identity
			secret := make([]byte, hardwaretest.Block)
			copy(secret, "a tenant's secret")
			emulated.Write(0, secretAt, secret)

			stopped := first(t)
			r := s.start(stopped, in)
			require.Eventually(t, func() bool { return emulated.State(0).Sanitize.Status == 2 }, 30*time.Second,
				20*time.Millisecond)
			var before struct {
				Planted struct {
					Seed uint64
					At   []int64
				}
			}
			require.NoError(t, json.Unmarshal(s.entry().Evidence["sanitize"], &before))
			require.NotZero(t, before.Planted.Seed, "before the command")
			close(stopped.stop)
			_, err = r.wait(t)
			requireRetriedNow(t, err, device.CodeWorkerStopping)

			emulated.Change(0, func(c *nvmesim.Controller) { c.Sanitize.StallAt = 0 })
			result, err := s.run(again(t, 2), in)
			started := 0
			for _, c := range emulated.Log() {
				if c.Opcode == nvmesim.SanitizeDrive {
					started++
				}
			}
			require.Equal(t, 1, started, "it was followed")
			media, readErr := os.ReadFile(emulated.Media(0))
			require.NoError(t, readErr)
			left := string(media[secretAt:secretAt+len(secret)]) == string(secret)
			if code != "" {
				require.True(t, left || slices.Contains(before.Planted.At, secretAt), "unless it was planted over")
				requireFault(t, err, code, false)
				return
			}
			require.NoError(t, err)
			require.False(t, left)
			require.Contains(t, result.Note, "128 of 128 planted blocks changed")
		})
	}
}

// The answer to a commit is lost, and so is the read that would settle it: that clean ends.
// The next one, whose steps see nothing of the last one's evidence, finds the staged firmware,
// knows from the host's record that it is Burnish's own, and activates it without another
// commit. The next discovery enrolls the new version.
//
// F20, F22
func TestAnUpdateOfOneCleanIsFinishedByTheNext(t *testing.T) { // not parallel: see TestPlantedDataIsInTheJournal
	emulated := nvmesim.New(t, nvmesim.Drive("S1"))
	s := newTestHost(t)
	s.hardware.Drivers["nvme"] = nvme.New(nvme.Host{
		Allow: func(pci.Device) error { return nil }, Tool: emulated.Tool(), Run: emulated.Run,
		Kernel: block.Kernel{Proc: nvmesim.QuietProc(t), Sys: emulated.Sys, Dev: emulated.Dev},
	})
	content := nvmesim.Image("2.0.0", 8<<10)
	sum := sha256.Sum256(content)
	image := clean.FirmwareImage{From: []string{"1.0.0"}, To: "2.0.0", Image: filepath.Join(t.TempDir(), "image"),
		SHA256: hex.EncodeToString(sum[:])}
	require.NoError(t, os.WriteFile(image.Image, content, 0o600))
	args, err := json.Marshal(clean.FirmwareArgs{Components: []clean.FirmwareImage{image}})
	require.NoError(t, err)

	in := s.input("firmware_reflash")
	in.Operation, in.Enrollment.Driver, in.Enrollment.Address = device.CryptoErase, "nvme", emulated.State(0).Address
	look := contract.DiscoverInput{Enrollment: in.Enrollment, UUID: contract.DeviceUUID("d1"), Binding: in.Binding}
	found, err := s.discover(t, look)
	require.NoError(t, err)
	require.Equal(t, []string{"firmware_reflash", "verify_firmware"}, found.SupportedSteps)
	in.Identity = found.Identity
	seq := int64(0)
	step := func(name, cleanID string) (contract.StepAnswer, error) {
		seq++
		in.Step, in.Clean, in.Seq, in.Args = name, cleanID, seq, nil
		if name != "security_check" {
			in.Args = args
		}
		return s.run(first(t), in)
	}
	const firmwareLog = 3
	emulated.Change(0, func(c *nvmesim.Controller) {
		c.Inject = []nvmesim.Injection{
			{Opcode: nvmesim.CommitFirmware, Kill: true, AfterEffect: true, Times: 1},
			{Opcode: nvmesim.GetLog, CDW10: firmwareLog, Mask: 0xff, Skip: 1, Times: 1, Errno: 5},
		}
	})
	_, err = step("firmware_reflash", "run/1")
	requireFault(t, err, device.CodeIO, true)
	_, err = s.run(again(t, 2), in) // which cannot read what became of it
	requireFault(t, err, device.CodeIO, false)
	require.Contains(t, string(s.entry().Evidence["nvme_firmware"]), `"stage":"committing"`)
	require.Equal(t, "1.0.0", emulated.State(0).Firmware)

	_, err = step("security_check", "run/2")
	require.NoError(t, err)
	require.NotContains(t, s.entry().Evidence, "nvme_firmware")
	result, err := step("firmware_reflash", "run/2")
	require.NoError(t, err)
	require.Contains(t, result.Note, "1.0.0 to 2.0.0 in slot 2")
	require.Equal(t, "2.0.0", result.Firmware)
	require.Equal(t, "2.0.0", s.record("d1").Identity.Firmware)
	_, err = step("verify_firmware", "run/2")
	require.NoError(t, err)
	commits := 0
	for _, c := range emulated.Log() {
		if c.Opcode == nvmesim.CommitFirmware {
			commits++
		}
	}
	require.Equal(t, 1, commits)

	look.Known = in.Identity
	found, err = s.discover(t, look)
	require.NoError(t, err)
	require.Equal(t, "2.0.0", found.Identity.Firmware)
	require.Equal(t, "2.0.0", s.record("d1").Identity.Firmware)
	// The next tenant brings the old version back.
	emulated.Change(0, func(c *nvmesim.Controller) { c.Firmware, c.Slots.Revisions[1] = "1.0.0", "1.0.0" })
	in.Identity, in.Binding = found.Identity, in.Binding+1
	_, err = step("security_check", "run/3")
	requireFault(t, err, device.CodeFirmwareChanged, false)
}
