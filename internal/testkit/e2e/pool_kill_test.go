package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/workflows/contract"
)

// theAppliance is a victim beside those of a BMC's test.
const theAppliance victim = "the appliance"

// phase is what a server of a pool is in when something is killed.
type phase string

const (
	cleaning  phase = "cleaning"  // for the first time, with a temporary profile
	binding   phase = "binding"   // to a tenant, who gets a profile
	returning phase = "returning" // from a tenant, whose profile is removed
)

// poolStrike is one kill -9 at one request to an appliance: at the one of this method and path,
// of which there were skip before in this phase. With after, the request has its effect first.
type poolStrike struct {
	victim victim
	phase  phase
	method string
	path   string
	skip   int
	after  bool
	// on: the server is on before, and must be switched off. expired: the worker's session has
	// ended. taken: another user takes the server just before the request.
	on, expired, taken bool
}

func (k poolStrike) String() string {
	moment := "before"
	if k.after {
		moment = "after"
	}
	text := strings.TrimSpace(fmt.Sprintf("%s while %s, %s %s number %d %s", k.victim, k.phase, moment, k.method,
		k.skip+1, k.path))
	if k.taken {
		text += ", taken"
	}
	return text
}

// faults are the strike for an appliance. A request of a worker that is to be killed hangs until
// the worker is gone; that of a server waits until the server is back.
func (k poolStrike) faults() []oneviewsim.Fault {
	f := oneviewsim.Fault{Method: k.method, Path: k.path, Skip: k.skip, Kind: oneviewsim.HangBefore}
	switch {
	case k.victim == theServer:
		f.Kind = oneviewsim.HoldAfter
	case k.victim == theWorker && k.after:
		f.Kind = oneviewsim.HangAfter
	case k.victim == theAppliance && k.after:
		f.Kind = oneviewsim.ExitAfter
	case k.victim == theAppliance:
		f.Kind = oneviewsim.ExitBefore
	}
	if !k.taken {
		return []oneviewsim.Fault{f}
	}
	take := f
	take.Kind, take.Server = oneviewsim.TakeBefore, "server-1"
	return []oneviewsim.Fault{take, f}
}

// poolKinds are the requests of a server's life that change something, and some that read, each with
// whom is killed at it.
var poolKinds = []poolStrike{
	{victim: theServer, phase: cleaning, method: http.MethodPost, path: logins, expired: true},
	{victim: theWorker, phase: cleaning, method: http.MethodPost, path: profilePosts},
	{victim: theAppliance, phase: cleaning, method: http.MethodGet, path: taskReads},
	{victim: theAppliance, phase: cleaning, method: http.MethodDelete, path: profileOne},
	{victim: theServer, phase: binding, method: http.MethodGet, path: "/rest/server-hardware/*"},
	{victim: theWorker, phase: binding, method: http.MethodPut, path: powerPuts, on: true},
	{victim: theAppliance, phase: binding, method: http.MethodPost, path: profilePosts},
	{victim: theWorker, phase: binding, method: http.MethodPost, path: profilePosts, taken: true},
	{victim: theServer, phase: binding, method: http.MethodGet, path: taskReads},
	{victim: theAppliance, phase: returning, method: http.MethodPut, path: powerPuts, on: true},
	{victim: theWorker, phase: returning, method: http.MethodDelete, path: profileOne},
	{victim: theServer, phase: returning, method: http.MethodGet, path: taskReads},
}

// poolStrikes are those of one victim, before and after its kinds of requests. Before and after
// are the same for a read, and for the server, which sees no request, only time.
func poolStrikes(v victim) (all []poolStrike) {
	for _, k := range poolKinds {
		if k.victim != v {
			continue
		}
		if all = append(all, k); k.method != http.MethodGet && v != theServer {
			k.after = true
			all = append(all, k)
		}
	}
	return all
}

// Whatever is killed, worker, server or appliance, before or after whatever kind of request that applies
// or removes a profile: everything goes on by itself to the right end. No profile of Burnish's is
// left without a record and none recorded that is not there, no server ever has two, and neither
// the profile nor the power of another user's server is touched.
func TestKillAtEachKindOfRequestToAnAppliance(t *testing.T) {
	t.Parallel()
	for _, v := range []victim{theWorker, theAppliance, theServer} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			on := newSite
			if v == theServer {
				on = ownServer
			}
			all := poolStrikes(v)
			k := newKills(t, on(t), len(all))
			k.strike(t, all)
		})
	}
}

// kills is a site whose servers have an appliance each, so that each may be struck at a request
// of its own.
type kills struct {
	*poolSite
	worker *Worker
	mu     sync.Mutex
}

func newKills(t *testing.T, on *Site, n int) *kills {
	t.Helper()
	k := &kills{poolSite: newPoolSite(t, on, nil)}
	for i := range n {
		a := k.addAppliance(t, appliance(i), oneviewsim.Servers(2), func(_ *oneviewsim.Config, state *oneviewsim.State) {
			state.Hardware[0].Serial = fmt.Sprintf("RACK%dSERVER1", i+1)
		})
		require.NoError(t, a.Take("server-2"))
	}
	k.worker = k.Run(t, "all", k.env("BURNISH_MAX_CLEANS_PER_HOST=64")...)
	return k
}

func appliance(i int) string { return fmt.Sprintf("rack%d", i+1) }

// of is the appliance of a device: their names have the same number.
func (k *kills) of(name string) string { return "rack" + strings.TrimPrefix(name, "node-") }

