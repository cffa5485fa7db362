package redfish

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/redfishsim"
)

// What the policy does not list is not written.
func TestOnlyListedFirmwareIsWritten(t *testing.T) {
	good := redfishsim.Image("BIOS", "9.9.9")
	for name, c := range map[string]struct {
		change func(image *hardware.FirmwareImage)
		want   device.Code
	}{
		"from another version": {func(i *hardware.FirmwareImage) { i.From = []string{"0.0.1"} }, device.CodeFirmwareNotListed},
		"from nothing":         {func(i *hardware.FirmwareImage) { i.From = nil }, device.CodeFirmwareNotListed},
		"another digest": {func(i *hardware.FirmwareImage) { i.SHA256 = redfishsim.Digest([]byte("x")) },
			device.CodeFirmwareImage},
		"no digest":         {func(i *hardware.FirmwareImage) { i.SHA256 = "" }, device.CodeInvalidSetting},
		"no image":          {func(i *hardware.FirmwareImage) { i.Path += ".none" }, device.CodeFirmwareImage},
		"a link":            {func(i *hardware.FirmwareImage) { i.Path = linkTo(t, i.Path) }, device.CodeFirmwareImage},
		"a directory":       {func(i *hardware.FirmwareImage) { i.Path = filepath.Dir(i.Path) }, device.CodeFirmwareImage},
		"a relative path":   {func(i *hardware.FirmwareImage) { i.Path = "firmware.bin" }, device.CodeInvalidSetting},
		"no component":      {func(i *hardware.FirmwareImage) { i.Component = "" }, device.CodeInvalidSetting},
		"unknown component": {func(i *hardware.FirmwareImage) { i.Component = "GPU" }, device.CodeInvalidSetting},
		"no version":        {func(i *hardware.FirmwareImage) { i.To = "" }, device.CodeInvalidSetting},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.IDRAC)
			args := policy(t, "BIOS", good, "9.9.9", s.component("BIOS").Version)
			c.change(&args["components"].([]hardware.FirmwareImage)[0])
			_, err := s.run("firmware_reflash", args)
			require.Equal(t, c.want, code(err), "%v", err)
			require.Zero(t, s.bmc.Changes())
		})
	}
	s := newStepper(t, redfishsim.IDRAC)
	_, err := s.run("firmware_reflash", nil)
	require.Equal(t, device.CodeInvalidSetting, code(err), "%v", err)
}

func linkTo(t *testing.T, path string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	return link
}

// The BMC gets the bytes that were checked, whatever becomes of the file meanwhile.
func TestAnImageThatChangesWhileItIsSentIsNotWritten(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		args := s.update("BIOS")
		image := args["components"].([]hardware.FirmwareImage)[0]
		changed := false
		s.onSave = func(_ int, store func() error) error {
			// It is journaled that it is being sent: it was checked.
			if !changed && strings.Contains(strings.Join(s.said, "\n"), "sends the image") {
				changed = true
				require.NoError(t, os.WriteFile(image.Path, redfishsim.Image("BIOS", "6.6.6"), 0o600))
			}
			return store()
		}
		_, err := s.run("firmware_reflash", args)
		require.NoError(t, err)
		require.True(t, changed)
		commits := s.bmc.Commits("BIOS")
		require.Len(t, commits, 1)
		require.Equal(t, image.SHA256, commits[0].Digest)
	})
}

// F20: firmware that a tenant has staged is found before anything resets the server.
func TestStagedFirmwareOfATenantIsFound(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		if p == redfishsim.Supermicro {
			s.bmc.Change(func(state *redfishsim.State) {
				state.Upload = &redfishsim.Upload{Component: "BIOS", Version: "6.6.6"}
			})
		} else {
			s.stageFirmware()
		}
		_, err := s.run("firmware_reflash", s.update("BIOS"))
		require.Equal(t, device.CodeFirmwareChanged, code(err), "%v", err)
		at := policy(t, "BIOS", redfishsim.Image("BIOS", "x"), s.component("BIOS").Version)
		_, err = s.run("verify_firmware", at)
		require.Equal(t, device.CodeFirmwareChanged, code(err),
			"a component at its target with another version staged is not at its target: %v", err)
		require.Zero(t, s.bmc.Changes())
	})
}

func TestAnUpdateThatFailedIsNoUpdate(t *testing.T) {
	for _, how := range []redfishsim.Ending{redfishsim.CompletedCritical, redfishsim.CompletedMessage,
		redfishsim.Exception, redfishsim.Lies, redfishsim.Stalls} {
		t.Run(string(how), func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				s := newStepper(t, p, func(c *redfishsim.Config, _ *redfishsim.State) { c.Endings[redfishsim.KindFirmware] = how })
				if how == redfishsim.Stalls {
					s.driver.timing.stall, s.driver.timing.post = 150*time.Millisecond, 300*time.Millisecond
				}
				args := s.update("BIOS")
				for range 2 {
					_, err := s.run("firmware_reflash", args)
					f, ok := device.AsFault(err)
					require.True(t, ok, "%v", err)
					if how == redfishsim.Lies {
						require.Equal(t, device.CodeFirmwareNotActive, f.Code, "%v", err)
					} else if how != redfishsim.Stalls {
						require.Contains(t, []device.Code{device.CodeStepFailed, device.CodeFirmwareNotActive}, f.Code, "%v", err)
					}
					require.LessOrEqual(t, len(s.bmc.Commits("BIOS")), 1, "not again")
				}
				s.requireNoHarm()
				_, err := s.run("verify_firmware", args)
				require.Error(t, err)
			})
		})
	}
}

