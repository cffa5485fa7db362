package nvmesim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
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

// received sends a command that only reads, and must succeed, and decodes what the drive returns.
func received[T any](t *testing.T, s *nvmesim.Host, node string, c nvmecli.Command, decode func([]byte) (T, error)) T {
	t.Helper()
	data, err := c.Received(done(t, s, c.Args(node, false)...))
	require.NoError(t, err)
	got, err := decode(data)
	require.NoError(t, err)
	return got
}

// identify is the command Identify of one data structure (CNS).
func identify(cns, nsid uint32) nvmecli.Command {
	return nvmecli.Command{Opcode: nvmesim.Identify, NSID: nsid, CDW: [6]uint32{cns}, Receives: nvmecli.IdentifySize}
}

// logPage is the command Get Log Page.
func logPage(page uint32) nvmecli.Command {
	return nvmecli.Command{
		Opcode: nvmesim.GetLog, NSID: privileged.AllNamespaces, CDW: [6]uint32{page | 127<<16}, Receives: nvmecli.LogSize,
	}
}

// The data structures, by the CNS of Identify and the number of a log page.
var (
	controllerData      = identify(0x01, 0)
	activeNamespaces    = identify(0x02, 0)
	allocatedNamespaces = identify(0x10, 0)
	healthLog           = logPage(0x02)
	firmwareLog         = logPage(0x03)
	sanitizeLogPage     = logPage(0x81)
)

// refused runs a command that must end with this status.
func refused(t *testing.T, s *nvmesim.Host, want nvmecli.Status, args ...string) {
	t.Helper()
	out, complaint, err := nvme(t, s, args...)
	require.Error(t, err, "%s", out)
	got, ok := nvmecli.ParseStatus(complaint)
	require.True(t, ok, "%s", complaint)
	require.Equal(t, want, got, "%s", complaint)
}

// nvme-cli's own decoder reads the same from a drive as Burnish does.
func TestTheToolReadsTheSame(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Model, drive.CNTLID, drive.CMIC, drive.SANICAP = "Model One", 7, 2, 0x20000003
	drive.Slots.AFI = 0x21
	drive.Health = nvmesim.Health{PercentUsed: 3, Spare: 99, SpareThreshold: 10, CriticalWarning: 4, PowerOnHours: 1234}
	drive.Namespaces = []nvmesim.Namespace{{NSID: 5, Blocks: 1024, Format: 1, Attached: true, WriteProtected: true}}
	s := nvmesim.New(t, drive)
	node := s.Node(0)
	printed := func(args ...string) (fields map[string]any) {
		out := done(t, s, append(args, "-o", "json")...)
		require.NoError(t, json.Unmarshal(out, &fields), "%s", out)
		if inner, ok := fields["nvme0"].(map[string]any); ok { // some logs
			return inner
		}
		return fields
	}
	number := func(fields map[string]any, key string) uint64 {
		n, err := strconv.ParseFloat(strings.Fields(fmt.Sprint(fields[key]))[0], 64) // of 128 bits it is a text
		require.NoError(t, err, "%s: %v", key, fields)
		return uint64(n)
	}
	c, printedC := received(t, s, node, controllerData, nvmecli.ParseController), printed("id-ctrl", node)
	for key, have := range map[string]uint64{
		"cntlid": uint64(c.ID), "cmic": uint64(c.CMIC), "oacs": uint64(c.OACS), "oncs": uint64(c.ONCS),
		"sanicap": uint64(c.SANICAP), "frmw": uint64(c.FirmwareSlots), "fwug": uint64(c.FirmwareUnit),
		"tnvmcap": c.Capacity, "unvmcap": c.Unallocated,
	} {
		require.Equal(t, number(printedC, key), have, key)
	}
	for key, have := range map[string]string{"sn": c.Serial, "mn": c.Model, "fr": c.Firmware, "subnqn": c.Subsystem} {
		require.Equal(t, strings.TrimSpace(printedC[key].(string)), have, key)
	}
	n, printedN := received(t, s, node, identify(0, 5), nvmecli.ParseNamespace), printed("id-ns", node, "-n", "5")
	require.Equal(t, number(printedN, "nsze"), n.Blocks)
	require.Equal(t, number(printedN, "nvmcap"), n.Allocated)
	require.Equal(t, number(printedN, "flbas"), uint64(n.Format))
	require.Equal(t, number(printedN, "nsattr") == 1, n.WriteProtected)
	require.Len(t, n.Formats, len(printedN["lbafs"].([]any)))
	h, printedH := received(t, s, node, healthLog, nvmecli.ParseHealth), printed("smart-log", node)
	require.Equal(t, nvmecli.Health{
		CriticalWarning: 4, AvailableSpare: uint8(number(printedH, "avail_spare")),
		SpareThreshold: uint8(number(printedH, "spare_thresh")),
		PercentUsed:    uint8(number(printedH, "percent_used")), PowerOnHours: number(printedH, "power_on_hours"),
	}, h)
	f, printedF := received(t, s, node, firmwareLog, nvmecli.ParseFirmware), printed("fw-log", node)
	require.Equal(t, number(printedF, "Active Firmware Slot (afi)"), uint64(f.Next<<4|f.Active))
	s.Change(0, func(c *nvmesim.Controller) { // both forbid a sanitize
		c.Namespaces[0].WriteProtected, c.Slots.AFI = false, 1
	})
	done(t, s, "sanitize", node, "--sanact=2")
	l, printedL := received(t, s, node, sanitizeLogPage, nvmecli.ParseSanitizeLog), printed("sanitize-log", node)
	require.Equal(t, number(printedL, "time_block_erase"), uint64(l.BlockErase.Seconds()))
	require.Equal(t, number(printedL, "time_crypto_erase"), uint64(l.CryptoErase.Seconds()))
	require.EqualValues(t, 2, l.CDW10)
}
