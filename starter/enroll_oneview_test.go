package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// rack answers as an appliance with n servers that are not enrolled, two a page.
func rack(n int) func(contract.ServersInput) (contract.Servers, error) {
	return func(in contract.ServersInput) (contract.Servers, error) {
		found := contract.Servers{Servers: []contract.PoolServer{}}
		for i := in.Start; i < min(in.Start+2, n); i++ {
			found.Servers = append(found.Servers, contract.PoolServer{
				Hardware: fmt.Sprintf("/rest/server-hardware/%d", i), Name: fmt.Sprintf("Encl1, bay %d", i),
				Serial: fmt.Sprintf("CZ34%02d", i), UUID: fmt.Sprintf("u%d", i), Model: "Synergy 480 Gen10",
			})
		}
		if in.Start+2 < n {
			found.Next = in.Start + 2
		}
		return found, nil
	}
}

var fromOneView = []string{"enroll", "--from", "oneview", "--host", "h1", "--driver", "redfish",
	"--template", templateOf1}

func fromPoolArgs(more ...string) []string { return append(slices.Clone(fromOneView), more...) }

// The servers that are not enrolled become nodes of the pool, each with its own settings.
func TestEnrollFromAnAppliance(t *testing.T) {
	var mu sync.Mutex
	got := map[string]contract.EnrollInput{}
	l := &fakeClient{appliances: []string{"rack1"}, inPool: func(in contract.ServersInput) (contract.Servers, error) {
		require.Equal(t, "rack1", in.Appliance)
		require.Equal(t, map[string]string{"model": "*Gen10", "name": "Encl1*"}, in.Filter)
		return rack(5)(in)
	}, onEnroll: func(asked contract.EnrollInput) (contract.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		require.NotContains(t, got, asked.Enrollment.Name)
		got[asked.Enrollment.Name] = asked
		return contract.Result{Device: in(asked.Enrollment.Name, device.Manageable)}, nil
	}}
	r := burnish(t, l, "", fromPoolArgs("--filter", "model=*Gen10", "--filter", "name=Encl1*", "--set",
		"url=https://ilo{serial}.example/{uuid}/{name},secret=s,dynamic_allocation=true", "--provide", "--yes")...)
	require.Equal(t, exitOK, r.code, r.errors)
	require.Equal(t, 5, strings.Count(r.out, ": enrolled, now manageable\n"), r.out)
	require.Len(t, got, 5)
	one := got["encl1-bay-3-cz3403"]
	require.True(t, one.Provide)
	require.Equal(t, contract.Enrollment{
		Name: "encl1-bay-3-cz3403", Host: "h1", Driver: "redfish", Type: "NODE", Owner: device.OwnerSelf,
		Settings: map[string]string{"url": "https://iloCZ3403.example/u3/Encl1, bay 3", "secret": "s"},
		Pool:     &contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/3", Template: templateOf1, Dynamic: true},
	}, one.Enrollment)
}

func TestEnrollFromAnApplianceDryRun(t *testing.T) {
	l := &fakeClient{inPool: func(in contract.ServersInput) (contract.Servers, error) {
		found, err := rack(12)(in)
		found.Enrolled = 1
		found.Servers[0].Profile = "/rest/server-profiles/9"
		return found, err
	}}
	r := burnish(t, l, "", fromPoolArgs("--appliance", "rack1", "--dry-run")...)
	require.Equal(t, exitOK, r.code, r.errors)
	require.Equal(t, 12, strings.Count(r.out, ": would be enrolled: serial CZ34"), r.out)
	require.Contains(t, r.out, "encl1-bay-0-cz3400: would be enrolled: serial CZ3400, Synergy 480 Gen10, profile "+
		"/rest/server-profiles/9\n")
	require.Contains(t, r.out, "Gen10, no profile\n")
	require.Contains(t, r.errors, "note: enrolled already: 6 of the servers that match")
}

