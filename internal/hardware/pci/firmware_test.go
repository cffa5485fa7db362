package pci

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// image makes a firmware image, and the policy for it.
func (h *fakeHost) image(text, from, to, rewrite string) (path string) {
	path = h.file("image.bin", text)
	h.images = fmt.Sprintf(`{"components": [{"from": [%q], "to": %q, "image": %q, "sha256": "%x", "rewrite": %q}]}`,
		from, to, path, sha256.Sum256([]byte(text)), rewrite)
	return path
}

// flashing has devlink flash firmware: stored changes, and running once it is activated.
func (h *fakeHost) flashing(t *testing.T, from, to string) (flashed *[]string) {
	t.Helper()
	h.versions(from, from)
	flashed = &[]string{}
	h.programs["devlink dev flash"] = func(args []string) (string, string) {
		text, err := os.ReadFile(filepath.Join(h.Driver.images, args[5]))
		require.NoError(t, err)
		*flashed = append(*flashed, string(text))
		h.versions(from, to)
		return "Preparing to flash\nFlashing 10%\rFlashing 99%\n", ""
	}
	h.programs["devlink dev reload"] = func([]string) (string, string) {
		h.versions(to, to)
		return "", ""
	}
	return flashed
}

// flashable is an enrolled NIC whose firmware can be written, opened.
func flashable(t *testing.T, from, to, rewrite string) (*fakeHost, *handle, *[]string) {
	t.Helper()
	h := newFakeHost(t)
	h.add(address, "15b3:1017", "120000", "mlx5_core", 7)
	flashed := h.flashing(t, from, to)
	h.image("firmware 2", "1.0", "2.0", rewrite)
	return h, h.openAs(h.enroll().Identity), flashed
}

func TestFirmwareIsWrittenAndActivated(t *testing.T) {
	h, opened, flashed := flashable(t, "1.0", "2.0", "")
	var child *exec.Cmd
	h.runs = func(cmd *exec.Cmd) {
		if strings.Contains(strings.Join(cmd.Args, " "), "flash") {
			child = cmd
		}
	}
	s := newSteps(t)
	fence, err := os.Open(os.DevNull)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fence.Close()) })
	opened.target.Fence = fence
	note, err := s.run(opened, stepReflash)
	require.NoError(t, err)
	require.Contains(t, note, "firmware 2.0 written over 1.0")
	require.Contains(t, note, "activated by reload")
	require.Equal(t, []string{"firmware 2"}, *flashed)
	require.Equal(t, []string{"2.0", "2.0"}, s.flashed, "recorded before it can run, and when it runs")
	left, err := os.ReadDir(h.Driver.images)
	require.NoError(t, err)
	require.Empty(t, left, "the image was left")
	require.Zero(t, child.SysProcAttr.Pdeathsig, "the worker's death does not end it")
	require.Contains(t, child.ExtraFiles, fence, "it holds the device's fence")
	require.Contains(t, child.ExtraFiles, opened.functions[0].Config, "and its lock")

	note, err = s.run(opened, stepVerifyFirmware)
	require.NoError(t, err)
	require.Equal(t, "it runs firmware 2.0, as the policy demands", note)
	require.Contains(t, h.enrolledAgain(opened.enrolled, "2.0").Identity.Firmware, "2.0")
}

// enrolledAgain discovers the device after a step of this host gave it a firmware.
func (h *fakeHost) enrolledAgain(known device.Identity, reflashed string) hardware.Discovery {
	h.t.Helper()
	target := h.target()
	target.Reflashed = reflashed
	found, err := h.Discover(h.t.Context(), target, known)
	require.NoError(h.t, err)
	return found
}

func TestFirmwareThatRunsAlreadyIsWrittenAgainIfThePolicySaysSo(t *testing.T) {
	_, opened, flashed := flashable(t, "2.0", "2.0", "")
	note, err := newSteps(t).run(opened, stepReflash)
	require.NoError(t, err)
	require.Equal(t, "it runs firmware 2.0 already", note)
	require.Empty(t, *flashed)

	_, opened, flashed = flashable(t, "2.0", "2.0", "always")
	note, err = newSteps(t).run(opened, stepReflash)
	require.NoError(t, err)
	require.Contains(t, note, "firmware 2.0 written over 2.0")
	require.Len(t, *flashed, 1)
}

// A run after a crash writes again what does not run yet, and what runs is recorded.
func TestFirmwareAfterACrash(t *testing.T) {
	for name, tt := range map[string]struct {
		running, stored string
		times           int
		says            string
	}{
		"before it ran": {"1.0", "2.0", 1, "firmware 2.0 written over 1.0"},
		"once it ran":   {"2.0", "2.0", 0, "it runs firmware 2.0 already"},
	} {
		t.Run(name, func(t *testing.T) {
			h, opened, flashed := flashable(t, "1.0", "2.0", "")
			h.versions(tt.running, tt.stored)
			opened.target.Reflashed = "2.0"
			s := newSteps(t)
			note, err := s.run(opened, stepReflash)
			require.NoError(t, err)
			require.Contains(t, note, tt.says)
			require.Len(t, *flashed, tt.times)
			require.Contains(t, s.flashed, "2.0")
		})
	}
}

