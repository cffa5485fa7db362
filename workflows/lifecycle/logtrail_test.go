package lifecycle_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
	"burnish/workflows/contract"
)

// trailed is a device whose log is read as a trail: trail gives its lines since the last call,
// and in short their messages.
func trailed(t *testing.T) (w *deviceEnv, trail func() (lines []testlog.Line, short string)) {
	t.Helper()
	w = newDeviceEnv(t, standardPolicy())
	log := &testlog.Log{}
	w.log = logs.New(log, logs.Options{Format: logs.JSON, Level: slog.LevelDebug})
	seen := 0
	return w, func() ([]testlog.Line, string) {
		t.Helper()
		lines, err := testlog.Trail(log.String())
		require.NoError(t, err)
		lines = lines[seen:]
		seen += len(lines)
		var all []string
		for _, l := range lines {
			require.Equal(t, []string{"d1", contract.DeviceUUID("d1"), w.host.discovery.Identity.Serial, w.enrollment().Host},
				[]string{l.Text(logs.Device), l.Text(logs.UUID), l.Text(logs.Serial), l.Text(logs.Host)})
			all = append(all, l.Text("msg"))
		}
		return lines, strings.Join(all, ", ")
	}
}

// From the log of the control workers alone one reads who had the device, and when it was
// returned.
func TestATurnoverLeavesATrail(t *testing.T) {
	w, trail := trailed(t)
	w.makeAvailable()
	lines, short := trail()
	require.Equal(t, "returned", short)
	require.EqualValues(t, 1, lines[0].Number(logs.Clean))
	for number, instance := range []string{"i1", "i2"} {
		ok[contract.Result](w.bind(instance, "r-"+instance))
		w.host.writeAsTenant(instance)
		lines, short = trail()
		require.Equal(t, "bound", short)
		require.Equal(t, []any{instance, int64(number + 1), string(device.Burned)},
			[]any{lines[0][logs.Instance], lines[0].Number(logs.Binding), lines[0][logs.Event]})
		ok[contract.Result](w.bind(instance, "r-"+instance)) // once more
		w.nextRun()
		ok[contract.Result](w.unbind(instance))
		lines, short = trail()
		require.Equal(t, "unbound", short)
		require.Equal(t, []any{instance, int64(number + 1), string(device.Unbind)},
			[]any{lines[0][logs.Instance], lines[0].Number(logs.Binding), lines[0][logs.Event]})
		w.reach(device.Available)
		lines, short = trail()
		require.Equal(t, "returned", short)
		require.Equal(t, []int64{int64(number + 2), int64(number + 1)},
			[]int64{lines[0].Number(logs.Clean), lines[0].Number(logs.Binding)})
	}
}

// A failed clean is a warning with its step, fault and remedy. What was refused says who asked
// for it and why it was not done, and is no error.
//
// S2.63
func TestAFailureAndARefusalInTheLog(t *testing.T) {
	w, trail := trailed(t)
	w.makeBound("i1")
	trail()
	in := contract.BindInput{Caller: contract.Caller{By: "eve@desk"}, Instance: "i2", Request: "r2"}
	w.send(contract.VerbBind.Update(), "", in).refused(device.CodeRefused)
	lines, short := trail()
	require.Equal(t, "request refused", short)
	require.Equal(t, []any{"bind", "refused", "eve@desk"},
		[]any{lines[0][logs.Verb], lines[0][logs.Fault], lines[0][logs.By]})
	require.NotEmpty(t, lines[0][logs.Remedy])
	refusal := lines[0][logs.Error]
	w.send(contract.VerbClean.Update(), "", contract.CleanInput{}).refused(device.CodeRefused)
	lines, _ = trail()
	asUpdate := lines[0]
	w.signal(contract.SignalClean, contract.CleanInput{Caller: in.Caller})
	w.pass(time.Second)
	lines, short = trail()
	require.Equal(t, "request refused", short)
	require.NotEqual(t, refusal, lines[0][logs.Error])
	for _, key := range []string{logs.Verb, logs.Fault, logs.Error, logs.Remedy} {
		require.Equal(t, asUpdate[key], lines[0][key], "a signal is refused as an update is")
	}
	require.Equal(t, []any{"clean", "eve@desk"}, []any{lines[0][logs.Verb], lines[0][logs.By]})

	w.host.injectFault = func(what string, _ int) error {
		if what != "verify" {
			return nil
		}
		return contract.Refuse(
			contract.Refusal{Fault: device.Fault{Class: device.NeedsOperator, Code: device.CodeVerifyFailed, Message: "byte 7",
				Remedy: "look"}})
	}
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Error)
	lines, short = trail()
	require.Equal(t, "unbound, clean failed", short)
	failed := lines[1]
	require.Equal(t, []any{"verify", "verify_failed", "byte 7", "look"},
		[]any{failed[logs.Step], failed[logs.Fault], failed[logs.Error], failed[logs.Remedy]})
	require.Equal(t, "WARN", failed[slog.LevelKey])
	require.Equal(t, []int64{2, 1}, []int64{failed.Number(logs.Clean), failed.Number(logs.Binding)})

	w.host.injectFault, w.host.cancelDelay = nil, time.Second
	ok[contract.Result](w.ask(contract.VerbClean.Update()))
	w.stepRuns("zero")
	ok[contract.Result](w.ask(contract.VerbAbort.Update()))
	w.reach(device.Error)
	lines, short = trail()
	require.Equal(t, "clean aborted", short)
	require.Equal(t, []any{"zero", "aborted", int64(3)},
		[]any{lines[0][logs.Step], lines[0][logs.Fault], lines[0].Number(logs.Clean)})
}

// A host that does not start a device's work is a warning, and so is its end; however often it
// is tried meanwhile.
func TestAnUnreachableHostInTheLog(t *testing.T) {
	w, trail := trailed(t)
	w.makeBound("i1")
	w.host.up = false
	ok[contract.Result](w.unbind("i1"))
	trail()
	w.pass(6 * time.Hour)
	lines, short := trail()
	require.Equal(t, "host unreachable", short)
	require.Contains(t, lines[0][logs.Remedy], "burnish-worker")
	w.host.up = true
	w.reach(device.Available)
	lines, short = trail()
	require.Equal(t, "host no longer waited for, returned", short)
	require.Greater(t, lines[0].Number(logs.Duration), int64(5*time.Hour))

	w.host.up = false
	ok[contract.Result](w.bind("i2", "r2"))
	ok[contract.Result](w.unbind("i2"))
	w.pass(time.Hour)
	ok[contract.Result](w.ask(contract.VerbAbort.Update()))
	w.reach(device.Error)
	_, short = trail()
	require.Equal(t, "bound, unbound, host unreachable, host no longer waited for, clean aborted", short)
}
