package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

// A worker is killed in each inventory call of a turnover, before and after the call's write.
// The workflow task is lost, and the next worker makes the call again: the bind is answered,
// each binding is followed by one clean, and nothing is offered before it.
//
// F4, F5, F24
func TestKilledInAnInventoryCall(t *testing.T) {
	t.Parallel()
	for what, after := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := NewCloud(t, newSite(t))
			w := c.Worker(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=0")...)
			w.Start(t)
			d := c.OwnDevice(t, c.Host+"-d1", 4*MiB)
			c.Enroll(t, d, "--one-time-use", "--provide")
			c.AwaitState(t, d.Name, time.Minute, device.Available)
			id := contract.DeviceUUID(d.Name)
			// killed kills the worker in the nth write to the provider that do leads to.
			killed := func(nth int, do func()) {
				c.awaitIdle(t, d.Name)
				reached, hold := make(chan struct{}), make(chan struct{})
				var once sync.Once
				wait := func() { once.Do(func() { close(reached); <-hold }) }
				in := openstack.Injection{Before: wait, Drop: true}
				if after {
					in = openstack.Injection{After: wait}
				}
				undo := c.Recorder.Inject(openstack.Match{Method: http.MethodPut, Path: id + "/inventories", Nth: nth}, in)
				done := make(chan struct{})
				go func() { defer close(done); do() }()
				select {
				case <-reached:
				case <-time.After(patience * time.Minute):
					t.Error("no write was made")
				}
				w.Kill(t)
				undo()
				close(hold)
				w.Start(t)
				<-done
			}
			killed(1, func() { c.Bind(t, d.Name, "one") })
			c.RequireStock(t, id, 1)
			d.Stamp(t, 1)
			killed(1, func() { c.Unbind(t, d.Name, "one") }) // the first write of its clean
			c.AwaitState(t, d.Name, time.Minute, device.Available)
			d.RequireZero(t)
			c.Bind(t, d.Name, "two")
			d.Stamp(t, 2)
			killed(2, func() { c.Unbind(t, d.Name, "two") }) // the return
			v := c.AwaitState(t, d.Name, time.Minute, device.Available)
			d.RequireZero(t)
			c.RequireStock(t, id, 0)
			require.Len(t, v.Cleans, 3, "one clean when it was provided, and one after each binding")
			for _, clean := range v.Cleans {
				require.Equal(t, "cleaned", clean.Outcome)
			}
		})
	}
}
