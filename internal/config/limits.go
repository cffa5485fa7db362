package config

import (
	"fmt"
	"strconv"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/yamlfile"
)

// readLimits reads the section limits. It may be empty: then nothing is limited, and cleans
// are counted all the same.
func readLimits(r *yamlfile.Reader, node yamlfile.Node, policy *clean.Policy) {
	limits := &device.Limits{}
	policy.Limits = limits
	numbers := map[string]*int{
		"concurrent_cleans": &limits.ConcurrentCleans, "per_host": &limits.PerHost, "breaker": &limits.Breaker,
	}
	for name, value := range r.Mapping(node, "limits", "concurrent_cleans", "per_host", "free_capacity",
		"breaker", "canary") {
		if value.Nothing() {
			r.Problem(value, "%s has no value; leave it out for no limit", name)
			continue
		}
		before := len(r.Problems())
		switch name {
		case "canary":
			limits.Canary = r.Bool(value, name)
		case "free_capacity":
			text := r.Scalar(value, name)
			if len(r.Problems()) > before {
				continue
			}
			var err error
			if limits.FreeCapacity, err = device.ParseCapacity(text); err != nil {
				r.Problem(value, "%s: %s", name, err)
			}
		default:
			text := r.Scalar(value, name)
			if len(r.Problems()) > before {
				continue
			}
			if err := positive(numbers[name])(text); err != nil {
				r.Problem(value, "%s: %s", name, err)
			}
		}
	}
}

func positive(into *int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a positive number; leave it out for no limit", value)
		}
		*into = n
		return nil
	}
}