// prepare brings the device on the server of appliance i to where the strike's phase begins.
func (k *kills) prepare(t *testing.T, i int, s poolStrike) (name string) {
	t.Helper()
	rack := appliance(i)
	name = fmt.Sprintf("node-%d", i+1)
	k.enroll(t, k.shared(t, name, rack, "server-1", true))
	if s.phase != cleaning {
		k.begin(t, name, cleaning)
		k.end(t, name, poolStrike{phase: cleaning})
	}
	if s.phase == returning {
		k.begin(t, name, binding)
		k.awaitBound(t, name)
	}
	if s.on {
		// Power that others change would have an available server cleaned again.
		k.mu.Lock()
		k.configure(t, rack, map[string]any{"ignore_etags": true})
		k.mu.Unlock()
		require.NoError(t, k.appliances[rack].SetPower("server-1", oneviewsim.On))
	}
	if s.expired {
		require.NoError(t, k.appliances[rack].ExpireSessions())
	}
	return name
}

// begin asks for what the phase is about.
func (k *kills) begin(t *testing.T, name string, p phase) {
	t.Helper()
	k.retry(t, string(p)+" "+name, func(ctx context.Context) (err error) {
		switch p {
		case cleaning:
			_, err = k.Workflows().Do(ctx, name, contract.VerbProvide, contract.ReasonInput{})
		case returning:
			_, err = k.Workflows().Send(ctx, name, contract.VerbUnbind, contract.UnbindInput{Instance: Instance(name)})
		case binding: // the answer comes when the profile is applied: see bound
		}
		return err
	})
}

// bound repeats the request for the device until it is answered, as a client does that is killed
// or cut off, and reports whether the tenant got it.
func (k *kills) bound(t *testing.T, name string) (lost bool) {
	t.Helper()
	k.retry(t, "bind "+name, func(ctx context.Context) error {
		_, err := k.Workflows().Send(ctx, name, contract.VerbBind,
			contract.BindInput{Instance: Instance(name), Request: name})
		// which may be slow on a busy machine
		if r, ok := contract.RefusalOf(err); ok && r.Fault.Code != device.CodeApplianceUnreachable {
			lost = r.Fault.Code == device.CodeServerTaken || r.Fault.Code == device.CodeRefused
			require.True(t, lost, "%s: %v", name, err)
			return nil
		}
		return err
	})
	return lost
}

func (k *kills) awaitBound(t *testing.T, name string) {
	t.Helper()
	require.False(t, k.bound(t, name), name)
	v := k.awaitState(t, name, time.Minute, device.Allocated)
	k.requireUsed(t, v, k.of(name), "server-1")
}

// strike takes each of these servers through its phase once, and kills the victim when each is at
// its request.
func (k *kills) strike(t *testing.T, all []poolStrike) {
	t.Helper()
	names, binds := make([]string, len(all)), make([]chan bool, len(all))
	each(t, all, func(i int, s poolStrike) {
		names[i] = k.prepare(t, i, s)
		for _, f := range s.faults() {
			require.NoError(t, k.appliances[appliance(i)].Inject(f))
		}
	})
	each(t, all, func(i int, s poolStrike) {
		k.begin(t, names[i], s.phase)
		if s.phase == binding {
			binds[i] = make(chan bool, 1)
			go func() { binds[i] <- k.bound(t, names[i]) }()
		}
		k.awaitStruck(t, names[i], s)
	})
	switch all[0].victim {
	case theWorker:
		k.worker.Kill(t)
		k.worker.Start(t)
	case theServer:
		require.NoError(t, k.Server.Kill())
		require.NoError(t, k.Server.Start(t.Context()))
	}
	each(t, all, func(i int, s poolStrike) {
		require.NoError(t, k.appliances[appliance(i)].ClearFaults())
		if s.phase == binding {
			require.Equal(t, s.taken, <-binds[i], "%s: it lost the race: %s", names[i], s)
		}
		k.end(t, names[i], s)
	})
}

// awaitStruck waits until the device is at its request. An appliance that has ended is back then.
func (k *kills) awaitStruck(t *testing.T, name string, s poolStrike) {
	t.Helper()
	a, came := k.appliances[k.of(name)], false
	Await(t, time.Minute, name+" to come to: "+s.String(), func() (bool, string) {
		if !a.Alive() {
			return true, ""
		}
		requests, err := a.Requests()
		came = came || s.victim != theAppliance && slices.ContainsFunc(requests[max(0, len(requests)-3):],
			func(r oneviewsim.Request) bool { return len(r.Faults) > 0 })
		return came, fmt.Sprint(err)
	})
	if !a.Alive() {
		_, err := a.Wait(time.Minute)
		require.NoError(t, err)
		require.NoError(t, a.Restart(t.Context()))
	}
}

// end waits until the device's life goes on as it should, and asserts what is left of it.
func (k *kills) end(t *testing.T, name string, s poolStrike) {
	t.Helper()
	rack := k.of(name)
	switch {
	case s.taken:
		k.AwaitStatus(t, name, time.Minute, "to have lost the race", func(v contract.DeviceStatus) bool {
			return v.DeviceState == device.Error && v.Pool.LostRace
		})
		k.RequireReserved(t, name, 1)
		k.requireRules(t, rack)
		k.lookNow(t, rack)
		k.requireMaintained(t, name)
		require.NoError(t, k.appliances[rack].Free("server-1"))
		k.lookNow(t, rack)
	case s.phase == binding:
		k.awaitBound(t, name)
		v := k.Show(t, name)
		k.requireRules(t, rack, v.Pool.Profile)
		k.begin(t, name, returning)
	}
	v := k.requireIdle(t, name, rack, "server-1")
	k.requireRules(t, rack)
	require.Equal(t, "cleaned", v.Cleans[len(v.Cleans)-1].Outcome, name)
}
