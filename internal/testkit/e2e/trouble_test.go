package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

// Placement in trouble, with real workers and a device of Burnish's own: what passes is
// waited for, and what is slow gets through. Who has the device is in Placement all the time.
//
// F24, F29
func TestPlacementInTrouble(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=0")...)
	d := c.OwnDevice(t, c.Host+"-d1", 4*MiB)
	c.Enroll(t, d, "--one-time-use", "--provide")
	c.AwaitState(t, d.Name, time.Minute, device.Available)
	id := contract.DeviceUUID(d.Name)
	store, err := placement.Open(t.Context(), placement.Settings{Getenv: openstack.Noauth(c.Placement.URL)})
	require.NoError(t, err)
	requireRecord := func(t *testing.T, witness device.Witness, tenant string) {
		t.Helper()
		st, err := store.Reservation(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, witness, st.Witness)
		require.Equal(t, tenant, st.Tenant)
	}
	requireRecord(t, device.WitnessFree, "")

	t.Run("three seconds a request", func(t *testing.T) {
		undo := c.Recorder.Inject(openstack.Match{Path: id},
			openstack.Injection{Before: func() { <-time.After(3 * time.Second) }})
		began := time.Now()
		c.Bind(t, d.Name, "one")
		undo()
		require.Greater(t, time.Since(began), 12*time.Second)
		requireRecord(t, device.WitnessBound, Instance("one"))
		d.Stamp(t, 1)
	})

	t.Run("refusals at the return that pass", func(t *testing.T) {
		for i, answer := range []openstack.Injection{
			{Status: http.StatusUnauthorized}, {Status: http.StatusForbidden},
			{Status: http.StatusBadRequest, Body: `{"errors": [{"status": 400, "detail": "The request is malformed"}]}`},
		} {
			if i > 0 {
				c.Bind(t, d.Name, "more")
				d.Stamp(t, uint64(i)+1)
			}
			lowering := make(chan struct{}, 100)
			answer.Before = func() { lowering <- struct{}{} }
			// Only the write that lowers is of one class; then everything is refused.
			undo := c.Recorder.Inject(openstack.Match{Method: http.MethodPut, Path: id + "/inventories/"}, answer)
			c.Unbind(t, d.Name, map[bool]string{true: "one", false: "more"}[i == 0])
			for range 3 {
				select {
				case <-lowering:
				case <-time.After(patience * time.Minute):
					t.Fatal("the write was not tried again")
				}
			}
			require.Equal(t, device.Cleaning, c.Show(t, d.Name).DeviceState, "it waits")
			c.RequireStock(t, id, 1)
			undo()
			v := c.AwaitState(t, d.Name, time.Minute, device.Available, device.Error)
			require.Equal(t, device.Available, v.DeviceState, v.LastError)
			d.RequireZero(t)
			requireRecord(t, device.WitnessFree, "")
		}
	})
}
