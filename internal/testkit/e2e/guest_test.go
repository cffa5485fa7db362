package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// A host worker on a machine of its own, with a kernel, NVMe drives and an nvme-cli
// that are real but for the silicon. Control and the server run here.

// guestWithin bounds everything that a guest does at once: emulation is slow, and
// slower beside other tests.
const guestWithin = 6 * time.Minute

// guestDriver is how one driver takes a guest's drives into service.
type guestDriver struct {
	name string
	// inOrder: the driver names a disk by the kernel's name, and a boot that probes all drives
	// at once may give that name to another disk.
	inOrder bool
	// env is added to the worker's; rules is host.yaml.
	env   map[string]string
	rules string
	// device names the drive with this serial; flags are those of its enrollment.
	device func(t testing.TB, g *guestSite, serial string) (d Device, flags []string)
	// method is how its zeroes are written.
	method string
}

// withBlock cleans whatever is a disk.
var withBlock = guestDriver{
	name: "block", inOrder: true, rules: `allow: {paths: ["/dev/nvme*n*"]}`, method: "o_direct",
	device: func(t testing.TB, g *guestSite, serial string) (Device, []string) {
		return Device{Name: strings.ToLower(serial), Set: []string{"path=" + g.disk(t, serial)}}, nil
	},
}

// guestSite is a site whose host is a guest.
type guestSite struct {
	*Site
	*guest.Guest
	driver guestDriver
}

// newGuestSite boots a guest that has these drives, with control beside it. Images are below
// the site's folder, by their names in the configuration.
func newGuestSite(t testing.TB, driver guestDriver, drives ...guest.Controller) *guestSite {
	t.Helper()
	return startGuestSite(t, driver, guest.Config{Controllers: drives, InOrder: driver.inOrder})
}

// startGuestSite boots a guest with this hardware, with control beside it.
func startGuestSite(t testing.TB, driver guestDriver, config guest.Config) *guestSite {
	t.Helper()
	requireGuest(t)
	s := newSite(t)
	s.Host = "guest1"
	s.Run(t, "control")
	g := bootGuest(t, s, driver, config)
	g.awaitReady(t)
	return g
}

// requireGuest skips the test where no guest can be made.
func requireGuest(t testing.TB) {
	t.Helper()
	if why := guest.Missing(); why != "" {
		t.Skipf("no guest can be made here: %s", why)
	}
}

// bootGuest boots a guest with this hardware as the host of a site. Its worker may still be
// starting.
func bootGuest(t testing.TB, s *Site, driver guestDriver, config guest.Config) *guestSite {
	t.Helper()
	return beginBoot(t, s, driver, config)()
}

// beginBoot is bootGuest that goes on in the background until its result is asked for.
func beginBoot(t testing.TB, s *Site, driver guestDriver, config guest.Config) (booted func() *guestSite) {
	t.Helper()
	_, port, _ := strings.Cut(s.Server.Address, ":")
	config.Dir, config.Worker, config.HostYAML = t.TempDir(), programs.Worker, driver.rules
	config.Env = map[string]string{
		"GOGC":             "400", // an emulated processor is slow, and the guest has the memory
		"TEMPORAL_ADDRESS": guest.Host + ":" + port, "TEMPORAL_NAMESPACE": s.Namespace,
		"BURNISH_ROLE": "host", "BURNISH_HOST": s.Host,
	}
	for name, value := range driver.env {
		config.Env[name] = value
	}
	g := &guestSite{Site: s, driver: driver}
	ended := make(chan error, 1)
	wait := sync.OnceValue(func() error { return <-ended })
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
		defer cancel()
		var err error
		g.Guest, err = guest.Start(ctx, config)
		ended <- err
	}()
	t.Cleanup(func() {
		err := wait()
		if g.Guest == nil {
			return
		}
		require.NoError(t, g.Guest.Kill())
		if t.Failed() {
			t.Logf("the guest's console:\n%s\nits worker:\n%s\n%v", g.Console(), g.WorkerLog(), err)
		}
	})
	return func() *guestSite {
		t.Helper()
		require.NoError(t, wait())
		return g
	}
}

// awaitReady waits until the guest's worker polls.
func (g *guestSite) awaitReady(t testing.TB) {
	t.Helper()
	booted := g.Age()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	require.NoError(t, g.WaitReady(ctx))
	t.Logf("booted in %.1f s, its worker polled %.1f s later", booted.Seconds(), (g.Age() - booted).Seconds())
}

