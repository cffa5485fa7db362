package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// Without its server the API says so: /readyz within 30 s, a list within 35 s, while the
// process itself is healthy. It is ready again when the server is back.
func TestTheAPISaysThatItsServerIsAway(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	w, c := s.ServeAPI(t)
	c.Must(t, http.StatusOK, http.MethodGet, "/healthz", "", nil)
	c.Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil)

	require.NoError(t, s.Server.Kill())
	killed := time.Now()
	listed := make(chan Answer, 1)
	go func() {
		defer close(listed)
		if answer, err := c.try(t, http.MethodGet, "/v2/devices", ""); err == nil {
			listed <- answer
		}
	}()
	Await(t, 30*time.Second, "/readyz to answer 503", func() (bool, string) {
		answer := c.Ask(t, http.MethodGet, "/readyz", "")
		return answer.Status == http.StatusServiceUnavailable, answer.Body
	})
	t.Logf("not ready after %s", time.Since(killed).Round(time.Millisecond))
	require.Less(t, time.Since(killed), patience*30*time.Second)
	c.Must(t, http.StatusOK, http.MethodGet, "/healthz", "", nil)
	answer, ok := <-listed
	require.True(t, ok, "a list is answered")
	t.Logf("the list was answered after %s", time.Since(killed).Round(time.Millisecond))
	require.Less(t, time.Since(killed), 30*time.Second+patience*5*time.Second)
	answer.requireFault(t, http.StatusServiceUnavailable, device.CodeUnreachable)
	require.NotEmpty(t, answer.Header.Get("Retry-After"))

	require.True(t, w.Alive())
	require.NoError(t, s.Server.Start(t.Context()))
	c.AwaitReady(t)
	c.Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil)
}
