package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
	"burnish/workflows/contract"
)

// From the logs of the workers alone one can tell, for each device, what was erased, when, by
// which method, after which binding: after a day of turnovers in which a step fails, and the
// host worker is killed in mid-clean, they say the same as the device's history.
func TestTheLogsAreATrail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	inJSON := "BURNISH_LOG_FORMAT=json"
	control := s.Run(t, "control", inJSON, "BURNISH_CLEAN_ON_ENROLL=false")
	hostWorker := s.Run(t, "host", inJSON)
	slow := s.Device(t, "fake", "slow", 128*MiB, 3*time.Second)
	// Its second clean fails, after a tenant's binding: its first is by the operator's word.
	failing := s.Fake(t, "failing", 8*MiB, "delay=200ms", "fault=fail:verify@50%x1")
	failing.Stamp(t, 1)
	devices := []Device{slow, failing, s.Device(t, "fake", "quick", 8*MiB, 200*time.Millisecond),
		s.Device(t, "block", "file", 8*MiB+512, 0)}
	for _, d := range devices {
		flags := []string{"--provide"}
		if d.Name == failing.Name {
			flags = append(flags, "--clean")
		}
		s.Enroll(t, d, flags...)
	}

	tenants, failed := map[string][]string{}, false
	// settle waits until the device may be bound; a clean that failed is done again.
	settle := func(d Device) {
		t.Helper()
		if s.AwaitState(t, d.Name, 40*time.Second, device.Available, device.Error).DeviceState == device.Error {
			failed = true
			s.Must(t, append(patiently(), "clean", d.Name, "--wait")...)
		}
	}
	for round := range 2 {
		for _, d := range devices {
			settle(d)
			tenant := fmt.Sprint(d.Name, "-tenant-", round+1)
			s.Bind(t, d.Name, tenant)
			d.Stamp(t, uint64(round)+2)
			tenants[d.Name] = append(tenants[d.Name], tenant)
		}
		for _, d := range devices {
			s.Unbind(t, d.Name, tenants[d.Name][round])
			if d.Name == slow.Name && round == 0 {
				s.AwaitMidWipe(t, d, steps.Chunk, 20*time.Second)
				hostWorker.Kill(t)
				e, _ := s.Journal(t, d.Name)
				require.False(t, e.Done, "the wipe was too quick for this test")
				hostWorker.Start(t)
			}
		}
	}
	for _, d := range devices {
		settle(d)
		s.AwaitReturned(t, d, 30*time.Second)
	}
	require.True(t, failed, "no step failed")

	told := trails{}
	told.read(t, control.LogFile)
	told.read(t, hostWorker.LogFile)
	resumed := 0
	for _, d := range devices {
		var history contract.History
		require.NoError(t, json.Unmarshal([]byte(s.Must(t, "history", d.Name, "-o", "json")), &history))
		v := s.Show(t, d.Name)
		trail := told[d.Name]
		require.NotNil(t, trail, d.Name)
		require.Equal(t, []string{v.UUID, v.Serial, s.Host}, trail.identity)
		requireSameBindings(t, history, trail, tenants[d.Name])
		requireSameCleans(t, d, history, trail)
		resumed += trail.resumed
	}
	require.Len(t, told, len(devices), "the logs name other devices")
	require.Equal(t, 1, told[failing.Name].cleans[1].binding, "a clean that follows a binding fails")
	require.Positive(t, resumed, "no line says that a step went on after the kill")
}

// trails are what the logs tell of the devices, by name.
type trails map[string]*trail

type trail struct {
	identity []string // UUID, serial, host
	cleans   map[int]*loggedClean
	bindings map[int]*loggedBinding
	resumed  int
}

// loggedClean is one clean: what was done, in words that a history can be put into too.
type loggedClean struct {
	binding              int
	path                 string
	size                 int64
	operation            string
	steps                []string
	outcome              string
	began, worked, ended time.Time // began, then the last line of the host, and of the control worker
	complete             bool      // the host said that it is
}

type loggedBinding struct {
	instance    string
	began, over time.Time
}

// read adds a worker's whole log, over all its lives. Lines with the same message, clean (or
// binding) and step are one.
func (r trails) read(t *testing.T, logFile string) {
	t.Helper()
	text, err := os.ReadFile(logFile)
	require.NoError(t, err)
	lines, err := testlog.Trail(string(text))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, l := range lines {
		if l[logs.Device] == nil {
			continue // of the start
		}
		same := fmt.Sprint(l["msg"], l[logs.Device], l[logs.Clean], l[logs.Binding], l[logs.Step])
		if !seen[same] {
			seen[same] = true
			r.add(t, l)
		}
	}
}