// boot starts the guest again.
func (g *guestSite) boot(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	require.NoError(t, g.Boot(ctx))
	g.awaitReady(t)
}

// shell runs a script in the guest.
func (g *guestSite) shell(t testing.TB, script string, args ...any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	out, err := g.Guest.Run(ctx, fmt.Sprintf(script, args...))
	require.NoError(t, err)
	return strings.TrimSpace(out.Stdout)
}

// disk is the one block device of the drive with this serial, as the guest's kernel
// names it now.
func (g *guestSite) disk(t testing.TB, serial string) string {
	t.Helper()
	disks, err := g.Disks(t.Context(), serial)
	require.NoError(t, err)
	require.Len(t, disks, 1, serial)
	return disks[0]
}

// drive is the device of the drive with this serial, whose bytes are counted in the
// image of its first namespace.
func (g *guestSite) drive(t testing.TB, serial string) Device {
	t.Helper()
	d, _ := g.driver.device(t, g, serial)
	d.Driver = g.driver.name
	for _, c := range g.Config.Controllers {
		if c.Serial == serial {
			d.Path, d.Size = c.Namespaces[0].Image, c.Namespaces[0].Size
		}
	}
	return d
}

// enroll takes a drive into service.
func (g *guestSite) enroll(t testing.TB, d Device, flags ...string) {
	t.Helper()
	g.Enroll(t, d, append(g.flags(t, d), flags...)...)
}

// flags are what the driver wants of the enrollment of a device.
func (g *guestSite) flags(t testing.TB, d Device) []string {
	t.Helper()
	for _, c := range g.Config.Controllers {
		if len(c.Namespaces) > 0 && c.Namespaces[0].Image == d.Path {
			_, flags := g.driver.device(t, g, c.Serial)
			return flags
		}
	}
	return nil
}

// guestPollEvery is longer than usual: each poll takes processor time from the guest, for
// which the test waits.
const guestPollEvery = 500 * time.Millisecond

// awaitCleanEnd waits until a device's clean has ended well or badly.
func (g *guestSite) awaitCleanEnd(t testing.TB, d Device) (v contract.DeviceStatus) {
	t.Helper()
	poll(t, guestWithin, guestPollEvery, "the end of the clean of "+d.Name, func() (bool, string) {
		var err error
		v, err = g.Site.Site.Show(t.Context(), d.Name)
		return err == nil && (v.DeviceState == device.Available || v.DeviceState == device.Error),
			fmt.Sprintf("%+v %v", v, err)
	})
	return v
}

// awaitReturned is AwaitReturned for a device that must not end in error.
func (g *guestSite) awaitReturned(t testing.TB, d Device) contract.DeviceStatus {
	t.Helper()
	v := g.awaitCleanEnd(t, d)
	require.Equal(t, device.Available, v.DeviceState, "%s: %s", d.Name, v.LastError)
	return g.AwaitReturned(t, d, guestWithin)
}

// stampedNamespace is a namespace full of the bytes of an earlier tenant.
func stampedNamespace(t testing.TB, dir, name string, size int64, nonce uint64) guest.Namespace {
	t.Helper()
	ns := guest.Namespace{Image: filepath.Join(dir, name+".img"), Size: size}
	Device{Name: name, Path: ns.Image, Size: size}.Stamp(t, nonce)
	return ns
}

// copyAsTenant copies a drive's bytes to another through the guest's own drivers.
func (g *guestSite) copyAsTenant(t testing.TB, from, to string, size int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	require.NoError(t, g.Copy(ctx, g.disk(t, from), g.disk(t, to), size))
}

// awaitMidWipe waits until the guest's journal of a device shows a running wipe past an
// offset.
func (g *guestSite) awaitMidWipe(t testing.TB, d Device, past int64) host.Entry {
	t.Helper()
	var stored struct{ Data host.Entry }
	poll(t, guestWithin, 5*proc.PollEvery, d.Name+" to be in mid-wipe", func() (bool, string) {
		text := g.shell(t, "cat %s 2>/dev/null; true", path.Join(guest.State, "journal", d.Name+".json"))
		stored.Data = host.Entry{}
		if text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &stored), text)
		}
		e := stored.Data
		return e.Step == "zero" && !e.Done && e.Offset >= past, text
	})
	return stored.Data
}

// SAFETY F2, F9: the host loses its power in mid-wipe. When it is back, the wipe
// goes on by itself behind what the disk kept of it; nothing is left, and what is beside
// it is untouched. Then a binding, whose bytes go through the guest's own drivers.
//
// F2
func TestGuestLosesPower(t *testing.T) {
	t.Parallel()
	testLosesPower(t, withBlock)
}

