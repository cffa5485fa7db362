package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/messagebus"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// The purpose of the product, from end to end, on real parts: a host with a kernel, NVMe
// drives and an nvme-cli; Placement and Keystone; RabbitMQ and Nova's library of
// notifications. Only Nova itself is played: by what it does to Placement, and what it sends.

// The drives of that host. The devices are in slots whose letters tell Nova's names from
// Burnish's.
const (
	inUse = "INUSE" // an instance has it when Burnish comes
	left  = "LEFT"  // its instance was deleted; it was not cleaned
	free  = "FREE"  // it was never used
	// source is what a tenant copies its data from. It is no device.
	source = "SOURCE"

	leftSlowly, leftQuicker = 3 * MiB / 2, 3 * MiB // bytes a second that its wipe may take
)

// wholePath is that cloud with its one host.
type wholePath struct {
	*Cloud
	host      *guestSite
	began     time.Time
	control   *Worker
	wiping    host.Entry // the last that awaitWiping saw
	producer  *messagebus.Producer
	devices   map[string]Device // by serial
	providers map[string]string // Nova's, by serial
}

// wholePathDriver cleans the devices of wholePath.
var wholePathDriver = guestDriver{
	name: "nvme", method: "write_zeroes",
	env:    map[string]string{"BURNISH_DRIVERS": "nvme"},
	rules:  `allow: {device_spec: [{vendor_id: "1b36", product_id: "0010", address: {bus: "00", slot: "0[abc]"}, one_time_use: "yes"}]}`,
	device: withNVMe.device,
}

// newWholePath starts all parts. Burnish knows no device yet.
func newWholePath(t *testing.T) *wholePath {
	t.Helper()
	requireGuest(t)
	openstack.SkipIfMissing(t)
	requireBroker(t)
	s := newSite(t)
	s.Host = "guest1"
	const size = 24 * MiB
	dir := t.TempDir()
	drive := func(serial, address string, size int64) guest.Controller {
		return guest.Controller{Serial: serial, Address: address,
			Namespaces: []guest.Namespace{{Image: filepath.Join(dir, serial+".img"), Size: size}}}
	}
	drives := []guest.Controller{
		drive(source, "0000:00:05.0", size), drive(inUse, "0000:00:0a.0", size), drive(left, "0000:00:0b.0", size),
		drive(free, "0000:00:0c.0", 8*MiB),
	}
	drives[2].Namespaces[0] = stampedNamespace(t, dir, left, size, 2)
	drives[2].Namespaces[0].WriteBytesPerSecond = leftSlowly
	p := &wholePath{began: time.Now(), devices: map[string]Device{}, providers: map[string]string{}}
	booted, started := beginBoot(t, s, wholePathDriver, guest.Config{Controllers: drives}), beginBroker(t)
	p.Cloud = NewCloudWithKeystone(t, s, s.Host)
	p.log(t, "Placement is up")
	p.host = booted()
	p.log(t, "the host is up")
	broker, producer := started()
	p.producer = producer
	p.log(t, "RabbitMQ is up")
	for _, serial := range []string{inUse, left, free} {
		address := p.host.Address(serial)
		p.devices[serial] = p.host.drive(t, serial)
		p.providers[serial] = p.Nova.Device(p.Root, p.NovaHost, address, Class)
		p.watch(p.providers[serial], p.devices[serial])
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("nvme: {clear_action: zero, clear_strategy: block}\n"), 0o600))
	// No sweeps: what ends a binding is Nova's notification.
	p.control = p.Worker(t, "control", p.Env("BURNISH_SWEEP_INTERVAL=0", "BURNISH_AMQP_URL="+broker.TransportURL(),
		"BURNISH_POLICY="+policy)...)
	return p
}

// claim has Nova schedule an instance with n devices, reserve them and start it.
func (p *wholePath) claim(t *testing.T, n int, serials ...string) (instance string) {
	t.Helper()
	var want []string
	for _, serial := range serials {
		want = append(want, p.providers[serial])
	}
	slices.Sort(want)
	offers, err := p.Nova.Offers(t.Context(), Class, n)
	require.NoError(t, err)
	i := slices.IndexFunc(offers, func(o openstack.Offer) bool { return slices.Equal(o.Providers(), want) })
	require.GreaterOrEqual(t, i, 0, "%v is not among %v", want, offers)
	instance = uuid.NewString()
	require.NoError(t, p.Nova.Claim(t.Context(), offers[i], instance))
	for _, provider := range want {
		p.Nova.Burn(provider)
	}
	return instance
}

