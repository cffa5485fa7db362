package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
)

// Nova deletes the provider at the moment in which Burnish lowers its reservation, and makes it
// again seconds later. The device waits for it, as while it is pending and while it is cleaned,
// is cleaned once more, because the new one was free, and is offered: no operator is needed.
//
// D9, F5
func TestProviderIsReplacedDuringTheLoweringWrite(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=1s")...)
	variants := map[string]func(*testing.T){}
	for what, how := range map[string]struct {
		address      string
		before, lost bool
	}{
		"before the write":                      {address: "0000:01:00.0", before: true},
		"before its answer":                     {address: "0000:02:00.0"},
		"before its answer, and that gets lost": {address: "0000:03:00.0", lost: true},
	} {
		variants[what] = func(t *testing.T) {
			d, provider := c.NovaDevice(t, how.address, MiB)
			c.EnrollNovaDevice(t, d)
			instance := c.Spawn(t, provider)
			d.Stamp(t, 1)
			c.AwaitState(t, d.Name, time.Minute, device.Allocated)
			c.awaitIdle(t, d.Name) // the next write is its clean's, and the one after it lowers
			gone := make(chan struct{})
			var once sync.Once
			vanish := func() { once.Do(func() { c.Nova.Delete(provider); close(gone) }) }
			in := openstack.Injection{After: vanish, LoseAnswer: how.lost}
			if how.before {
				in = openstack.Injection{Before: vanish}
			}
			undo := c.Recorder.Inject(openstack.Match{Method: http.MethodPut, Path: provider + "/inventories", Nth: 2}, in)
			c.Destroy(t, instance)
			select {
			case <-gone:
			case <-time.After(patience * time.Minute):
				t.Fatal("the reservation was not lowered")
			}
			undo()
			require.NotEqual(t, device.Available, c.Show(t, d.Name).DeviceState, "there is nothing that offers it")
			outage(t, 12*time.Second)
			again := c.Nova.Device(c.Root, c.NovaHost, how.address, Class)
			c.watch(again, d)
			v := c.AwaitState(t, d.Name, 30*time.Second, device.Available)
			require.False(t, v.NeedsOperator)
			d.RequireZero(t)
			c.AwaitReserved(t, again, 0)
		}
	}
	beside(t, variants)
}