func testLosesPower(t *testing.T, driver guestDriver) {
	const size, pulledSize = 2 * steps.Chunk, 24 * MiB
	dir := t.TempDir()
	slow, other := stampedNamespace(t, dir, "slow", size, 1), stampedNamespace(t, dir, "other", size, 2)
	pulled, blocks4k := stampedNamespace(t, dir, "pulled", pulledSize, 3), stampedNamespace(t, dir, "blocks4k", 8*MiB, 4)
	slow.WriteBytesPerSecond, pulled.WriteBytesPerSecond = 12*MiB, 3*MiB
	blocks4k.BlockSize = 4096
	g := newGuestSite(t, driver,
		guest.Controller{Serial: "SLOW", Subsystem: true, Namespaces: []guest.Namespace{slow}},
		guest.Controller{Serial: "OTHER", Namespaces: []guest.Namespace{other}},
		guest.Controller{Serial: "PULLED", Namespaces: []guest.Namespace{pulled}},
		guest.Controller{Serial: "BLOCKS4K", Namespaces: []guest.Namespace{blocks4k}},
	)
	d, gone, small := g.drive(t, "SLOW"), g.drive(t, "PULLED"), g.drive(t, "BLOCKS4K")
	untouched := Device{Name: "the other drive", Path: other.Image, Size: size}
	g.enroll(t, small, "--provide")

	// One drive is pulled out in mid-wipe, and put back.
	g.enroll(t, gone, "--provide")
	Await(t, guestWithin, "the wipe of the drive to be pulled", func() (bool, string) {
		left, zero, _ := gone.Count(t, 3)
		require.Positive(t, left, "the wipe was too quick for this test")
		return zero > 0, fmt.Sprint(left, " blocks left")
	})
	require.NoError(t, g.Remove(t.Context(), g.Address("PULLED")))
	// The kernel may let the drive finish its command, but there is no proof of that.
	require.Equal(t, device.Error, g.awaitCleanEnd(t, gone).DeviceState)
	require.NoError(t, g.Rescan(t.Context()))
	g.RequireReserved(t, gone.Name, 1)

	// Then the power.
	g.enroll(t, d, "--provide")
	before := g.awaitMidWipe(t, d, steps.Chunk)
	require.NoError(t, g.Kill())
	left, zero, half := d.Count(t, 1)
	require.Positive(t, left, "the wipe was too quick for this test")
	require.Equal(t, d.Blocks(), left+zero+half)
	require.GreaterOrEqual(t, int64(zero)*hardwaretest.Block, before.Offset, "the journal is ahead of the device")
	g.RequireReserved(t, d.Name, 1)
	g.Config.Controllers[0].Namespaces[0].WriteBytesPerSecond = 0
	g.Config.Controllers[2].Namespaces[0].WriteBytesPerSecond = 0
	g.boot(t)
	v := g.awaitReturned(t, d)
	require.Len(t, v.Cleans, 1)
	require.Positive(t, reprocessed(v))
	require.LessOrEqual(t, reprocessed(v), int64(steps.MaxRepeated))
	g.awaitReturned(t, small)

	// What needs its operator waits for them.
	v = g.Show(t, gone.Name)
	require.Equal(t, device.Error, v.DeviceState)
	g.RequireReserved(t, gone.Name, 1)
	g.Must(t, "clean", gone.Name)
	g.awaitReturned(t, gone)

	g.Bind(t, d.Name, "alice")
	g.copyAsTenant(t, "OTHER", "SLOW", size)
	d.RequireStamps(t, 2)
	g.Unbind(t, d.Name, "alice")
	v = g.awaitReturned(t, d)
	require.Len(t, v.Cleans, 2)
	ran := v.Cleans[1].Steps
	for i, step := range []string{"zero", "verify"} {
		last := ran[len(ran)-2+i]
		require.Equal(t, step, last.Step)
		require.Equal(t, d.Size, last.Bytes)
	}
	require.Equal(t, driver.method, ran[len(ran)-2].Method)
	untouched.RequireStamps(t, 2)
}

// reprocessed is how many bytes the first clean may have processed twice.
func reprocessed(v contract.DeviceStatus) (sum int64) {
	for _, step := range v.Cleans[0].Steps {
		sum += step.ReprocessedBytesMax
	}
	return sum
}