// Above ten it asks, or needs --yes.
func TestEnrollFromAnApplianceAsks(t *testing.T) {
	var mu sync.Mutex
	enrolled := 0
	l := &fakeClient{inPool: rack(11), onEnroll: func(asked contract.EnrollInput) (contract.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		enrolled++
		return contract.Result{Device: in(asked.Enrollment.Name, device.Manageable)}, nil
	}}
	args := fromPoolArgs("--appliance", "rack1")
	r := burnish(t, l, "", args...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errors, "this would enroll 11 devices, and there is no terminal")
	r = burnish(t, l, "n\n", args...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, "NAME                 HOST  SERIAL  MODEL              PROFILE\nencl1-bay-0-cz3400   "+
		"h1    CZ3400  Synergy 480 Gen10  -\n")
	require.Zero(t, enrolled)
	r = burnish(t, l, "", append(args, "--yes")...)
	require.Equal(t, exitOK, r.code, r.errors)
	require.Equal(t, 11, enrolled)

	// What is provided is erased: one is asked about.
	l.inPool = rack(1)
	r = burnish(t, l, "", append(args, "--provide")...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errors, "this would enroll and clean 1 device, and there is no terminal")
	require.Equal(t, exitOK, burnish(t, l, "", args...).code)
}

// What fails has its line, and the others are enrolled.
func TestEnrollFromAnAppliancePartly(t *testing.T) {
	l := &fakeClient{inPool: func(contract.ServersInput) (contract.Servers, error) {
		return contract.Servers{Servers: []contract.PoolServer{
			{Hardware: "/rest/server-hardware/1", Name: "a", Serial: "S1"},
			{Hardware: "/rest/server-hardware/2", Name: "b"},
			{Hardware: "/rest/server-hardware/3", Name: "a", Serial: "S1"},
			{Hardware: "/rest/server-hardware/4/x", Name: "c", Serial: "S4"},
			{Hardware: "/rest/server-hardware/5", Name: "e", Serial: "S5"},
			{Hardware: "/rest/server-hardware/6", Name: "f", Serial: "Not Available"},
		}}, nil
	}, onEnroll: func(asked contract.EnrollInput) (contract.Result, error) {
		if asked.Enrollment.Name == "e-s5" {
			return contract.Result{},
				contract.Refuse(contract.Refusal{Device: "e-s5",
					Fault: device.Fault{Class: device.Permanent, Code: device.CodeNotAllowed, Message: "not in host.yaml"}})
		}
		return contract.Result{Device: in(asked.Enrollment.Name, device.Manageable)}, nil
	}}
	r := burnish(t, l, "", fromPoolArgs("--appliance", "rack1")...)
	require.Equal(t, exitPartly, r.code)
	require.Equal(t, "a-s1: enrolled, now manageable\n", r.out)
	require.Contains(t, r.errors, "burnish: enroll b: the appliance has no serial number of /rest/server-hardware/2; ")
	require.Contains(t, r.errors, "the appliance has no serial number of /rest/server-hardware/6; ")
	require.Contains(t, r.errors, "burnish: enroll a-s1: /rest/server-hardware/1 and /rest/server-hardware/3 have the "+
		"same serial number S1; ")
	require.Contains(t, r.errors, "burnish: enroll c-s4: server_hardware_uri")
	require.Contains(t, r.errors, "burnish: enroll e-s5: not in host.yaml\n")
	require.Contains(t, r.errors, "5 of 6 devices failed")
}

func TestEnrollFromAnApplianceWrongUse(t *testing.T) {
	r := burnish(t, &fakeClient{appliances: []string{"a", "b"}}, "", fromOneView...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errors, "several appliances are served: name one of a, b by --appliance")
	r = burnish(t, &fakeClient{}, "", fromOneView...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, "no control worker serves an appliance; start one with BURNISH_ONEVIEW")
	l := &fakeClient{inPool: func(contract.ServersInput) (contract.Servers, error) {
		return contract.Servers{}, serviceerror.NewNotFound("workflow not found")
	}}
	r = burnish(t, l, "", fromPoolArgs("--appliance", "mars")...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, `no control worker serves an appliance named "mars"; `)
	l.inPool = func(contract.ServersInput) (contract.Servers, error) { return contract.Servers{Enrolled: 7}, nil }
	r = burnish(t, l, "", fromPoolArgs("--appliance", "rack1")...)
	require.Equal(t, exitOK, r.code, r.errors)
	require.Equal(t, "nothing to enroll: all servers that match are enrolled (7)\n", r.out)
	l.inPool = func(contract.ServersInput) (contract.Servers, error) { return contract.Servers{}, nil }
	require.Equal(t, "nothing to enroll: no server matches\n",
		burnish(t, l, "", fromPoolArgs("--appliance", "rack1")...).out)
}