// offered are the serials of the devices that Placement would give to an instance.
func (p *wholePath) offered(t *testing.T) (serials []string) {
	t.Helper()
	offers, err := p.Nova.Offers(t.Context(), Class, 1)
	require.NoError(t, err)
	for _, o := range offers {
		for serial, provider := range p.providers {
			if slices.Contains(o.Providers(), provider) {
				serials = append(serials, serial)
			}
		}
	}
	slices.Sort(serials)
	return serials
}

// notify sends what nova-compute sends of an instance.
func (p *wholePath) notify(t *testing.T, event, instance string) {
	t.Helper()
	require.NoError(t, p.producer.Send(messagebus.Instance(event, instance, p.NovaHost)))
}

// write fills a device with a tenant's data, from within the host.
func (p *wholePath) write(t *testing.T, serial string, nonce uint64) {
	t.Helper()
	d := p.devices[serial]
	pattern := d
	pattern.Path = filepath.Join(filepath.Dir(d.Path), source+".img")
	pattern.Stamp(t, nonce)
	p.host.copyAsTenant(t, source, serial, d.Size)
	d.RequireStamps(t, nonce)
}

// awaitTenant waits until Burnish knows which instance has a device.
func (p *wholePath) awaitTenant(t *testing.T, serial, instance string) {
	t.Helper()
	p.awaitDevice(t, serial, "to be of instance "+instance, heldBy(instance))
	p.RequireStock(t, p.providers[serial], 1)
}

// awaitAvailable waits until a device is available after so many cleans, and asserts that it
// is clean and that Placement offers it.
func (p *wholePath) awaitAvailable(t *testing.T, serial string, cleans int) (v contract.DeviceStatus) {
	t.Helper()
	v = p.awaitDevice(t, serial, "to be available", func(v contract.DeviceStatus) bool {
		require.NotEqual(t, device.Error, v.DeviceState, v.LastError)
		return v.DeviceState == device.Available && len(v.Cleans) == cleans
	})
	d := p.devices[serial]
	d.RequireZero(t)
	require.False(t, v.Dirty)
	p.RequireStock(t, p.providers[serial], 0)
	require.Contains(t, p.offered(t), serial)
	for _, c := range v.Cleans {
		require.Equal(t, "cleaned", c.Outcome)
		require.Equal(t, device.WriteZeroes, c.Operation)
		names := stepNames(c)
		require.Equal(t, []string{"zero", "verify"}, names[len(names)-2:])
		for _, step := range c.Steps[len(names)-2:] {
			require.Equal(t, d.Size, step.Bytes, step.Step)
		}
		require.Equal(t, "write_zeroes", c.Steps[len(names)-2].Method)
	}
	return v
}

// awaitDevice polls `show` as seldom as guests need it.
func (p *wholePath) awaitDevice(t *testing.T, serial, what string,
	ok func(contract.DeviceStatus) bool) (v contract.DeviceStatus) {
	t.Helper()
	name := p.devices[serial].Name
	poll(t, guestWithin, guestPollEvery, name+" "+what, func() (bool, string) {
		var err error
		v, err = p.Site.Site.Show(t.Context(), name)
		return err == nil && ok(v), fmt.Sprintf("%+v %v", v, err)
	})
	return v
}

// awaitWiping waits until an attempt that was not seen yet wipes the device LEFT.
func (p *wholePath) awaitWiping(t *testing.T) {
	t.Helper()
	seen := p.wiping
	poll(t, guestWithin, 5*proc.PollEvery, "another attempt of the wipe", func() (bool, string) {
		p.wiping = p.host.awaitMidWipe(t, p.devices[left], 0)
		return p.wiping.Working && (p.wiping.Seq != seen.Seq || p.wiping.Attempt != seen.Attempt),
			fmt.Sprintf("%+v", p.wiping)
	})
}

// awaitWiped waits for the first wiped bytes of the device LEFT.
func (p *wholePath) awaitWiped(t *testing.T, nonce uint64) {
	t.Helper()
	Await(t, guestWithin, "the wipe to begin", func() (bool, string) {
		stamped, zero, other := p.devices[left].Count(t, nonce)
		return zero > 0, fmt.Sprint(stamped, zero, other)
	})
}

// requireHalfWiped asserts that the device LEFT has wiped blocks and others, and is reserved.
func (p *wholePath) requireHalfWiped(t *testing.T, nonce uint64) {
	t.Helper()
	stamped, zero, other := p.devices[left].Count(t, nonce)
	require.Positive(t, stamped, "the wipe was too quick for this test")
	require.Positive(t, zero)
	require.Equal(t, p.devices[left].Blocks(), stamped+zero+other)
	p.RequireStock(t, p.providers[left], 1)
}

