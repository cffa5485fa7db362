package oneview

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
)

// disturbance is one way in which a call is disturbed at one request.
type disturbance struct {
	name string
	// fault happens to the request; without a kind the worker is killed, before it sends the
	// request or after the appliance has answered it.
	fault oneviewsim.Fault
	after bool
	// change: only at requests that change something.
	change bool
}

func disturbances() []disturbance {
	task := func(name string, f oneviewsim.TaskFault) disturbance {
		return disturbance{name: name, change: true, fault: oneviewsim.Fault{Kind: oneviewsim.ForTask, Task: f}}
	}
	other := func(kind oneviewsim.FaultKind) disturbance {
		return disturbance{name: string(kind), fault: oneviewsim.Fault{Kind: kind, Server: "server-1"}}
	}
	all := []disturbance{
		{name: "killed before"}, {name: "killed after", change: true, after: true},
		{name: "not received", change: true, fault: oneviewsim.Fault{Kind: oneviewsim.CutBefore}},
		{name: "answer lost", fault: oneviewsim.Fault{Kind: oneviewsim.CutAfter}},
		{name: "answer cut", change: true, fault: oneviewsim.Fault{Kind: oneviewsim.CutWithin}},
		{name: "answer garbled", fault: oneviewsim.Fault{Kind: oneviewsim.Garbled}},
		{name: "401", fault: oneviewsim.Unauthorized(oneviewsim.Fault{})},
		{name: "503", fault: oneviewsim.Unavailable(oneviewsim.Fault{})},
		{name: "503 after the act", change: true, fault: oneviewsim.Fault{Kind: oneviewsim.RespondAfter, Status: http.StatusServiceUnavailable}},
		{name: "409", change: true, fault: oneviewsim.Conflict(oneviewsim.Fault{})},
		{name: "412", change: true, fault: oneviewsim.Mismatch(oneviewsim.Fault{})},
		{name: "400 after the act", change: true, fault: oneviewsim.Fault{Kind: oneviewsim.RespondAfter, Status: http.StatusBadRequest}},
		other(oneviewsim.TakeBefore), other(oneviewsim.TakeAfter), other(oneviewsim.FreeBefore), other(oneviewsim.FreeAfter),
		task("task never ends", oneviewsim.TaskFault{Stalls: true}),
		task("task vanishes", oneviewsim.TaskFault{Vanishes: true}),
		task("task with a warning", oneviewsim.TaskFault{Ends: oneviewsim.Warning}),
		task("task completed without effect", oneviewsim.TaskFault{Ends: oneviewsim.Completed, Effect: oneviewsim.NoEffect}),
		task("task interrupted", oneviewsim.TaskFault{Shows: "Interrupted"}),
		task("task unknown", oneviewsim.TaskFault{Shows: "Unknown"}),
	}
	for _, effect := range []oneviewsim.Effect{oneviewsim.NoEffect, oneviewsim.HalfDone, oneviewsim.Done} {
		all = append(all, task("task failed, "+string(effect), oneviewsim.TaskFault{Ends: oneviewsim.Error, Effect: effect}))
	}
	return append(all, task("task terminated", oneviewsim.TaskFault{Ends: oneviewsim.Terminated}),
		task("task killed", oneviewsim.TaskFault{Ends: oneviewsim.Killed}))
}

// killer cancels the call at one of its requests: the one by a method, or the left-th.
type killer struct {
	http.RoundTripper
	method string
	left   int
	after  bool
	kill   context.CancelFunc
}

func (k *killer) RoundTrip(r *http.Request) (*http.Response, error) {
	k.left--
	if k.left != 0 && k.method != r.Method {
		return k.RoundTripper.RoundTrip(r)
	}
	if k.after {
		answer, err := k.RoundTripper.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		if err == nil {
			err = answer.Body.Close()
		}
		k.kill()
		if err != nil {
			return nil, err
		}
		return nil, context.Canceled
	}
	k.kill()
	return nil, context.Canceled
}

