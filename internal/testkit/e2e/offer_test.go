package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

// What may be on offer, on a real Placement: a device that was used unseen is cleaned, one
// that was retired or unbound in the middle of a write is not left as that write leaves it,
// and a provider that two instances could have is never offered.
//
// F5, F28, F30
func TestOffersInPlacement(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	// Without sweeps: what is repaired here, the device repairs itself.
	w := c.Worker(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=0")...)
	w.Start(t)
	beside(t, map[string]func(*testing.T){
		"retired while it is lowered":              c.retiredWhileLowered("retired", false),
		"retired while it is lowered, answer lost": c.retiredWhileLowered("unanswered", true),
		"unbound while it is reserved":             c.unboundWhileReserved,
	})
	w.Kill(t)
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=300ms")...)
	beside(t, map[string]func(*testing.T){
		"used and freed unseen": c.usedAndFreedUnseen,
		"total of two, Nova's": func(t *testing.T) {
			d, provider := c.NovaDevice(t, "0000:02:00.0", 2*MiB)
			c.EnrollNovaDevice(t, d)
			c.raiseTotal(t, provider)
			c.requireWithheld(t, d, provider)
		},
		"total of two, own": func(t *testing.T) {
			d := c.OwnDevice(t, c.Host+"-two", 2*MiB)
			c.Enroll(t, d, "--provide")
			c.AwaitState(t, d.Name, time.Minute, device.Available)
			provider := contract.DeviceUUID(d.Name)
			c.raiseTotal(t, provider)
			c.requireWithheld(t, d, provider)
		},
	})
}

// retiredWhileLowered has a device given up as lost while the write that offers it again is
// on its way. No instance has the device afterwards, and its bytes are not checked any more.
func (c *Cloud) retiredWhileLowered(name string, loseAnswer bool) func(*testing.T) {
	return func(t *testing.T) {
		d := c.Device(t, "block", c.Host+"-"+name, 2*MiB, 0) // not watched: the write that is held does offer it
		c.Enroll(t, d, "--provide")
		c.AwaitState(t, d.Name, time.Minute, device.Available)
		provider := contract.DeviceUUID(d.Name)
		c.Bind(t, d.Name, "one")
		d.Stamp(t, 1)
		c.awaitIdle(t, d.Name)
		put := c.hold(t, provider, 2, loseAnswer) // the first write of a clean reserves
		c.Unbind(t, d.Name, "one")
		put.await(t)
		c.RequireStock(t, provider, 1)
		c.Must(t, "retire", d.Name, "--lost", "--reason", "pulled out")
		d.Stamp(t, 2)
		before := len(c.Recorder.Exchanges())
		put.release()

		var writes []int // the values of reserved, in their order
		Await(t, 10*time.Second, "the device to be reserved again", func() (bool, string) {
			writes = c.reservedSince(provider, before)
			return len(writes) >= 2 && c.Stock(t, provider)[1] == 1, fmt.Sprint(writes)
		})
		// The held write lowered it, and the next one raised it; or an earlier one had voided it.
		require.NotContains(t, writes[1:], 0)
		v := c.Show(t, d.Name)
		require.Equal(t, device.Retired, v.DeviceState)
		require.True(t, v.Dirty)
		require.Error(t, c.Nova.Allocate(t.Context(), provider, uuid.NewString()))
		d.RequireStamps(t, 2)
	}
}

// reservedSince gives the values of reserved that a provider was given by Burnish in the
// accepted writes after the first so many exchanges.
func (c *Cloud) reservedSince(provider string, exchanges int) (values []int) {
	all := c.Recorder.Exchanges()[exchanges:]
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.writes {
		if w.UUID == provider &&
			slices.ContainsFunc(all, func(e openstack.Exchange) bool { return e.Began.Equal(w.By.Began) }) {
			values = append(values, w.Reserved)
		}
	}
	return values
}

// unboundWhileReserved has a former tenant unbind while the write of its second binding is
// on its way: it ends that binding.
func (c *Cloud) unboundWhileReserved(t *testing.T) {
	d := c.OwnDevice(t, c.Host+"-unbound", 2*MiB)
	c.Enroll(t, d, "--provide")
	c.AwaitState(t, d.Name, time.Minute, device.Available)
	provider := contract.DeviceUUID(d.Name)
	c.Bind(t, d.Name, "one")
	c.Unbind(t, d.Name, "one")
	c.AwaitState(t, d.Name, time.Minute, device.Available)
	require.Len(t, c.Show(t, d.Name).Cleans, 2)

	c.awaitIdle(t, d.Name)
	put := c.hold(t, provider, 1, false)
	both := make(chan int, 2)
	go func() { both <- c.Burnish(t, "bind", d.Name, "--instance", Instance("one")).Code }()
	put.await(t)
	earlier := c.accepted(t, d.Name, contract.VerbUnbind.Update())
	go func() { both <- c.Burnish(t, "unbind", d.Name, "--instance", Instance("one")).Code }()
	Await(t, 20*time.Second, "the unbind to be accepted", func() (bool, string) {
		return c.accepted(t, d.Name, contract.VerbUnbind.Update()) > earlier, ""
	})
	put.release()
	for range 2 {
		<-both // the bind may say that its binding has ended
	}
	v := c.AwaitDevice(t, d.Name, 20*time.Second, "to be cleaned and returned", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Available && len(v.Cleans) == 3
	})
	require.Nil(t, v.InstanceUUID)
	require.Empty(t, v.ClaimedBy)
	require.False(t, v.Dirty)
	require.Len(t, v.Bindings, 2, "the second binding was made, and ended")
	d.RequireZero(t)
	c.RequireStock(t, provider, 0)
}

