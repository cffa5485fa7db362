package lifecycle_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/internal/telemetry"
	"burnish/internal/testkit/figures"
	"burnish/workflows/contract"
)

// countFigures has the environment count; the function that it returns gives the figures.
func (w *deviceEnv) countFigures() func() figures.Figures {
	counted, err := telemetry.New("test", "control", slog.New(slog.DiscardHandler))
	require.NoError(w.t, err)
	var options sdkclient.Options
	counted.Options(&options)
	w.metrics = options.MetricsHandler
	return func() figures.Figures {
		all, err := figures.Of(counted.Handler())
		require.NoError(w.t, err)
		return all.With("burnish_").Without("burnish_build_info")
	}
}

// Each clean and each step counts once, as what became of it, however often a host's worker
// was killed meanwhile.
func TestCleansAndStepsAreCounted(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.discovery.Identity.Model = "Acme 1"
	read := w.countFigures()
	w.makeAvailable()
	const size = blocks * blockSize
	done := figures.Figures{
		"burnish_cleans_total{model=Acme 1,operation=shred,outcome=cleaned}":    1,
		"burnish_clean_duration_seconds_count{operation=shred,outcome=cleaned}": 1,
		"burnish_steps_total{model=Acme 1,result=done,step=zero}":               1,
		"burnish_steps_total{model=Acme 1,result=done,step=verify}":             1,
		"burnish_step_duration_seconds_count{model=Acme 1,step=zero}":           1,
		"burnish_step_duration_seconds_count{model=Acme 1,step=verify}":         1,
		"burnish_step_duration_seconds_sum{model=Acme 1,step=zero}":             (blocks * pace).Seconds(),
		"burnish_step_duration_seconds_sum{model=Acme 1,step=verify}":           (blocks * pace).Seconds(),
		"burnish_wiped_bytes_total{method=testdriver,step=zero}":                size,
	}
	first := read()
	require.InDelta(t, (2 * blocks * pace).Seconds(),
		first["burnish_clean_duration_seconds_sum{operation=shred,outcome=cleaned}"], 1)
	delete(first, "burnish_clean_duration_seconds_sum{operation=shred,outcome=cleaned}")
	require.Equal(t, done, first)

	// The worker is killed in the middle of a step.
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.host.crash()
	w.pass(time.Second)
	w.host.restart()
	w.reach(device.Available)
	all := read()
	require.InDelta(t, 2, all["burnish_cleans_total{model=Acme 1,operation=shred,outcome=cleaned}"], 0)
	require.InDelta(t, 2, all["burnish_steps_total{model=Acme 1,result=done,step=zero}"], 0)
	require.InDelta(t, 2*size, all["burnish_wiped_bytes_total{method=testdriver,step=zero}"], 0)

	// A step fails: nothing is wiped.
	w.makeBound("i2")
	w.failStep("zero", 1, device.CodeIO)
	ok[contract.Result](w.unbind("i2"))
	w.reach(device.Error)
	all = read()
	require.InDelta(t, 1, all["burnish_cleans_total{model=Acme 1,operation=shred,outcome=failed}"], 0)
	require.InDelta(t, 1, all["burnish_steps_total{model=Acme 1,result=failed,step=zero}"], 0)
	require.InDelta(t, 2, all["burnish_steps_total{model=Acme 1,result=done,step=zero}"], 0)
	require.InDelta(t, 2*size, all["burnish_wiped_bytes_total{method=testdriver,step=zero}"], 0)

	// An operator aborts the next clean.
	w.host.injectFault = nil
	w.nextRun()
	ok[contract.Result](w.cleanUp())
	w.stepRuns("verify")
	ok[contract.Result](w.ask(contract.VerbAbort.Update()))
	w.reach(device.Error)
	all = read()
	require.InDelta(t, 1, all["burnish_cleans_total{model=Acme 1,operation=shred,outcome=aborted}"], 0)
	require.InDelta(t, 1, all["burnish_steps_total{model=Acme 1,result=stopped,step=verify}"], 0)
	require.InDelta(t, 3*size, all["burnish_wiped_bytes_total{method=testdriver,step=zero}"], 0)

	// Steps that an operator names are no full clean.
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	ok[contract.Result](w.cleanUp("verify"))
	w.reach(device.Manageable)
	all = read()
	require.InDelta(t, 1, all["burnish_cleans_total{model=Acme 1,operation=shred,outcome=steps_done}"], 0)
	require.InDelta(t, 2, all["burnish_cleans_total{model=Acme 1,operation=shred,outcome=cleaned}"], 0)
}

// A step whose result is not the one that was asked for has failed, and wiped nothing.
func TestAResultOfAnotherStepCountsAsFailed(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	read := w.countFigures()
	w.host.misreport = func(r *contract.StepResult) { r.Clean = "another" }
	ok[contract.Result](w.enroll(true))
	w.reach(device.Error)
	all := read()
	require.Equal(t, figures.Figures{"burnish_steps_total{model=M1,result=failed,step=zero}": 1},
		all.With("burnish_steps_total"))
	require.Empty(t, all.With("burnish_wiped_bytes"))
	require.Empty(t, all.With("burnish_step_duration"))
}

// The wait for a slot in the limits is measured.
func TestTheWaitForTheLimitsIsMeasured(t *testing.T) {
	w := newDeviceEnv(t, limited(device.Limits{ConcurrentCleans: 1}))
	read := w.countFigures()
	ok[contract.Result](w.enroll(true))
	w.until("the request", func() bool { return len(w.limits.requests) == 1 })
	w.pass(90 * time.Second)
	require.Empty(t, read().With("burnish_limits_wait"))
	w.answer(contract.SlotAnswer{Granted: true})
	w.reach(device.Available)
	all := read()
	require.InDelta(t, 1, all["burnish_limits_wait_seconds_count{}"], 0)
	require.InDelta(t, 90, all["burnish_limits_wait_seconds_sum{}"], 2)
}
