package nvmesim_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/testkit/nvmesim"
)

// sanitizeLog reads the drive's log.
func sanitizeLog(t *testing.T, s *nvmesim.Host) nvmecli.SanitizeLog {
	t.Helper()
	return received(t, s, s.Node(0), sanitizeLogPage, nvmecli.ParseSanitizeLog)
}

// all reads the media and returns the byte that fills it.
func all(t *testing.T, s *nvmesim.Host) (b byte, same bool) {
	t.Helper()
	media, err := os.ReadFile(s.Media(0))
	require.NoError(t, err)
	require.NotEmpty(t, media)
	return media[0], bytes.Count(media, media[:1]) == len(media)
}

func TestSanitize(t *testing.T) {
	s := nvmesim.New(t, small("S1"))
	l := sanitizeLog(t, s)
	require.Equal(t, nvmecli.NeverSanitized, l.Status)
	require.True(t, l.GlobalErased)
	require.EqualValues(t, 65535, l.Progress)
	require.Equal(t, 2*time.Second, l.CryptoErase)

	node := s.Node(0)
	s.Fill(0, 0xaa)
	require.False(t, sanitizeLog(t, s).GlobalErased)
	refused(t, s, nvmecli.StatusInvalidField, "sanitize", node, "-a", "3")
	done(t, s, "sanitize", node, "-a", "4")
	refused(t, s, nvmecli.StatusSanitizeInProgress, "sanitize", node, "-a", "2")
	refused(t, s, nvmecli.StatusSanitizeInProgress, "delete-ns", node, "-n", "1")
	done(t, s, "reset", node)
	for _, progress := range []uint16{21845, 43690} {
		l = sanitizeLog(t, s)
		require.Equal(t, nvmecli.SanitizeInProgress, l.Status)
		require.Equal(t, progress, l.Progress)
		require.EqualValues(t, 4, l.CDW10)
		b, same := all(t, s)
		require.True(t, same && b == 0xaa)
	}
	l = sanitizeLog(t, s)
	require.Equal(t, nvmecli.SanitizeDone, l.Status)
	require.True(t, l.GlobalErased)
	require.EqualValues(t, 65535, l.Progress)
	b, same := all(t, s)
	require.True(t, same && b == 0)

	// A tenant writes through the node.
	disk, err := os.OpenFile(filepath.Join(s.Dev, "nvme0n1"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer disk.Close()
	require.True(t, sanitizeLog(t, s).GlobalErased, "nothing was written")
	_, err = disk.WriteAt([]byte("data"), 4096)
	require.NoError(t, err)
	require.NoError(t, disk.Sync())
	require.False(t, sanitizeLog(t, s).GlobalErased)
	require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)

	var opcodes []uint8
	for _, c := range s.Log() {
		require.Equal(t, "S1", c.Serial)
		require.Equal(t, node, c.Path)
		opcodes = append(opcodes, c.Opcode)
	}
	require.Contains(t, opcodes, nvmesim.Reset)
	require.Contains(t, opcodes, nvmesim.SanitizeDrive)
}

// After a failed sanitize only another one is permitted, or, if it was unrestricted, its acknowledgement.
func TestAFailedSanitize(t *testing.T) {
	failed := func(t *testing.T, args ...string) *nvmesim.Host {
		drive := small("S1")
		drive.Sanitize.Polls, drive.Sanitize.FailIt = 0, true
		s := nvmesim.New(t, drive)
		done(t, s, append([]string{"sanitize", s.Node(0), "-a", "2"}, args...)...)
		require.Equal(t, nvmecli.SanitizeFailed, sanitizeLog(t, s).Status)
		refused(t, s, nvmecli.StatusSanitizeFailed, "delete-ns", s.Node(0), "-n", "1")
		return s
	}
	s := failed(t)
	refused(t, s, nvmecli.StatusSanitizeFailed, "sanitize", s.Node(0), "-a", "1")
	s.Change(0, func(c *nvmesim.Controller) { c.Sanitize.FailIt = false })
	done(t, s, "sanitize", s.Node(0), "-a", "4")
	require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
	done(t, s, "delete-ns", s.Node(0), "-n", "1")
	s = failed(t, "--ause")
	done(t, s, "sanitize", s.Node(0), "-a", "1")
	done(t, s, "delete-ns", s.Node(0), "-n", "1")
}

// A drive takes no writes while a sanitize runs and after a failed one, and takes them again
// through the same descriptor when one is done.
func TestARestrictedDriveTakesNoWrites(t *testing.T) {
	h := nvmesim.New(t, nvmesim.Drive("S1"))
	node, err := os.OpenFile(filepath.Join(h.Dev, "nvme0n1"), os.O_RDWR|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer node.Close()
	block := hardware.AlignedBuffer(4096)
	write := func() error {
		_, err := node.WriteAt(block, 0)
		return err
	}
	require.NoError(t, write())
	for _, status := range []uint8{2, 3} {
		h.Change(0, func(c *nvmesim.Controller) { c.Sanitize.Status, c.Sanitize.CDW10 = status, 4 })
		require.ErrorIs(t, write(), unix.EPERM)
		h.Change(0, func(c *nvmesim.Controller) { c.Sanitize.Status = 1 })
		require.NoError(t, write())
	}
}
