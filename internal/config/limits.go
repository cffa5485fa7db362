package config

import (
	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/yamlfile"
)

// limits is the section limits of a policy.
type limits struct {
	ConcurrentCleans int      `yaml:"concurrent_cleans"`
	PerHost          int      `yaml:"per_host"`
	FreeCapacity     capacity `yaml:"free_capacity"`
	Breaker          int      `yaml:"breaker"`
	Canary           bool     `yaml:"canary"`
}

type capacity struct{ device.Capacity }

// UnmarshalText reads a number of devices, or a percentage.
func (c *capacity) UnmarshalText(text []byte) (err error) {
	c.Capacity, err = device.ParseCapacity(string(text))
	return err
}

// readLimits reads the section limits. It may be empty: then nothing is limited, and cleans
// are counted all the same.
func readLimits(r *yamlfile.Reader, node yamlfile.Node, policy *clean.Policy) {
	var given limits
	if !node.Nothing() {
		r.Decode(node, "limits", &given, nil)
	}
	policy.Limits = &device.Limits{ConcurrentCleans: given.ConcurrentCleans, PerHost: given.PerHost,
		FreeCapacity: given.FreeCapacity.Capacity, Breaker: given.Breaker, Canary: given.Canary}
}
