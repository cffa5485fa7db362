package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// chronicle is a fleet that changes from poll to poll.
type chronicle struct {
	mu    sync.Mutex
	round int
	// at gives the devices of a round, with their histories.
	at     func(round int) []contract.DeviceStatus
	broken map[int]bool // rounds in which the server is away
	asked  []int        // histories that were asked for, by round
}

func (c *chronicle) client() *fakeClient {
	all := func() []contract.DeviceStatus {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.at(c.round)
	}
	return &fakeClient{
		onList: func(string) (found []client.Execution, err error) {
			if c.broken[c.round] {
				return nil, serviceerror.NewUnavailable("closing")
			}
			for _, v := range all() {
				v.Acts, v.Cleans, v.Bindings = nil, nil, nil
				found = append(found, running(v))
			}
			return found, nil
		},
		onDescribe: func(name string) (client.Execution, error) {
			for _, v := range all() {
				if v.Name == name {
					return running(v), nil
				}
			}
			return client.Execution{}, gone()
		},
		onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
			for _, v := range all() {
				if v.Name == name {
					c.mu.Lock()
					defer c.mu.Unlock()
					for len(c.asked) <= c.round {
						c.asked = append(c.asked, 0)
					}
					c.asked[c.round]++
					return v, nil
				}
			}
			return contract.DeviceStatus{}, gone()
		},
	}
}

// runs runs events over so many rounds.
func (c *chronicle) runs(t *testing.T, rounds int, args ...string) ran {
	t.Helper()
	c.round, c.asked = 0, nil
	return burnishWith(t, c.client(), func(a *app, ctrlC func()) {
		a.now = func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			return clock.Add(time.Duration(c.round) * time.Minute)
		}
		a.pause = func(ctx context.Context, _ time.Duration) error {
			c.mu.Lock()
			c.round++
			c.mu.Unlock()
			if c.round == rounds {
				ctrlC()
			}
			return ctx.Err()
		}
	}, append([]string{"events"}, args...)...)
}

func actAt(minute int, verb, by, reason string) contract.Act {
	return contract.Act{At: clock.Add(time.Duration(minute) * time.Minute), Verb: verb, By: by, Reason: reason}
}

// whatHappened gives the lines of events without their times, which must be in order.
func whatHappened(t *testing.T, out string) (lines []string) {
	last := ""
	for line := range strings.Lines(out) {
		at, text, ok := strings.Cut(strings.TrimSpace(line), " CET  ")
		require.True(t, ok, line)
		require.GreaterOrEqual(t, at, last)
		lines, last = append(lines, text), at
	}
	return lines
}

func TestEvents(t *testing.T) {
	c := &chronicle{at: func(int) []contract.DeviceStatus {
		d1, d2 := in("d1", device.Error), in("d2", device.Allocated)
		d1.Acts = []contract.Act{actAt(-50, "enroll", "root@h1", ""), actAt(-20, "clean", "ann\x1b[31m", "once\nmore")}
		d1.Cleans = []contract.CleanSummary{{
			Number: 1, Outcome: "failed", Fault: "io_error", By: "ann", StartedAt: clock.Add(-19 * time.Minute),
			EndedAt: clock.Add(-5 * time.Minute), Failure: &contract.CleanFailure{Step: "zero", Message: "sector 7"},
		}}
		d1.Fault, d1.LastError, d1.NeedsOperator = "io_error", "write failed", true
		d2.Acts = []contract.Act{actAt(-30, "bind", "", "")}
		d2.Bindings = []device.Binding{{Number: 1, Instance: someInstance,
			Began: &device.Moment{At: clock.Add(-30 * time.Minute), By: "bob"}}}
		return []contract.DeviceStatus{d2, d1}
	}}
	got := c.runs(t, 1)
	require.Equal(t, exitOK, got.code, got.errors)
	all := []string{
		"d1: enroll, by root@h1",
		"d2: bind, by unknown",
		"d2: began: binding 1 of instance " + someInstance + ", by bob",
		"d1: clean, by ann?[31m, reason: once more",
		"d1: clean 1 began, by ann",
		"d1: clean 1: failed at zero, fault io_error, reason: sector 7",
		"d1: fault in state error, fault io_error, reason: write failed",
	}
	require.Equal(t, all, whatHappened(t, got.out))
	require.Equal(t, []int{2}, c.asked)

	require.Equal(t, all[3:], whatHappened(t, c.runs(t, 1, "--since", "25m").out))
	require.Equal(t, []string{all[1], all[2]}, whatHappened(t, c.runs(t, 1, "d2").out))

	var kinds []string
	for line := range strings.Lines(c.runs(t, 1, "d1", "-o", "json").out) {
		var e deviceEvent
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		require.Equal(t, "d1", e.Device)
		require.Equal(t, time.UTC, e.Time.Location())
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, []string{"act", "act", "clean", "clean", "fault"}, kinds)
	require.Equal(t, 7, strings.Count(c.runs(t, 1, "-o", "yaml").out, "---\n"))
}

