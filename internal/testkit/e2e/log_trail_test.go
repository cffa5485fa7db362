package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
	"burnish/workflows/contract"
)

// From the logs of the workers alone one can tell, for each device, what was erased, by which method,
// after which binding: although a step failed, and the host's worker was killed in mid-clean, they say
// the same as the device's history.
func TestTheLogsAreATrail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	control := s.Run(t, "control", "BURNISH_LOG_FORMAT=json")
	host := s.Run(t, "host", "BURNISH_LOG_FORMAT=json")
	failing := s.Fake(t, "failing", 8*MiB, "fault=fail:verify@50%x1")
	failing.Stamp(t, 1)
	slow := s.Device(t, "fake", "slow", 128*MiB, 3*time.Second)
	devices := []Device{failing, slow}
	for _, d := range devices {
		s.Enroll(t, d, "--provide")
	}
	s.AwaitState(t, failing.Name, 40*time.Second, device.Error)
	s.Must(t, "clean", failing.Name, "--wait")
	for _, d := range devices {
		s.AwaitReturned(t, d, 30*time.Second)
		s.Bind(t, d.Name, "alice")
		d.Stamp(t, 2)
		s.Unbind(t, d.Name, "alice")
	}
	s.AwaitMidWipe(t, slow, steps.Chunk, 20*time.Second)
	host.Kill(t)
	e, _ := s.Journal(t, slow.Name)
	require.False(t, e.Done, "the wipe was too quick for this test")
	host.Start(t)
	for _, d := range devices {
		s.AwaitReturned(t, d, 30*time.Second)
	}
	told, resumed := map[string][]string{}, 0
	for _, w := range []*Worker{control, host} {
		text, err := os.ReadFile(w.LogFile) // over all its lives
		require.NoError(t, err)
		lines, err := testlog.Trail(string(text))
		require.NoError(t, err)
		for _, l := range lines {
			if l.Is(logs.StepResumed) {
				resumed++
			}
			// What is said twice, as after a kill, is one.
			if what := ofTrail(l); what != "" && !slices.Contains(told[l.Text(logs.Device)], what) {
				told[l.Text(logs.Device)] = append(told[l.Text(logs.Device)], what)
			}
		}
	}
	require.Positive(t, resumed, "no line says that a step went on after the kill")
	for _, d := range devices {
		var h contract.History
		require.NoError(t, json.Unmarshal([]byte(s.Must(t, "history", d.Name, "-o", "json")), &h))
		require.ElementsMatch(t, ofHistory(h), told[d.Name], d.Name)
	}
}

// ofTrail is a line of the trail in words that a history can be put into too; "" for one that says
// nothing that a history has.
func ofTrail(l testlog.Line) string {
	clean := fmt.Sprintf("clean %d ", l.Number(logs.Clean))
	switch l.Text("msg") {
	case logs.Bound, logs.Unbound:
		return fmt.Sprintf("binding %d %s: %s", l.Number(logs.Binding), l.Text("msg"), l.Text(logs.Instance))
	case logs.CleanStarted:
		return clean + fmt.Sprintf("after binding %d: %s", l.Number(logs.Binding), l.Text(logs.Operation))
	case logs.StepDone:
		return clean + fmt.Sprintf("%s: %d bytes by %s", l.Text(logs.Step), l.Number(logs.Bytes), l.Text(logs.Method))
	case logs.CleanFailed:
		return clean + l.Text(logs.Step) + ": " + l.Text(logs.Fault)
	case logs.Returned:
		return clean + "returned"
	}
	return ""
}

// ofHistory are a history's bindings and cleans in the same words.
func ofHistory(h contract.History) (all []string) {
	for _, b := range h.Bindings {
		for _, what := range []string{logs.Bound, logs.Unbound} {
			all = append(all, fmt.Sprintf("binding %d %s: %s", b.Number, what, b.Instance))
		}
	}
	for _, c := range h.Cleans {
		after := 0
		for _, b := range h.Bindings {
			if !b.Over.At.After(c.StartedAt) {
				after = b.Number
			}
		}
		clean := fmt.Sprintf("clean %d ", c.Number)
		all = append(all, clean+fmt.Sprintf("after binding %d: %s", after, c.Operation))
		for _, s := range c.Steps {
			all = append(all, clean+fmt.Sprintf("%s: %d bytes by %s", s.Step, s.Bytes, s.Method))
		}
		if c.Failure != nil {
			all = append(all, clean+c.Failure.Step+": "+string(c.Fault))
		} else {
			all = append(all, clean+"returned")
		}
	}
	return all
}