// accepted counts the updates of a name that the device's newest run has accepted.
func (c *Cloud) accepted(t *testing.T, name, update string) (count int) {
	t.Helper()
	for _, e := range c.History(t, name, "") {
		if e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName() == update {
			count++
		}
	}
	return count
}

// usedAndFreedUnseen has a tenant use the device and leave it between two looks, without a
// trace but the provider's generation: Nova did not come to reserve it.
func (c *Cloud) usedAndFreedUnseen(t *testing.T) {
	d, provider := c.NovaDevice(t, "0000:01:00.0", 2*MiB)
	c.EnrollNovaDevice(t, d)
	require.Len(t, c.Show(t, d.Name).Cleans, 1)

	// Burnish's requests wait, so that no look falls in between; Nova's go past them.
	looks := make(chan struct{})
	undo := c.Recorder.Inject(openstack.Match{Path: "."}, openstack.Injection{Before: func() { <-looks }})
	nova, tenant := openstack.NewClient(c.Placement.URL), uuid.NewString()
	allocated := nova.Allocate(t.Context(), provider, tenant)
	d.Stamp(t, 1)
	left := nova.Deallocate(t.Context(), provider, tenant)
	undo()
	close(looks)
	require.NoError(t, allocated)
	require.NoError(t, left)

	v := c.AwaitDevice(t, d.Name, 20*time.Second, "to be cleaned", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Available && len(v.Cleans) == 2
	})
	require.Empty(t, v.Bindings, "the tenant was not observed")
	d.RequireZero(t)
	c.RequireStock(t, provider, 0)
	c.awaitSweeps(t, 4)
	v = c.Show(t, d.Name)
	require.Equal(t, device.Available, v.DeviceState)
	require.Len(t, v.Cleans, 2, "it was cleaned once")
	c.RequireStock(t, provider, 0)
}

// awaitSweeps waits for so many more sweeps of the whole inventory.
func (c *Cloud) awaitSweeps(t *testing.T, more int) {
	t.Helper()
	from := c.State(t).FullRuns
	Await(t, 20*time.Second, "more sweeps", func() (bool, string) { return c.State(t).FullRuns >= from+more, "" })
}

// raiseTotal gives an unused provider a second unit, both free.
func (c *Cloud) raiseTotal(t *testing.T, provider string) { c.stock(t, provider, 2, 0) }

