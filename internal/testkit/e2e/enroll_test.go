package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A refused enrollment leaves nothing behind: no device, no provider, and every byte as it
// was.
//
// F13
func TestEnrollRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	d := s.Device(t, "block", "d1", 2*MiB, 0)
	fake := s.Fake(t, "f1", 1*MiB, "serial=SAME")
	s.Enroll(t, d)
	s.Enroll(t, fake)

	outside := d
	outside.Path = filepath.Join(s.Dir, "outside.img")
	outside.Stamp(t, 1)
	link := filepath.Join(s.Files, "link.img")
	require.NoError(t, os.Symlink(outside.Path, link))
	short := filepath.Join(s.Files, "empty.img")
	require.NoError(t, os.WriteFile(short, nil, 0o600))

	block := func(path string) []string { return []string{"--driver", "block", "--set", "path=" + path} }
	refusals := map[string]func(*testing.T){
		"a file without a byte": func(t *testing.T) {
			s.Refused(t, device.CodeInvalidSetting, append([]string{"enroll", "other2", "--host", s.Host}, block(short)...)...)
		},
		"a host without a worker": func(t *testing.T) {
			s.Refused(t, device.CodeHostUnreachable, "enroll", "other3", "--host", "missing-host", "--driver", "fake",
				"--timeout", "60s")
			s.Refused(t, device.CodeNotFound, "show", "other3")
		},
		"with other settings than before": func(t *testing.T) {
			s.Refused(t, device.CodeAlreadyExists, "enroll", "d1", "--host", s.Host, "--driver", "fake")
			s.Refused(t, device.CodeAlreadyExists, append(s.EnrollArgs(d), "--one-time-use")...)
		},
	}
	for what, tt := range map[string]struct {
		code device.Code
		args []string
	}{
		"a driver that is not known":       {device.CodeUnknownDriver, []string{"--driver", "floppy"}},
		"a path outside host.yaml":         {device.CodeNotAllowed, block(outside.Path)},
		"a link to a path outside":         {device.CodeNotAllowed, block(link)},
		"a file that is not there":         {device.CodeTargetMissing, block(filepath.Join(s.Files, "missing.img"))},
		"a file that is enrolled already":  {device.CodeDuplicateSerial, block(d.Path)},
		"a serial that is enrolled":        {device.CodeDuplicateSerial, []string{"--driver", "fake", "--set", "size=1MiB,serial=SAME"}},
		"a driver's setting that is wrong": {device.CodeInvalidSetting, []string{"--driver", "fake", "--set", "color=red"}},
	} {
		refusals[what] = func(t *testing.T) {
			s.Refused(t, tt.code, append([]string{"enroll", "other", "--host", s.Host, "--provide"}, tt.args...)...)
		}
	}
	beside(t, refusals)
	for _, name := range []string{"other", "other2", "other3"} {
		s.Refused(t, device.CodeNotFound, "show", name)
		require.NoFileExists(t, filepath.Join(s.State, "inventory", contract.DeviceUUID(name)+".json"))
	}
	d.RequireStamps(t, 1)
	outside.RequireStamps(t, 1)
	s.Enroll(t, d) // again, and the same: nothing happens
	require.Equal(t, device.Manageable, s.Show(t, "d1").DeviceState)
}
