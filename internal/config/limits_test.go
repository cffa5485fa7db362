package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// S3.38
func TestTheLimitsOfAFile(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want *device.Limits
	}{
		"no section":       {"nvme:\n", nil},
		"an empty section": {"limits:\n", &device.Limits{}},
		"all": {"limits:\n  concurrent_cleans: 50\n  per_host: 2\n  free_capacity: 10%\n  breaker: 3\n  canary: true\n",
			&device.Limits{ConcurrentCleans: 50, PerHost: 2, FreeCapacity: device.Capacity{Percent: 10}, Breaker: 3, Canary: true}},
		"a number of devices": {"limits: {free_capacity: 25}\n", &device.Limits{FreeCapacity: device.Capacity{Devices: 25}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := loadPolicy(t, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, w.Policy.Limits)
		})
	}
	for name, tt := range map[string]struct{ text, says string }{
		"zero":            {"limits:\n  concurrent_cleans: 0\n", `line 2: concurrent_cleans: "0" is not a positive number`},
		"text":            {"limits:\n  per_host: few\n", `line 2: per_host: "few" is not a positive number`},
		"no value":        {"limits:\n  breaker:\n", "line 2: breaker has no value"},
		"another key":     {"limits:\n  breakers: 3\n", `line 2: unknown key "breakers" in limits`},
		"too much":        {"limits:\n  free_capacity: 101%\n", "line 2: free_capacity: \"101%\" is more than 100%"},
		"not a truth":     {"limits:\n  canary: 3\n", "line 2: canary must be"},
		"a list":          {"limits: [1]\n", "line 1: limits must be a mapping"},
		"a list of cells": {"limits:\n  free_capacity: [1]\n", "line 2: free_capacity must be text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadPolicy(t, tt.text)
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "\n", "one line")
		})
	}
}