// log says when the test came so far.
func (p *wholePath) log(t *testing.T, what string) {
	t.Logf("%5.1f s: %s", time.Since(p.began).Seconds(), what)
}

// awaitWorker waits until the host's worker polls for the nth time since the last boot.
func (p *wholePath) awaitWorker(t *testing.T, nth int) {
	t.Helper()
	Await(t, guestWithin, "the host's worker to poll", func() (bool, string) {
		text := p.host.WorkerLog()
		return strings.Count(text, "worker started") >= nth, text
	})
}

// A fleet in use is imported, nothing of it is enrolled by hand. While a device that was left
// dirty is wiped, the whole host, the host's worker and the control worker are killed, each
// in mid-wipe; beside it a tenant keeps its data throughout. The tenant's instance is deleted
// while no control worker runs. What was wiped by the drives' own operation, and verified, is
// offered again, and nothing else; the next tenants get it.
//
// The Recorder sees each write to Placement as it happens: a write that makes a device
// allocatable must find its image without a tenant's byte (checkOffer).
//
// F2
func TestWholePathFromImportToTheNextTenant(t *testing.T) {
	t.Parallel()
	p := newWholePath(t)
	first := p.beforeBurnish(t)

	p.control.Start(t)
	p.log(t, "control started")
	p.awaitListening(t, p.control, p.producer, 1)
	p.awaitWorker(t, 1)
	p.requireFound(t)
	p.log(t, "the host has scanned")
	p.requireImport(t)
	p.log(t, "imported")
	p.awaitTenant(t, inUse, first)

	// The host loses its power in mid-wipe; then its worker is killed in mid-wipe.
	p.awaitWiping(t)
	p.awaitWiped(t, 2)
	require.NoError(t, p.host.Kill())
	p.requireHalfWiped(t, 2)
	p.devices[inUse].RequireStamps(t, 1)
	p.host.Config.Controllers[2].Namespaces[0].WriteBytesPerSecond = leftQuicker
	p.host.boot(t)
	p.log(t, "the host is back")
	p.awaitWiping(t)
	p.host.shell(t, "kill -9 $(pidof burnish-worker)")
	p.awaitWorker(t, 2)
	p.log(t, "its worker is back")

	// The control worker is killed in mid-wipe; while there is none, Nova deletes the instance.
	p.awaitWiping(t)
	p.control.Kill(t)
	p.RequireStock(t, p.providers[left], 1)
	p.devices[inUse].RequireStamps(t, 1)
	p.Destroy(t, first)
	p.notify(t, "instance.delete.end", first)
	p.control.Start(t)
	p.log(t, "control is back")
	p.requireDiscovered(t)
	v := p.awaitAvailable(t, left, 1)
	require.Greater(t, reprocessed(v), p.devices[left].Size, "both crashes interrupted a step")
	p.awaitAvailable(t, inUse, 1)
	p.awaitAvailable(t, free, 0)
	require.Equal(t, []string{free, inUse, left}, p.offered(t))

	p.log(t, "all are available")

	// The next tenant gets both, in one claim, and the one after it too.
	second := p.claim(t, 2, inUse, left)
	p.notify(t, "instance.create.end", second)
	for i, serial := range []string{inUse, left} {
		p.awaitTenant(t, serial, second)
		p.write(t, serial, uint64(3+i))
	}
	require.Equal(t, []string{free}, p.offered(t))
	p.log(t, "second has written")
	p.Destroy(t, second)
	require.Equal(t, []string{free}, p.offered(t), "that an instance is gone makes nothing allocatable")
	p.notify(t, "instance.delete.end", second)
	p.awaitAvailable(t, left, 2)
	p.awaitAvailable(t, inUse, 2)
	p.log(t, "cleaned twice")
	third := p.claim(t, 2, inUse, left)
	p.notify(t, "instance.create.end", third)
	p.awaitTenant(t, inUse, third)
	p.awaitTenant(t, left, third)
	p.requireWrites(t)
}

// beforeBurnish is what happened in this cloud before it had Burnish: an instance has one
// device, another device's instance is gone.
func (p *wholePath) beforeBurnish(t *testing.T) (instance string) {
	t.Helper()
	instance = p.claim(t, 1, inUse)
	p.write(t, inUse, 1)
	p.Destroy(t, p.claim(t, 1, left))
	p.devices[left].RequireStamps(t, 2)
	require.Equal(t, []string{free}, p.offered(t))
	return instance
}

