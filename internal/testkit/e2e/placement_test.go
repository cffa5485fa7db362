package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

// What Nova does to its devices is found by sweeps alone.
func TestNovasDevicesWithSweepsOnly(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=500ms")...)
	t.Run("foreign providers", c.foreignProvidersAreLeftAlone)
	t.Run("its scenario", c.novaScenario)
	t.Run("a provider that it makes again", c.recreatedProviderIsReservedAgain)
	t.Run("an evacuation", c.evacuatedSourceIsCleanedWhenItsHostDropsIt)
}

// novaScenario is Nova's own functional scenario of one-time-use devices, step by step, with
// Burnish as the operator's cleaning workflow: free, allocated and reserved, deleted, cleaned,
// allocatable again.
func (c *Cloud) novaScenario(t *testing.T) {
	d, provider := c.NovaDevice(t, "0000:AF:00.0", 4*MiB)
	c.EnrollNovaDevice(t, d)
	c.RequireStock(t, provider, 0)

	for tenant := uint64(1); tenant <= 2; tenant++ { // the second: it is allocatable again
		instance := c.Spawn(t, provider)
		c.RequireStock(t, provider, 1)
		require.Error(t, c.Nova.Allocate(t.Context(), provider, uuid.NewString()), "no other instance gets it")
		d.Stamp(t, tenant)
		v := c.AwaitState(t, d.Name, time.Minute, device.Allocated)
		require.Equal(t, instance, *v.InstanceUUID, "F6: the binding is the consumer that was seen")
		require.True(t, v.Dirty)
		d.RequireStamps(t, tenant)

		c.Destroy(t, instance)
		c.AwaitState(t, d.Name, time.Minute, device.Available)
		d.RequireZero(t)
		c.RequireStock(t, provider, 0)
	}
}

// What Nova did while nobody looked counts at the next sweep, or at the import.
func TestNovasDevicesWithoutSweeps(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=0")...)
	t.Run("used and freed between two sweeps", c.usedAndFreedBetweenTwoSweeps)
	t.Run("import of a fleet that is in use", c.importOfAFleetThatIsInUse)
}

// A device that a tenant used and left between two sweeps is cleaned (D9).
func (c *Cloud) usedAndFreedBetweenTwoSweeps(t *testing.T) {
	d, provider := c.NovaDevice(t, "0000:0A:00.0", 4*MiB)
	c.EnrollNovaDevice(t, d)
	instance := c.Spawn(t, provider)
	d.Stamp(t, 1)
	c.Destroy(t, instance)
	c.RequireStock(t, provider, 1)
	require.Equal(t, device.Available, c.Show(t, d.Name).DeviceState, "there was no sweep")
	c.ReconcileNow(t, contract.ReconcileRequest{})
	c.AwaitDevice(t, d.Name, time.Minute, "to be cleaned", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Available && len(v.Cleans) == 2
	})
	d.RequireZero(t)
	c.RequireStock(t, provider, 0)
	state := c.State(t)
	require.Equal(t, 1, state.Last.Mismatch, "the mismatch is reported (S2.52)")
	require.Contains(t, state.Mismatches[0].What, "reserved=1 of 1, used=0")
}

// One-time use is configured late: devices in use are imported as they are, burned at
// the next reconcile, free ones stay free, for the trait does not mean dirty,
// used ones are cleaned (D8).
func (c *Cloud) importOfAFleetThatIsInUse(t *testing.T) {
	free, pFree := c.NovaDevice(t, "0000:01:00.0", 4*MiB)
	used, pUsed := c.NovaDevice(t, "0000:02:00.0", 4*MiB)
	left, pLeft := c.NovaDevice(t, "0000:03:00.0", 4*MiB)
	tenant := uuid.NewString()
	// not reserved: it was allocated before one-time use was configured
	require.NoError(t, c.Nova.Allocate(t.Context(), pUsed, tenant))
	used.Stamp(t, 7)
	gone := c.Spawn(t, pLeft)
	left.Stamp(t, 8)
	c.Destroy(t, gone)

	out := c.Must(t, "import", "--from", "placement", "--driver", "block", "--dry-run")
	require.Equal(t, 3, strings.Count(out, "would be imported"), out)
	for i, d := range []Device{free, used, left} {
		// Files have no device_spec: each import names its path.
		in := contract.EnrollInput{Import: true, Enrollment: contract.Enrollment{
			Name: d.Name, Host: c.Host, Address: strings.SplitN(d.Name, "_", 2)[1], Driver: "block", Type: "DISK",
			Settings: map[string]string{"path": d.Path}, Owner: device.OwnerNova, OneTimeUse: true,
		}}
		result, err := c.Workflows().Do(t.Context(), in.Enrollment.Name, contract.VerbEnroll, in)
		require.NoError(t, err, i)
		require.Equal(t, device.Unknown, result.Device.DeviceState)
	}
	v := c.AwaitState(t, used.Name, time.Minute, device.Allocated)
	require.Equal(t, tenant, *v.InstanceUUID)
	c.AwaitReserved(t, pUsed, 1)
	v = c.AwaitState(t, free.Name, time.Minute, device.Available)
	require.Empty(t, v.Cleans, "D8: Placement's record rules")
	c.RequireStock(t, pFree, 0)
	v = c.AwaitState(t, left.Name, time.Minute, device.Available)
	require.Len(t, v.Cleans, 1)
	left.RequireZero(t)
	used.RequireStamps(t, 7)
	c.RequireStock(t, pLeft, 0)
	Await(t, 20*time.Second, "no device to be listed as unknown", func() (bool, string) {
		r := c.Burnish(t, "import", "check")
		return r.Code == 0 && r.Stdout == "no device is in state unknown\n", r.String()
	})
	c.AwaitListed(t, "nothing to import", "import", "--from", "placement")

	c.Destroy(t, tenant)
	c.ReconcileNow(t, contract.ReconcileRequest{Hosts: []string{strings.ToUpper(c.Host)}})
	c.AwaitState(t, used.Name, time.Minute, device.Available)
	used.RequireZero(t)
}

