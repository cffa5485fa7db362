package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// Cloud is a site whose inventory is a real Placement. The requests of Burnish and of the
// Scheduler, which stands for Nova, go through the Recorder. Every test with a cloud
// asserts checkOffer and watchStuck of the watched providers.
type Cloud struct {
	*Site
	Placement *openstack.Server
	Recorder  *openstack.Recorder
	Nova      *openstack.Scheduler
	// NovaHost is Nova's name of the site's host; Root is the provider of that.
	NovaHost, Root string
	// access is how a control worker reaches Placement.
	access []string

	mu sync.Mutex
	// watched are the devices by the UUIDs of their providers.
	watched     map[string]Device
	dirtyOffers []string
	stuck       stuck
	checks      sync.WaitGroup // of the states of devices
	context     context.Context
	writes      []openstack.Change // of all providers, in their order
}

// Class is the resource class of the devices here.
const Class = "CUSTOM_PCI_1B36_0010"

// NewCloud starts a Placement beside the site.
func NewCloud(t testing.TB, s *Site) *Cloud {
	t.Helper()
	c := newCloud(t, s, openstack.Start(t, openstack.Options{}), openstack.DefaultToken, strings.ToUpper(s.Host))
	c.access = []string{"OS_AUTH_TYPE=none", "OS_PLACEMENT_ENDPOINT_OVERRIDE=" + c.Recorder.URL}
	return c
}

// NewCloudWithKeystone is NewCloud with a Placement that checks each token with a Keystone,
// whose catalog Burnish finds it by.
func NewCloudWithKeystone(t testing.TB, s *Site, novaHost string) *Cloud {
	t.Helper()
	k := openstack.StartKeystone(t, openstack.KeystoneOptions{})
	c := newCloud(t, s, openstack.Start(t, openstack.Options{Keystone: k, CacheTokens: true}), k.Token(t), novaHost)
	k.Register(t, c.Recorder.URL)
	for name, value := range k.Environment() {
		c.access = append(c.access, name+"="+value)
	}
	return c
}

// newCloud makes a cloud of a Placement, where Nova has this token and this name for the
// site's host.
func newCloud(t testing.TB, s *Site, placement *openstack.Server, token, novaHost string) *Cloud {
	t.Helper()
	c := &Cloud{Site: s, Placement: placement, NovaHost: novaHost, watched: map[string]Device{}}
	c.Recorder = openstack.Record(t, c.Placement.URL)
	c.Nova = openstack.NewScheduler(t, c.Recorder.URL)
	c.Nova.Token = token
	c.Root = c.Nova.Host(c.NovaHost)
	c.Recorder.OnChange(c.recordWrite)
	c.Recorder.OnChange(c.checkOffer)
	c.context = t.Context()
	watching := t.Context()
	c.checks.Go(func() { c.watchStuck(watching) })
	t.Cleanup(func() {
		c.checks.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, what := range c.stuck.told {
			t.Errorf("reserved and available for too long: %s", what)
		}
		for _, what := range c.dirtyOffers {
			t.Errorf("allocatable and dirty: %s", what)
		}
	})
	return c
}

// recordWrite keeps each write that Placement accepted.
func (c *Cloud) recordWrite(change openstack.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, change)
}

// checkOffer runs after each write that Placement accepted, before the writer gets the
// answer: a provider that may be allocated must be of a device without a tenant's byte, whose
// workflow says that it is clean and is being returned, or available.
func (c *Cloud) checkOffer(change openstack.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.watched[change.UUID]
	// A provider that Nova itself re-creates is reserved within one sweep.
	if !ok || !change.Allocatable() || change.By.ByScheduler {
		return
	}
	file, err := os.Open(d.Path)
	if err != nil {
		c.dirtyOffers = append(c.dirtyOffers, err.Error())
		return
	}
	defer file.Close()
	_, zero, _, err := hardwaretest.Count(file, d.Size, 0)
	if err != nil || zero != d.Blocks() {
		c.dirtyOffers = append(c.dirtyOffers, fmt.Sprintf("%s may be allocated with %d of %d blocks zero (%v)", d.Name, zero,
			d.Blocks(), err))
	}
	c.checks.Go(func() { c.checkState(change, d.Name) })
}