// A BMC that resets the server by itself is waited for.
func TestABMCThatResetsByItself(t *testing.T) {
	for name, option := range map[string]redfishsim.Option{
		"unasked": func(c *redfishsim.Config, _ *redfishsim.State) { c.SelfReset = true },
		"and is off in the middle": func(c *redfishsim.Config, _ *redfishsim.State) {
			c.SelfReset, c.RestartKeepsOn = true,
				false
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.IDRAC, option)
			_, err := s.run("firmware_reflash", s.update("BIOS"))
			require.NoError(t, err)
			require.Equal(t, 1, s.bmc.State().ResetCount, "no reset of ours")
			s.requireNoHarm()
		})
	}
}

// A BMC that only fetches gets the image from the worker, at an address of the enrollment; never
// from anywhere else.
func TestTheWorkerServesTheImage(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO} {
		t.Run(string(p), func(t *testing.T) {
			s := newStepper(t, p, func(c *redfishsim.Config, _ *redfishsim.State) {
				c.MultipartPath, c.SecondSystem = "", true
			})
			args := s.update("BIOS")
			_, err := s.run("firmware_reflash", args)
			require.Equal(t, device.CodeInvalidSetting, code(err), "%v", err)
			require.ErrorContains(t, err, "image_address")
			require.Zero(t, s.bmc.Changes())

			s.target.Settings[imageAddress] = "127.0.0.1:0"
			note, err := s.run("firmware_reflash", args)
			require.NoError(t, err)
			require.Contains(t, note, "served")
			commits := s.bmc.State().Commits
			require.Len(t, commits, 1, "of this system only")
			require.Equal(t, args["components"].([]hardware.FirmwareImage)[0].SHA256, commits[0].Digest)
			body := strings.Join(s.bodies("SimpleUpdate"), "")
			require.Contains(t, body, `"ImageURI":"http://127.0.0.1:`)
			require.Contains(t, body, `"Targets":[`)
			s.requireNoHarm()
		})
	}
}

// A BMC that takes no image for a named target gets none.
func TestWithoutATargetNothingIsSent(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.MultipartPath = ""
	})
	_, err := s.run("firmware_reflash", s.update("BIOS"))
	require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
	require.Zero(t, s.bmc.Changes())
}

// A component is updated after the other, and one that fails ends the step.
func TestComponentsAreUpdatedOneAfterTheOther(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		bios := s.update("BIOS")["components"].([]hardware.FirmwareImage)
		bmc := s.update("BMC")["components"].([]hardware.FirmwareImage)
		note, err := s.run("firmware_reflash", map[string]any{"components": append(bios, bmc...)})
		require.NoError(t, err)
		require.Contains(t, note, "runs BIOS 9.9.9, BMC 9.9.9")
		require.Equal(t, []string{"BIOS", "BMC"},
			[]string{s.bmc.State().Commits[0].Component, s.bmc.State().Commits[1].Component})
		s.requireNoHarm()
	})
}

// An iDRAC lists the times with MultipartHttpPushUri. Firmware of the BMC, which no reset of the
// server applies, is applied at once; a BMC that lists no times is asked for none.
func TestAnUploadSaysWhenItIsApplied(t *testing.T) {
	for _, c := range []struct {
		component, want string
		none            bool
	}{
		{component: "BIOS", want: "OnReset"},
		{component: "BMC", want: "Immediate"},
		{component: "BIOS", none: true},
		{component: "BMC", none: true},
	} {
		t.Run(fmt.Sprintf("%s %q", c.component, c.want), func(t *testing.T) {
			s := newStepper(t, redfishsim.IDRAC, func(config *redfishsim.Config, _ *redfishsim.State) {
				if c.none {
					config.OperationApplyTimes = nil
				}
			})
			_, err := s.run("firmware_reflash", s.update(c.component))
			require.NoError(t, err)
			sent := s.bodies(s.bmc.Config().MultipartPath)
			require.Len(t, sent, 1)
			parameters, _, found := strings.Cut(sent[0], "UpdateFile")
			require.True(t, found)
			require.Contains(t, parameters, `"Targets":[`)
			if c.none {
				require.NotContains(t, parameters, "OperationApplyTime")
			} else {
				require.Contains(t, parameters, fmt.Sprintf(`"@Redfish.OperationApplyTime":%q`, c.want))
			}
			s.requireNoHarm()
		})
	}
}

// What the host lacks is no mistake in the image.
func TestAnImageThatCannotBeCopiedIsTheHosts(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	_, err := s.run("firmware_reflash", s.update("BIOS"))
	require.Equal(t, device.CodeIO, code(err), "%v", err)
	require.Zero(t, s.bmc.Changes())
}

// What an update needs would stop the erase.
func TestNoImageIsSentWhileADriveIsErased(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p, twoDrives)
		s.bmc.Change(erasing)
		_, err := s.run("firmware_reflash", s.update("BIOS"))
		require.Equal(t, device.CodeTargetBusy, code(err), "%v", err)
		require.Zero(t, s.posts(s.bmc.Config().MultipartPath))
	})
}
