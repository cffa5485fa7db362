package e2e

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
)

// A partition table that a tenant left on one drive gives the next drive's disk another
// number at the next boot. By its serial it is still the enrolled one (F2, F11).
//
// F11
func TestGuestRenumbersDisks(t *testing.T) {
	t.Parallel()
	const size = 8 * MiB
	dir := t.TempDir()
	g := newGuestSite(t, withBlock,
		guest.Controller{Serial: "FIRST", Namespaces: []guest.Namespace{{Image: dir + "/first.img", Size: size}}},
		guest.Controller{Serial: "SECOND", Namespaces: []guest.Namespace{stampedNamespace(t, dir, "second", size, 1)}},
	)
	d := g.drive(t, "SECOND")
	g.enroll(t, d, "--provide")
	g.awaitReturned(t, d)
	g.Bind(t, d.Name, "alice")
	number := g.shell(t, "cat /sys/block/%s/dev", "nvme1n1")
	require.NoError(t, g.Kill())
	d.Stamp(t, 2)
	table, err := os.OpenFile(g.Config.Controllers[0].Namespaces[0].Image, os.O_WRONLY, 0)
	require.NoError(t, err)
	// One partition of 64 blocks from block 64 on.
	entry := append(make([]byte, 446), 0, 0, 0, 0, 0x83, 0, 0, 0, 64, 0, 0, 0, 64, 0, 0, 0)
	_, err = table.WriteAt(append(append(entry, make([]byte, 48)...), 0x55, 0xaa), 0)
	require.NoError(t, err)
	require.NoError(t, table.Close())
	g.boot(t)
	require.NotEqual(t, number, g.shell(t, "cat /sys/block/%s/dev", "nvme1n1"))
	g.Unbind(t, d.Name, "alice")
	g.awaitReturned(t, d)
}

// Blocks with metadata, which no write of the driver block reaches. The driver refuses such
// a disk, or nothing of the metadata is left (F17).
//
// F17
func TestGuestMetadata(t *testing.T) {
	t.Parallel()
	const size, kept = 8064 * (512 + 8), 0xa5
	dir := t.TempDir()
	ns := guest.Namespace{Image: dir + "/metadata.img", Size: size, Metadata: 8}
	// Everything: the data, and behind it the metadata.
	require.NoError(t, os.WriteFile(ns.Image, bytes.Repeat([]byte{kept}, size), 0o600))
	g := newGuestSite(t, withBlock, guest.Controller{Serial: "METADATA", Namespaces: []guest.Namespace{ns}})
	d := g.drive(t, "METADATA")
	if r := g.Burnish(t, g.EnrollArgs(d, "--provide")...); r.Code != 0 {
		g.Refused(t, device.CodeNotFound, "show", d.Name)
		return
	}
	v := g.awaitCleanEnd(t, d)
	if v.DeviceState == device.Available {
		left, err := os.ReadFile(ns.Image)
		require.NoError(t, err)
		require.Zero(t, bytes.Count(left, []byte{kept}), "bytes of %d are left on a drive that was given back", size)
	}
}