// ordeal is a call on one server, in the state that prepare leaves.
type ordeal struct {
	name    string
	removes bool
	prepare func(r *rig)
}

var ordeals = []ordeal{
	{"apply", false, func(*rig) {}},
	{"apply to a server that is on", false, func(r *rig) { require.NoError(r, r.sim.SetPower("server-1", oneviewsim.On)) }},
	{"apply again after a crash", false, func(r *rig) { r.crash(oneviewsim.TaskFault{}) }},
	{"apply again after a failure", false, (*rig).fail},
	{"apply where the recorded profile is not on the server", false, func(r *rig) {
		_, err := r.apply()
		require.NoError(r, err)
		r.sim.Change(func(s *oneviewsim.State) {
			s.Profiles[0].Hardware, s.Hardware[0].Profile, s.Hardware[0].State = "", "", oneviewsim.NoProfileApplied
		})
	}},
	{"remove", true, func(r *rig) {
		_, err := r.apply()
		require.NoError(r, err)
	}},
	{"remove from a server that is on", true, func(r *rig) {
		_, err := r.apply()
		require.NoError(r, err)
		require.NoError(r, r.sim.SetPower("server-1", oneviewsim.On))
	}},
	{"remove after a crash", true, func(r *rig) { r.crash(oneviewsim.TaskFault{}) }},
	{"remove after a failure", true, (*rig).fail},
	{"remove a profile that is not on the server", true, func(r *rig) {
		r.crash(oneviewsim.TaskFault{})
		r.hurry()
		r.sim.Change(func(s *oneviewsim.State) {
			s.Profiles[0].Hardware, s.Hardware[0].Profile, s.Hardware[0].State = "", "", oneviewsim.NoProfileApplied
		})
		require.NoError(r, r.sim.Take("server-1"))
	}},
}

// crash applies a profile, and ends when the appliance has accepted it.
func (r *rig) crash(how oneviewsim.TaskFault) {
	r.Helper()
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodPost, Path: profilesPath, Kind: oneviewsim.ForTask, Task: how})
	r.server.Applying = true
	err := r.killed(false, killer{method: http.MethodPost, after: true})
	require.ErrorIs(r, err, context.Canceled)
}

// fail is a crash, and the profile's task has failed when the next call begins.
func (r *rig) fail() {
	r.crash(oneviewsim.TaskFault{Ends: oneviewsim.Error})
	r.hurry()
}

// hurry ends what the appliance does.
func (r *rig) hurry() {
	r.sim.Hurry() // it begins
	r.sim.Hurry()
}

// killed is a call that is killed.
func (r *rig) killed(removes bool, k killer) error {
	ctx, kill := context.WithCancel(r.Context())
	defer kill()
	s := r.pools.sessions["rack1"]
	whole := s.http.Transport
	defer func() { s.http.Transport = whole }()
	k.RoundTripper, k.kill = whole, kill
	s.http.Transport = &k
	call := r.pools.Apply
	if removes {
		call = r.pools.Remove
	}
	_, err := call(ctx, "rack1", r.server, nil)
	return err
}

// ordealRig is a rig in which everything is fast.
func ordealRig(t *testing.T, o ordeal) *rig {
	r := newRig(t, oneviewsim.Servers(1), func(c *oneviewsim.Config, _ *oneviewsim.State) {
		// Who takes the server at the very request that was sent to a free one is not noticed.
		c.TakenStayOff = true
		d := &c.Delays
		d.Accept, d.Apply, d.Remove, d.PowerOff, d.Shutdown = time.Millisecond, 2*time.Millisecond, 2*time.Millisecond,
			time.Millisecond, time.Millisecond
	})
	r.rewrite(fileOf(r.sim, "    apply_timeout: 1\n"))
	_, err := r.read()
	require.NoError(t, err)
	o.prepare(r)
	return r
}

