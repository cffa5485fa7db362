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

func TestSanitizeVariants(t *testing.T) {
	begin := func(t *testing.T, how func(*nvmesim.Sanitize), args ...string) *nvmesim.Host {
		drive := nvmesim.Drive("S1")
		drive.Capacity = 8 << 20
		drive.Namespaces[0].Blocks = 8 << 20 / 512
		drive.Sanitize.Polls = 1
		how(&drive.Sanitize)
		s := nvmesim.New(t, drive)
		s.Fill(0, 0xaa)
		done(t, s, append([]string{"sanitize", s.Node(0), "-a", "2"}, args...)...)
		require.Equal(t, nvmecli.SanitizeInProgress, sanitizeLog(t, s).Status)
		return s
	}
	t.Run("failed, restricted", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.FailIt = true })
		require.Equal(t, nvmecli.SanitizeFailed, sanitizeLog(t, s).Status)
		require.EqualValues(t, 65535, sanitizeLog(t, s).Progress)
		refused(t, s, nvmecli.StatusSanitizeFailed, "delete-ns", s.Node(0), "-n", "1")
		refused(t, s, nvmecli.StatusSanitizeFailed, "sanitize", s.Node(0), "-a", "1")
		s.Change(0, func(c *nvmesim.Controller) { c.Sanitize.FailIt = false })
		done(t, s, "sanitize", s.Node(0), "-a", "4")
		sanitizeLog(t, s)
		require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
		done(t, s, "delete-ns", s.Node(0), "-n", "1")
	})
	t.Run("failed, unrestricted", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.FailIt = true }, "--ause")
		require.Equal(t, nvmecli.SanitizeFailed, sanitizeLog(t, s).Status)
		refused(t, s, nvmecli.StatusSanitizeFailed, "delete-ns", s.Node(0), "-n", "1")
		done(t, s, "sanitize", s.Node(0), "-a", "1")
		done(t, s, "delete-ns", s.Node(0), "-n", "1")
	})
	t.Run("stalls", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.Polls, z.StallAt = 9, 20000 })
		for range 15 {
			sanitizeLog(t, s)
		}
		require.Equal(t, nvmecli.SanitizeInProgress, sanitizeLog(t, s).Status)
		require.EqualValues(t, 20000, sanitizeLog(t, s).Progress)
	})
	t.Run("leaves ones", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.Leaves = nvmesim.LeavesOnes })
		require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
		b, same := all(t, s)
		require.True(t, same && b == 0xff)
		require.True(t, sanitizeLog(t, s).GlobalErased)
	})
	t.Run("leaves everything", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.Leaves = nvmesim.LeavesUnchanged })
		require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
		b, same := all(t, s)
		require.True(t, same && b == 0xaa)
	})
	t.Run("leaves random bytes", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.Leaves = nvmesim.LeavesRandom })
		require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
		_, same := all(t, s)
		require.False(t, same)
	})
	t.Run("leaves unreadable blocks", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.Leaves = nvmesim.LeavesUnreadable })
		require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
		disk, err := os.OpenFile(filepath.Join(s.Dev, "nvme0n1"), os.O_RDWR, 0)
		require.NoError(t, err)
		defer disk.Close()
		_, err = disk.ReadAt(make([]byte, 4096), 1<<20)
		require.ErrorIs(t, err, unix.EIO)
	})
	t.Run("verification", func(t *testing.T) {
		s := begin(t, func(z *nvmesim.Sanitize) { z.Polls = 5 })
		s.Change(0, func(c *nvmesim.Controller) { c.Sanitize.Verifying = true })
		require.Equal(t, nvmecli.SanitizeInProgress, sanitizeLog(t, s).Status)
		raw := done(t, s, "get-log", s.Node(0), "-i", "0x81", "-l", "512", "-b")
		require.EqualValues(t, 5, raw[36])
		// nvme-cli 2.3 does not know the action, and sends nothing.
		_, complaint, err := nvme(t, s, "sanitize", s.Node(0), "-a", "5")
		if err == nil {
			require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
			return
		}
		require.Contains(t, string(complaint), "Invalid Sanitize Action")
		done(t, s, "admin-passthru", s.Node(0), "--opcode", "0x84", "--cdw10", "5")
		require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
	})
	t.Run("requested verification", func(t *testing.T) {
		drive := small("S1")
		drive.Sanitize.Polls = 0
		s := nvmesim.New(t, drive)
		done(t, s, "admin-passthru", s.Node(0), "--opcode", "0x84", "--cdw10", "0x404")
		for range 2 {
			require.Equal(t, nvmecli.SanitizeInProgress, sanitizeLog(t, s).Status)
		}
		require.True(t, s.State(0).Sanitize.Verifying)
		refused(t, s, nvmecli.StatusSanitizeInProgress, "sanitize", s.Node(0), "-a", "4")
	})
	t.Run("no sanitize supported", func(t *testing.T) {
		drive := small("S1")
		drive.SANICAP, drive.OACS = 0, 0x17
		s := nvmesim.New(t, drive)
		refused(t, s, 0x109, sanitizeLogPage.Args(s.Node(0), false)...)
		refused(t, s, nvmecli.StatusInvalidOpcode, "sanitize", s.Node(0), "-a", "4")
		refused(t, s, nvmecli.StatusInvalidField, allocatedNamespaces.Args(s.Node(0), false)...)
		refused(t, s, nvmecli.StatusInvalidOpcode, "delete-ns", s.Node(0), "-n", "1")
	})
	t.Run("running since before", func(t *testing.T) {
		drive := nvmesim.Drive("S1")
		drive.Sanitize.Status, drive.Sanitize.CDW10, drive.Sanitize.Polls = 2, 0x200|4, 1
		s := nvmesim.New(t, drive)
		l := sanitizeLog(t, s)
		require.Equal(t, nvmecli.SanitizeInProgress, l.Status)
		require.EqualValues(t, 0x204, l.CDW10)
		require.Equal(t, nvmecli.SanitizeDone, sanitizeLog(t, s).Status)
	})
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