// A script may enroll or import right after it has started a control worker, which serves its appliance and its cloud a
// moment later, and they are listed after another.
func TestAWorkerThatHasJustStarted(t *testing.T) {
	for name, args := range map[string][]string{"the only one": fromOneView,
		"by its name": fromPoolArgs("--appliance", "rack1"), "a cloud": {"import", "--from", "placement", "--cloud", "c"}} {
		t.Run(name, func(t *testing.T) {
			listed, asked := 0, 0
			l := &fakeClient{onAppliances: func() []string {
				if listed++; listed < 3 {
					return nil
				}
				return []string{"rack1"}
			}, inPool: func(in contract.ServersInput) (contract.Servers, error) {
				if asked++; asked < 3 {
					return contract.Servers{}, serviceerror.NewNotFound("workflow not found")
				}
				return rack(2)(in)
			}, importable: func(cloud string, in contract.CandidatesInput) (contract.Candidates, error) {
				if asked++; asked < 3 {
					return contract.Candidates{}, serviceerror.NewNotFound("workflow not found")
				}
				return pages(2, 10)(cloud, in)
			}}
			r := burnish(t, l, "", append(slices.Clone(args), "--dry-run")...)
			require.Equal(t, exitOK, r.code, r.errors)
			require.Equal(t, 2, strings.Count(r.out, ": would be "), r.out)
			require.Empty(t, r.errors)
		})
	}
}

// A wait for an appliance that no worker serves says so, and may be bounded.
func TestEnrollWaitsForAnAppliance(t *testing.T) {
	listed := 0
	l := &fakeClient{onAppliances: func() []string { listed++; return nil }}
	r := burnish(t, l, "", fromOneView...)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "burnish: note: no control worker serves an appliance yet: waiting 10s for one that has just "+
		"started\n"+
		"burnish: enroll: no control worker serves an appliance; start one with BURNISH_ONEVIEW\n", r.errors)
	require.Equal(t, 41, listed)
	listed = 0
	r = burnish(t, l, "", fromPoolArgs("--timeout", "500ms")...)
	require.Equal(t, "burnish: enroll: no control worker serves an appliance; start one with BURNISH_ONEVIEW\n", r.errors)
	require.Equal(t, 3, listed)
}

// A NAME is legal, stays where the server's name changes in case, and has its serial number.
func TestNamesOfServers(t *testing.T) {
	for want, server := range map[string]contract.PoolServer{
		"encl1-bay-1-cz3406n4wx":        {Name: "Encl1, bay 1", Serial: "CZ3406N4WX"},
		"ilocz3406n4wx.example":         {Name: "ILOCZ3406N4WX.example", Serial: "CZ3406N4WX"},
		"s1":                            {Name: "", Serial: " S1 "},
		"s-1":                           {Name: "…/", Serial: "s_1"},
		"a":                             {Name: "--a--"},
		strings.Repeat("a", 60) + "-s1": {Name: strings.Repeat("a", 200), Serial: "S1"},
		strings.Repeat("a", 59) + "-s1": {Name: strings.Repeat("a", 59) + " " + strings.Repeat("b", 200) + "s1",
			Serial: "S1"},
	} {
		got := deviceName(server)
		require.Equal(t, want, got)
		canonical, err := device.CanonicalName(got)
		require.NoError(t, err)
		require.Equal(t, got, canonical)
	}
}
