package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// filter says which devices are meant.
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
	flags.StringSliceVar(&f.states, "state", nil, "")
	flags.StringVar(&f.kind, "type", "", "")
	flags.StringVar(&f.host, "host", "", "")
	flags.StringVar(&f.model, "model", "", "")
	flags.StringVar(&f.fault, "fault", "", "")
}

// selectorNames are the flags of selectors.
var selectorNames = []string{"state", "type", "host", "model", "fault"}

// selected says whether one of the selectors was given.
func selected(flags *pflag.FlagSet) bool {
	return slices.ContainsFunc(selectorNames, flags.Changed)
}

// check refuses what can never match, so that a slip of the pen is not taken for an
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

// query is the filter in the language of Temporal's visibility. Retired devices are
// left out unless they are asked for. What awaits cleaning is every device whose
// clean is due and does not run: pending_cleaning, and error while it is dirty; a
// dirty manageable device is the operator's own and awaits `provide`.
func (f *filter) query() string {
	terms := []string{
		"WorkflowType = " + quote(contract.WorkflowDeviceLifecycle),
		"ExecutionStatus = " + quote("Running"),
	}
	states := f.states
	if len(states) == 0 && !f.all {
		for _, s := range device.States() {
			if s != device.Retired {
				states = append(states, string(s))
			}
		}
	}
	if len(states) > 0 {
		quoted := make([]string, len(states))
		for i, s := range states {
			quoted[i] = quote(s)
		}
		terms = append(terms, fmt.Sprintf("%s IN (%s)", contract.AttrState.GetName(), strings.Join(quoted, ", ")))
	}
	equal := func(attribute, value string) {
		if value != "" {
			terms = append(terms, attribute+" = "+quote(value))
		}
	}
	equal(contract.AttrType.GetName(), strings.ToUpper(f.kind))
	equal(contract.AttrHost.GetName(), strings.ToLower(f.host))
	equal(contract.AttrFault.GetName(), f.fault)
	if f.needsOperator {
		terms = append(terms, contract.AttrNeedsOperator.GetName()+" = true")
	}
	if f.awaitingCleaning {
		terms = append(terms, fmt.Sprintf("(%[1]s = %[2]s OR (%[1]s = %[3]s AND %[4]s = true))",
			contract.AttrState.GetName(), quote(string(device.PendingCleaning)), quote(string(device.Error)), contract.AttrDirty.GetName()))
	}
	return strings.Join(terms, " AND ")
}

// keep drops what the visibility store cannot filter, what is there twice because
// the device continued as new between two pages, and sorts by name.
func (f *filter) keep(found []execution) []contract.DeviceStatus {
	latest := map[string]execution{}
	for _, e := range found {
		if before, ok := latest[e.name]; !ok || e.started.After(before.started) {
			latest[e.name] = e
		}
	}
	views := make([]contract.DeviceStatus, 0, len(latest))
	for _, e := range latest {
		if (f.model == "" || e.view.Model == f.model) && (!f.oneTimeUse || e.view.OneTimeUse) {
			views = append(views, e.view)
		}
	}
	slices.SortFunc(views, func(a, b contract.DeviceStatus) int { return strings.Compare(a.Name, b.Name) })
	return views
}

// quote makes a string literal of a visibility query, whatever it holds.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\x00", "").Replace(s) + "'"
}

// join lists words.
func join[T ~string](words []T) string {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return strings.Join(plain, ", ")
}
