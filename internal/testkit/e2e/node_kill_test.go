package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
	"burnish/workflows/contract"
)

// victim is what a round kills.
type victim string

const (
	theWorker victim = "the worker"
	theServer victim = "the server"
	theBMC    victim = "the BMC"
)

// strike is one kill -9 at one request of a clean: at the one of this method and path, of which
// there were skip before. With after, the request has its effect first.
type strike struct {
	victim victim
	method string
	path   string // as that of a fault; empty: any
	skip   int
	after  bool
	// maybeLost: the request erases a drive or writes firmware. Where the answer to it is lost,
	// the operator may have to look.
	maybeLost bool
	// login: the request is one. A session whose login got no answer is left to the BMC's own time-out.
	login bool
}

func (k strike) String() string {
	moment := "before"
	if k.after {
		moment = "after"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s number %d %s", k.victim, moment, k.method, k.skip+1, k.path))
}

// afterwards is the same strike once the request has had its effect.
func (k strike) afterwards() strike {
	k.after = true
	return k
}

// fault is the strike for a BMC. A request of a worker that is to be killed hangs until the
// worker is gone; that of a server waits until the server is back.
func (k strike) fault() redfishsim.Fault {
	f := redfishsim.Fault{Method: k.method, Path: k.path, Skip: k.skip, Kind: redfishsim.HangBefore}
	switch {
	case k.victim == theServer:
		f.Kind = redfishsim.HoldAfter
	case k.victim == theWorker && k.after:
		f.Kind = redfishsim.HangAfter
		if k.path == sessions {
			f.Times = -1
		}
	case k.victim == theBMC && k.after:
		f.Kind = redfishsim.ExitAfter
	case k.victim == theBMC:
		f.Kind = redfishsim.ExitBefore
	case k.path == sessions:
		f.Times = -1 // a login gives up sooner than the slowest server comes to its request
	}
	return f
}

// sessions matches the login and the logout.
const sessions = "/redfish/v1/SessionService/Sessions*"

// kinds are the requests that a clean of a server takes, each with whom every run kills at it. An
// erase and an update may be lost.
var kinds = []strike{
	{victim: theWorker, method: http.MethodPost, path: sessions, login: true},
	{victim: theServer, method: http.MethodGet, skip: 60},
	{victim: theBMC, method: http.MethodPost, path: "*/ComputerSystem.Reset"},
	{victim: theBMC, method: http.MethodPost, path: "*/Bios.ResetBios"},
	{victim: theWorker, method: http.MethodPatch, path: "*/Bios/Settings"},
	{victim: theWorker, method: http.MethodPost, path: "*/Drive.SecureErase", maybeLost: true},
	{victim: theBMC, method: http.MethodPost, path: "/redfish/v1/UpdateService/*", maybeLost: true},
	{victim: theServer, method: http.MethodDelete, path: sessions},
}

// strikesOfEachKind are those of one victim, before and after its kinds of requests. Before and
// after are the same for a read, which has no effect, and for the server, which sees no request,
// only time.
func strikesOfEachKind(v victim) (all []strike) {
	for _, k := range kinds {
		if k.victim != v {
			continue
		}
		if all = append(all, k); k.method != http.MethodGet && v != theServer {
			all = append(all, k.afterwards())
		}
	}
	return all
}

// strikesOfEach are those of one victim at each request of a clean that takes these.
func strikesOfEach(v victim, clean []redfishsim.Request) []strike {
	var first, others []strike
	seen := map[string]int{}
	for _, r := range clean {
		k := strike{victim: v, method: r.Method, skip: seen[r.Method]}
		k.maybeLost = r.Method != http.MethodGet &&
			(strings.Contains(r.Path, "SecureErase") || strings.Contains(r.Path, "UpdateService"))
		seen[r.Method]++
		k.login = r.Method == http.MethodPost && strings.Contains(strings.ToLower(r.Path), "/sessions")
		switch {
		case r.Method == http.MethodGet || v == theServer:
			others = append(others, k)
		case k.maybeLost:
			first = append(first, k, k.afterwards()) // together: each may take the driver a minute
		default:
			others = append(others, k, k.afterwards())
		}
	}
	return append(first, others...)
}

// Whatever is killed, worker, server or BMC, before or after whatever request of a clean: the
// clean goes on by itself to available, and nothing is done that could harm the server.
//
// Every run kills one of the three at each kind of request; BURNISH_KILLS=all, as in
// `make soak`, each of them at each request of all personalities.
func TestKillAtEveryRequestToABMC(t *testing.T) {
	t.Parallel()
	for _, v := range []victim{theWorker, theBMC, theServer} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			s := newSite
			if v == theServer {
				s = ownServer
			}
			if os.Getenv("BURNISH_KILLS") == "all" {
				killAtEachRequest(t, s(t), v)
			} else {
				killAtEachKind(t, s(t), v)
			}
		})
	}
}

