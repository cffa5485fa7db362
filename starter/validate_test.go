package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// poolClient answers for one server of a pool, whose appliance answers found.
func poolClient(v *contract.DeviceStatus, found *contract.PoolSnapshot) *fakeClient {
	v.Hostname, v.Driver, v.Serial = "h1", "redfish", "CZ1"
	if v.Pool == nil {
		v.Pool = &contract.StatusPool{Pool: contract.Pool{Appliance: "rack1", Hardware: hardwareOf1, Template: templateOf1,
			Dynamic: true}}
	}
	return &fakeClient{
		onDescribe: func(string) (client.Execution, error) { return running(*v), nil },
		onQuery:    func(context.Context, string) (contract.DeviceStatus, error) { return *v, nil },
		onValidate: func(string, contract.CleanInput) (contract.CleanPlan, error) {
			return contract.CleanPlan{Operation: "secure_erase",
				Steps: []contract.Planned{{Step: "erase_drives", Interface: "management"}, {Step: "verify", Interface: "deploy"},
					{Step: "bios_reset", Interface: "bios"}, {Step: "pci_reset", Interface: "power"}}}, nil
		},
		onFacts: func(string) (contract.DiscoveryResult, error) {
			return contract.DiscoveryResult{Identity: device.Identity{Serial: "CZ1"}}, nil
		},
		lastPoll: clock,
		onPool:   func(contract.PoolRequest) (contract.PoolSnapshot, error) { return *found, nil },
	}
}

// A server of a pool needs no profile. One that others have fails, unless the device is
// manageable or on its way there.
//
// S4.5, S4.6, S4.7
func TestValidateAsksThePool(t *testing.T) {
	free, ours, taken := contract.PoolSnapshot{Ownership: device.PoolFree},
		contract.PoolSnapshot{Ownership: device.PoolOurs, Profile: "/rest/server-profiles/1"}, contract.PoolSnapshot{Ownership: device.PoolTaken, Profile: "/rest/server-profiles/2"}
	for name, tt := range map[string]struct {
		state device.State
		lost  bool
		found contract.PoolSnapshot
		row   string
		fails bool
	}{
		"free":                  {device.Available, false, free, `pool +ok +free, no profile$`, false},
		"ours":                  {device.Allocated, false, ours, `pool +ok +ours, profile /rest/server-profiles/1$`, false},
		"taken":                 {device.Available, false, taken, `pool +failed +taken, profile /rest/server-profiles/2: others have the server; none: it is cleaned`, true},
		"taken, error":          {device.Error, false, taken, `pool +failed +taken`, true},
		"taken, manageable":     {device.Manageable, false, taken, `pool +ok +taken, .*shown only, because the device is manageable$`, false},
		"taken, lost race":      {device.Error, true, taken, `pool +ok +taken, .*shown only, because the device becomes manageable$`, false},
		"taken, race elsewhere": {device.Cleaning, true, taken, `pool +failed +taken`, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := in("node1", tt.state)
			l := poolClient(&v, &tt.found)
			v.Pool.LostRace, v.Pool.Profile, v.Pool.Applying = tt.lost, "/rest/server-profiles/1", true
			l.onPool = func(in contract.PoolRequest) (contract.PoolSnapshot, error) {
				require.Equal(t, contract.PoolRequest{Name: "node1", UUID: v.UUID, Serial: "CZ1", Pool: v.Pool.Pool,
					State: v.Pool.PoolState}, in)
				return tt.found, nil
			}
			r := burnish(t, l, "", "validate", "node1")
			require.Regexp(t, "(?m)^"+tt.row, r.out)
			if !tt.fails {
				require.Zero(t, r.code, r.errors)
				return
			}
			require.Equal(t, exitFailed, r.code)
			require.Equal(t, "burnish: validate node1: pool: taken, profile /rest/server-profiles/2: others have the server; "+
				"none: it is cleaned when they remove their profile\n", r.errors)
			r = burnish(t, l, "", "validate", "node1", "-o", "json")
			require.Contains(t, r.errors, `"code":"server_taken"`)
			var got validation
			require.NoError(t, json.Unmarshal([]byte(r.out), &got))
			require.Equal(t, "secure_erase", string(got.Operation))
			last := got.Interfaces[len(got.Interfaces)-1]
			require.Equal(t, "pool failed server_taken",
				strings.Join([]string{last.Interface, last.Result, string(last.Code)}, " "))
			require.Empty(t, l.sent, "nothing was written")
		})
	}
}

// A pre-allocated device is never looked up.
//
// S4.36
func TestValidateDoesNotAskForAPreallocatedDevice(t *testing.T) {
	v := in("node1", device.Available)
	l := poolClient(&v, nil)
	v.Pool.Dynamic = false
	asked := false
	l.onPool = func(contract.PoolRequest) (contract.PoolSnapshot, error) {
		asked = true
		return contract.PoolSnapshot{}, nil
	}
	r := burnish(t, l, "", "validate", "node1")
	require.False(t, asked)
	require.Zero(t, r.code, r.errors)
	require.Regexp(t, `(?m)^pool +ok +pre-allocated: rack1 is not asked$`, r.out)
}

// Each interface has its line, and the first that fails is the command's error.
func TestValidateChecksEachInterface(t *testing.T) {
	v, free := in("node1", device.Available), contract.PoolSnapshot{Ownership: device.PoolFree}
	l := poolClient(&v, &free)
	r := burnish(t, l, "", "validate", "node1")
	require.Zero(t, r.code, r.errors)
	for _, row := range []string{`bios +ok +bios_reset`, `deploy +ok +verify`, `firmware +- +no step`,
		`management +ok +host h1 polls, driver redfish; erase_drives`, `power +ok +pci_reset`, `vendor +-`} {
		require.Regexp(t, "(?m)^"+row, r.out)
	}
	l.lastPoll = clock.Add(-time.Hour)
	r = burnish(t, l, "", "validate", "node1")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `(?m)^management +failed +no worker of host h1 polls; start burnish-worker there, or correct the host$`, r.out)
	require.Equal(t, "burnish: validate node1: management: no worker of host h1 polls; start burnish-worker there, or "+
		"correct the host\n", r.errors)
	l.lastPoll = clock

	l.onPool = func(contract.PoolRequest) (contract.PoolSnapshot, error) {
		return contract.PoolSnapshot{},
			refuse("node1", device.Available,
				device.Fault{Code: device.CodeApplianceUnreachable, Message: "rack1 does not answer", Remedy: "wait"})
	}
	r = burnish(t, l, "", "validate", "node1")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `(?m)^pool +failed +rack1 does not answer; wait$`, r.out)
	l.onPool = func(contract.PoolRequest) (contract.PoolSnapshot, error) {
		return contract.PoolSnapshot{}, serviceerror.NewNotFound("workflow not found")
	}
	r = burnish(t, l, "", "validate", "node1")
	require.Regexp(t, `(?m)^pool +failed +no control worker serves an appliance named "rack1"`, r.out)

	l.onPool, l.onFacts = nil, func(string) (contract.DiscoveryResult, error) { return contract.DiscoveryResult{}, nil }
	v.Serial = ""
	r = burnish(t, l, "", "validate", "node1")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `(?m)^management +failed +host h1 has not seen the device yet`, r.out)
	require.Regexp(t, `(?m)^pool +failed +host h1 has not seen the device yet, so that its serial number is not known`,
		r.out)
}
