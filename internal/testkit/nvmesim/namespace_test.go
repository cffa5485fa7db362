package nvmesim_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/testkit/nvmesim"
)

// attribute reads a file below sys.
func attribute(t *testing.T, s *nvmesim.Host, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Sys, name))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// contents reads a namespace through its node.
func contents(t *testing.T, s *nvmesim.Host, name string) []byte {
	t.Helper()
	disk, err := os.Open(filepath.Join(s.Dev, name))
	require.NoError(t, err)
	defer disk.Close()
	all, err := io.ReadAll(disk)
	require.NoError(t, err)
	return all
}

// nodes are the names below dev.
func nodes(t *testing.T, s *nvmesim.Host) []string {
	t.Helper()
	all, err := os.ReadDir(s.Dev)
	require.NoError(t, err)
	var names []string
	for _, one := range all {
		names = append(names, one.Name())
	}
	return names
}

// sameTarget requires that a path below sys leads to the same place as another.
func sameTarget(t *testing.T, s *nvmesim.Host, from, to string) {
	t.Helper()
	got, err := filepath.EvalSymlinks(filepath.Join(s.Sys, from))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(s.Sys, to), got)
}

func TestTree(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Namespaces = []nvmesim.Namespace{
		{NSID: 3, Blocks: 2048, Format: 1, Attached: true},
		{NSID: 4, Blocks: 1000, Attached: true, WriteProtected: true},
		{NSID: 5, Blocks: 1000, Format: 2, Attached: true},
		{NSID: 6, Blocks: 1000, Attached: true, CSI: 1},
		{NSID: 7, Blocks: 1000},
	}
	s := nvmesim.New(t, drive, nvmesim.Drive("S2"))
	require.Equal(t, []string{"nvme0", "nvme0n1", "nvme0n2", "nvme0n3", "nvme1", "nvme1n1"}, nodes(t, s))

	const home = "devices/pci0000:00/0000:01:00.0/nvme/nvme0"
	sameTarget(t, s, "bus/pci/devices/0000:01:00.0", "devices/pci0000:00/0000:01:00.0")
	sameTarget(t, s, "bus/pci/devices/0000:01:00.0/driver", "bus/pci/drivers/nvme")
	sameTarget(t, s, "class/nvme/nvme0", home)
	sameTarget(t, s, "class/nvme/nvme0/device", "devices/pci0000:00/0000:01:00.0")
	sameTarget(t, s, "class/nvme/nvme0/subsystem", "class/nvme")
	sameTarget(t, s, "block/nvme0n1", home+"/nvme0n1")
	sameTarget(t, s, "class/block/nvme0n1/device", home)
	sameTarget(t, s, "class/nvme-subsystem/nvme-subsys0/nvme0", home)
	sameTarget(t, s, "dev/block/"+attribute(t, s, "block/nvme0n1/dev"), home+"/nvme0n1")
	for name, want := range map[string]string{
		"bus/pci/devices/0000:01:00.0/class":                          "0x010802",
		"class/nvme/nvme0/dev":                                        "1:7",
		"class/nvme/nvme0/address":                                    "0000:01:00.0",
		"class/nvme/nvme0/serial":                                     "S1",
		"class/nvme/nvme0/state":                                      "live",
		"block/nvme0n1/nsid":                                          "3",
		"block/nvme0n1/size":                                          "16384",
		"block/nvme0n1/ro":                                            "0",
		"block/nvme0n1/hidden":                                        "0",
		"block/nvme0n2/ro":                                            "1",
		"block/nvme0n3/size":                                          "0",
		"block/nvme0n1/queue/logical_block_size":                      "4096",
		"devices/virtual/nvme-subsystem/nvme-subsys0/subsysnqn":       s.State(0).SubsystemNQN,
		"bus/pci/devices/0000:02:00.0/nvme/nvme1/nvme1n1/size":        "32768",
		"bus/pci/drivers/nvme/0000:02:00.0/nvme/nvme1/nvme1n1/hidden": "0",
	} {
		require.Equal(t, want, attribute(t, s, name), name)
	}
	disk, err := os.OpenFile(filepath.Join(s.Dev, "nvme0n1"), os.O_RDWR|unix.O_EXCL, 0)
	require.NoError(t, err)
	defer disk.Close()
	block, err := unix.IoctlGetInt(int(disk.Fd()), unix.BLKSSZGET)
	require.NoError(t, err)
	require.Equal(t, 4096, block)
	require.Len(t, contents(t, s, "nvme0n1"), 2048*4096)
	require.Empty(t, contents(t, s, "nvme0n3"))
	protected, err := os.OpenFile(filepath.Join(s.Dev, "nvme0n2"), os.O_RDWR, 0)
	if err == nil { // Some kernels refuse the write only.
		_, err = protected.WriteAt(make([]byte, 512), 0)
		_ = protected.Close()
	}
	require.Error(t, err)

	require.Equal(t, []uint32{3, 4, 5, 6}, received(t, s, s.Node(0), activeNamespaces, nvmecli.ParseNamespaceList))

	s.BindDriver(0, "vfio-pci")
	require.Equal(t, []string{"nvme1", "nvme1n1"}, nodes(t, s))
	sameTarget(t, s, "bus/pci/devices/0000:01:00.0/driver", "bus/pci/drivers/vfio-pci")
	require.NoDirExists(t, filepath.Join(s.Sys, "class/nvme/nvme0"))
	require.NoDirExists(t, filepath.Join(s.Sys, "class/nvme-subsystem/nvme-subsys0"))
	s.BindDriver(0, "")
	require.NoDirExists(t, filepath.Join(s.Sys, "bus/pci/devices/0000:01:00.0/driver"))
	s.BindDriver(0, "nvme")
	sameTarget(t, s, "class/nvme/nvme0", home)
}

