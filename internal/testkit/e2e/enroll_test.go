package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	t.Run("refusals", func(t *testing.T) { // ends when all of them have
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
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				s.Refused(t, tt.code, append([]string{"enroll", "other", "--host", s.Host, "--provide"}, tt.args...)...)
			})
		}
		t.Run("a file without a byte", func(t *testing.T) {
			t.Parallel()
			s.Refused(t, device.CodeInvalidSetting, append([]string{"enroll", "other2", "--host", s.Host}, block(short)...)...)
		})
		t.Run("a host without a worker", func(t *testing.T) {
			t.Parallel()
			s.Refused(t, device.CodeHostUnreachable, "enroll", "other3", "--host", "missing-host", "--driver", "fake", "--timeout", "60s")
			s.Refused(t, device.CodeNotFound, "show", "other3")
		})
		t.Run("with other settings than before", func(t *testing.T) {
			t.Parallel()
			s.Refused(t, device.CodeAlreadyExists, "enroll", "d1", "--host", s.Host, "--driver", "fake")
			s.Refused(t, device.CodeAlreadyExists, append(s.EnrollArgs(d), "--one-time-use")...)
		})
	})
	for _, name := range []string{"other", "other2", "other3"} {
		s.Refused(t, device.CodeNotFound, "show", name)
		require.NoFileExists(t, filepath.Join(s.State, "inventory", contract.DeviceUUID(name)+".json"))
	}
	d.RequireStamps(t, 1)
	outside.RequireStamps(t, 1)
	s.Enroll(t, d) // again, and the same: nothing happens
	require.Equal(t, device.Manageable, s.Show(t, "d1").DeviceState)
}

// Another file under the enrolled name is another device. Nothing is
// written to it, neither by a clean nor after the workflow is gone.
//
// F14, F11, F13
func TestReplacedFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	d := s.Device(t, "block", "d1", 2*MiB, 0)
	s.Enroll(t, d)
	require.NoError(t, os.Rename(d.Path, d.Path+".enrolled"))
	d.Stamp(t, 9)
	s.Must(t, "provide", "d1")
	v := s.AwaitState(t, "d1", 20*time.Second, device.Error)
	require.Equal(t, string(device.CodeSerialMismatch), v.Fault)
	d.RequireStamps(t, 9)
	s.RequireReserved(t, "d1", 1)

	// The enrolled file is back.
	require.NoError(t, os.Rename(d.Path+".enrolled", d.Path))
	s.Must(t, "clean", "d1", "--wait", "--timeout", "30s")
	s.AwaitReturned(t, d, time.Second)
}

// A device is not lost because its workflow was terminated and an enrollment was then
// refused: the host still knows it, and brings it back at its next start.
//
// F10
func TestRefusedEnrolmentForgetsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.Run(t, "all")
	d := s.Device(t, "block", "d1", 2*MiB, 0)
	s.Enroll(t, d)
	require.NoError(t, s.Client.TerminateWorkflow(t.Context(), contract.WorkflowID("d1"), "", "test"))
	require.NoError(t, os.Rename(d.Path, d.Path+".enrolled"))
	d.Stamp(t, 9)
	s.Refused(t, device.CodeSerialMismatch, s.EnrollArgs(d, "--provide")...)
	d.RequireStamps(t, 9)
	require.NoError(t, os.Rename(d.Path+".enrolled", d.Path))

	w.Kill(t)
	w.Start(t)
	// It was never bound or cleaned, so that nothing records who has it (F24): the operator decides.
	s.AwaitDevice(t, "d1", 20*time.Second, "to wait for its operator", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Unknown && v.Fault == string(device.CodeTenantUnrecorded)
	})
	s.Must(t, "clean", "d1", "--wait", "--timeout", "30s")
	s.AwaitReturned(t, d, 20*time.Second)
}

// A path that the operator removes from host.yaml is refused at the next step, without a
// restart.
//
// F13
func TestTakenOutOfHostYAML(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	d := s.Device(t, "block", "d1", 2*MiB, 0)
	s.Enroll(t, d)
	s.Allow(t, filepath.Join(s.Files, "another"))
	s.Must(t, "provide", "d1")
	v := s.AwaitState(t, "d1", 20*time.Second, device.Error)
	require.Equal(t, string(device.CodeNotAllowed), v.Fault)
	require.Contains(t, v.Remedy, s.HostFile())
	d.RequireStamps(t, 1)
	s.Allow(t, s.Files+"/**")
	s.Must(t, "clean", "d1", "--wait", "--timeout", "30s")
	s.AwaitReturned(t, d, time.Second)
}

// A fleet file with wrong entries: the others are enrolled, and the exit code says
// that some failed.
func TestFleetFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	fleet := filepath.Join(s.Dir, "fleet.yaml")
	text := fmt.Sprintf(`devices:
  - {name: a, host: %[1]s, driver: fake, set: {size: 1MiB}, provide: true}
  - {name: b, host: %[1]s, driver: floppy}
  - {name: c, host: %[1]s, driver: fake, color: red}
  - {name: d, host: %[1]s, driver: fake, set: {size: 1MiB}}
`, s.Host)
	require.NoError(t, os.WriteFile(fleet, []byte(text), 0o600))
	for range 2 { // a second run finds the same
		r := s.Burnish(t, "enroll", "-f", fleet)
		require.Equal(t, 3, r.Code, r)
		require.Contains(t, r.Stderr, "line 4", r)
		require.Contains(t, r.Stderr, "floppy", r)
		require.Contains(t, r.Stderr, "2 of 4 devices failed", r)
	}
	s.AwaitState(t, "a", 20*time.Second, device.Available)
	require.Equal(t, device.Manageable, s.Show(t, "d").DeviceState)
	s.Refused(t, device.CodeNotFound, "show", "b")
	s.Refused(t, device.CodeNotFound, "show", "c")
}