// Burnish never writes to providers of devices that are not enrolled, nor to
// those of another controller.
func (c *Cloud) foreignProvidersAreLeftAlone(t *testing.T) {
	_, stranger := c.NovaDevice(t, "0000:05:00.0", MiB)
	tenant := c.Spawn(t, stranger)
	c.Destroy(t, tenant)
	own := c.OwnDevice(t, c.Host+"-d1", 4*MiB)
	c.Nova.Provider(uuid.NewString(), own.Name, "", Class, 0, "COMPUTE_MANAGED_PCI_DEVICE")
	before := len(c.Recorder.Exchanges())
	r := c.Refused(t, device.CodeInventoryInvalid, c.EnrollArgs(own)...)
	require.Contains(t, r.Stderr, "OWNER_CYBORG")
	c.awaitSweeps(t, 3)
	require.Equal(t, 1, c.State(t).Last.Unenrolled)
	for _, e := range c.Recorder.Exchanges()[before:] {
		require.False(t, e.Method != http.MethodGet && strings.Contains(e.Path, stranger), "%s %s", e.Method, e.Path)
	}
	c.RequireStock(t, stranger, 1)
}

// Nova re-created the provider, with another UUID and reserved=0, while the device is
// dirty: it is reserved again within one sweep, and the device stays the same.
func (c *Cloud) recreatedProviderIsReservedAgain(t *testing.T) {
	d, provider := c.NovaDevice(t, "0000:0B:00.0", 4*MiB)
	c.EnrollNovaDevice(t, d)
	c.Must(t, "maintain", d.Name, "--reason", "so that nothing happens")
	c.RequireStock(t, provider, 1)
	c.Must(t, "manage", d.Name)
	again := c.Nova.Recreate(provider, c.Root, c.NovaHost, "0000:0B:00.0", Class)
	c.watch(again, d)
	c.AwaitReserved(t, again, 1)
	c.AwaitState(t, d.Name, time.Minute, device.Manageable) // dirty, and still its operator's (F43)
	// And the same for one that an operator retired: it is permanently reserved.
	c.Must(t, "retire", d.Name, "--reason", "worn")
	third := c.Nova.Recreate(again, c.Root, c.NovaHost, "0000:0B:00.0", Class)
	c.AwaitReserved(t, third, 1)
	c.Must(t, "forget", d.Name)
	c.RequireStock(t, third, 1)
}

// While no control worker ran, an available device was used and its provider was re-created,
// as free as before: the sweep notices that it is another provider, and the device is cleaned.
//
// D9
func TestProviderRecreatedWhileControlIsDown(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	d, provider := c.NovaDevice(t, "0000:0D:00.0", 4*MiB)
	w := c.Worker(t, "control", c.Env("BURNISH_SWEEP_INTERVAL=300ms")...)
	w.Start(t)
	c.Run(t, "host", c.Env()...) // not restarted: a host's start makes its devices read the inventory
	c.EnrollNovaDevice(t, d)
	w.Kill(t)
	instance := c.Spawn(t, provider)
	d.Stamp(t, 1)
	c.Destroy(t, instance)
	again := c.Nova.Recreate(provider, c.Root, c.NovaHost, "0000:0D:00.0", Class)
	c.watch(again, d)
	c.RequireStock(t, again, 0)
	w.Start(t)
	c.AwaitDevice(t, d.Name, time.Minute, "to be cleaned again", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Available && len(v.Cleans) == 2 && v.Cleans[1].Outcome == "cleaned"
	})
	d.RequireZero(t)
	c.AwaitReserved(t, again, 0)
}

