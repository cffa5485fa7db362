package redfish

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/redfishsim"
)

// policy gives the arguments of the steps for one image, which it writes to a file.
func policy(t *testing.T, component string, content []byte, to string, from ...string) map[string]any {
	t.Helper()
	path := filepath.Join(t.TempDir(), "firmware.bin")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	image := hardware.FirmwareImage{Component: component, From: from, To: to, Path: path,
		SHA256: redfishsim.Digest(content)}
	return map[string]any{"components": []hardware.FirmwareImage{image}}
}

// component is the state of a component.
func (s *stepper) component(name string) redfishsim.Component {
	s.t.Helper()
	for _, c := range s.bmc.State().Components {
		if c.Name == name && c.System == "" {
			return *c
		}
	}
	require.Fail(s.t, "no component", name)
	return redfishsim.Component{}
}

// update gives the arguments that bring a component from its version to 9.9.9.
func (s *stepper) update(component string) map[string]any {
	s.t.Helper()
	return policy(s.t, component, redfishsim.Image(component, "9.9.9"), "9.9.9", s.component(component).Version)
}

// S3.5
func TestFirmwareReachesItsTarget(t *testing.T) {
	for _, component := range []string{"BIOS", "BMC"} {
		t.Run(component, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				s := newStepper(t, p, func(c *redfishsim.Config, _ *redfishsim.State) { c.SecondSystem = true })
				from, args := s.component(component).Version, s.update(component)
				_, err := s.run("verify_firmware", args)
				require.Equal(t, device.CodeFirmwareNotActive, code(err), "%v", err)
				note, err := s.run("firmware_reflash", args)
				require.NoError(t, err)
				require.Contains(t, note, component+" updated from "+from+" to 9.9.9 (pushed")
				require.Equal(t, "9.9.9", s.component(component).Version)
				require.Len(t, s.bmc.State().Commits, 1, "of this system only")
				note, err = s.run("verify_firmware", args)
				require.NoError(t, err)
				require.Contains(t, note, "runs "+component+" 9.9.9")
				s.requireNoHarm()
				require.Empty(t, s.bmc.OpenSessions())

				changes := s.bmc.Changes()
				s.newClean()
				note, err = s.run("firmware_reflash", args)
				require.NoError(t, err)
				require.Contains(t, note, "was at 9.9.9")
				require.Equal(t, changes, s.bmc.Changes(), "at its target, nothing is sent")
			})
		})
	}
}

// Each request of an update fails, before and after it was carried out, the BMC
// restarts at each, and the worker is killed at each: in the end the component is at its target,
// written once, or an operator is called. The server is never reset while it is written. An
// update of the BMC itself ends its sessions and tasks besides.
func TestNoFirmwareIsCommittedBlindlyTwice(t *testing.T) {
	for _, component := range []string{"BIOS", "BMC"} {
		t.Run(component, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				t.Parallel()
				build := func(t *testing.T) *stepper {
					return newStepper(t, p, twoDrives)
				}
				args := build(t).update(component)
				ordeal(t, build, "firmware_reflash", args, func(t *testing.T, s *stepper, err error) {
					require.LessOrEqual(t, len(s.bmc.Commits(component)), 1)
					if err == nil {
						require.Equal(t, "9.9.9", s.component(component).Version)
						_, err = s.run("verify_firmware", args)
						require.NoError(t, err)
					}
				}, component == "BIOS")
			})
		})
	}
}