// New events come once each, also of an act that the listing does not show, and across a
// server that is away for a while.
func TestEventsFollow(t *testing.T) {
	c := &chronicle{broken: map[int]bool{2: true, 3: true}}
	c.at = func(round int) (all []contract.DeviceStatus) {
		for i := range 20 {
			all = append(all, in(fmt.Sprintf("d%02d", i), device.Available))
		}
		d := &all[7]
		d.Acts = []contract.Act{actAt(-1, "enroll", "root@h1", "")}
		if round >= 1 {
			d.Acts = append(d.Acts, actAt(1, "label", "ann", "")) // nothing else changes
		}
		if round >= 5 && round < 8 {
			d.DeviceState, d.Fault, d.LastError, d.UpdatedAt = device.Error, "io_error", "write failed", clock.Add(5*time.Minute)
		}
		if round >= 8 {
			d.UpdatedAt = clock.Add(8 * time.Minute)
		}
		if round >= 9 {
			d.Acts[0].Fault = "" // as before
			all = all[:19]       // one is deleted
		}
		return all
	}
	got := c.runs(t, 12, "--follow")
	require.Equal(t, exitInterrupted, got.code)
	require.Equal(t, []string{
		"d07: enroll, by root@h1",
		"d07: label, by ann",
		"d07: fault in state error, fault io_error, reason: write failed",
		"d07: fault ended: io_error",
	}, whatHappened(t, got.out))
	require.Equal(t, 1, strings.Count(got.errors, "trying again"), got.errors)
	require.Equal(t, 20, c.asked[0])
	for _, n := range c.asked[1:] {
		require.LessOrEqual(t, n, turnHistories+1, "only what changed is asked, and a few in turn")
	}

	// The act came before anything else of the device changed.
	require.Contains(t, c.runs(t, 5, "--follow").out, "d07: label, by ann")

	got = c.runs(t, 9, "d07", "--follow", "-o", "json")
	require.Equal(t, exitInterrupted, got.code)
	require.Equal(t, 4, strings.Count(got.out, "\n"))
}

// A clean that runs is an event at once, though the history has it when it has ended.
func TestEventsOfARunningClean(t *testing.T) {
	c := &chronicle{at: func(round int) []contract.DeviceStatus {
		d := in("d1", device.Cleaning)
		d.StateSince = clock.Add(-2 * time.Hour)
		if round >= 3 {
			d.DeviceState, d.StateSince, d.UpdatedAt = device.Available, clock.Add(3*time.Minute), clock.Add(3*time.Minute)
			d.Cleans = []contract.CleanSummary{{Number: 1, Outcome: "cleaned", By: contract.ByBurnish,
				StartedAt: clock.Add(-2 * time.Hour), EndedAt: clock.Add(3 * time.Minute)}}
		}
		return []contract.DeviceStatus{d}
	}}
	require.Equal(t, []string{"d1: a clean is running"}, whatHappened(t, c.runs(t, 2, "--follow").out))
	require.Equal(t, []string{"d1: a clean is running", "d1: clean 1 began", "d1: clean 1: cleaned"},
		whatHappened(t, c.runs(t, 5, "--follow").out))
}

func TestEventsThatFail(t *testing.T) {
	c := &chronicle{at: func(int) []contract.DeviceStatus { return nil }, broken: map[int]bool{}}
	got := c.runs(t, 1, "d1")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errors, "no such device")
	c.broken[0] = true
	require.Equal(t, exitUnreachable, c.runs(t, 1).code)
}