func (r trails) add(t *testing.T, l testlog.Line) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, l.Text("time"))
	require.NoError(t, err)
	name, identity := l.Text(logs.Device), []string{l.Text(logs.UUID), l.Text(logs.Serial), l.Text(logs.Host)}
	if r[name] == nil {
		r[name] = &trail{identity: identity, cleans: map[int]*loggedClean{}, bindings: map[int]*loggedBinding{}}
	}
	require.Equal(t, r[name].identity, identity, "%s is another device: %v", name, l)
	clean, binding := int(l.Number(logs.Clean)), int(l.Number(logs.Binding))
	switch l.Text("msg") {
	case logs.Bound:
		r[name].bindings[binding] = &loggedBinding{instance: l.Text(logs.Instance), began: at}
		return
	case logs.Unbound:
		b := r[name].bindings[binding]
		require.NotNil(t, b, "%s ends a binding that did not begin: %v", name, l)
		require.Equal(t, b.instance, l.Text(logs.Instance))
		b.over = at
		return
	}
	if clean == 0 {
		require.True(t, l.Is(logs.Returned), "%v", l) // with no clean so far: by the operator's word
		return
	}
	c := cmp.Or(r[name].cleans[clean], &loggedClean{binding: binding})
	r[name].cleans[clean] = c
	require.Equal(t, c.binding, binding, "clean %d of %s: %v", clean, name, l)
	switch l.Text("msg") {
	case logs.CleanStarted:
		c.began, c.path, c.size, c.operation = at, l.Text(logs.Path), l.Number(logs.Bytes), l.Text(logs.Operation)
	case logs.StepResumed:
		r[name].resumed++
	case logs.StepDone:
		note, _ := l[logs.Note].(string)
		c.steps, c.worked = append(c.steps, stepText(l.Text(logs.Step), l.Text(logs.Method), l.Number(logs.Bytes),
			time.Duration(l.Number(logs.Duration)), l.Number(logs.Reprocessed), note)), at
	case logs.StepFailed:
		c.steps, c.worked = append(c.steps,
			failureText(l.Text(logs.Step), device.Code(l.Text(logs.Fault)), l.Number(logs.Offset))), at
	case logs.CleanEnded:
		c.complete, c.worked = true, at
	case logs.Returned:
		c.outcome, c.ended = "cleaned", at
	case logs.CleanFailed:
		c.outcome, c.ended = "failed: "+l.Text(logs.Fault)+" at "+l.Text(logs.Step), at
	default:
		require.Fail(t, "an unexpected line", "%v", l)
	}
}

func stepText(step, method string, bytes int64, took time.Duration, redone int64, note string) string {
	return fmt.Sprintf("%s: %d bytes by %s in %s, %d again, %q", step, bytes, method, took, redone, note)
}

func failureText(step string, fault device.Code, offset int64) string {
	return fmt.Sprintf("%s: %s after %d bytes", step, fault, offset)
}

// soon is how long after a moment of the history its line may come.
const soon = patience * 10 * time.Second

// requireSameBindings compares the bindings in the logs with those in the history, and both
// with the tenants of the test.
func requireSameBindings(t *testing.T, h contract.History, told *trail, tenants []string) {
	t.Helper()
	require.Len(t, h.Bindings, len(tenants), h.Name)
	require.Len(t, told.bindings, len(tenants), h.Name)
	for i, b := range h.Bindings {
		logged := told.bindings[b.Number]
		require.NotNil(t, logged, "binding %d of %s", b.Number, h.Name)
		require.Equal(t, Instance(tenants[i]), logged.instance)
		require.Equal(t, b.Instance, logged.instance)
		requireThen(t, b.Began.At, logged.began, soon)
		requireThen(t, b.Over.At, logged.over, soon)
	}
}

// requireSameCleans compares what the logs say of the cleans of a device with its history.
func requireSameCleans(t *testing.T, d Device, h contract.History, told *trail) {
	t.Helper()
	require.Len(t, told.cleans, len(h.Cleans), h.Name)
	for _, c := range h.Cleans {
		what := fmt.Sprintf("clean %d of %s", c.Number, h.Name)
		logged := told.cleans[c.Number]
		require.NotNil(t, logged, what)
		require.Equal(t, followed(h, c), logged.binding, "the binding that %s follows", what)
		require.Equal(t, []any{string(c.Operation), d.Size}, []any{logged.operation, logged.size}, what)
		if d.Driver == "block" {
			require.Equal(t, d.Path, logged.path, what)
		}
		outcome := c.Outcome
		var done []string
		for _, s := range c.Steps {
			done = append(done, stepText(s.Step, s.Method, s.Bytes, s.RunTime, s.ReprocessedBytesMax, s.Note))
		}
		if f := c.Failure; f != nil {
			outcome += ": " + string(c.Fault) + " at " + f.Step
			done = append(done, failureText(f.Step, c.Fault, f.Offset))
		}
		require.Equal(t, outcome, logged.outcome, what)
		require.Equal(t, strings.Join(done, "\n"), strings.Join(logged.steps, "\n"), what)
		require.Equal(t, c.Failure == nil, logged.complete, what)
		require.False(t, logged.worked.Before(logged.began), what)
		requireThen(t, c.StartedAt, logged.began, c.EndedAt.Sub(c.StartedAt))
		requireThen(t, logged.worked, c.EndedAt, soon)
		requireThen(t, c.EndedAt, logged.ended, soon)
	}
}

// followed is the number of the last binding that was over when a clean began; 0 if none was.
func followed(h contract.History, c contract.CleanSummary) int {
	for _, b := range slices.Backward(h.Bindings) {
		if !b.Over.At.After(c.StartedAt) {
			return b.Number
		}
	}
	return 0
}

// requireThen asserts that a moment is after another one, or the same, and not by more than
// within.
func requireThen(t *testing.T, first, then time.Time, within time.Duration) {
	t.Helper()
	require.False(t, then.Before(first), "%s is before %s", clock(then), clock(first))
	require.LessOrEqual(t, then.Sub(first), within)
}