// stock writes a provider's inventory as an operator may.
func (c *Cloud) stock(t *testing.T, provider string, total, reserved int) {
	t.Helper()
	has, err := c.Nova.Inventory(t.Context(), provider)
	require.NoError(t, err)
	status, text, err := c.Nova.Do(t.Context(), http.MethodPut, "/resource_providers/"+provider+"/inventories/"+has.Class,
		map[string]any{"resource_provider_generation": has.Generation, "total": total, "reserved": reserved, "max_unit": 1},
		nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
}

// requireWithheld asserts that a device with two units is cleaned and never offered, that its
// the operator sees why, once, and that it is offered again with one unit.
func (c *Cloud) requireWithheld(t *testing.T, d Device, provider string) {
	t.Helper()
	shown := func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Error && v.Fault == string(device.CodeInventoryInvalid)
	}
	v := c.AwaitDevice(t, d.Name, 20*time.Second, "to be withheld", shown)
	cleans := len(v.Cleans)
	c.awaitSweeps(t, 4)
	// show may be answered by the listing, without cleans
	v = c.AwaitStatus(t, d.Name, time.Second, "to be withheld still", shown)
	require.True(t, v.NeedsOperator)
	require.Contains(t, v.LastError, "total 2")
	require.Contains(t, v.Remedy, "total to 1")
	require.Len(t, v.Cleans, cleans, "it is not cleaned again and again")
	require.Equal(t, [2]int{2, 2}, c.Stock(t, provider))
	require.Equal(t, inventory.Conflict(provider, c.generation(t, provider)),
		c.Nova.Allocate(t.Context(), provider, uuid.NewString()), "no instance gets it")
	later := 0
	for _, e := range c.Recorder.Exchanges() {
		if !e.ByScheduler && e.Provider() == provider && e.Method == http.MethodPut &&
			e.Began.After(v.UpdatedAt.Add(time.Second)) {
			later++
		}
	}
	require.LessOrEqual(t, later, 1, "a return that is refused reserves once more, and then nothing is written")
	c.stock(t, provider, 1, 1)
	// Not waited for: of a provider of Burnish's own the clean may find that somebody wrote it, before
	// the device has read it. It stays its operator's then, and says so.
	c.Must(t, "clean", d.Name)
	lost := func(v contract.DeviceStatus) bool {
		return strings.Contains(v.LastError, "has not taken place; provide "+d.Name)
	}
	v = c.AwaitStatus(t, d.Name, 20*time.Second, "to be cleaned, or to say that it was not",
		func(v contract.DeviceStatus) bool {
			return v.DeviceState == device.Available || v.DeviceState == device.Manageable && lost(v)
		})
	if lost(v) {
		c.Must(t, "provide", d.Name)
	}
	v = c.AwaitState(t, d.Name, 20*time.Second, device.Available)
	require.False(t, lost(v), "what was said is over")
	d.RequireZero(t)
	c.RequireStock(t, provider, 0)
}

func (c *Cloud) generation(t *testing.T, provider string) int64 {
	t.Helper()
	has, err := c.Nova.Inventory(t.Context(), provider)
	require.NoError(t, err)
	return has.Generation
}

// held is a request that does not reach Placement before it is released.
type held struct {
	arrived chan struct{}
	release func()
}

// hold holds the nth write from now on to a provider's inventories; what it does may not be
// answered.
func (c *Cloud) hold(t *testing.T, provider string, nth int, loseAnswer bool) held {
	t.Helper()
	arrived, released := make(chan struct{}), make(chan struct{})
	h := held{arrived: arrived, release: sync.OnceFunc(func() { close(released) })}
	undo := c.Recorder.Inject(openstack.Match{Method: http.MethodPut, Path: provider + "/inventories", Nth: nth},
		openstack.Injection{
			Before: func() { close(arrived); <-released }, LoseAnswer: loseAnswer,
		})
	t.Cleanup(func() { h.release(); undo() })
	return h
}

// await waits until the request is there.
func (h held) await(t *testing.T) {
	t.Helper()
	select {
	case <-h.arrived:
	case <-time.After(patience * 20 * time.Second):
		t.Fatal("the write did not come")
	}
}
