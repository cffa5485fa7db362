package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"burnish/internal/device"
	"burnish/internal/spelling"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// filter selects devices: the values of one flag are alternatives, and all flags must match.
type filter struct {
	by        client.Filter
	onHold    bool
	olderThan time.Duration
	all       bool // retired devices, too
	// globs are patterns of NAMEs.
	globs []string
}

// selectedBy are the fields by which commands that act choose devices; listedBy are those of list beside them.
var (
	selectedBy = []*client.Field{client.ByState, client.ByType, client.ByHost, client.ByModel, client.ByFault,
		client.ByLabel, client.ByNeedsOperator}
	listedBy = []*client.Field{client.ByAwaitingCleaning, client.ByOneTimeUse}
)

// flagOf is the name of a field's flag.
func flagOf(by *client.Field) string { return strings.ReplaceAll(cmp.Or(by.Also, by.Name), "_", "-") }

// fieldFlags declares the flags of fields, which check reads.
func fieldFlags(flags *pflag.FlagSet, fields []*client.Field) {
	for _, by := range fields {
		switch name := flagOf(by); {
		case by.Bool():
			flags.Bool(name, false, "only devices "+strings.ReplaceAll(by.About, ", or do not", ""))
		case by == client.ByLabel:
			flags.StringArray(name, nil, "`"+by.Value+"`: only devices "+by.About)
		default:
			flags.StringSlice(name, nil, "`"+by.Value+"[,"+by.Value+"…]`: only devices "+by.About)
		}
	}
}

// selectors are the filters by which commands that act choose devices.
func (f *filter) selectors(flags *pflag.FlagSet) {
	fieldFlags(flags, selectedBy)
	flags.BoolVar(&f.onHold, "on-hold", false, "only devices that maintain put on hold, or whose clean a runbook holds")
	flags.Func("older-than", "`AGE`: only devices that are in their state for longer, as 90m, 36h or 2d", f.setOlderThan)
}

// selectorNames are the flags of selectors.
var selectorNames = append(mapped(selectedBy, flagOf), "on-hold", "older-than")

// selected says whether one of the selectors was given.
func selected(flags *pflag.FlagSet) bool {
	return slices.ContainsFunc(selectorNames, flags.Changed)
}

// check reads the flags, and refuses values that can never match, so that a typing error does not look like an empty
// fleet.
func (f *filter) check(flags *pflag.FlagSet) error {
	if err := noneEmpty(flags, mapped(selectedBy, flagOf)...); err != nil {
		return err
	}
	f.by = client.Filter{}
	for _, by := range slices.Concat(selectedBy, listedBy) {
		given := flags.Lookup(flagOf(by))
		if given == nil || !given.Changed {
			continue
		}
		values := []string{given.Value.String()}
		if list, is := given.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		values, err := by.Values(values)
		if err != nil {
			return usagef("--%s %s", flagOf(by), err)
		}
		for _, value := range values {
			if by == client.ByFault && !slices.Contains(device.Codes(), device.Code(value)) {
				return unknownValue(flagOf(by), value, device.Codes(), "is not a fault")
			}
		}
		if !by.Bool() || values[0] == client.Booleans[0] {
			f.by[by] = values
		}
	}
	return nil
}

// unknownValue refuses a value that is not among the known ones: it names what was probably
// meant, where that is near.
func unknownValue[T ~string](flag, value string, known []T, message string) error {
	f := usagef("--%s %q: %s", flag, value, message)
	if meant := spelling.Near(value, words(known)); len(meant) > 0 {
		f.remedy = "did you mean " + strings.Join(meant[:min(3, len(meant))], " or ") + "?"
	}
	return f
}

// query is the part of the filter that a listing compares. Without a state it leaves out retired devices.
func (f *filter) query() client.Filter {
	q := client.Filter{}
	maps.Copy(q, f.by)
	if len(q[client.ByState]) == 0 && !f.all {
		q[client.ByState] = client.InService()
	}
	return q
}

func mapped[T any](values []T, by func(T) string) []string {
	var out []string
	for _, v := range values {
		out = append(out, by(v))
	}
	return out
}

// keep applies the conditions that no listing compares.
func (f *filter) keep(found []client.Execution) []contract.DeviceStatus {
	kept := make([]contract.DeviceStatus, 0, len(found))
	for _, e := range found {
		if f.matches(e.Status) {
			kept = append(kept, e.Status)
		}
	}
	return kept
}

func (f *filter) matches(v contract.DeviceStatus) bool {
	return (!f.onHold || isOnHold(v)) &&
		(len(f.globs) == 0 || slices.ContainsFunc(f.globs, func(g string) bool { return globMatches(g, v.Name) }))
}

// isOnHold says that maintain put the device on hold, or that a runbook holds its clean.
func isOnHold(v contract.DeviceStatus) bool {
	return v.Status == device.Maintaining || v.Waiting != nil && v.Waiting.For == contract.WaitHold
}

