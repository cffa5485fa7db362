package hardware

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What the kernel itself gives to others has a user, although no process holds it.
//
// F40
func TestWhatTheKernelExportsIsFound(t *testing.T) {
	usual := configfs
	t.Cleanup(func() { configfs = usual })
	disk := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(disk, []byte("x"), 0o600))
	var is unix.Stat_t
	require.NoError(t, unix.Stat(disk, &is))
	search := Search{Proc: "/proc", Ours: -1, Writers: true,
		Is: func(found *unix.Statx_t) bool { return found.Ino == is.Ino }}
	commands := search
	commands.Is = func(*unix.Statx_t) bool { return false }
	commands.Commands = func(found *unix.Statx_t) (bool, bool) { return found.Ino == is.Ino, true }

	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"NVMe": {map[string]string{"nvmet/subsystems/nqn.a/namespaces/1/device_path": disk + "\n",
			"nvmet/subsystems/nqn.a/namespaces/1/enable": "1\n"}, "nvmet/subsystems/nqn.a/namespaces/1"},
		"NVMe, off": {map[string]string{"nvmet/subsystems/nqn.a/namespaces/1/device_path": disk + "\n",
			"nvmet/subsystems/nqn.a/namespaces/1/enable": "0\n"}, ""},
		"NVMe, another": {map[string]string{"nvmet/subsystems/nqn.a/namespaces/1/device_path": "/dev/null\n",
			"nvmet/subsystems/nqn.a/namespaces/1/enable": "1\n"}, ""},
		"NVMe, a controller": {map[string]string{"nvmet/subsystems/nqn.b/passthru/device_path": disk,
			"nvmet/subsystems/nqn.b/passthru/enable": "1"}, "nvmet/subsystems/nqn.b/passthru"},
		"SCSI": {map[string]string{"target/core/fileio_0/x/info": "Status: ACTIVATED\n        TCM FILEIO ID: 0        " +
			"File: " + disk + "  Size: 4096  Mode: O_DSYNC Async: 0\n", "target/core/fileio_0/x/enable": "1\n"},
			"target/core/fileio_0/x"},
		"USB": {map[string]string{"usb_gadget/g/functions/mass_storage.0/lun.0/file": disk + "\n"},
			"usb_gadget/g/functions/mass_storage.0/lun.0"},
		"USB, empty": {map[string]string{"usb_gadget/g/functions/mass_storage.0/lun.0/file": "\n"}, ""},
		"nothing":    {},
	} {
		t.Run(name, func(t *testing.T) {
			configfs = t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(configfs, file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			for _, s := range []Search{search, commands} {
				found, _, err := s.First()
				require.NoError(t, err)
				if c.want == "" {
					require.Nil(t, found)
					continue
				}
				require.NotNil(t, found)
				require.Equal(t, "the kernel ("+c.want+")", found.String())
			}
		})
	}
}
