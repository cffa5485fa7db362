package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const (
	hardwareOf1 = "/rest/server-hardware/30303437-3034"
	templateOf1 = "/rest/server-profile-templates/6f0a"
)

// pooled is a server of a pool as an operator enrolls it.
func pooled(more ...string) enrollment {
	set := map[string]string{"url": "https://bmc", "oneview": "rack1", "server_hardware_uri": hardwareOf1,
		"server_profile_template_uri": templateOf1}
	for _, pair := range more {
		key, value, _ := strings.Cut(pair, "=")
		if set[key] = value; value == "-" {
			delete(set, key)
		}
	}
	return enrollment{Name: "node1", Host: "h1", Driver: "redfish", Set: set}
}

// The pool is no setting of the driver. Without dynamic_allocation the device is
// pre-allocated.
//
// S4.36
func TestEnrollWithAPool(t *testing.T) {
	for text, dynamic := range map[string]bool{"": false, "dynamic_allocation=true": true, "dynamic_allocation=True": true,
		"dynamic_allocation=false": false} {
		e := pooled("owner=self")
		if text != "" {
			e = pooled("owner=self", text)
		}
		in, err := e.input()
		require.NoError(t, err, text)
		require.Equal(t, &contract.Pool{Appliance: "rack1", Hardware: hardwareOf1, Template: templateOf1, Dynamic: dynamic},
			in.Enrollment.Pool)
		require.Equal(t, map[string]string{"url": "https://bmc"}, in.Enrollment.Settings)
		require.Equal(t, "NODE", in.Enrollment.Type)
		require.Equal(t, device.OwnerSelf, in.Enrollment.Owner)
	}
	in, err := enrollment{Name: "d1", Host: "h1", Driver: "fake"}.input()
	require.NoError(t, err)
	require.Nil(t, in.Enrollment.Pool)
}

func TestAPoolIsChecked(t *testing.T) {
	for change, want := range map[string]string{
		"oneview=-":                     "oneview is missing: a device of a pool needs oneview, server_hardware_uri and server_profile_template_uri",
		"server_hardware_uri=-":         "server_hardware_uri is missing",
		"server_profile_template_uri=-": "server_profile_template_uri is missing",
		"oneview=":                      `oneview "": must be the name of an appliance`,
		"oneview=a/b":                   `oneview "a/b": must be the name`,
		"server_hardware_uri=https://x/rest/server-hardware/": "must be a URI such as /rest/server-hardware/",
		"server_hardware_uri=" +
			templateOf1: `server_hardware_uri "/rest/server-profile-templates/6f0a": must be`,
		"server_hardware_uri=/rest/server-hardware/":          "must be a URI",
		"server_hardware_uri=/rest/server-hardware/a?b":       "must be a URI",
		"server_hardware_uri=/rest/server-hardware/..":        "must be a URI",
		"server_profile_template_uri=/rest/server-profiles/a": "must be a URI such as /rest/server-profile-templates/",
		"dynamic_allocation=":                                 `dynamic_allocation "": must be true or false`,
		"dynamic_allocation=maybe":                            `dynamic_allocation "maybe": must be true or false`,
		"owner=nova":                                          `owner "nova": a device of a pool has the owner self`,
	} {
		_, err := pooled(change).input()
		require.ErrorContains(t, err, want, change)
		require.NotContains(t, err.Error(), "\n")
	}
	e := pooled()
	e.Type = "GPU"
	_, err := e.input()
	require.EqualError(t, err, `type "GPU": only devices of the type NODE are shared in a pool`)
	_, err = enrollment{Name: "d1", Host: "h1", Driver: "fake",
		Set: map[string]string{"dynamic_allocation": "true"}}.input()
	require.ErrorContains(t, err, "oneview is missing")
}

func TestShowNamesThePool(t *testing.T) {
	v := in("node1", device.Error)
	v.Pool = &contract.StatusPool{Pool: contract.Pool{Appliance: "rack1", Hardware: hardwareOf1, Template: templateOf1,
		Dynamic: true}, LostRace: true}
	text := (&app{}).deviceTable(v)
	for _, line := range []string{"pool +rack1, dynamic", "server hardware +" + hardwareOf1, "profile template +" +
		templateOf1, "applied profile +none of ours", "lost race +yes"} {
		require.Regexp(t, line, text)
	}
	v.Pool.Applying = true
	require.Regexp(t, "applied profile +requested, not recorded yet", (&app{}).deviceTable(v))
	v.Pool.PoolState = contract.PoolState{Profile: "/rest/server-profiles/1"}
	require.Regexp(t, "applied profile +/rest/server-profiles/1", (&app{}).deviceTable(v))
	v.Pool = &contract.StatusPool{Pool: contract.Pool{Appliance: "rack1"}}
	require.Regexp(t, "pool +rack1, pre-allocation", (&app{}).deviceTable(v))
	v.Pool = nil
	require.NotContains(t, (&app{}).deviceTable(v), "pool")
}
