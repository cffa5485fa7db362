package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// nodes are servers of pools, and the profiles on them.
type nodes struct {
	*fakeClient
	mu       sync.Mutex
	devices  map[string]contract.DeviceStatus
	profiles map[string]string
}

func newNodes(devices ...contract.DeviceStatus) *nodes {
	n := &nodes{devices: map[string]contract.DeviceStatus{}, profiles: map[string]string{}}
	for _, v := range devices {
		n.devices[v.Name] = v
	}
	n.fakeClient = &fakeClient{
		onList: func(query string) ([]client.Execution, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			var all []client.Execution
			for _, v := range n.devices {
				all = append(all, running(v))
			}
			return all, nil
		},
		onDescribe: func(name string) (client.Execution, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			v, ok := n.devices[name]
			if !ok {
				return client.Execution{}, serviceerror.NewNotFound("no workflow")
			}
			return running(v), nil
		},
		onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.devices[name], nil
		},
		onPool: func(in contract.PoolRequest) (contract.PoolSnapshot, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.profiles[in.Name] == "?" {
				return contract.PoolSnapshot{},
					refuse(in.Name, device.Available,
						device.Fault{Code: device.CodeApplianceUnreachable, Message: "it does not answer", Remedy: "wait"})
			}
			return contract.PoolSnapshot{Ownership: device.PoolTaken, Profile: n.profiles[in.Name]}, nil
		},
		onUpdate: func(_ context.Context, name, update string, _ any) (contract.Result, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.profiles[name] == "?" {
				return contract.Result{},
					refuse(name, device.Available, device.Fault{Code: device.CodeApplianceUnreachable, Message: "it does not answer",
						Remedy: "wait"})
			}
			v := n.devices[name]
			pool := *v.Pool
			pool.Dynamic = true
			if v.DeviceState == device.Available {
				n.profiles[name] = ""
			}
			pool.Profile = n.profiles[name]
			v.Pool = &pool
			n.devices[name] = v
			return contract.Result{Device: v}, nil
		},
	}
	return n
}

// poolNode is a pre-allocated server.
func poolNode(name string, state device.State) contract.DeviceStatus {
	v := in(name, state)
	v.Serial, v.Type = "S-"+name, "NODE"
	v.Pool = &contract.StatusPool{Pool: contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/" + name,
		Template: templateOf1}}
	if state == device.Allocated {
		instance := "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"
		v.InstanceUUID = &instance
	}
	return v
}

// A dry run says what would happen to each node, and sends nothing.
//
// S4.34, S4.35
func TestMigrateDryRun(t *testing.T) {
	dynamic := poolNode("d4", device.Available)
	dynamic.Pool.Dynamic = true
	n := newNodes(poolNode("d1", device.Allocated), poolNode("d2", device.Available), poolNode("d3", device.Error),
		dynamic, poolNode("d5", device.Available), in("disk", device.Available))
	for _, name := range []string{"d1", "d2", "d3"} {
		n.profiles[name] = "/rest/server-profiles/" + name
	}
	r := burnish(t, n, "", "oneview", "migrate", "--dry-run")
	require.Zero(t, r.code, r.errors)
	for _, line := range []string{
		"d1: instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 has it: would record its profile /rest/server-profiles/d1; " +
			"state allocated",
		"d2: would switch its server off and remove the idle profile /rest/server-profiles/d2; state available",
		"d3: would record its profile /rest/server-profiles/d3; state error",
		"d5: no profile is on its server: would only become dynamic; state available",
	} {
		require.Contains(t, r.out, line+"\n")
	}
	require.Equal(t, 4, strings.Count(r.out, "\n"), r.out)
	require.Empty(t, n.sent)
	r = burnish(t, n, "", "oneview", "migrate", "d4", "--dry-run")
	require.Equal(t, "d4: already dynamic\n", r.out)
}