// setNames has the filter select devices by NAMEs and patterns.
func (f *filter) setNames(args []string) error {
	for _, arg := range args {
		if isGlob(arg) {
			if _, err := path.Match(arg, ""); err != nil {
				return usagef("%q is not a valid pattern: use * for any text, ? for one character, [ab] for one of several", arg)
			}
			f.globs = append(f.globs, arg)
			continue
		}
		name, err := canonical(arg)
		if err != nil {
			return err
		}
		f.globs = append(f.globs, name)
	}
	return nil
}

// isGlob says that an argument is a pattern of NAMEs: no NAME contains these characters.
func isGlob(arg string) bool { return strings.ContainsAny(arg, `*?[`) }

// globMatches says that a NAME matches a pattern. The hosts and addresses in NAMEs are in lower
// case, however the pattern is written.
func globMatches(glob, name string) bool {
	if _, _, ofAddress := device.SplitName(name); ofAddress {
		glob = strings.ToLower(glob)
	}
	matches, err := path.Match(glob, name)
	return matches && err == nil // setNames has read the pattern
}

// find gives the devices that match the filter. No workflow is queried, but for those that
// changed lately where the age of their state is asked for. A host, type, model or pattern that
// no device has is an error of the command line.
func (a *app) find(ctx context.Context, l deviceClient, f *filter) ([]contract.DeviceStatus, error) {
	found, err := a.listed(ctx, l, f.query())
	if err != nil {
		return nil, err
	}
	if err := a.checkKnown(ctx, l, f, found); err != nil {
		return nil, err
	}
	return a.keepOlder(ctx, l, f.olderThan, f.keep(found))
}

// listed is one listing, with its failure for the operator.
func (a *app) listed(ctx context.Context, l deviceClient, q client.Filter) ([]client.Execution, error) {
	return ask(ctx, a, l, "", func(ctx context.Context) ([]client.Execution, error) { return l.List(ctx, q) })
}

// checkKnown refuses values that no device has. What a device that was found has is known;
// only for the rest are all devices asked for.
func (a *app) checkKnown(ctx context.Context, l deviceClient, f *filter, found []client.Execution) error {
	all, complete := found, false
	for _, by := range []*client.Field{client.ByHost, client.ByType, client.ByModel} {
		for _, value := range f.by[by] {
			has := func(e client.Execution) bool { return by.Text(&e.Status) == value }
			if slices.ContainsFunc(all, has) {
				continue
			}
			if !complete {
				var err error
				if all, err = a.listed(ctx, l, client.Filter{}); err != nil {
					return err
				}
				complete = true
			}
			if !slices.ContainsFunc(all, has) {
				known := mapped(all, func(e client.Execution) string { return by.Text(&e.Status) })
				slices.Sort(known)
				return unknownValue(flagOf(by), value, slices.Compact(known), "no device has this "+flagOf(by))
			}
		}
	}
	for _, glob := range f.globs {
		if !slices.ContainsFunc(found, func(e client.Execution) bool { return globMatches(glob, e.Name) }) {
			return usagef("no device matches %q", glob)
		}
	}
	return nil
}

// keepOlder keeps the devices that are in their state for longer than this. A listing says when
// a device last changed; one that changed since is asked how long it has its state.
func (a *app) keepOlder(ctx context.Context, l deviceClient, age time.Duration,
	views []contract.DeviceStatus) ([]contract.DeviceStatus, error) {
	if age == 0 {
		return views, nil
	}
	before := a.now().Add(-age)
	keep, errs := make([]bool, len(views)), make([]error, len(views))
	parallel(len(views), parallelism, func(i int) {
		v := views[i]
		if v.UpdatedAt.After(before) && v.CreatedAt.Before(before) {
			asked, err := a.queried(ctx, l, v.Name)
			if errs[i] = err; err != nil {
				return
			}
			// It may have left the state that the listing shows.
			if asked.DeviceState == v.DeviceState && !asked.StateSince.IsZero() {
				v.UpdatedAt = asked.StateSince
			}
		}
		keep[i] = !v.UpdatedAt.After(before)
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	old := make([]contract.DeviceStatus, 0, len(views))
	for i, v := range views {
		if keep[i] {
			old = append(old, v)
		}
	}
	return old, nil
}

// setOlderThan takes a length of time: Go's form, or days as 2d.
func (f *filter) setOlderThan(text string) error {
	hours, inDays := strings.CutSuffix(text, "d")
	if inDays {
		hours += "h"
	}
	d, err := time.ParseDuration(hours)
	if inDays {
		d *= 24
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("must be a duration such as 90m, 36h or 2d")
	}
	f.olderThan = d
	return nil
}

// words are the values of a type of words.
func words[T ~string](values []T) []string {
	return mapped(values, func(v T) string { return string(v) })
}

// join lists words.
func join[T ~string](values []T) string { return strings.Join(words(values), ", ") }

// deref gives "" for nil.
func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
