package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
}

func (k strike) String() string {
	moment := "before"
	if k.after {
		moment = "after"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s number %d %s", k.victim, moment, k.method, k.skip+1, k.path))
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

// kinds are the requests that a clean of a server takes, each with whom is killed at it.
var kinds = []strike{
	{victim: theWorker, method: http.MethodPost, path: sessions},
	{victim: theServer, method: http.MethodGet, skip: 60},
	{victim: theBMC, method: http.MethodPost, path: "*/ComputerSystem.Reset"},
	{victim: theBMC, method: http.MethodPost, path: "*/Bios.ResetBios"},
	{victim: theWorker, method: http.MethodPatch, path: "*/Bios/Settings"},
	{victim: theWorker, method: http.MethodPost, path: "*/Drive.SecureErase"},
	{victim: theBMC, method: http.MethodPost, path: "/redfish/v1/UpdateService/*"},
	{victim: theServer, method: http.MethodDelete, path: sessions},
	{victim: theWorker, method: http.MethodPatch, path: "*/AccountService/Accounts/7"},
	{victim: theBMC, method: http.MethodPatch, path: "*/AccountService/Accounts/7", skip: 1},
	{victim: theWorker, method: http.MethodDelete, path: "*/EventService/Subscriptions/9"},
	{victim: theBMC, method: http.MethodPost, path: "*/VirtualMedia.EjectMedia"},
	{victim: theWorker, method: http.MethodPatch, path: "*/HostInterfaces/1"},
	{victim: theBMC, method: http.MethodPatch, path: "*/NetworkProtocol"},
	{victim: theBMC, method: http.MethodPatch, path: "*/iDRAC.Embedded.1/Attributes"},
	{victim: theWorker, method: http.MethodPatch, path: "*/Systems/System.Embedded.1"},
	{victim: theWorker, method: http.MethodPatch, path: "*/Systems/System.Embedded.1/Settings"},
	{victim: theBMC, method: http.MethodPatch, path: "*/Systems/System.Embedded.1/Settings"},
	{victim: theServer, method: http.MethodPatch, path: "*/Systems/System.Embedded.1/Settings"},
	{victim: theWorker, method: http.MethodPost, path: "*/SecureBoot.ResetKeys"},
	{victim: theBMC, method: http.MethodPatch, path: "*/SecureBoot"},
	{victim: theWorker, method: http.MethodPatch, path: "*/Bios/Settings", skip: 1},
	{victim: theBMC, method: http.MethodPatch, path: "*/Bios/Settings", skip: 1},
	{victim: theServer, method: http.MethodPatch, path: "*/NetworkProtocol"},
}

// resetKinds are those of a reset of the BMC to its defaults.
var resetKinds = []strike{
	{victim: theWorker, method: http.MethodPost, path: "*/Manager.ResetToDefaults"},
	{victim: theBMC, method: http.MethodPost, path: "*/Manager.ResetToDefaults"},
	{victim: theServer, method: http.MethodPost, path: "*/Manager.ResetToDefaults"},
	{victim: theWorker, method: http.MethodPatch, path: "*/AccountService/Accounts/2"},
	{victim: theBMC, method: http.MethodPatch, path: "*/AccountService/Accounts/2"},
	{victim: theServer, method: http.MethodPatch, path: "*/AccountService/Accounts/2"},
}

// strikesOfEachKind are those of one victim, before and after its kinds of requests. Before and
// after are the same for a read, which has no effect, and for the server, which sees no request,
// only time.
func strikesOfEachKind(kinds []strike, v victim) (all []strike) {
	for _, k := range kinds {
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

// Whatever is killed, worker, server or BMC, before or after whatever kind of request of a clean: the
// clean goes on by itself to available, and nothing is done that could harm the server. No image is
// sent twice in one clean: what has come of one whose answer was lost may be for the operator to see.
func TestKillAtEachKindOfRequestToABMC(t *testing.T) {
	t.Parallel()
	eachVictim(t, func(t *testing.T, site *Site, v victim) {
		all := strikesOfEachKind(kinds, v)
		killAtEach(t, newNodeSite(t, site, slices.Repeat([]redfishsim.Personality{redfishsim.IDRAC}, len(all))), all, v)
	})
}

// The same at a reset of the BMC to its defaults, after which its account has the vendor's first password.
func TestKillAtEachRequestOfAResetOfABMC(t *testing.T) {
	t.Parallel()
	eachVictim(t, func(t *testing.T, site *Site, v victim) {
		all := strikesOfEachKind(resetKinds, v)
		s := newNodeSite(t, site, slices.Repeat([]redfishsim.Personality{redfishsim.IDRAC}, len(all)),
			func(_ *redfishsim.Config, s *redfishsim.State) { // others that a reset takes away cannot be made again
				s.Setup.Accounts, s.Setup.Subscriptions = s.Setup.Accounts[:1], nil
			})
		s.resets = true
		s.allow(t)
		s.writePolicy(t)
		killAtEach(t, s, all, v)
		for name, one := range s.nodes {
			require.Positive(t, one.state(t).Defaults, name)
		}
	})
}

func eachVictim(t *testing.T, test func(t *testing.T, site *Site, v victim)) {
	t.Helper()
	for _, v := range []victim{theWorker, theBMC, theServer} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			on := newSite
			if v == theServer {
				on = ownServer
			}
			test(t, on(t), v)
		})
	}
}

// killAtEach strikes as many new servers at once, so that the driver's waits overlap, in
// their first clean: the victim is killed while each of them is at its request.
func killAtEach(t *testing.T, s *nodeSite, all []strike, v victim) {
	t.Helper()
	w := s.Run(t, "all", s.env("BURNISH_MAX_CLEANS_PER_HOST=64")...)
	names := slices.Sorted(maps.Keys(s.nodes))
	before, faulted := make([]redfishsim.State, len(names)), make([]int, len(names))
	each(t, names, func(i int, name string) {
		s.enroll(t, name)
		s.awaitNoSession(t, name)
		one := s.nodes[name]
		one.used(t)
		before[i] = one.state(t)
		counts, err := one.BMC.Counts()
		require.NoError(t, err)
		faulted[i] = counts.Faulted
		require.NoError(t, one.BMC.Inject(all[i].fault()))
	})
	each(t, names, func(i int, name string) {
		one := s.nodes[name]
		_, err := s.Workflows().Do(t.Context(), name, contract.VerbProvide, contract.ReasonInput{})
		require.NoError(t, err)
		Await(t, 2*time.Minute, fmt.Sprintf("%s to come to %s", name, all[i]), func() (bool, string) {
			now, err := one.BMC.Counts()
			return err == nil && now.Faulted > faulted[i], fmt.Sprint(now, err)
		})
		if v == theBMC {
			_, err := one.BMC.Wait(time.Minute)
			require.NoError(t, err)
			require.NoError(t, one.BMC.Restart(t.Context()))
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
	each(t, names, func(i int, name string) {
		require.NoError(t, s.nodes[name].BMC.ClearFaults())
		v := s.AwaitStatus(t, name, 2*time.Minute, fmt.Sprintf("to end its clean after the kill of %s", all[i]),
			func(v contract.DeviceStatus) bool {
				return v.DeviceState == device.Available || v.DeviceState == device.Error
			})
		if all[i].method == http.MethodPost && all[i].path == sessions { // the BMC's own time-out ends such a session
			require.NoError(t, s.nodes[name].BMC.Change(func(state *redfishsim.State) { state.Sessions = nil }))
		}
		if strings.Contains(all[i].path, "UpdateService") && v.Fault == string(device.CodeFirmwareUnknown) {
			require.NoError(t, s.Workflows().RequestClean(t.Context(), name, contract.CleanInput{}))
			s.AwaitDevice(t, name, 2*time.Minute, "to be cleaned again",
				func(v contract.DeviceStatus) bool { return v.DeviceState == device.Available })
			s.requireClean(t, name)
			return
		}
		require.Equal(t, device.Available, v.DeviceState, "%s: %s: %s", all[i], v.Fault, v.LastError)
		s.requireOnce(t, name, all[i], before[i], s.requireClean(t, name))
	})
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

// requests are all that reached the BMC.
func (n *node) requests(t testing.TB) []redfishsim.Request {
	t.Helper()
	all, err := n.BMC.Requests()
	require.NoError(t, err)
	return all
}