// killAtEachKind strikes as many new servers at once, so that the driver's waits overlap, in
// their first clean.
func killAtEachKind(t *testing.T, site *Site, v victim) {
	t.Helper()
	all := strikesOfEachKind(v)
	s := newNodeSite(t, site, slices.Repeat([]redfishsim.Personality{redfishsim.IDRAC}, len(all)))
	w := s.Run(t, "all", s.env("BURNISH_MAX_CLEANS_PER_HOST=64")...)
	chosen := map[string]strike{}
	for i, name := range slices.Sorted(maps.Keys(s.nodes)) {
		chosen[name] = all[i]
	}
	s.eachNode(t, slices.Sorted(maps.Keys(s.nodes)), func(name string) { s.enroll(t, name) })
	require.Equal(t, len(all), s.strike(t, w, v, chosen, ""), "kills")
}

// killAtEachRequest strikes the servers of all personalities in turn, round by round.
func killAtEachRequest(t *testing.T, site *Site, v victim) {
	t.Helper()
	personalities := slices.Repeat([]redfishsim.Personality{redfishsim.IDRAC}, 6)
	s := newNodeSite(t, site, append(personalities, redfishsim.Personalities[1:]...))
	s.writePolicy(t, redfishsim.ILO) // which has no task for an update: after a kill the driver waits for half an hour
	w := s.Run(t, "all", s.env("BURNISH_MAX_CLEANS_PER_HOST=64")...)
	names := slices.Sorted(maps.Keys(s.nodes))
	s.eachNode(t, names, func(name string) { s.enroll(t, name, "--provide") })
	s.eachNode(t, names, func(name string) { s.awaitAvailable(t, name, 2*time.Minute) })

	// One clean of each personality without a kill says which requests there are.
	clean := map[redfishsim.Personality][]redfishsim.Request{}
	var lock sync.Mutex
	s.eachNode(t, names, func(name string) {
		one := s.nodes[name]
		before := len(one.requests(t))
		s.turn(t, name, "first")
		s.awaitAvailable(t, name, 2*time.Minute)
		lock.Lock()
		defer lock.Unlock()
		clean[one.personality] = one.requests(t)[before:]
	})
	began, struck, waiting := time.Now(), 0, map[redfishsim.Personality][]strike{}
	for _, p := range redfishsim.Personalities {
		t.Logf("%s: %d requests in a clean", p, len(clean[p]))
		waiting[p] = strikesOfEach(v, clean[p])
	}
	for round := 0; ; round++ {
		chosen := map[string]strike{}
		for _, name := range names {
			p := s.nodes[name].personality
			if len(waiting[p]) > 0 {
				chosen[name], waiting[p] = waiting[p][0], waiting[p][1:]
			}
		}
		if len(chosen) == 0 {
			break
		}
		struck += s.strike(t, w, v, chosen, fmt.Sprintf("%s %d", v, round))
	}
	t.Logf("%s: killed at %d requests, in %.0f s", v, struck, time.Since(began).Seconds())
}

// strike cleans each of these servers once, after this tenant, or for the first time where there
// is none, and kills v while each of them is at its request. It returns how many came to theirs: a
// clean may take fewer requests than the last.
func (s *nodeSite) strike(t *testing.T, w *Worker, v victim, chosen map[string]strike, tenant string) (struck int) {
	t.Helper()
	names := slices.Sorted(maps.Keys(chosen))
	before := map[string]redfishsim.State{}
	var lock sync.Mutex
	s.eachNode(t, names, func(name string) {
		if tenant != "" {
			s.bindFast(t, name, tenant)
		}
		s.awaitNoSession(t, name)
		one := s.nodes[name]
		one.used(t)
		state := one.state(t)
		lock.Lock()
		before[name] = state
		lock.Unlock()
		require.NoError(t, one.BMC.Inject(chosen[name].fault()))
	})
	faulted := map[string]int{}
	for _, name := range names {
		counts, err := s.nodes[name].BMC.Counts()
		require.NoError(t, err)
		faulted[name] = counts.Faulted
	}
	s.eachNode(t, names, func(name string) {
		if tenant != "" {
			s.unbindFast(t, name, tenant)
			return
		}
		_, err := s.Workflows().Do(t.Context(), name, contract.VerbProvide, contract.ReasonInput{})
		require.NoError(t, err)
	})
	s.eachNode(t, names, func(name string) {
		one := s.nodes[name]
		came := false
		Await(t, 2*time.Minute, fmt.Sprintf("%s to come to %s", name, chosen[name]), func() (bool, string) {
			counts, err := one.BMC.Counts()
			if came = err == nil && counts.Faulted > faulted[name]; came {
				return true, ""
			}
			v, err := s.Workflows().Query(t.Context(), name)
			return err == nil && (v.DeviceState == device.Available || v.DeviceState == device.Error),
				fmt.Sprint(v.DeviceState, counts, err)
		})
		if came && v == theBMC {
			_, err := one.BMC.Wait(time.Minute)
			require.NoError(t, err)
			require.NoError(t, one.BMC.Restart(t.Context()))
		}
		if came {
			lock.Lock()
			struck++
			lock.Unlock()
		}
	})
	switch v {
	case theWorker:
		w.Kill(t)
		w.Start(t)
	case theServer:
		require.NoError(t, s.Server.Kill())
		require.NoError(t, s.Server.Start(t.Context()))
	}
	s.eachNode(t, names, func(name string) {
		require.NoError(t, s.nodes[name].BMC.ClearFaults())
		k := chosen[name]
		again := s.awaitEnd(t, name, k)
		if k.login {
			require.NoError(t, s.nodes[name].BMC.Change(func(state *redfishsim.State) { state.Sessions = nil }))
		}
		after := s.requireClean(t, name)
		if !again {
			s.requireOnce(t, name, k, before[name], after)
		}
	})
	return struck
}

