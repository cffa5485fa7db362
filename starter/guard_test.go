package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// needed are the flags without which a command sends nothing.
var needed = map[string][]string{"retire": {"--reason", "old"}, "maintain": {"--reason", "kernel"}, "label": {"rack=a"}}

// A command that may erase, retire or end a binding asks before it acts on the devices that a
// filter chose, though it is one; all others ask above ten.
func TestEveryCommandThatDestroysAsks(t *testing.T) {
	var checked []string
	for _, cmd := range leaves((&app{}).root()) {
		name := strings.TrimPrefix(cmd.CommandPath(), "burnish ")
		if cmd.Flags().Lookup("yes") == nil || cmd.Flags().Lookup("state") == nil {
			continue // its devices are not chosen by the filters of devices
		}
		checked = append(checked, name)
		asks := slices.Contains([]string{"provide", "clean", "release-hold", "manage", "retire"}, name)
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 10, 11} {
				run := func(answer string, more ...string) (ran, []string) {
					l := fleetOf(n)
					return burnish(t, l, answer, slices.Concat([]string{name, "--state", "error"}, needed[name], more)...), l.sent
				}
				asks := asks || n > 10
				got, sent := run("")
				require.Equal(t, map[bool]int{true: exitUsage, false: exitOK}[asks], got.code, got.errors)
				require.Len(t, sent, map[bool]int{true: 0, false: n}[asks])
				require.Equal(t, asks,
					strings.Contains(got.errors, "there is no terminal to ask for confirmation; check with --dry-run, then use --yes"),
					got.errors)

				got, sent = run("\n")
				require.Equal(t, map[bool]int{true: exitFailed, false: exitOK}[asks], got.code, got.errors)
				require.Equal(t, asks, strings.Contains(got.errors, "not confirmed; nothing was sent"), got.errors)
				require.Len(t, sent, map[bool]int{true: 0, false: n}[asks])

				for _, agreed := range [][]string{{"y\n"}, {"", "--yes"}} {
					got, sent = run(agreed[0], agreed[1:]...)
					require.Equal(t, exitOK, got.code, got.errors)
					require.Len(t, sent, n)
				}
			}
		})
	}
	require.Equal(t, []string{"abort", "clean", "label", "maintain", "manage", "provide", "release-hold", "retire"},
		checked)
}

// leaves are the commands of a tree that have none below them, or do something themselves.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		all = append(all, append(leaves(c), c)...)
	}
	return all
}

// Named devices are not asked about up to ten, because their names were typed; above ten, a
// question shows what the server knows of them, too.
func TestNamedDevicesAreAskedAboutAboveTen(t *testing.T) {
	for n, asks := range map[int]bool{10: false, 11: true} {
		l := fleetOf(n)
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("d%02d", i))
		}
		got := burnish(t, l, "", append([]string{"retire", "--reason", "old"}, names...)...)
		require.Equal(t, map[bool]int{true: exitUsage, false: exitOK}[asks], got.code, got.errors)
		if asks {
			l.onList = func(string) ([]client.Execution, error) { // d10 is not enrolled
				found, _ := fleetOf(10).onList("")
				return found, nil
			}
			got = burnish(t, l, "n\n", append([]string{"retire", "--reason", "old"}, names...)...)
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.errors, "\nd09   -     error\nd10   -     not enrolled\nretire 11 devices? y/N ")
			require.Empty(t, l.sent)
		}
	}
}

// A question names the devices, their hosts and states and who has them, on one screen: those
// with a tenant first, and what is left out by its number. Nothing of a device can move the
// cursor.
func TestAQuestionShowsTheDevices(t *testing.T) {
	l := fleetOf(0)
	instance := someInstance
	l.onList = func(string) ([]client.Execution, error) {
		var found []client.Execution
		for i := range 30 {
			v := in(fmt.Sprintf("d%02d", i), device.Available)
			v.Hostname, v.Type = "h1", "DISK"
			switch i {
			case 27:
				v.DeviceState, v.InstanceUUID = device.Allocated, &instance
			case 28, 29:
				v.DeviceState = device.Error
			case 1:
				v.Hostname = "h\x1b[2J1"
			}
			found = append(found, running(v))
		}
		return found, nil
	}
	got := burnish(t, l, "n\n", "retire", "--type", "disk", "--reason", "old")
	require.Equal(t, exitFailed, got.code)
	require.Empty(t, got.out, "the result is on standard output, and nothing was done")
	lines := strings.Split(got.errors, "\n")
	require.Equal(t, []string{
		"NAME  HOST    STATE      INSTANCE",
		"d27   h1      allocated  " + someInstance,
		"d00   h1      available  -",
		"d01   h?[2J1  available  -",
	}, lines[:4])
	require.Equal(t, "d16   h1      available  -", lines[maxAsked])
	require.Equal(t, "and 12 more: 10 available, 2 error", lines[maxAsked+1])
	require.Equal(t, "retire 30 devices? y/N burnish: retire: not confirmed; nothing was sent", lines[maxAsked+2])
	require.LessOrEqual(t, len(lines), 24, "it fits on a screen")
	require.Empty(t, l.sent)

	// One device, whose host and state are what the question is about.
	l.onList = func(string) ([]client.Execution, error) {
		v := in("d1", device.Error)
		v.Hostname = "h1"
		return []client.Execution{running(v)}, nil
	}
	l.onUpdate = func(context.Context, string, string, any) (contract.Result, error) {
		return contract.Result{Device: in("d1", device.PendingCleaning)}, nil
	}
	got = burnish(t, l, "yes\n", "clean", "--state", "error")
	require.Equal(t, exitOK, got.code)
	require.Equal(t, "NAME  HOST  STATE\nd1    h1    error\nclean 1 device? y/N ", got.errors)
	require.Equal(t, []string{"clean d1"}, l.sent)
}
