package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// confirmThreshold is the number of devices above which every command on several devices
// asks.
const confirmThreshold = 10

// question is what a command asks before it acts on devices.
type question struct {
	does string
	n    int
	// above is the number of devices above which it asks.
	above int
	// yes: --yes answered it.
	yes bool
	// show gives the table of what it would act on.
	show func() (string, error)
}

// asksAbove is the number of devices above which a command that may do this asks. One that does not
// keep everything asks of devices that a filter chose, however few they are: a filter may select more
// than its author remembers.
func asksAbove(may contract.Effect, byFilter bool) int {
	if byFilter && may != contract.Keeps {
		return 0
	}
	return confirmThreshold
}

// due says whether the question must be asked.
func (q question) due() bool { return q.n > q.above && !q.yes }

// refuse is the error of a question that nobody can be asked.
func (a *app) refuse(q question) error {
	if !q.due() || a.terminal() {
		return nil
	}
	f := usagef("this would %s %s, and there is no terminal to ask for confirmation", q.does, countOf(q.n))
	f.remedy = "check with --dry-run, then use --yes"
	return f
}

// confirm shows what a command would act on and asks, where that is due.
func (a *app) confirm(ctx context.Context, q question) error {
	if !q.due() {
		return nil
	}
	if err := a.refuse(q); err != nil {
		return err
	}
	table, err := q.show()
	if err != nil {
		return err
	}
	// Who does not see the question answers nothing, which is a no.
	fmt.Fprintf(a.stderr, "%s%s %s? y/N ", table, q.does, countOf(q.n))
	answer, err := unlessEnded(ctx, func() (string, error) {
		// An answer that cannot be read is a no.
		line, _ := bufio.NewReader(io.LimitReader(a.stdin, 256)).ReadString('\n')
		return strings.ToLower(strings.TrimSpace(line)), nil
	})
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(a.stderr) // the question's line has no end yet
		return interrupted(nothingSent, "")
	case answer == "y" || answer == "yes":
		return nil
	}
	return failf(device.CodeRefused, "", "not confirmed; nothing was sent")
}

func countOf(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

// maxAsked is how many devices a question shows: with its own lines they fit on a screen.
const maxAsked = 18

// affected is the table of the devices that a command would act on: those that an instance has
// come first, and what does not fit is counted by its state.
func (a *app) affected(views []contract.DeviceStatus) string {
	inUse := func(v contract.DeviceStatus) bool { return v.InstanceUUID != nil }
	views = slices.Clone(views)
	slices.SortStableFunc(views, func(a, b contract.DeviceStatus) int {
		return cmp.Compare(deref(b.InstanceUUID), "") - cmp.Compare(deref(a.InstanceUUID), "")
	})
	head := []string{"NAME", "HOST", "STATE"}
	instances := slices.ContainsFunc(views, inUse)
	if instances {
		head = append(head, "INSTANCE")
	}
	rows := [][]string{head}
	for _, v := range views[:min(maxAsked, len(views))] {
		row := []string{v.Name, v.Hostname, cmp.Or(string(v.DeviceState), "not enrolled")}
		if instances {
			row = append(row, deref(v.InstanceUUID))
		}
		rows = append(rows, row)
	}
	return a.columns(rows) + more(views)
}

// more counts the devices that a question does not show.
func more(views []contract.DeviceStatus) string {
	if len(views) <= maxAsked {
		return ""
	}
	rest := views[maxAsked:]
	counts := map[device.State]int{}
	for _, v := range rest {
		counts[v.DeviceState]++
	}
	var parts []string
	for _, s := range append(device.States(), device.Absent) {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], cmp.Or(string(s), "not enrolled")))
		}
	}
	return fmt.Sprintf("and %d more: %s\n", len(rest), strings.Join(parts, ", "))
}

// named gives the devices of these names as the server lists them; one that it does not list
// has its name alone.
func (a *app) named(ctx context.Context, l deviceClient, names []string) ([]contract.DeviceStatus, error) {
	listed := map[string]contract.DeviceStatus{}
	for some := range slices.Chunk(names, namesPerList) {
		found, err := a.listed(ctx, l, client.Filter{client.ByName: some})
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			listed[e.Name] = e.Status
		}
	}
	views := make([]contract.DeviceStatus, len(names))
	for i, name := range names {
		views[i] = listed[name]
		views[i].Name = name
	}
	return views, nil
}

// namesPerList keeps the address of a listing over the HTTP API short enough for any proxy.
const namesPerList = 50
