package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/e2e/guest"
	"burnish/internal/hardware/hardwaretest"
)

// A host worker on a machine of its own, with a kernel, NVMe drives and an nvme-cli
// that are real but for the silicon. Control and the server run here.

// guestWithin bounds everything that a guest does at once: emulation is slow, and
// slower beside other tests.
const guestWithin = 90 * time.Second

// guestDriver is how one driver takes a guest's drives into service.
type guestDriver struct {
	name string
	// inOrder: it tells a disk by its number, which a boot may change.
	inOrder bool
	// env and rules are added to the worker's environment and host.yaml.
	env   map[string]string
	rules string
	// device gives the enrolment of the drive with this serial.
	device func(t testing.TB, l *lab, serial string) Device
}

// withBlock cleans whatever is a disk.
var withBlock = guestDriver{
	name: "block", inOrder: true, rules: `allow: {paths: ["/dev/nvme*n*"]}`,
	device: func(t testing.TB, l *lab, serial string) Device {
		return Device{Name: strings.ToLower(serial), Driver: "block", Set: []string{"path=" + l.disk(t, serial)}}
	},
}

// lab is a site whose host is a guest.
type lab struct {
	*Site
	*guest.Guest
	driver guestDriver
}

// newLab boots a guest that has these drives, with control beside it. Images are below
// the site's folder, by their names in the configuration.
func newLab(t testing.TB, driver guestDriver, drives ...guest.Controller) *lab {
	t.Helper()
	if why := guest.Missing(); why != "" {
		t.Skipf("no guest can be made here: %s", why)
	}
	s := newSite(t)
	s.Host = "guest1"
	s.Run(t, "control")
	_, port, _ := strings.Cut(s.Server.Address, ":")
	config := guest.Config{
		Dir: t.TempDir(), Controllers: drives, InOrder: driver.inOrder, Worker: s.programs.Worker, HostYAML: driver.rules,
		Env: map[string]string{
			"TEMPORAL_ADDRESS": guest.Host + ":" + port, "TEMPORAL_NAMESPACE": s.Namespace,
			"BURNISH_ROLE": "host", "BURNISH_HOST": s.Host,
		},
	}
	for name, value := range driver.env {
		config.Env[name] = value
	}
	l := &lab{Site: s, driver: driver}
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	var err error
	l.Guest, err = guest.Start(ctx, config)
	if l.Guest != nil {
		t.Cleanup(func() {
			l.Guest.Kill()
			if t.Failed() {
				t.Logf("the guest's console:\n%s\nits worker:\n%s", l.Console(), l.WorkerLog())
			}
		})
	}
	require.NoError(t, err)
	l.ready(t)
	return l
}

// ready waits until the guest's worker polls.
func (l *lab) ready(t testing.TB) {
	t.Helper()
	booted := l.Age()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	require.NoError(t, l.WaitReady(ctx))
	t.Logf("booted in %.1f s, its worker polled %.1f s later", booted.Seconds(), (l.Age() - booted).Seconds())
}

// boot switches the guest on again.
func (l *lab) boot(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	require.NoError(t, l.Boot(ctx))
	l.ready(t)
}

// sh runs a script in the guest.
func (l *lab) sh(t testing.TB, script string, args ...any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	out, err := l.Guest.Run(ctx, fmt.Sprintf(script, args...))
	require.NoError(t, err)
	return strings.TrimSpace(out.Stdout)
}

// disk is the one block device of the drive with this serial, as the guest's kernel
// names it now.
func (l *lab) disk(t testing.TB, serial string) string {
	t.Helper()
	disks, err := l.Disks(t.Context(), serial)
	require.NoError(t, err)
	require.Len(t, disks, 1, serial)
	return disks[0]
}

// drive is the device of the drive with this serial, whose bytes are counted in the
// image of its first namespace.
func (l *lab) drive(t testing.TB, serial string) Device {
	t.Helper()
	d := l.driver.device(t, l, serial)
	for _, c := range l.Config.Controllers {
		if c.Serial == serial {
			d.Path, d.Size = c.Namespaces[0].Image, c.Namespaces[0].Size
		}
	}
	return d
}