// Each pre-allocated node is migrated once, has its report, and a second run changes nothing.
// One that fails does not stop the rest, and is migrated by the next run.
//
// S4.34, S4.35, S4.37
func TestMigrateResumes(t *testing.T) {
	other := poolNode("d3", device.Available)
	other.Pool.Appliance = "rack2"
	n := newNodes(poolNode("d1", device.Allocated), poolNode("d2", device.Available), other, in("disk", device.Available))
	n.profiles["d1"], n.profiles["d2"] = "/rest/server-profiles/d1", "?"
	r := burnish(t, n, "", "oneview", "migrate", "--appliance", "rack1", "-o", "json")
	require.Equal(t, exitPartly, r.code)
	require.Contains(t, r.errors, "1 of 2 devices failed")
	var report struct{ Devices []outcome }
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Len(t, report.Devices, 2)
	require.True(t, report.Devices[0].OK)
	require.Equal(t, &migration{Appliance: "rack1", Hardware: "/rest/server-hardware/d1", State: device.Allocated,
		Recorded: "/rest/server-profiles/d1", Dynamic: true}, report.Devices[0].Migration)
	require.Equal(t, device.CodeApplianceUnreachable, report.Devices[1].Error.Code)

	n.profiles["d2"] = "/rest/server-profiles/d2"
	r = burnish(t, n, "", "oneview", "migrate")
	require.Zero(t, r.code, r.errors)
	require.Contains(t, r.out, "d2: migrated, now available\n")
	require.Contains(t, r.out, "d3: migrated, now available\n")
	r = burnish(t, n, "", "oneview", "migrate")
	require.Zero(t, r.code, r.errors)
	require.Equal(t, "nothing to migrate: no device is pre-allocated\n", r.out)
	r = burnish(t, n, "", "oneview", "migrate", "--appliance", "mars")
	require.Equal(t, "nothing to migrate: no device of the appliance mars is pre-allocated\n", r.out)
	r = burnish(t, n, "", "oneview", "migrate", "d1", "d2")
	require.Zero(t, r.code, r.errors)
	require.Equal(t, 2, strings.Count(r.out, ": already dynamic\n"))
	sent := map[string]int{}
	for _, one := range n.sent {
		sent[one]++
	}
	require.Equal(t, map[string]int{"migrate_pool d1": 1, "migrate_pool d2": 2, "migrate_pool d3": 1}, sent)
}

// A migration that stopped halfway goes on with the next run.
//
// S4.37
func TestMigrateGoesOn(t *testing.T) {
	v := poolNode("d1", device.Manageable)
	v.Pool.Dynamic, v.Pool.Migrating = true, true
	n := newNodes(v)
	r := burnish(t, n, "", "oneview", "migrate", "--dry-run")
	require.Zero(t, r.code, r.errors)
	require.Equal(t, "d1: would go on with its migration; state manageable\n", r.out)
	require.Empty(t, n.sent)
	r = burnish(t, n, "", "oneview", "migrate")
	require.Zero(t, r.code, r.errors)
	require.Equal(t, []string{"migrate_pool d1"}, n.sent)
}

func TestMigrateWrongUse(t *testing.T) {
	n := newNodes(in("disk", device.Available))
	r := burnish(t, n, "", "oneview", "migrate", "disk")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, "burnish: oneview migrate disk: it is in no pool; ")
	r = burnish(t, n, "", "oneview", "migrate", "gone")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, "gone: no such device")
	var many []contract.DeviceStatus
	for _, c := range "abcdefghijk" {
		many = append(many, poolNode(string(c), device.Available))
	}
	n = newNodes(many...)
	r = burnish(t, n, "", "oneview", "migrate")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errors, "this would migrate 11 devices")
	require.Empty(t, n.sent)
	r = burnish(t, n, "", "oneview", "migrate", "--yes")
	require.Zero(t, r.code, r.errors)
	require.Len(t, n.sent, 11)
}

// Without a control worker it ends at once, and sends nothing.
func TestMigrateNeedsAControlWorker(t *testing.T) {
	n := newNodes(poolNode("d1", device.Available))
	n.onQuery = func(context.Context, string) (contract.DeviceStatus, error) {
		return contract.DeviceStatus{}, context.DeadlineExceeded
	}
	r := burnish(t, n, "", "oneview", "migrate")
	require.Equal(t, exitTimeout, r.code)
	require.Contains(t, r.errors, "no control worker answered; nothing was sent")
	require.Empty(t, n.sent)
}
