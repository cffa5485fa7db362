package telemetry

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func ask(t *testing.T, url string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// The pages of a worker that is starting.
func TestThePages(t *testing.T) {
	f, err := New("1.2.3", "control", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	server := httptest.NewServer(f.Handler())
	defer server.Close()
	code, body := ask(t, server.URL+"/healthz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
	code, body = ask(t, server.URL+"/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `burnish_build_info{go_version="go`)
	require.Contains(t, body, `role="control",version="1.2.3"} 1`)
	code, body = ask(t, server.URL+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "this worker is starting\n", body)
}