func (o ordeal) call(r *rig) (Found, error) {
	if o.removes {
		return r.remove()
	}
	return r.apply()
}

// requireEnd calls again until the goal is reached, as Temporal and the operator do, and checks
// what must be true after every call, however it was disturbed.
func (o ordeal) requireEnd(r *rig, err error) {
	r.Helper()
	r.sim.ClearFaults()
	theirs := func() []oneviewsim.Profile { return r.sim.Profiles("other-tenant") }
	for calls := 1; ; calls++ {
		f, isFault := device.AsFault(err)
		switch {
		case err == nil && (o.removes || r.hardware().Profile == r.server.Recorded || len(theirs()) > 0):
			ours := r.sim.Profiles(r.sim.Username)
			switch {
			case o.removes:
				require.Empty(r, ours)
			case r.hardware().Profile == r.server.Recorded:
				require.Len(r, ours, 1)
				require.Equal(r, r.server.Recorded, ours[0].URI())
				require.Equal(r, oneviewsim.Normal, ours[0].State)
			}
			return
		case isFault && f.Code == device.CodeServerTaken:
			require.NotEmpty(r, theirs())
			require.False(r, o.removes)
			found, err := r.remove() // what was recorded, and is not on the server
			require.NoError(r, err)
			require.Equal(r, device.PoolTaken, found.Ownership)
			require.Empty(r, r.sim.Profiles(r.sim.Username))
			return
		case isFault && f.Code == device.CodeProfileStuck:
			r.sim.Resume()
		}
		require.Less(r, calls, 5, "%v", err)
		_, err = o.call(r)
	}
}

// Every request of every call is lost, refused or raced once; then another call ends right, and
// nothing of another user was touched.
//
// S4.13, S4.23, S4.26
func TestACallThatIsDisturbedAnywhereEndsRightTheNextTime(t *testing.T) {
	type job struct {
		name string
		run  func(t *testing.T)
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range 16 { // they wait most of the time
		workers.Go(func() {
			for j := range jobs {
				t.Run(j.name, j.run)
			}
		})
	}
	for _, o := range ordeals {
		r := ordealRig(t, o)
		before := r.sim.Count()
		_, err := o.call(r)
		require.NoError(t, err)
		o.requireEnd(r, nil)
		require.Empty(t, r.sim.Violations())
		all := r.sim.Requests()[before:]
		last := ""
		for i, request := range all {
			what := request.Method + " " + request.Path
			if strings.HasPrefix(request.Path, tasksPath) && what == last {
				continue // it is waited for
			}
			last = what
			for _, d := range disturbances() {
				write := request.Method != http.MethodGet
				if d.change && !write {
					continue
				}
				switches := strings.HasSuffix(request.Path, "/powerState")
				follows := i+1 < len(all) && strings.HasSuffix(all[i+1].Path, "/powerState")
				if switches && d.fault.Kind == oneviewsim.TakeBefore || follows && d.fault.Kind == oneviewsim.TakeAfter {
					continue // between the look and the request no appliance helps
				}
				jobs <- job{fmt.Sprintf("%s/%d %s/%s", o.name, i+1, what, d.name), func(t *testing.T) { o.disturb(t, i+1, d) }}
			}
		}
	}
	close(jobs)
	workers.Wait()
}

// disturb disturbs the n-th request of a call.
func (o ordeal) disturb(t *testing.T, n int, d disturbance) {
	r := ordealRig(t, o)
	if d.fault.Kind != "" {
		d.fault.Number = r.sim.Count() + n
		r.sim.Inject(d.fault)
		_, err := o.call(r)
		o.requireEnd(r, err)
	} else {
		r.server.Applying = r.server.Applying || !o.removes
		err := r.killed(o.removes, killer{left: n, after: d.after})
		if err == nil {
			err = context.Canceled // what the appliance answered was not recorded
		}
		o.requireEnd(r, err)
	}
	require.Empty(t, r.sim.Violations())
}