// Burnish is killed right after the write that lowered the reservation, Nova allocates the
// device, Burnish starts again, the operator cleans: no byte is written (F4, F5).
//
// F5
func TestKilledAfterTheLoweringWrite(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	d, provider := c.NovaDevice(t, "0000:01:00.0", 4*MiB)
	w := c.Worker(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=500ms")...)
	w.Start(t)
	c.EnrollNovaDevice(t, d)
	instance := c.Spawn(t, provider)
	d.Stamp(t, 1)
	c.AwaitState(t, d.Name, time.Minute, device.Allocated)
	lowered := make(chan struct{})
	hold := make(chan struct{})
	var once sync.Once
	undo := c.Recorder.Inject(openstack.Match{Method: http.MethodPut, Path: provider + "/inventories"},
		openstack.Injection{After: func() {
			if c.Stock(t, provider)[1] == 0 {
				once.Do(func() { close(lowered) })
				<-hold
			}
		}})
	c.Destroy(t, instance)
	select {
	case <-lowered:
	case <-time.After(patience * time.Minute):
		t.Fatal("the reservation was not lowered")
	}
	w.Kill(t)
	undo()
	close(hold)
	d.RequireZero(t)
	c.RequireStock(t, provider, 0)
	next := c.Spawn(t, provider)
	d.Stamp(t, 2)
	w.Start(t)
	c.Burnish(t, "clean", d.Name) // whatever it answers
	v := c.AwaitDevice(t, d.Name, time.Minute, "to be the new tenant's", heldBy(next))
	require.True(t, v.Dirty)
	d.RequireStamps(t, 2)
	c.Destroy(t, next)
	c.AwaitState(t, d.Name, time.Minute, device.Available)
	d.RequireZero(t)
}

// Placement is killed in the middle of a bind and of a return, and down for a while.
//
// S2.96
func TestPlacementIsDownInMidBurnAndMidReturn(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=0")...)
	d := c.OwnDevice(t, c.Host+"-d1", 4*MiB)
	c.Enroll(t, d, "--one-time-use", "--provide")
	c.AwaitState(t, d.Name, time.Minute, device.Available)
	id := contract.DeviceUUID(d.Name)

	// In mid-burn: the bind ends burned or cleaned, never lost.
	c.awaitIdle(t, d.Name)
	back := c.killPlacement(t, id, 1, true)
	r := c.Burnish(t, "bind", d.Name, "--instance", Instance("one"), "--timeout", "90s")
	back()
	if r.Code == 0 {
		v := c.Show(t, d.Name)
		require.Equal(t, device.Allocated, v.DeviceState)
		c.RequireStock(t, id, 1)
		d.Stamp(t, 3)
		c.Unbind(t, d.Name, "one")
	}
	c.AwaitState(t, d.Name, 2*time.Minute, device.Available)
	d.RequireZero(t)
	c.RequireStock(t, id, 0)

	// In mid-return.
	c.Bind(t, d.Name, "two")
	d.Stamp(t, 4)
	c.awaitIdle(t, d.Name)
	back = c.killPlacement(t, id, 2, false)
	c.Unbind(t, d.Name, "two")
	back()
	c.AwaitState(t, d.Name, 2*time.Minute, device.Available)
	d.RequireZero(t)
	c.RequireStock(t, id, 0)
}

// The same in the return of a device whose provider is Nova's, after the write.
func TestPlacementIsDownInTheReturnOfNovasDevice(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=500ms")...)
	d, provider := c.NovaDevice(t, "0000:01:00.0", 4*MiB)
	c.EnrollNovaDevice(t, d)
	instance := c.Spawn(t, provider)
	d.Stamp(t, 1)
	c.AwaitState(t, d.Name, time.Minute, device.Allocated)
	c.awaitIdle(t, d.Name)                        // its own write, where it saw the instance before Nova reserved
	back := c.killPlacement(t, provider, 1, true) // Nova reserved it: the first write is the one that lowers
	c.Destroy(t, instance)
	back()
	v := c.AwaitState(t, d.Name, 2*time.Minute, device.Available)
	require.Len(t, v.Cleans, 2, "it was cleaned once, and not again because Placement was away")
	d.RequireZero(t)
	c.RequireStock(t, provider, 0)
	next := c.Spawn(t, provider) // it is allocatable again, and noticed
	d.Stamp(t, 2)
	v = c.AwaitDevice(t, d.Name, time.Minute, "to be the next tenant's", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Allocated
	})
	require.Equal(t, next, *v.InstanceUUID)
	d.RequireStamps(t, 2)
}

// killPlacement has Placement killed at the nth write to a provider, before or after the
// write took effect, and its answer lost. back waits until Placement is started again,
// after 15 s.
func (c *Cloud) killPlacement(t *testing.T, provider string, nth int, after bool) (back func()) {
	t.Helper()
	killed := make(chan struct{})
	kill := func() { c.Placement.Kill(t); close(killed) }
	do := openstack.Injection{Before: kill}
	if after {
		do = openstack.Injection{After: kill, LoseAnswer: true}
	}
	undo := c.Recorder.Inject(openstack.Match{Method: http.MethodPut, Path: provider + "/inventories", Nth: nth}, do)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer undo()
		select {
		case <-killed:
			outage(t, 15*time.Second)
		case <-time.After(patience * 2 * time.Minute):
		case <-t.Context().Done():
		}
		if t.Context().Err() == nil { // else the test has failed
			undo()
			c.Placement.Restart(t)
		}
	}()
	t.Cleanup(func() { <-ended })
	return func() {
		t.Helper()
		<-ended
		select {
		case <-killed:
		default:
			t.Fatal("there was no write: Placement was not killed")
		}
	}
}
