package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// filter selects devices.
type filter struct {
	states           []string
	kind, host       string // --type, --host
	model, fault     string
	needsOperator    bool
	awaitingCleaning bool
	oneTimeUse       bool
	all              bool
}

// selectors are the filters by which commands that act choose devices.
func (f *filter) selectors(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.states, "state", nil, "`S[,S…]`: devices in one of these states")
	flags.StringVar(&f.kind, "type", "", "`T`: devices of this type, such as DISK or NVME")
	flags.StringVar(&f.host, "host", "", "`H`: devices on this host")
	flags.StringVar(&f.model, "model", "", "`M`: devices of exactly this model")
	flags.StringVar(&f.fault, "fault", "", "`CODE`: devices with this fault")
}

// selectorNames are the flags of selectors.
var selectorNames = []string{"state", "type", "host", "model", "fault"}

// selected says whether one of the selectors was given.
func selected(flags *pflag.FlagSet) bool {
	return slices.ContainsFunc(selectorNames, flags.Changed)
}

// check refuses values that can never match, so that a typing error does not look like an
// empty fleet.
func (f *filter) check(flags *pflag.FlagSet) error {
	for _, s := range f.states {
		if !slices.Contains(device.States(), device.State(s)) {
			return usagef("--state %q: must be one of %s", s, join(device.States()))
		}
	}
	for _, name := range selectorNames {
		if value := flags.Lookup(name).Value.String(); flags.Changed(name) && (value == "" || value == "[]") {
			return usagef("--%s is empty", name)
		}
	}
	return nil
}

// query is the part of the filter that the server compares. Without a state it leaves
// out retired devices.
func (f *filter) query() client.Filter {
	q := client.Filter{NeedsOperator: f.needsOperator, AwaitingCleaning: f.awaitingCleaning}
	for _, s := range device.States() {
		if slices.Contains(f.states, string(s)) || len(f.states) == 0 && !f.all && s != device.Retired {
			q.States = append(q.States, s)
		}
	}
	for into, value := range map[*[]string]string{&q.Types: strings.ToUpper(f.kind), &q.Hosts: strings.ToLower(f.host), &q.Faults: f.fault} {
		if value != "" {
			*into = []string{value}
		}
	}
	return q
}

// keep applies the conditions that the server cannot compare.
func (f *filter) keep(found []client.Execution) []contract.DeviceStatus {
	kept := make([]contract.DeviceStatus, 0, len(found))
	for _, e := range found {
		if (f.model == "" || e.Status.Model == f.model) && (!f.oneTimeUse || e.Status.OneTimeUse) {
			kept = append(kept, e.Status)
		}
	}
	return kept
}

// join lists words.
func join[T ~string](words []T) string {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return strings.Join(plain, ", ")
}