// awaitEnd waits until the server is available again. No image is sent twice in one clean: where the
// answer to it is lost, and reading does not show what has come of it, the clean ends with a fault that
// says so. So may an erase on an iLO, which shows it only while it runs. After a fault the operator's
// clean ends well; awaitEnd reports whether there was one.
func (s *nodeSite) awaitEnd(t *testing.T, name string, k strike) (again bool) {
	t.Helper()
	p := s.nodes[name].personality
	what := fmt.Sprintf("%s (%s) after the kill of %s", name, p, k)
	for ; ; again = true {
		var v contract.DeviceStatus
		Await(t, 2*time.Minute, what, func() (bool, string) {
			var err error
			v, err = s.Workflows().Query(t.Context(), name)
			return err == nil && (v.DeviceState == device.Available || v.DeviceState == device.Error),
				fmt.Sprint(v.DeviceState, v.LastError, err)
		})
		if v.DeviceState == device.Available {
			return again
		}
		unknown := p == redfishsim.ILO && v.Fault == string(device.CodeEraseUnknown) ||
			k.maybeLost && v.Fault == string(device.CodeFirmwareUnknown)
		require.True(t, unknown && !again, "%s: %s: %s", what, v.Fault, v.LastError)
		t.Logf("%s: %s", what, v.LastError)
		s.retry(t, "clean "+name, func(ctx context.Context) error {
			if err := s.Workflows().RequestClean(ctx, name, contract.CleanInput{}); err != nil {
				return err
			}
			v, err := s.Workflows().Query(ctx, name)
			if err == nil && v.DeviceState == device.Error {
				err = errors.New("not begun yet")
			}
			return err
		})
	}
}

// requireOnce asserts that no erase and no commit was repeated without need: the answer to
// one at most was lost.
func (s *nodeSite) requireOnce(t testing.TB, name string, k strike, before, after redfishsim.State) {
	t.Helper()
	erases := map[string]int{}
	for _, drive := range before.Drives() {
		erases[drive.Serial] = -drive.Erases
	}
	repeated := 0
	for _, drive := range after.Drives() {
		erases[drive.Serial] += drive.Erases
		repeated += erases[drive.Serial] - 1
	}
	require.LessOrEqual(t, repeated, 1, "%s, %s: erases: %v", name, k, erases)
	commits := len(after.Commits) - len(before.Commits)
	if repeated > 0 || commits > 1 {
		t.Logf("%s, %s: %d erases repeated, %d commits", s.nodes[name].personality, k, repeated, commits)
	}
	require.LessOrEqual(t, commits, 2, "%s, %s", name, k)
}

// bindFast and unbindFast do without a process of the command line.
func (s *nodeSite) bindFast(t testing.TB, name, tenant string) {
	t.Helper()
	s.retry(t, "bind "+name, func(ctx context.Context) error {
		_, err := s.Workflows().Send(ctx, name, contract.VerbBind,
			contract.BindInput{Instance: Instance(tenant), Request: tenant})
		return err
	})
}

func (s *nodeSite) unbindFast(t testing.TB, name, tenant string) {
	t.Helper()
	s.retry(t, "unbind "+name, func(ctx context.Context) error {
		_, err := s.Workflows().Send(ctx, name, contract.VerbUnbind, contract.UnbindInput{Instance: Instance(tenant)})
		return err
	})
}

// requests are all that reached the BMC.
func (n *node) requests(t testing.TB) []redfishsim.Request {
	t.Helper()
	all, err := n.BMC.Requests()
	require.NoError(t, err)
	return all
}
