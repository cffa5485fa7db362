package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func ask(t *testing.T, url string, header http.Header) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header = header
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// The pages are served until stop, at the address that is logged and at no other; an address
// that is taken is an error.
func TestServe(t *testing.T) {
	var log bytes.Buffer
	f, err := New("1.2.3", "control", slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	address := freeAddress(t)
	stop, err := f.Serve(address)
	require.NoError(t, err)
	require.Regexp(t, regexp.QuoteMeta("address="+address), log.String())
	code, body := ask(t, "http://"+address+"/healthz", nil)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
	code, body = ask(t, "http://"+address+"/metrics", nil)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `burnish_build_info{go_version="go`)
	require.Contains(t, body, `role="control",version="1.2.3"} 1`)
	code, body = ask(t, "http://"+address+"/readyz", nil)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "this worker is starting\n", body)
	code, _ = ask(t, "http://"+address+"/healthz", http.Header{"X-Long": {strings.Repeat("x", 2*maxHeader)}})
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, code)

	_, err = newTelemetry(t).Serve(address)
	require.ErrorContains(t, err, "in use")
	require.NoError(t, stop())
	stop, err = newTelemetry(t).Serve(address)
	require.NoError(t, err)
	require.NoError(t, stop())
}

// A caller that sends its request slowly, and never ends it, keeps neither a connection nor
// the worker's stop.
func TestASlowCallerKeepsNothing(t *testing.T) {
	f, address := newTelemetry(t), freeAddress(t)
	stop, err := f.Serve(address)
	require.NoError(t, err)
	slow, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer slow.Close()
	_, err = io.WriteString(slow, "GET /metrics HTTP/1.1\r\nHost: x\r\n")
	require.NoError(t, err)
	left, err := io.ReadAll(slow) // until the server gives up
	require.NoError(t, err)
	require.NotContains(t, string(left), "200 OK")
	require.NoError(t, stop())
}