func TestFirmwareThatIsRefused(t *testing.T) {
	says := func(words, complaint string) func(*fakeHost) {
		return func(h *fakeHost) { h.program(words, "", complaint) }
	}
	for name, tt := range map[string]struct {
		change func(h *fakeHost)
		code   device.Code
		times  int
	}{
		"another image": {func(h *fakeHost) { h.file("image.bin", "evil") }, device.CodeFirmwareImage, 0},
		"no image": {func(h *fakeHost) {
			require.NoError(h.t, os.Remove(h.root+"/image.bin"))
		}, device.CodeFirmwareImage, 0},
		"an unlisted version": {func(h *fakeHost) { h.versions("0.9", "0.9") }, device.CodeFirmwareNotListed, 0},
		"a flash that fails": {says("devlink dev flash", "kernel answers: Invalid argument"),
			device.CodeCommandRefused, 0},
		"a version that does not change": {says("devlink dev reload", ""), device.CodeFirmwareNotActive, 1},
		"neither a reload nor a reset": {func(h *fakeHost) {
			h.program("devlink dev reload", "", "kernel answers: Operation not supported")
			h.file(node(address)+"reset_method", "")
		}, device.CodeFirmwareNotActive, 1},
		"no version": {says("devlink -j dev info", "No such device"), device.CodeFirmwareUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h, opened, flashed := flashable(t, "1.0", "2.0", "")
			tt.change(h)
			_, err := newSteps(t).run(opened, stepReflash)
			require.Equal(t, device.NeedsOperator, hardwaretest.RequireFault(t, err, tt.code).Class)
			require.Len(t, *flashed, tt.times)
		})
	}
	h, opened, _ := flashable(t, "1.0", "2.0", "")
	_, err := newSteps(t).run(opened, stepVerifyFirmware)
	hardwaretest.RequireFault(t, err, device.CodeFirmwareNotActive)
	h.versions("2.0", "1.0")
	_, err = newSteps(t).run(opened, stepVerifyFirmware)
	hardwaretest.RequireFault(t, err, device.CodeFirmwareNotActive)
}

// Where a driver cannot activate firmware, a reset does.
func TestFirmwareIsActivatedByAReset(t *testing.T) {
	h, opened, _ := flashable(t, "1.0", "2.0", "")
	h.program("devlink dev reload", "", "kernel answers: Operation not supported")
	h.onWrite = func(name, _ string) {
		if filepath.Base(name) == "reset" {
			h.versions("2.0", "2.0")
		}
	}
	note, err := newSteps(t).run(opened, stepReflash)
	require.NoError(t, err)
	require.Contains(t, note, "activated by reset by bus")
}

// F20
func TestFirmwareOfATenantIsFound(t *testing.T) {
	h, opened, _ := flashable(t, "1.0", "2.0", "")
	h.versions("6.6", "6.6")
	note, err := newSteps(t).run(opened, stepSecurity)
	require.NoError(t, err)
	require.Contains(t, note, `runs firmware "6.6", enrolled was "1.0"`, "the clean writes the policy's")
	h.images = ""
	_, err = newSteps(t).run(opened, stepSecurity)
	hardwaretest.RequireFault(t, err, device.CodeFirmwareChanged)
	opened.target.Reflashed = "6.6"
	_, err = newSteps(t).run(opened, stepSecurity)
	require.NoError(t, err, "Burnish wrote it")
}

func TestFirmwareByMstflint(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "15b3:1017", "120000", "mlx5_core", 7)
	running := "1.0"
	h.programs["mstflint -d "+address+" q"] = func([]string) (string, string) {
		return "Image type:       FS4\nFW Version:       2.0\nFW Version(Running):   " + running + "\nPSID:  MT_1\n", ""
	}
	burned := ""
	h.programs["mstflint -d "+address+" -i"] = func(args []string) (string, string) {
		text, err := os.ReadFile(args[4])
		require.NoError(t, err)
		burned = string(text)
		return "Burning - 45%\n", ""
	}
	h.image("firmware 2", "1.0", "2.0", "")
	h.onWrite = func(name, _ string) {
		if filepath.Base(name) == "reset" {
			running = "2.0"
		}
	}
	opened := h.openAs(h.enroll().Identity)
	note, err := newSteps(t).run(opened, stepReflash)
	require.NoError(t, err)
	require.Contains(t, note, "activated by reset by")
	require.Equal(t, "firmware 2", burned)
}