// Creating namespaces erases no byte.
func TestFreshNamespaceShowsOldBytes(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.CNTLID, drive.Capacity = 3, 8<<20
	drive.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 2048, Attached: true}, {NSID: 2, Blocks: 2048}}
	s := nvmesim.New(t, drive)
	node := s.Node(0)
	s.Fill(0, 0x55)
	refused(t, s, nvmecli.Status(0x115), "create-ns", node, "--nsze", "16384", "--ncap", "16384", "--flbas", "0")
	done(t, s, "detach-ns", node, "-n", "1", "-c", "3")
	require.Equal(t, []string{"nvme0"}, nodes(t, s))
	refused(t, s, nvmecli.Status(0x11a), "detach-ns", node, "-n", "1", "-c", "3")
	done(t, s, "delete-ns", node, "-n", "0xffffffff")
	refused(t, s, nvmecli.StatusInvalidNamespace, "delete-ns", node, "-n", "1")
	require.Empty(t, received(t, s, node, allocatedNamespaces, nvmecli.ParseNamespaceList))
	out := done(t, s, "create-ns", node, "--nsze", "2048", "--ncap", "2048", "--flbas", "1")
	require.Contains(t, string(out), "nsid:1")
	require.Equal(t, []string{"nvme0"}, nodes(t, s))
	refused(t, s, nvmecli.Status(0x11c), "attach-ns", node, "-n", "1", "-c", "0")
	done(t, s, "attach-ns", node, "-n", "1", "-c", "3")
	require.Equal(t, []string{"nvme0", "nvme0n1"}, nodes(t, s))
	refused(t, s, nvmecli.Status(0x118), "attach-ns", node, "-n", "1", "-c", "3")
	require.Equal(t, "16384", attribute(t, s, "block/nvme0n1/size"))
	all := contents(t, s, "nvme0n1")
	require.Len(t, all, 8<<20)
	require.Equal(t, len(all), bytes.Count(all, []byte{0x55}))
	size, err := received(t, s, node, identify(0, 1), nvmecli.ParseNamespace).Bytes()
	require.NoError(t, err)
	require.EqualValues(t, 8<<20, size)
}

// An open node of a detached namespace has no bytes.
func TestHeldNode(t *testing.T) {
	s := nvmesim.New(t, small("S1"))
	s.Fill(0, 0x55)
	disk, err := os.OpenFile(filepath.Join(s.Dev, "nvme0n1"), os.O_RDWR|unix.O_EXCL, 0)
	require.NoError(t, err)
	defer disk.Close()
	_, err = disk.ReadAt(make([]byte, 8192), 4096)
	require.NoError(t, err)
	done(t, s, "detach-ns", s.Node(0), "-n", "1", "-c", "0")
	done(t, s, "attach-ns", s.Node(0), "-n", "1", "-c", "0")
	_, err = disk.ReadAt(make([]byte, 8192), 4096)
	require.Error(t, err)
	_, err = disk.WriteAt(make([]byte, 8192), 4096)
	require.Error(t, err)
	all := contents(t, s, "nvme0n1")
	require.Equal(t, len(all), bytes.Count(all, []byte{0x55}))
}
