package block

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
)

// F14
func TestRefusedAndNothingIsWritten(t *testing.T) {
	for kind, table := range map[string]struct {
		of   map[string]refusal
		size int64
		on   func(t *testing.T, dir string, size int64) *fixture
	}{
		"file": {refusals, oddSize, enroll},
		"loop": {loopRefusals, evenSize, enrollLoop},
		"disk": {diskRefusals, evenSize, enrollDisk},
	} {
		for name, r := range table.of {
			if r.dir == nil {
				r.dir = workDir
			}
			if r.size == 0 {
				r.size = table.size
			}
			if r.enrollWith == nil {
				r.enrollWith = table.on
			}
			t.Run(kind+"/"+name, r.run)
		}
	}
}

func (r refusal) run(t *testing.T) {
	t.Run("before_it_is_opened", func(t *testing.T) {
		f := r.enroll(t)
		files := r.change(t, f)
		before := r.sums(t, files)

		_, err := f.driver.Discover(t.Context(), f.target, f.identity)
		requireCode(t, err, r.known)
		if r.first != "" {
			_, err = f.driver.Discover(t.Context(), f.target, device.Identity{})
			requireCode(t, err, r.first)
		}
		for _, writable := range []bool{true, false} {
			h, err := f.driver.Open(t.Context(), f.target, f.identity, writable)
			if err == nil { // a handle that must not be would keep its loop device
				t.Cleanup(func() { _ = h.Close() })
			}
			if !writable && r.onlyWritable || r.open == "" {
				require.NoError(t, err)
				require.NoError(t, h.Close())
				continue
			}
			requireCode(t, err, r.open)
			require.Nil(t, h)
		}
		require.Equal(t, before, r.sums(t, files))
		for _, path := range files {
			require.LessOrEqual(t, len(descriptorsOf(t, path)), 1, "no refusal leaves a descriptor open")
		}
	})
	if r.preventedByClaim {
		return
	}
	t.Run("while_it_is_open", func(t *testing.T) {
		f := r.enroll(t)
		h := f.open(t, true)
		require.NoError(t, h.Check(t.Context()))
		files := r.change(t, f)
		before := r.sums(t, files)
		err := h.Check(t.Context())
		requireCode(t, err, r.check)
		require.Contains(t, err.Error(), r.message)
		if r.zero {
			requireCode(t, h.ZeroAt(t.Context(), 0, f.identity.Size), r.check)
		}
		require.NoError(t, h.Close())
		require.Equal(t, before, r.sums(t, files))
	})
}

// enroll enrolls the target by a link, as operators do with /dev/disk/by-id.
func (r refusal) enroll(t *testing.T) *fixture {
	t.Helper()
	f := r.enrollWith(t, r.dir(t), r.size)
	byID := filepath.Join(f.dir, "by-id")
	require.NoError(t, os.Symlink(f.path, byID))
	f.target = targetAt(byID)
	found, err := f.driver.Discover(t.Context(), f.target, device.Identity{})
	require.NoError(t, err)
	f.identity = found.Identity
	return f
}

// sums are the checksums of files whose bytes must not change.
func (r refusal) sums(t *testing.T, files []string) map[string]string {
	t.Helper()
	if !r.swap {
		return checksums(t, files)
	}
	all := map[string]string{}
	for _, path := range files {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		all[path] = fmt.Sprintf("%x", sha256.Sum256(content[swapArea:]))
	}
	return all
}

func requireCode(t *testing.T, err error, code device.Code) {
	t.Helper()
	if code == "" {
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
