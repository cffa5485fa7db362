package block

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
)

func requireCode(t *testing.T, err error, code device.Code) {
	t.Helper()
	if code == "" || code == none {
		require.NoError(t, err)
		return
	}
	hardwaretest.RequireFault(t, err, code)
}

// checksums are the checksums of files.
func checksums(t *testing.T, paths []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range paths {
		all[path] = hardwaretest.Sum(t, hardwaretest.File(path))
	}
	return all
}

// If a link appears between the check and the open, the open itself refuses it.
//
// F14
func TestOpenFollowsNoLink(t *testing.T) {
	f := enroll(t, workDir(t), mib)
	before := checksums(t, []string{f.path})
	parent, name := filepath.Dir(f.path), filepath.Base(f.path)
	atPath, atParent := filepath.Join(parent, "link"), parent+".link"
	require.NoError(t, os.Symlink(f.path, atPath))
	require.NoError(t, os.Symlink(parent, atParent))
	for _, path := range []string{atPath, filepath.Join(atParent, name), "/proc/self/cwd/" + name} {
		for _, flags := range []uint64{unix.O_RDONLY, unix.O_RDWR} {
			_, err := openNoFollow(path, flags)
			require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeIdentityChanged).Message, "symbolic link")
		}
	}
	require.Equal(t, before, checksums(t, []string{f.path}))

	fd, err := openNoFollow(f.path, unix.O_RDWR)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
}