// requireFound asserts that the host's worker found the drives, and left them to Nova.
func (p *wholePath) requireFound(t *testing.T) {
	t.Helper()
	var state contract.HostScanState
	Await(t, guestWithin, "the host's first scan", func() (bool, string) {
		var err error
		state, err = p.Workflows().HostScanState(t.Context(), p.Site.Host)
		return err == nil && state.Scans > 0, fmt.Sprintf("%+v %v", state, err)
	})
	require.Equal(t, 3, state.Last.Found, "%+v", state)
	require.Zero(t, state.Last.Enrolled, "%+v", state)
	require.Len(t, state.Refused, 3)
	for _, r := range state.Refused {
		require.Equal(t, device.CodeInventoryInvalid, r.Code, "%+v", r)
		require.Contains(t, r.Reason, "owner nova")
	}
	all, err := p.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all, "nothing is enrolled by hand, and nothing by the host")
}

// requireImport imports the fleet.
func (p *wholePath) requireImport(t *testing.T) {
	t.Helper()
	dry := p.Must(t, "import", "--from", "placement", "--host", p.Site.Host, "--dry-run")
	for serial, numbers := range map[string]string{inUse: "reserved=1 of 1, used=1", left: "reserved=1 of 1, used=0",
		free: "reserved=0 of 1, used=0"} {
		require.Contains(t, dry, p.devices[serial].Name+": would be imported: "+numbers)
	}
	out := p.Must(t, "import", "--from", "placement", "--host", p.Site.Host)
	require.Equal(t, 3, strings.Count(out, ": imported"), out)
	Await(t, guestWithin, "no device to be unknown", func() (bool, string) {
		r := p.Burnish(t, "import", "check")
		return r.Code == 0, fmt.Sprint(r)
	})
}

// requireDiscovered asserts what `show` says of each drive: what the kernel and nvme-cli of
// its host see.
func (p *wholePath) requireDiscovered(t *testing.T) {
	t.Helper()
	state, err := p.Workflows().HostScanState(t.Context(), p.Site.Host)
	require.NoError(t, err)
	require.Equal(t, 3, state.Last.Found, "%+v", state)
	require.Empty(t, state.Refused, "they are imported now")
	require.Empty(t, state.Missing)
	for serial, d := range p.devices {
		v := p.Show(t, d.Name)
		require.Equal(t, serial, v.Serial)
		require.Equal(t, "QEMU NVMe Ctrl", v.Model)
		require.Equal(t, "1b36", v.Vendor)
		require.Equal(t, "NVME", v.Type)
		require.Equal(t, p.host.Address(serial), v.StdBoardInfo.PCIAddress)
		require.Equal(t, d.Size, v.SizeBytes)
		require.NotEmpty(t, v.Firmware)
		require.Equal(t, device.OwnerNova, v.Owner)
		require.True(t, v.OneTimeUse)
		require.Equal(t, device.WriteZeroes, v.Operation)
	}
}

// requireWrites asserts the order of the writes that Placement took: a device that Nova or an
// import reserved is lowered once, by Burnish, and not before the next use lowered again.
func (p *wholePath) requireWrites(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	writes := slices.Clone(p.writes)
	p.mu.Unlock()
	const made, reserved, lowered = "made free by Nova", "reserved", "lowered by Burnish"
	for serial, want := range map[string][]string{
		inUse: {made, reserved, lowered, reserved, lowered, reserved},
		left:  {made, reserved, lowered, reserved, lowered, reserved},
		free:  {made, reserved, lowered}, // offered again once the host has seen it
	} {
		var have []string
		for _, w := range writes {
			if w.UUID != p.providers[serial] {
				continue
			}
			what := reserved // Burnish makes sure of that before it wipes
			switch {
			case w.Allocatable() && w.By.ByScheduler:
				what = made
			case w.Allocatable():
				what = lowered
			}
			if what != reserved || len(have) == 0 || have[len(have)-1] != reserved {
				have = append(have, what)
			}
		}
		require.Equal(t, want, have, serial)
	}
	// Burnish's every request had a token of Keystone's. It touched no allocation.
	for _, e := range p.Recorder.Exchanges() {
		if e.ByScheduler {
			continue
		}
		require.True(t, strings.HasPrefix(e.Token, "gAAAA"), "%s %s with the token %q", e.Method, e.Path, e.Token)
		require.True(t, e.Method == http.MethodGet || e.Method == http.MethodPut && strings.Contains(e.Path, "/inventories/"),
			"%s %s", e.Method, e.Path)
	}
}
