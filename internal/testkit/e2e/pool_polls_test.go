package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/workflows/contract"
)

// The servers of the test of the polls, two a page.
var polled = map[string]string{
	"idle": "server-1", "bind": "server-2", "hidden": "server-3", "race": "server-4", "kept": "server-5",
	"wrong": "server-6", "old": "server-8",
}

// Each poll finds by itself what others did, and what they free is cleaned. The operator's
// maintenance outlasts them, a pre-allocated device is not looked at, the error of one device does
// not stop a round, and a page that is not read changes nothing for its servers. With an interval
// of 0 only look_now finds something.
func TestThePollsFindWhatOthersDo(t *testing.T) {
	t.Parallel()
	s := newPoolSite(t, newSite(t), []string{"rack1"}, oneviewsim.Servers(8))
	rack := s.appliances["rack1"]
	s.configure(t, "rack1", map[string]any{"periodic_check_interval": 1})
	w := s.Run(t, "all", s.env()...)
	devices := map[string]Device{}
	for name, server := range polled {
		if name == "wrong" {
			// It has the serial number of one server, and is enrolled with another one.
			d := s.Fake(t, name, MiB/16, append(poolSettings("rack1", s.server(t, "rack1", server), true),
				"serial="+s.server(t, "rack1", "server-7").Serial)...)
			s.enroll(t, d)
			continue
		}
		devices[name] = s.shared(t, name, "rack1", server, name != "old")
		flags := []string{"--provide"}
		if name == "race" {
			flags = nil
		}
		s.enroll(t, devices[name], flags...)
	}
	p := &pollTest{poolSite: s, rack: rack, devices: devices}
	for _, name := range []string{"idle", "bind", "hidden", "kept", "old"} {
		s.awaitState(t, name, time.Minute, device.Available)
	}
	t.Run("each poll", func(t *testing.T) {
		each(t, []func(*testing.T){p.takenAndFreed, p.takenBeforeAClean, p.operatorsMaintenance, p.preAllocated},
			func(_ int, one func(*testing.T)) { one(t) })
	})
	t.Run("one device's error does not stop a round", func(t *testing.T) {
		status := p.status(t)
		require.Len(t, status.Problems, 1)
		require.Equal(t, "wrong", status.Problems[0].Name)
		six := s.server(t, "rack1", "server-6")
		require.Contains(t, status.Problems[0].What, "it is enrolled with "+six.URI())
		require.Equal(t, 1, status.Last.Failed)
		require.Equal(t, 8, status.Last.Servers)
		require.Nil(t, status.Fault)
	})
	t.Run("a page that is not read changes nothing", p.unreadPage)
	t.Run("the interval 0", func(t *testing.T) {
		require.Zero(t, w.Stop(t, time.Minute))
		s.configure(t, "rack1", map[string]any{"periodic_check_interval": 0})
		w.Start(t)
		p.pollsAreOff(t)
	})
	s.requireRules(t, "rack1")
	require.Zero(t, w.Stop(t, time.Minute))
	open, err := rack.OpenSessions(rack.Username)
	require.NoError(t, err)
	require.Empty(t, open)
}

type pollTest struct {
	*poolSite
	rack    *oneviewsim.Process
	devices map[string]Device
}

// pollStatus is what burnish oneview status says, as a program reads it.
type pollStatus struct {
	Interval float64 `json:"periodic_check_interval"`
	LastGood *time.Time
	Last     contract.PollCounts
	Next     *time.Time
	Unread   int
	Fault    *device.Fault
	Problems []contract.Mismatch
}

func (p *pollTest) status(t *testing.T) (status pollStatus) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(p.Must(t, "oneview", "status", "rack1", "-o", "json")), &status))
	return status
}

// used is others' use of a server: until they free it nothing of theirs is erased.
func (p *pollTest) used(t *testing.T, name string) {
	t.Helper()
	p.requireMaintained(t, name)
	p.devices[name].Stamp(t, 7)
	RequireThroughout(t, 2*time.Second, name+" stays theirs", func() (bool, string) {
		stamped, _, _ := p.devices[name].Count(t, 7)
		v, err := p.Workflows().Query(t.Context(), name)
		return err == nil && stamped == p.devices[name].Blocks() && v.DeviceState == device.Manageable, string(v.DeviceState)
	})
}

// cleaned is the end of each poll: what others freed was cleaned before it is available.
func (p *pollTest) cleaned(t *testing.T, name string) {
	t.Helper()
	p.requireIdle(t, name, "rack1", polled[name])
	p.devices[name].RequireZero(t)
}

func (p *pollTest) takenAndFreed(t *testing.T) {
	require.NoError(t, p.rack.Take("server-1"))
	p.used(t, "idle")
	require.NoError(t, p.rack.Free("server-1"))
	p.cleaned(t, "idle")
	require.Len(t, p.Show(t, "idle").Cleans, 2)
}

