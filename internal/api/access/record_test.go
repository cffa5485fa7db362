package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachChangeLeavesOneLineWithoutATokenInTheLog(t *testing.T) {
	log, lines := newJournal()
	tokens, err := OpenTokens(writeTokens(t, twoTokens), log)
	require.NoError(t, err)
	g := newGate(t, Settings{Tokens: tokens, Log: log})
	change := true
	handler := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := g.Authenticate(r); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		record := RecordOf(r.Context())
		record.Change, record.Device, record.Reason = change, "h1_0000:01:00.0", "a \"broken\"\nline"
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot) // too late
	}))
	ids := map[string]bool{}
	send := func(method, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "/v2/devices/h1_0000:01:00.0/clean?token=alice-token", nil)
		r.RemoteAddr = "192.0.2.7:4711"
		r.Header.Set("X-Auth-Token", token)
		r.Header.Set(RequestIDHeader, "req-mine")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		id := w.Header().Get(RequestIDHeader)
		require.Regexp(t, `^req-[0-9a-f-]{36}$`, id)
		require.False(t, ids[id], "each request has its own")
		ids[id] = true
		return w
	}
	w := send(http.MethodPost, "alice-token")
	text := lines.String()
	require.Equal(t, 1, strings.Count(text, "\n"), text)
	for _, part := range []string{"level=INFO", "by=alice", "principal=token:alice", "project=ops", "from=192.0.2.7:4711",
		"method=POST",
		"path=/v2/devices/h1_0000:01:00.0/clean ", "device=h1_0000:01:00.0", "status=202", "request=" +
			w.Header().Get(RequestIDHeader), `reason="a \"broken\"\nline"`} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "alice-token")

	send(http.MethodPost, "nonsense")
	change = false
	send(http.MethodGet, "alice-token")
	require.Equal(t, text, lines.String(), "what changes nothing leaves none")
}

func TestARequestWithoutAWrapperHasARecord(t *testing.T) {
	RecordOf(t.Context()).Device = "x"
	require.Empty(t, RecordOf(t.Context()).Device)
}