// checkState checks what the workflow says of a device that may be allocated. The workflow task
// that lowered the reservation waits for the answer of its write, and the query for that task:
// what was written since, or a claim, is the device's next owner.
func (c *Cloud) checkState(change openstack.Change, name string) {
	ctx, cancel := context.WithTimeout(c.context, patience*5*time.Second)
	defer cancel()
	v, err := c.Workflows().Query(ctx, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	later := slices.ContainsFunc(c.writes, func(w openstack.Change) bool {
		return w.UUID == change.UUID && w.Generation > change.Generation
	})
	if later || v.ClaimedBy != "" || c.context.Err() != nil {
		return
	}
	if err != nil || v.Dirty || v.DeviceState != device.Available && v.DeviceState != device.Cleaning {
		c.dirtyOffers = append(c.dirtyOffers,
			fmt.Sprintf("%s may be allocated while it is %s, dirty %v (%v)", name, v.DeviceState, v.Dirty, err))
	}
}

// watch has checkOffer and watchStuck check a provider from now on.
func (c *Cloud) watch(provider string, d Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched[provider] = d
}

// Env is a control worker's environment.
func (c *Cloud) Env(more ...string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck.sweepInterval = sweepInterval(more)
	return slices.Concat([]string{"BURNISH_INVENTORY=placement", "BURNISH_DRIVERS=block"}, c.access, more)
}

// OwnDevice is a device of Burnish's own providers: owner self.
func (c *Cloud) OwnDevice(t testing.TB, name string, size int64) Device {
	t.Helper()
	d := c.Device(t, "block", name, size, 0)
	c.watch(contract.DeviceUUID(name), d)
	return d
}

// NovaDevice is a one-time-use device at an address, clean, with the provider that Nova
// made for it: owner nova. It is not enrolled yet.
func (c *Cloud) NovaDevice(t testing.TB, address string, size int64) (d Device, provider string) {
	t.Helper()
	d = c.File(c.Host+"_"+strings.ToLower(address), size)
	require.NoError(t, os.WriteFile(d.Path, make([]byte, size), 0o600))
	d.Set = append(d.Set, "owner=nova")
	provider = c.Nova.Device(c.Root, c.NovaHost, address, Class)
	c.watch(provider, d)
	return d, provider
}

// EnrollNovaDevice enrolls it and waits until it is available.
func (c *Cloud) EnrollNovaDevice(t testing.TB, d Device) {
	t.Helper()
	_, address, _ := strings.Cut(d.Name, "_")
	args := []string{"enroll", "--host", c.Host, "--driver", d.Driver, "--address", address, "--one-time-use", "--provide"}
	for _, set := range d.Set {
		args = append(args, "--set", set)
	}
	c.Must(t, args...)
	c.AwaitState(t, d.Name, time.Minute, "available")
}

// Spawn has Nova allocate the device to a new instance, and then reserve it.
func (c *Cloud) Spawn(t testing.TB, provider string) (instance string) {
	t.Helper()
	instance = uuid.NewString()
	require.NoError(t, c.Nova.Allocate(t.Context(), provider, instance))
	c.Nova.Burn(provider)
	return instance
}

// Destroy has Nova delete the instance, without a notification.
func (c *Cloud) Destroy(t testing.TB, instance string) {
	t.Helper()
	require.NoError(t, c.Nova.Deallocate(t.Context(), "", instance))
}

// RequireStock asserts what stands in Placement.
func (c *Cloud) RequireStock(t testing.TB, provider string, reserved int) {
	t.Helper()
	require.Equal(t, [2]int{1, reserved}, c.Stock(t, provider), "total and reserved of %s", provider)
}

// Stock is what stands in Placement: total and reserved.
func (c *Cloud) Stock(t testing.TB, provider string) [2]int {
	t.Helper()
	have, err := c.Nova.Inventory(t.Context(), provider)
	require.NoError(t, err)
	total, _ := have.Fields["total"].(float64)
	reserved, _ := have.Fields["reserved"].(float64)
	return [2]int{int(total), int(reserved)}
}

// AwaitReserved waits for a value of reserved in Placement.
func (c *Cloud) AwaitReserved(t testing.TB, provider string, reserved int) {
	t.Helper()
	Await(t, time.Minute, fmt.Sprintf("reserved=%d of %s", reserved, provider), func() (bool, string) {
		have := c.Stock(t, provider)
		return have[1] == reserved, fmt.Sprint(have)
	})
}

// ReconcileNow asks for a sweep as any Temporal client may.
func (c *Cloud) ReconcileNow(t testing.TB, request contract.ReconcileRequest) {
	t.Helper()
	require.NoError(t, c.Workflows().ReconcileNow(t.Context(), "default", 0, request))
}

// State is what the cloud's workflow says of its last sweep.
func (c *Cloud) State(t testing.TB) contract.InventoryReconcileState {
	t.Helper()
	state, err := c.Workflows().ReconcileState(t.Context(), "default")
	require.NoError(t, err)
	return state
}
