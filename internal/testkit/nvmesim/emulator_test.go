package nvmesim_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/testkit/nvmesim"
)

func TestMain(m *testing.M) { os.Exit(nvmesim.Main(m)) }

// nvme runs the host's tool.
func nvme(t *testing.T, s *nvmesim.Host, args ...string) (stdout, stderr []byte, err error) {
	t.Helper()
	var out, complaint bytes.Buffer
	c := exec.CommandContext(t.Context(), s.Tool(), args...)
	c.Stdout, c.Stderr = &out, &complaint
	begin := time.Now()
	err = c.Run()
	t.Logf("%v: %v, %s", args, err, time.Since(begin).Round(time.Millisecond/10))
	return out.Bytes(), complaint.Bytes(), err
}

// done runs a command that must succeed.
func done(t *testing.T, s *nvmesim.Host, args ...string) []byte {
	t.Helper()
	out, complaint, err := nvme(t, s, args...)
	require.NoError(t, err, "%s%s", out, complaint)
	return out
}

// refused runs a command that must end with this status.
func refused(t *testing.T, s *nvmesim.Host, want nvmecli.Status, args ...string) {
	t.Helper()
	out, complaint, err := nvme(t, s, args...)
	require.Error(t, err, "%s", out)
	got, ok := nvmecli.ParseStatus(complaint)
	require.True(t, ok, "%s", complaint)
	require.Equal(t, want, got, "%s", complaint)
}

func TestIdentify(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Model, drive.CNTLID, drive.CMIC = "Model One", 7, 2
	drive.Others = []uint16{9}
	drive.SANICAP = 0xa0000003
	drive.Namespaces = []nvmesim.Namespace{
		{NSID: 1, Blocks: 2048, Attached: true},
		{NSID: 5, Blocks: 1024, Format: 1, Attached: true, WriteProtected: true},
		{NSID: 6, Blocks: 1000},
	}
	s := nvmesim.New(t, drive)
	node := s.Node(0)

	c, err := nvmecli.ParseController(done(t, s, "id-ctrl", node, "-o", "json"))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Controller{
		Vendor: 0x1b36, Serial: "S1", Model: "Model One", Firmware: "1.0.0", Subsystem: s.State(0).SubsystemNQN, ID: 7, CMIC: 2,
		OACS: 0xf, ONCS: 0x1c, SANICAP: 0xa0000003, FNA: 4, FirmwareSlots: 0x16, Namespaces: 32,
		Capacity: 16 << 20, Unallocated: 16<<20 - 2048*512 - 1024*4096 - 1000*512,
	}, c)

	ids, err := nvmecli.ParseNamespaceList(done(t, s, "list-ns", node, "-o", "json"))
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 5}, ids)
	ids, err = nvmecli.ParseNamespaceList(done(t, s, "list-ns", node, "--all", "-o", "json"))
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 5, 6}, ids)

	n, err := nvmecli.ParseNamespace(done(t, s, "id-ns", node, "-n", "5", "-o", "json"))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Format{BlockSize: 4096}, n.Formats[n.Format])
	require.EqualValues(t, 1024, n.Blocks)
	require.True(t, n.WriteProtected)
	require.True(t, n.Shared)
	n, err = nvmecli.ParseNamespace(done(t, s, "id-ns", node, "-n", "6", "-o", "json"))
	require.NoError(t, err)
	require.Zero(t, n.Blocks, "it is not active")
	n, err = nvmecli.ParseNamespace(done(t, s, "id-ns", node, "-n", "6", "--force", "-o", "json"))
	require.NoError(t, err)
	require.EqualValues(t, 1000, n.Blocks)
	refused(t, s, nvmecli.StatusInvalidNamespace, "id-ns", node, "-n", "33", "-o", "json")

	t.Logf("%s", done(t, s, "list-ctrl", node, "-o", "json"))
	t.Logf("%s", done(t, s, "list-ctrl", node, "-n", "5", "-o", "json"))
	t.Logf("%s", done(t, s, "ns-descs", node, "-n", "5", "-o", "json"))
	t.Logf("%s", done(t, s, "id-ns", filepath.Join(s.Dev, "nvme0n2"), "-o", "json"))
	t.Logf("%s", done(t, s, "get-ns-id", filepath.Join(s.Dev, "nvme0n2")))
}
