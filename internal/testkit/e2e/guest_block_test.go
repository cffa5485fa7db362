package e2e

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
)

// What the driver block does with the disks of one guest.
//
// F11, F17
func TestGuestBlock(t *testing.T) {
	t.Parallel()
	const size = 8 * MiB
	dir := t.TempDir()
	g := startGuestSite(t, withBlock, guest.Config{InOrder: withBlock.inOrder,
		Modules: []string{"nvmet", "target_core_file"},
		Controllers: []guest.Controller{
			{Serial: "FIRST", Namespaces: []guest.Namespace{{Image: dir + "/first.img", Size: size}}},
			{Serial: "SECOND", Namespaces: []guest.Namespace{stampedNamespace(t, dir, "second", size, 1)}},
			{Serial: "METADATA", Namespaces: []guest.Namespace{metadataNamespace(t, dir)}},
			{Serial: "EXPORTED", Namespaces: []guest.Namespace{stampedNamespace(t, dir, "exported", size, 1)}},
		}})
	t.Run("metadata", func(t *testing.T) { testGuestMetadata(t, g) })
	t.Run("exported", func(t *testing.T) { testGuestExported(t, g) })
	t.Run("renumbers disks", func(t *testing.T) { testGuestRenumbersDisks(t, g) })
	// On a busy machine the guest's clock ran too fast, and each time-out in it ended early.
	now, err := strconv.ParseInt(g.shell(t, "date +%%s"), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, time.Now().Unix(), now, 10, "the guest's clock")
}

// A partition table that a tenant left on one drive gives the next drive's disk another
// number at the next boot. By its serial it is still the enrolled one (F2, F11).
func testGuestRenumbersDisks(t *testing.T, g *guestSite) {
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

// keptByte fills a disk with metadata.
const keptByte = 0xa5

// metadataNamespace has 8 bytes beside each block of 512, which no write of the driver block
// reaches.
func metadataNamespace(t *testing.T, dir string) guest.Namespace {
	t.Helper()
	const size = 8064 * (512 + 8)
	ns := guest.Namespace{Image: dir + "/metadata.img", Size: size, Metadata: 8}
	// Everything: the data, and behind it the metadata.
	require.NoError(t, os.WriteFile(ns.Image, bytes.Repeat([]byte{keptByte}, size), 0o600))
	return ns
}

// The driver refuses a disk with metadata beside its blocks, and changes nothing (F17).
func testGuestMetadata(t *testing.T, g *guestSite) {
	d := g.drive(t, "METADATA")
	r := g.Refused(t, device.CodeInvalidSetting, g.EnrollArgs(d, "--provide")...)
	require.Contains(t, r.Stderr, "has metadata")
	g.Refused(t, device.CodeNotFound, "show", d.Name)
	left, err := os.ReadFile(d.Path)
	require.NoError(t, err)
	require.Equal(t, len(left), bytes.Count(left, []byte{keptByte}))
}

// A disk that the kernel itself gives to others is in use, of which no process and no exclusive open says anything:
// it is neither enrolled nor, once it is offered, bound.
//
// F40
func testGuestExported(t *testing.T, g *guestSite) {
	d := g.drive(t, "EXPORTED")
	g.shell(t, "mount -t configfs none /sys/kernel/config")
	path := g.disk(t, "EXPORTED")
	targets := map[string]struct{ on, off string }{
		"nvmet": {
			on: `cd /sys/kernel/config/nvmet/subsystems && mkdir tenants && cd tenants/namespaces && mkdir 1 && cd 1 &&
				echo -n %s >device_path && echo 1 >enable`,
			off: "cd /sys/kernel/config/nvmet/subsystems && rmdir tenants/namespaces/1 && rmdir tenants",
		},
		"fileio": {
			on: `cd /sys/kernel/config/target/core && mkdir -p fileio_0/disk && cd fileio_0/disk &&
				echo fd_dev_name=%s,fd_dev_size=1048576 >control && echo 1 >enable`,
			off: "cd /sys/kernel/config/target/core && rmdir fileio_0/disk && rmdir fileio_0",
		},
	}
	for name, target := range targets {
		g.shell(t, target.on, path)
		r := g.Refused(t, device.CodeTargetBusy, g.EnrollArgs(d, "--provide")...)
		require.Contains(t, r.Stderr, "exported", name)
		g.shell(t, "%s", target.off)
	}
	d.RequireStamps(t, 1)
	g.enroll(t, d, "--provide")
	g.awaitReturned(t, d)
	for name, target := range targets {
		g.shell(t, target.on, path)
		outage(t, 6*time.Second) // the last look counts for 5
		g.Refused(t, device.CodeTargetBusy, "bind", d.Name, "--instance", Instance("alice"))
		g.shell(t, "%s", target.off)
		v := g.Show(t, d.Name)
		require.Equal(t, device.Error, v.DeviceState, name)
		require.True(t, v.NeedsOperator, name)
		g.Must(t, "clean", d.Name)
		g.awaitReturned(t, d)
	}
	g.Bind(t, d.Name, "alice")
}
