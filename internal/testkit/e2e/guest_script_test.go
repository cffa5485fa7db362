package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// Where the operator's program for cards with memory lies in a guest, and what it reads.
const (
	cardProgram  = "/usr/sbin/pcimemory"
	cardSettings = "/etc/pcimemory/%s.json"
)

// withScript has the operator's program clean a card with memory. sum is the SHA-256 of the
// program that the test built.
func withScript(t testing.TB, address string) (driver guestDriver, files []guest.File, sum string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pcimemory")
	require.NoError(t, proc.Compile(root, "./internal/testkit/cmd/pcimemory", path))
	program, err := os.ReadFile(path)
	require.NoError(t, err)
	binary := sha256.Sum256(program)
	sum = hex.EncodeToString(binary[:])
	driver = guestDriver{
		name: "script", method: "script", env: map[string]string{"BURNISH_DRIVERS": "block,script"},
		rules: fmt.Sprintf(`allow:
  device_spec: [{vendor_id: "1af4", product_id: "1110"}]
  scripts: {card: {path: %s, owner: root, sha256: %q, uid: 0}}
`, cardProgram, sum),
	}
	return driver, []guest.File{
		{Path: cardProgram, Mode: 0o755, Text: program},
		{Path: fmt.Sprintf(cardSettings, address), Mode: 0o644, Text: []byte(`{"serial": "CARD1"}`)},
		{Path: "/etc/passwd", Mode: 0o644, Text: []byte("root:x:0:0:root:/:/bin/sh\n")},
	}, sum
}

// A card whose memory only its own program can reach is cleaned by that program, also after
// a power failure in the middle of it, and only by the very program whose digest is in
// host.yaml (F2, F13). What is left is counted in the file that is the card's memory,
// outside the guest. That file keeps its bytes without power, which is the worst case.
func TestGuestMemoryOfACard(t *testing.T) {
	t.Parallel()
	if why := guest.Missing(); why != "" {
		t.Skipf("no guest can be made here: %s", why)
	}
	const address, size = "0000:00:05.0", 16 * MiB
	driver, files, sum := withScript(t, address)
	d := Device{Name: "guest1_" + address, Driver: driver.name, Path: filepath.Join(t.TempDir(), "memory"), Size: size,
		Set: []string{"script=card"}}
	d.Stamp(t, 1)
	g := startGuestSite(t, driver, guest.Config{Cards: []guest.Card{{Address: address, Memory: d.Path, Size: size}},
		Files: files})

	g.Must(t, "enroll", "--host", g.Site.Host, "--driver", driver.name, "--address", address, "--type", "GPU",
		"--set", d.Set[0], "--one-time-use", "--provide")
	v := g.awaitReturned(t, d)
	require.Equal(t, "GPU", v.Type)
	require.Equal(t, "CARD1", v.Serial)
	require.True(t, v.OneTimeUse)
	g.requireCleaned(t, v, 1, sum)

	// A reset alone removes the card from its bus and finds it again.
	g.Must(t, "manage", d.Name)
	g.RequireReserved(t, d.Name, 1)
	g.Must(t, "clean", d.Name, "--steps", "pci_reset", "--wait", "--timeout", guestWithin.String())
	v = g.Show(t, d.Name)
	require.Equal(t, device.Manageable, v.DeviceState)
	require.Len(t, v.Cleans, 2)
	require.Equal(t, "steps_done", v.Cleans[1].Outcome)
	require.Equal(t, []string{"pci_reset"}, stepNames(v.Cleans[1]))
	require.Equal(t, fmt.Sprintf("script card, sha256 %.12s: removed and found again", sum), v.Cleans[1].Steps[0].Note)
	g.Must(t, "provide", d.Name)
	g.awaitReturned(t, d)

	// The power fails in the middle of an erase. The next boot restores the program's speed.
	g.Bind(t, d.Name, "alice")
	d.Stamp(t, 2)
	g.shell(t, `echo '{"serial": "CARD1", "bytes_per_second": %d}' >%s`, MiB, fmt.Sprintf(cardSettings, address))
	g.Unbind(t, d.Name, "alice")
	Await(t, guestWithin, "an erase to be under way", func() (bool, string) {
		left, zero, _ := d.Count(t, 2)
		require.Positive(t, left, "the erase was too quick for this test")
		return zero > 0, fmt.Sprint(left, " blocks left")
	})
	require.NoError(t, g.Kill())
	left, zero, _ := d.Count(t, 2)
	require.Positive(t, left, "the erase was too quick for this test")
	t.Logf("the power failed with %d of %d bytes erased", int64(zero)*hardwaretest.Block, d.Size)
	g.RequireReserved(t, d.Name, 1)
	g.boot(t)
	v = g.awaitReturned(t, d)
	g.requireCleaned(t, v, 3, sum)
	require.Equal(t, d.Size, v.Cleans[2].Steps[0].ReprocessedBytesMax, "the erase began again")

	// A program that is no longer what host.yaml says is not run.
	g.Bind(t, d.Name, "bob")
	d.Stamp(t, 3)
	g.shell(t, "echo >>%s", cardProgram)
	g.Unbind(t, d.Name, "bob")
	v = g.awaitCleanEnd(t, d)
	require.Equal(t, device.Error, v.DeviceState)
	require.Equal(t, string(device.CodeNotAllowed), v.Fault, v.LastError)
	require.Contains(t, v.LastError, "SHA-256")
	require.NotEmpty(t, v.Remedy)
	require.True(t, v.Dirty)
	g.RequireReserved(t, d.Name, 1)
	d.RequireStamps(t, 3)
}

// requireCleaned asserts that the program did the clean of this number, the last one, and
// that the clean's record identifies the program.
func (g *guestSite) requireCleaned(t testing.TB, v contract.DeviceStatus, number int, sum string) {
	t.Helper()
	require.Len(t, v.Cleans, number)
	last := v.Cleans[number-1]
	require.Equal(t, "cleaned", last.Outcome)
	require.Equal(t, device.Script, last.Operation)
	require.Equal(t, []string{"erase_device", "verify"}, stepNames(last))
	for i, did := range []string{"written", "read, all zero"} {
		step := last.Steps[i]
		require.Equal(t, g.driver.method, step.Method)
		require.Equal(t, fmt.Sprintf("script card, sha256 %.12s: %d bytes %s", sum, 16*MiB, did), step.Note)
	}
}
