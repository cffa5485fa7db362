package privileged

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/testkit/nvmesim"
)

// The helper sends only bytes that cannot be changed any more, and whose digest it has
// computed itself.
func TestTheHelperChecksTheImage(t *testing.T) {
	b := newHelperFixture(t).open()
	path := filepath.Join(t.TempDir(), "image")
	content := nvmesim.Image("2.0.0", 8<<10)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	image, digest, err := LoadImage(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, image.Close()) }()
	require.Equal(t, sha256.Sum256(content), digest)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	loose, err := unix.MemfdCreate("loose", unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(loose)) }()
	_, err = unix.Write(loose, content)
	require.NoError(t, err)

	fence, disk, sealed := int(b.fence.Fd()), b.disk("nvme0n1", unix.O_EXCL), int(image.Fd())
	_, err = unix.Pwrite(sealed, []byte{0}, 0)
	require.ErrorIs(t, err, unix.EPERM)
	download := call{Do: doChange, Address: b.address(), Serial: "S1", Fence: true, Image: true,
		Request: &Request{Verb: DownloadFirmware, Digest: digest, Transfer: MinTransfer}}
	for name, tt := range map[string]struct {
		change func(*call)
		fds    []int
		says   string
	}{
		"no image":                 {func(c *call) { c.Image = false }, []int{fence, disk}, "needs its image"},
		"no descriptor":            {func(*call) {}, []int{fence}, "descriptor of the image is missing"},
		"a file":                   {func(*call) {}, []int{fence, int(file.Fd()), disk}, "not a sealed file"},
		"not sealed":               {func(*call) {}, []int{fence, loose, disk}, "not a sealed file"},
		"another digest":           {func(c *call) { c.Request.Digest[3]++ }, []int{fence, sealed, disk}, "instead of"},
		"no digest":                {func(c *call) { c.Request.Digest = [sha256.Size]byte{} }, []int{fence, sealed, disk}, "needs its digest"},
		"another unit":             {func(c *call) { c.Request.Transfer = 100 }, []int{fence, sealed, disk}, "100 is not a size of transfers"},
		"without the disk":         {func(*call) {}, []int{fence, sealed}, "does not hold nvme0n1"},
		"an image for an erase":    {func(c *call) { c.Request = &Request{Verb: Sanitize, Action: CryptoErase} }, []int{fence, sealed, disk}, "takes no image"},
		"any slot for a commit":    {func(c *call) { c.Image, c.Request = false, &Request{Verb: CommitFirmware} }, []int{fence, disk}, "no firmware slot 0"},
		"a slot that cannot exist": {func(c *call) { c.Image, c.Request = false, &Request{Verb: CommitFirmware, Slot: 8} }, []int{fence, disk}, "no firmware slot 8"},
	} {
		t.Run(name, func(t *testing.T) {
			c := download
			request := *download.Request
			c.Request = &request
			tt.change(&c)
			require.ErrorContains(t, b.call(c, tt.fds...).err(), tt.says)
			b.requireUnchanged()
		})
	}
	require.NoError(t, b.call(download, fence, sealed, disk).err())
	require.Equal(t, content, b.site.State(0).Update.Downloaded)
	commit := call{Do: doChange, Address: b.address(), Serial: "S1", Fence: true,
		Request: &Request{Verb: CommitFirmware, Slot: 2}}
	require.NoError(t, b.call(commit, fence, disk).err())
	require.Equal(t, "2.0.0", b.site.State(0).Slots.Revisions[1])
	require.Equal(t, "1.0.0", b.site.State(0).Firmware, "it runs after a reset only")
}