func (p *pollTest) takenBeforeAClean(t *testing.T) {
	p.devices["race"].Stamp(t, 7)
	require.NoError(t, p.rack.Take("server-4"))
	p.Must(t, "provide", "race")
	p.used(t, "race")
	require.Contains(t, p.Must(t, "history", "race"), string(device.CodeServerTaken))
	require.NoError(t, p.rack.Free("server-4"))
	p.cleaned(t, "race")
}

func (p *pollTest) operatorsMaintenance(t *testing.T) {
	p.Must(t, "maintain", "kept", "--reason", "new fans")
	require.NoError(t, p.rack.Take("server-5"))
	p.AwaitStatus(t, "kept", 20*time.Second, "to be in maintenance for both reasons", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Manageable && strings.HasPrefix(v.MaintenanceReason, "taken: ") &&
			strings.HasSuffix(v.MaintenanceReason, "new fans")
	})
	p.RequireReserved(t, "kept", 1)
	require.NoError(t, p.rack.Free("server-5"))
	RequireThroughout(t, 4*time.Second, "the operator's maintenance lasts", func() (bool, string) {
		v, err := p.Workflows().Query(t.Context(), "kept")
		return err == nil && v.DeviceState == device.Manageable && v.Maintenance &&
			strings.Contains(v.MaintenanceReason, "new fans"), string(v.DeviceState) + v.MaintenanceReason
	})
	p.Must(t, "maintain", "kept", "--off")
	p.cleaned(t, "kept")
}

func (p *pollTest) preAllocated(t *testing.T) {
	require.NoError(t, p.rack.Take("server-8"))
	RequireThroughout(t, 4*time.Second, "it stays available", func() (bool, string) {
		v, err := p.Workflows().Query(t.Context(), "old")
		return err == nil && v.DeviceState == device.Available && !v.Dirty, string(v.DeviceState)
	})
	server := p.server(t, "rack1", "server-8")
	requests, err := p.rack.Requests()
	require.NoError(t, err)
	for _, r := range requests {
		require.NotContains(t, r.Path+r.Body, server.URI(), "the appliance was asked about it")
	}
}

func (p *pollTest) unreadPage(t *testing.T) {
	fault := oneviewsim.Unavailable(oneviewsim.Fault{Method: "GET", Path: "/rest/server-hardware?*start=2", Times: -1})
	require.NoError(t, p.rack.Inject(fault))
	for _, server := range []string{"server-1", "server-3"} {
		require.NoError(t, p.rack.Take(server))
	}
	p.requireMaintained(t, "idle")
	Await(t, 20*time.Second, "a round without that page", func() (bool, string) {
		status := p.status(t)
		return status.Unread == 1 && status.Fault != nil && status.Fault.Code == device.CodeApplianceUnreachable, ""
	})
	require.Contains(t, p.Must(t, "oneview", "status", "rack1"), "pages not read")
	v, err := p.Workflows().Query(t.Context(), "hidden")
	require.NoError(t, err)
	require.Equal(t, device.Available, v.DeviceState)
	require.False(t, v.Maintenance)
	require.NoError(t, p.rack.ClearFaults())
	p.requireMaintained(t, "hidden")
	Await(t, 20*time.Second, "a good round", func() (bool, string) {
		status := p.status(t)
		return status.Unread == 0 && status.Fault == nil, ""
	})
}

func (p *pollTest) pollsAreOff(t *testing.T) {
	Await(t, 20*time.Second, "the polls to be off", func() (bool, string) {
		status := p.status(t)
		return status.Interval == 0 && status.Next == nil, ""
	})
	p.AwaitListed(t, "polls are off", "oneview", "status")
	for _, server := range []string{"server-1", "server-3"} {
		require.NoError(t, p.rack.Free(server))
	}
	require.NoError(t, p.rack.Take("server-2"))
	p.Refused(t, device.CodeServerTaken, "bind", "bind", "--instance", Instance("alice"))
	RequireThroughout(t, 3*time.Second, "nothing is found", func() (bool, string) {
		a, errA := p.Workflows().Query(t.Context(), "idle")
		b, errB := p.Workflows().Query(t.Context(), "bind")
		return errA == nil && errB == nil && a.Pool.Taken && b.DeviceState == device.Error && b.Pool.LostRace,
			string(a.DeviceState) + " " + string(b.DeviceState)
	})
	p.RequireReserved(t, "bind", 1)
	round := p.lookNow(t, "rack1").Last
	require.Equal(t, 2, round.Freed)
	require.Equal(t, 1, round.TakenOnCleanFail)
	p.requireMaintained(t, "bind")
	p.cleaned(t, "idle")
	p.cleaned(t, "hidden")
	require.NoError(t, p.rack.Free("server-2"))
	p.lookNow(t, "rack1")
	p.cleaned(t, "bind")
}
