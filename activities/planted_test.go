package activities_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
				Kernel: block.Kernel{Proc: "/proc", Sys: emulated.Sys, Dev: emulated.Dev},
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
