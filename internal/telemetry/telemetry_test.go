package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/figures"
	"burnish/workflows/contract"
)

func newTelemetry(t *testing.T) *Telemetry {
	t.Helper()
	made, err := New("1.2.3", "all", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return made
}

func scrape(t *testing.T, from *Telemetry) figures.Figures {
	t.Helper()
	all, err := figures.Of(from.Handler())
	require.NoError(t, err)
	return all
}

// However many models a fleet has, and whatever they are called, a figure stays small.
func TestModelsAreBounded(t *testing.T) {
	f := newTelemetry(t)
	base := f.handler.WithTags(map[string]string{"namespace": "n", "task_queue": "burnish",
		"workflow_type": contract.WorkflowDeviceLifecycle})
	for i := range 1000 {
		base.WithTags(map[string]string{
			contract.LabelModel: fmt.Sprintf("M%03d\x00\xff\n", i), contract.LabelStep: "zero",
			contract.LabelResult: contract.ResultDone,
			"device":             fmt.Sprint("d", i), "workflow_id": fmt.Sprint("device/d", i), "run_id": fmt.Sprint(i),
		}).Counter(contract.FigureSteps).Inc(1)
	}
	all := scrape(t, f)
	require.InDelta(t, 1, all["burnish_steps_total{model=M000 ?,result=done,step=zero}"], 0)
	require.InDelta(t, 900, all["burnish_steps_total{model=other,result=done,step=zero}"], 0)
	series := 0
	for name := range all {
		require.NotContains(t, name, "device/d")
		if strings.HasPrefix(name, "burnish_steps_total") {
			series++
		}
	}
	require.Equal(t, 101, series)
	base.WithTags(map[string]string{contract.LabelModel: strings.Repeat("ü", 400), contract.LabelResult: ""}).
		Counter(contract.FigureSteps).Inc(1)
	require.InDelta(t, 1, scrape(t, f)["burnish_steps_total{model=other,result=none}"], 0)
}

// Devices with the same labels share one handler, so that none costs memory for it.
func TestHandlersAreShared(t *testing.T) {
	f := newTelemetry(t)
	a := f.handler.WithTags(map[string]string{"workflow_type": "W", "namespace": "n"})
	require.Same(t, a,
		f.handler.WithTags(map[string]string{"namespace": "n", "workflow_type": "W", "workflow_id": "device/d1"}))
}

// What stands in a label's value is never taken for another label.
func TestLabelsAreKeptApart(t *testing.T) {
	f := newTelemetry(t)
	for _, tags := range []map[string]string{
		{contract.LabelModel: "M", contract.LabelStep: "zero"}, {contract.LabelModel: "M\x00step\x00zero"}, {contract.LabelModel: "Mstepzero"}, {contract.LabelStep: "M"},
		{contract.LabelModel: "M", contract.LabelStep: ""}, {contract.LabelModel: "M"},
	} {
		f.handler.WithTags(tags).Counter(contract.FigureSteps).Inc(1)
	}
	all := scrape(t, f).With("burnish_steps_total")
	require.Equal(t, figures.Figures{
		"burnish_steps_total{model=M,step=zero}": 1, "burnish_steps_total{model=M step zero}": 1,
		"burnish_steps_total{model=Mstepzero}": 1,
		"burnish_steps_total{step=M}":          1, "burnish_steps_total{model=M,step=none}": 1,
		"burnish_steps_total{model=M}": 1,
	}, all)
}

// Only GET and HEAD are answered.
func TestOnlyReadsAreAnswered(t *testing.T) {
	f := newTelemetry(t)
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/", "/debug/pprof/"} {
		for method, want := range map[string]int{http.MethodGet: http.StatusOK, http.MethodHead: http.StatusOK,
			http.MethodPost: http.StatusMethodNotAllowed, http.MethodDelete: http.StatusMethodNotAllowed} {
			switch {
			case path == "/readyz" && want == http.StatusOK:
				want = http.StatusServiceUnavailable
			case path == "/" || strings.HasPrefix(path, "/debug"):
				want = http.StatusNotFound
			}
			w := httptest.NewRecorder()
			f.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
			require.Equal(t, want, w.Code, "%s %s", method, path)
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			if want == http.StatusMethodNotAllowed {
				require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
			}
		}
	}
}

// A worker is ready while it runs, polls, and the server answers, which is asked at most once
// in five seconds.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, asked, polled := newTelemetry(t), 0, false
		var answer error
		check := func(ctx context.Context) error {
			asked++
			if errors.Is(answer, context.DeadlineExceeded) { // the connection hangs
				<-ctx.Done()
			}
			return answer
		}
		polls := func(_ context.Context, q Queue) (bool, error) { return polled && q.Name == "q", nil }
		require.ErrorContains(t, f.Ready(t.Context()), "starting")
		f.Started(Server{Check: check, Polls: polls}, Queue{Name: "q"})
		require.ErrorContains(t, f.Ready(t.Context()), "does not poll")
		polled = true
		<-time.After(freshFor)
		for range 100 {
			require.NoError(t, f.Ready(t.Context()))
		}
		require.Equal(t, 2, asked)

		answer = context.DeadlineExceeded
		<-time.After(freshFor)
		began := time.Now()
		require.ErrorContains(t, f.Ready(t.Context()), "does not answer")
		require.ErrorContains(t, f.Ready(t.Context()), "does not answer")
		require.LessOrEqual(t, time.Since(began), checkTimeout)
		answer = nil
		<-time.After(freshFor)
		require.NoError(t, f.Ready(t.Context()))

		f.Stopping()
		require.ErrorContains(t, f.Ready(t.Context()), "stopping")
	})
}