// stamped is a namespace full of the bytes of an earlier life.
func stamped(t testing.TB, dir, name string, size int64, nonce uint64) guest.Namespace {
	t.Helper()
	ns := guest.Namespace{Image: filepath.Join(dir, name+".img"), Size: size}
	Device{Name: name, Path: ns.Image, Size: size}.Stamp(t, nonce)
	return ns
}

// tenant copies a drive's bytes to another through the guest's own drivers.
func (l *lab) tenant(t testing.TB, from, to string, size int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	require.NoError(t, l.Copy(ctx, l.disk(t, from), l.disk(t, to), size))
}

// awaitMidWipe waits until the guest's journal of a device tells of a wipe that is
// underway and past an offset.
func (l *lab) awaitMidWipe(t testing.TB, d Device, past int64) Resume {
	t.Helper()
	var stored struct{ Data Resume }
	Await(t, guestWithin, d.Name+" to be in mid-wipe", func() (bool, string) {
		text := l.sh(t, "cat %s 2>/dev/null; true", path.Join(guest.State, "journal", d.Name+".json"))
		stored.Data = Resume{}
		if text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &stored), text)
		}
		e := stored.Data
		return e.Step == "zero" && !e.Done && e.Offset >= past, text
	})
	return stored.Data
}

// SAFETY F2, F9, S2.70: the host loses its power in mid-wipe. When it is back, the wipe
// goes on by itself, behind what the disks kept of it; nothing is left, and what is
// beside it is untouched. Then one tenancy, whose bytes go through the guest's drivers.
func TestF2_GuestLosesPower(t *testing.T) {
	t.Parallel()
	testLosesPower(t, withBlock)
}

func testLosesPower(t *testing.T, driver guestDriver) {
	const size = 3 * steps.Chunk
	dir := t.TempDir()
	slow := stamped(t, dir, "slow", size, 1)
	slow.WriteBytesPerSecond = 24 * MiB
	other, blocks4k := stamped(t, dir, "other", size, 2), stamped(t, dir, "blocks4k", 24*MiB, 3)
	blocks4k.BlockSize = 4096
	l := newLab(t, driver,
		guest.Controller{Serial: "SLOW", Subsystem: true, Namespaces: []guest.Namespace{slow}},
		guest.Controller{Serial: "OTHER", Namespaces: []guest.Namespace{other}},
		guest.Controller{Serial: "BLOCKS4K", Namespaces: []guest.Namespace{blocks4k}},
	)
	d, small := l.drive(t, "SLOW"), l.drive(t, "BLOCKS4K")
	untouched := Device{Name: "the other drive", Path: other.Image, Size: size}
	l.Enroll(t, small, "--provide")
	l.Enroll(t, d, "--provide")
	before := l.awaitMidWipe(t, d, steps.Chunk)
	l.Guest.Kill()
	left, zero, half := d.Count(t, 1)
	require.Positive(t, left, "the wipe was too quick for this test")
	require.Equal(t, d.Blocks(), left+zero+half)
	require.GreaterOrEqual(t, int64(zero)*hardwaretest.Block, before.Offset, "the journal is ahead of the device")
	l.RequireReserved(t, d.Name, 1)

	l.Config.Controllers[0].Namespaces[0].WriteBytesPerSecond = 0
	l.boot(t)
	v := l.AwaitReturned(t, d, guestWithin)
	require.Len(t, v.Cleans, 1)
	require.Positive(t, v.Cleans[0].Steps[0].RedoneAtMost)
	require.LessOrEqual(t, v.Cleans[0].Steps[0].RedoneAtMost, int64(steps.Chunk))
	l.AwaitReturned(t, small, guestWithin)

	l.Bind(t, d.Name, "alice")
	l.tenant(t, "OTHER", "SLOW", size)
	d.RequireStamps(t, 2)
	l.Unbind(t, d.Name, "alice")
	v = l.AwaitReturned(t, d, guestWithin)
	require.Len(t, v.Cleans, 2)
	for i, step := range []string{"zero", "verify"} {
		require.Equal(t, step, v.Cleans[1].Steps[i].Step)
		require.Equal(t, d.Size, v.Cleans[1].Steps[i].Bytes)
	}
	untouched.RequireStamps(t, 2)
	require.Equal(t, device.Available, l.Show(t, d.Name).DeviceState)
}
