package e2e

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/figures"
	"burnish/workflows/contract"
)

// servesFigures is the setting of a worker that serves its figures.
const servesFigures = "BURNISH_METRICS_ADDRESS=127.0.0.1:0"

var figuresLine = regexp.MustCompile(`msg="metrics are served".* address=(\S+)`)

// get asks a page of a worker that serves its figures; code 0: it did not answer.
func (w *Worker) get(t testing.TB, page string) (code int, body string) {
	t.Helper()
	all := figuresLine.FindAllStringSubmatch(w.Log(), -1) // one log for all starts
	require.NotEmpty(t, all)
	ctx, cancel := context.WithTimeout(t.Context(), patience*15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+all[len(all)-1][1]+page, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// figures are those of the worker, which promtool accepts.
func (w *Worker) figures(t testing.TB) figures.Figures {
	t.Helper()
	code, text := w.get(t, "/metrics")
	require.Equal(t, http.StatusOK, code, text)
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	said, err := check.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Empty(t, string(said))
	require.NotContains(t, text, "device/")
	require.NotContains(t, text, w.Host+"/") // of a workflow's ID
	all, err := figures.Parse([]byte(text))
	require.NoError(t, err)
	return all
}

func awaitReady(t testing.TB, w *Worker, want int) {
	t.Helper()
	Await(t, 30*time.Second, "/readyz", func() (bool, string) {
		code, said := w.get(t, "/readyz")
		return code == want, said
	})
}

// The figures of every role say what has happened, and promtool accepts them. A worker that
// replays what another one did does not count it again.
//
// S2.102
func TestFiguresOfAStory(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("no promtool: deploy/setup-test.sh installs it")
	}
	s := newSite(t)
	control, host := s.Run(t, "control", servesFigures), s.Run(t, "host", servesFigures)
	good, bad := s.Fake(t, "d1", 4*MiB), s.Fake(t, "d2", 2*MiB, "fault=fail:verify@40%")
	s.Enroll(t, good, "--provide")
	s.Enroll(t, bad, "--provide")
	s.AwaitState(t, "d1", time.Minute, device.Available)
	s.AwaitState(t, "d2", time.Minute, device.Error)
	awaitReady(t, control, http.StatusOK)
	awaitReady(t, host, http.StatusOK)

	want := figures.Figures{
		"burnish_cleans_total{model=fake,operation=shred,outcome=cleaned}":      1,
		"burnish_cleans_total{model=fake,operation=shred,outcome=failed}":       1,
		"burnish_clean_duration_seconds_count{operation=shred,outcome=cleaned}": 1,
		"burnish_steps_total{model=fake,result=done,step=zero}":                 2,
		"burnish_steps_total{model=fake,result=done,step=verify}":               1,
		"burnish_steps_total{model=fake,result=failed,step=verify}":             1,
		"burnish_step_duration_seconds_count{model=fake,step=zero}":             2,
		"burnish_wiped_bytes_total{method=fake,step=zero}":                      6 * MiB,
		"burnish_devices{state=available}":                                      1,
		"burnish_devices{state=error}":                                          1,
		"burnish_devices{state=cleaning}":                                       0,
		"burnish_devices_needing_operator{}":                                    1,
		"burnish_workflows_needing_operator{workflow_type=Limits}":              0,
		"burnish_collection_errors_total{part=devices}":                         0,
		"burnish_collection_errors_total{part=hosts}":                           0,
	}
	Await(t, 40*time.Second, "the figures of the control worker", func() (bool, string) {
		all := control.figures(t)
		return all["burnish_devices{state=available}"] == 1 && all["burnish_devices{state=error}"] == 1 &&
			all["burnish_devices{state=cleaning}"] == 0 &&
			all["burnish_devices_needing_operator{}"] == 1, "the listing lags behind"
	})
	all := control.figures(t)
	for name, value := range want {
		require.Contains(t, all, name)
		require.InDelta(t, value, all[name], 0, name)
	}
	require.InDelta(t, time.Now().Unix(), all["burnish_host_last_poll_timestamp_seconds{host="+s.Host+"}"], 120)
	require.NotEmpty(t, all.With("temporal_request_total{"))
	require.NotEmpty(t, all.With("go_goroutines"))
	require.NotEmpty(t, all.With("process_cpu_seconds_total"))
	require.Empty(t, all.With("burnish_slots"))

	all = host.figures(t)
	for name, value := range (figures.Figures{
		"burnish_step_attempts_total{result=done,step=zero}":     2,
		"burnish_step_attempts_total{result=done,step=verify}":   1,
		"burnish_step_attempts_total{result=failed,step=verify}": 1,
		"burnish_slot_wait_seconds_count{}":                      2,
		"burnish_slots_used{}":                                   0,
		"burnish_slots_queued{}":                                 0,
	}) {
		require.Contains(t, all, name)
		require.InDelta(t, value, all[name], 0, name)
	}
	require.Empty(t, all.With("burnish_devices"))
	require.Empty(t, all.With("burnish_cleans"))

	// Another worker replays both devices, and then one more turnover is its own.
	control.Kill(t)
	require.Zero(t, host.Stop(t, 40*time.Second))
	both := s.Run(t, "all", servesFigures)
	for _, name := range []string{"d1", "d2"} {
		s.Show(t, name)
		s.Must(t, "history", name)
	}
	s.Bind(t, "d1", "alice")
	require.Empty(t, both.figures(t).With("burnish_cleans_total"), "it counts what it replayed")
	s.Unbind(t, "d1", "alice")
	s.AwaitReturned(t, good, 30*time.Second)
	all = both.figures(t)
	require.Equal(t, figures.Figures{"burnish_cleans_total{model=fake,operation=shred,outcome=cleaned}": 1},
		all.With("burnish_cleans_total"))
	require.InDelta(t, 4*MiB, all["burnish_wiped_bytes_total{method=fake,step=zero}"], 0)
}

// A worker whose server hangs is not ready within 30 seconds, and is alive; it is ready again
// when the server is back. Meanwhile its API answers a listing with the fault, within 35
// seconds. One that is asked to stop is not ready from that moment on.
func TestReadinessFollowsTheServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	socket := filepath.Join(s.Dir, "api")
	w := s.Run(t, "all", servesFigures, "BURNISH_STOP_TIMEOUT=20s", "BURNISH_API_ADDRESS=unix:"+socket)
	awaitReady(t, w, http.StatusOK)
	api := overUnix(t, socket)
	api.Must(t, http.StatusOK, http.MethodGet, "/readyz", "", nil)
	require.Contains(t, api.Must(t, http.StatusOK, http.MethodGet, "/metrics", "", nil).Body, "burnish_build_info")

	require.NoError(t, s.Server.Freeze())
	t.Cleanup(func() { require.NoError(t, s.Server.Thaw()) })
	frozen := time.Now()
	listed := make(chan Answer, 1)
	took := time.Duration(0)
	go func() {
		defer close(listed)
		if answer, err := api.once(t, http.MethodGet, "/v2/devices", ""); err == nil {
			took = time.Since(frozen)
			listed <- answer
		}
	}()
	awaitReady(t, w, http.StatusServiceUnavailable)
	code, said := w.get(t, "/healthz")
	require.Equal(t, http.StatusOK, code, said)
	_, said = w.get(t, "/readyz")
	require.Contains(t, said, "the Temporal server does not answer")
	list, ok := <-listed
	require.True(t, ok, "a list is answered")
	require.Less(t, took, 30*time.Second+patience*5*time.Second)
	list.requireFault(t, http.StatusServiceUnavailable, device.CodeUnreachable)
	require.NotEmpty(t, list.Header.Get("Retry-After"))
	require.NoError(t, s.Server.Thaw())
	awaitReady(t, w, http.StatusOK)

	require.NoError(t, s.Server.Kill())
	awaitReady(t, w, http.StatusServiceUnavailable)
	api.Must(t, http.StatusOK, http.MethodGet, "/healthz", "", nil)
	require.NoError(t, s.Server.Start(t.Context()))
	awaitReady(t, w, http.StatusOK)
	api.Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil)

	// A step that cannot be stopped quickly keeps the worker alive for a while.
	d := s.Device(t, "fake", "d1", 8*MiB, 20*time.Second)
	s.Enroll(t, d, "--provide")
	s.AwaitDevice(t, "d1", time.Minute, "to be zeroed", func(v contract.DeviceStatus) bool {
		return v.CleanStep != nil && v.CleanStep.Step == "zero"
	})
	require.NoError(t, w.Signal(syscall.SIGTERM))
	PollFast(t, 5*time.Second, "503 from the stopping worker", func() (bool, string) {
		code, said := w.get(t, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(said, "stopping"), said
	})
	code, _ = w.get(t, "/healthz")
	require.Equal(t, http.StatusOK, code, "it has closed before it says so")
}
