package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// none is an environment without variables.
func none(string) string { return "" }

func env(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// versions is what an API answers first.
const versions = `{"version":{"id":"v2.0","max_version":"2.1"}}`

// seen are the requests that a server got.
type seen struct {
	mu   sync.Mutex
	keys []string
	all  []string
}

func (s *seen) add(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	s.all = append(s.all, r.Method+" "+r.URL.RequestURI())
	return len(s.all)
}

func (s *seen) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// names are the keys of the requests.
func (s *seen) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.keys)
}

// serve gives a client of a server whose nth request, counted from 1, answer answers.
func serve(t *testing.T, getenv func(string) string,
	answer func(n int, w http.ResponseWriter, r *http.Request)) (*Client, *seen) {
	t.Helper()
	got := &seen{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v2" {
			fmt.Fprint(w, versions)
			return
		}
		answer(got.add(r), w, r)
	}))
	t.Cleanup(server.Close)
	return dialed(t, server.URL, getenv), got
}

func dialed(t *testing.T, address string, getenv func(string) string) *Client {
	t.Helper()
	c, err := New(t.Context(), address, getenv)
	for tries := 1; err != nil && strings.Contains(err.Error(), "does not answer") && tries < 5; tries++ {
		c, err = New(t.Context(), address, getenv) // its limit is short for a busy machine
	}
	require.NoError(t, err)
	t.Cleanup(c.Close)
	c.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return c
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		err = connection.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A change whose connection is lost is sent once more, under the same key, and reads too.
func TestALostConnectionIsTriedOnceMore(t *testing.T) {
	c, got := serve(t, none, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			hangUp(w)
			return
		}
		fmt.Fprint(w, `{"device":{"name":"d1","device_state":"manageable"}}`)
	})
	result, err := c.Do(within(t, time.Minute), "d1", contract.VerbManage,
		contract.TenantInput{Reason: "why", Caller: contract.Caller{By: "me"}})
	require.NoError(t, err)
	require.Equal(t, device.Manageable, result.Device.DeviceState)
	require.Equal(t, []string{"POST /v2/devices/d1/manage", "POST /v2/devices/d1/manage"}, got.requests())
	require.NotEmpty(t, got.names()[0])
	require.Equal(t, got.names()[0], got.names()[1])
}

// Each invocation has a key of its own.
func TestEachChangeHasItsOwnKey(t *testing.T) {
	c, got := serve(t, none, func(_ int, w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), "me@") {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(w, `{}`)
	})
	for range 2 {
		_, err := c.Do(within(t, time.Minute), "d1", contract.VerbAbort,
			contract.ReasonInput{Caller: contract.Caller{By: "me@here"}})
		require.NoError(t, err, "who asks is the API's to say")
	}
	require.NotEqual(t, got.names()[0], got.names()[1])
}

// An accepted change is asked for again, by its key, until it is finished.
func TestAnAcceptedChangeIsWaitedFor(t *testing.T) {
	c, got := serve(t, none, func(n int, w http.ResponseWriter, r *http.Request) {
		if n < 3 {
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprint(w, `{"error":{"code":"timeout","message":"m","outcome":"accepted"}}`)
			return
		}
		fmt.Fprint(w, `{"note":"done"}`)
	})
	result, err := c.Do(within(t, time.Minute), "d1", contract.VerbMigratePool, contract.ReasonInput{})
	require.NoError(t, err)
	require.Equal(t, "done", result.Note)
	require.Equal(t, []string{got.names()[0], got.names()[0], got.names()[0]}, got.names())
}

// answering is a server without a network.
type answering func(w http.ResponseWriter, r *http.Request)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	a(w, r)
	return w.Result(), nil
}

// What became of a change is in the answer that comes when the caller's time ends.
func TestOutcomes(t *testing.T) {
	for outcome, accepted := range map[string]bool{client.OutcomeAccepted: true, client.OutcomeUnconfirmed: false} {
		synctest.Test(t, func(t *testing.T) { // by a clock that is the test's own
			c, err := prepare("http://127.0.0.1:1", none)
			require.NoError(t, err)
			c.web.Transport = answering(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Prefer") != "wait=1" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				<-time.After(1100 * time.Millisecond)
				w.WriteHeader(http.StatusGatewayTimeout)
				fmt.Fprintf(w, `{"error":{"code":"timeout","message":"m","outcome":%q}}`, outcome)
			})
			_, err = c.Do(within(t, time.Second), "d1", contract.VerbRetire, contract.RetireInput{})
			require.True(t, client.TimedOut(err), err)
			require.Equal(t, accepted, client.Accepted(err))
			require.Equal(t, !accepted, client.Unconfirmed(err))
		})
	}
}

// A caller that sends too much waits as long as the API says, and no longer than it has time.
func TestTooManyRequests(t *testing.T) {
	busy := func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%2 == 1 {
			w.Header().Set("Retry-After", "50")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"code":"too_many_requests","message":"m","remedy":"r"}}`)
			return
		}
		fmt.Fprint(w, `{}`)
	}
	c, got := serve(t, none, busy)
	var waited time.Duration
	c.pause = func(_ context.Context, d time.Duration) error { waited += d; return nil }
	_, err := c.Do(within(t, time.Minute), "d1", contract.VerbForget, contract.TenantInput{})
	require.NoError(t, err)
	require.Equal(t, 50*time.Second, waited)
	_, err = c.Do(within(t, 40*time.Second), "d1", contract.VerbForget, contract.TenantInput{})
	require.EqualError(t, err, "m; r")
	require.Len(t, got.requests(), 3)
}

// A listing is read page by page; the last device of a page is the next one's marker.
func TestPages(t *testing.T) {
	c, got := serve(t, none, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			fmt.Fprint(w,
				`{"devices":[{"uuid":"u1","name":"b","device_state":"error"},{"uuid":"u2","name":"c","device_state":"error"}],"devices_links":[{"rel":"next","href":"https://elsewhere.example/"}]}`)
			return
		}
		fmt.Fprint(w, `{"devices":[{"uuid":"u3","name":"a","device_state":"error"}]}`)
	})
	found, err := c.List(within(t, time.Minute),
		client.Filter{client.ByType: {"NODE"}, client.ByState: client.States(device.Available, device.Error),
			client.ByNeedsOperator: {"true"}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, []string{found[0].Name, found[1].Name, found[2].Name})
	require.Equal(t, []string{
		"GET /v2/devices?limit=1000&needs_operator=true&state=available&state=error&type=NODE",
		"GET /v2/devices?limit=1000&marker=u2&needs_operator=true&state=available&state=error&type=NODE",
	}, got.requests())
}

// A device whose fields are hidden is refused, not shown as clean and free.
func TestHiddenFields(t *testing.T) {
	c, _ := serve(t, none, func(n int, w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w,
			[]string{`{"devices":[{"uuid":"u","device_state":"error"}]}`, `{"uuid":"u","device_state":"error"}`}[n-1])
	})
	for _, read := range []func() error{
		func() error { _, err := c.List(within(t, time.Minute), client.Filter{}); return err },
		func() error { _, err := c.Query(within(t, time.Minute), "d1"); return err },
	} {
		refusal, ok := client.Fault(read())
		require.True(t, ok)
		require.Equal(t, device.CodeForbidden, refusal.Fault.Code)
		require.Contains(t, refusal.Fault.Remedy, "get_details")
	}
}

// A NAME is one segment of the path, whatever it contains.
func TestNamesAreEscaped(t *testing.T) {
	c, got := serve(t, none, func(_ int, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":"x"}`) })
	_, err := c.Query(within(t, time.Minute), "h1_0000:01:00.0")
	require.NoError(t, err)
	_, err = c.Query(within(t, time.Minute), "a/b?c")
	require.NoError(t, err)
	require.Equal(t, []string{"GET /v2/devices/h1_0000:01:00.0", "GET /v2/devices/a%2Fb%3Fc"}, got.requests())
}

func TestAddresses(t *testing.T) {
	for address, says := range map[string]string{
		"localhost:9":              "must be https://HOST:PORT",
		"https://":                 "must be https://HOST:PORT",
		"ftp://h":                  "must be https://HOST:PORT",
		"unix:relative":            "must begin with /",
		"https://u:s3cret@h/":      "must not have a user",
		"https://h/?token=s3cret":  "must not have a user",
		"http://192.0.2.1:8080/v2": "unencrypted",
		"http://burnish.example":   "unencrypted",
	} {
		_, err := New(t.Context(), address, env(map[string]string{config.VarAPIToken: "s3cret"}))
		require.ErrorContains(t, err, says, address)
		require.NotContains(t, err.Error(), "s3cret")
	}
	for address, first := range map[string]string{
		"https://h:9/burnish/v2/": "https://h:9/burnish/v2/devices",
		"https://h":               "https://h/v2/devices",
		"http://[::1]:9":          "http://[::1]:9/v2/devices",
	} {
		c, err := prepare(address, env(map[string]string{config.VarAPIToken: "s3cret"}))
		require.NoError(t, err)
		require.Equal(t, first, c.urlOf(&request{path: []string{devices}}))
	}
}

// BURNISH_API_TOKEN comes before OS_TOKEN, and neither goes with a redirection.
func TestTokens(t *testing.T) {
	var other bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other = true }))
	t.Cleanup(elsewhere.Close)
	var token string
	c, _ :=
		serve(t, env(map[string]string{config.VarAPIToken: "one", "OS_TOKEN": "two", "OS_AUTH_URL": "http://127.0.0.1:1"}),
			func(_ int, w http.ResponseWriter, r *http.Request) {
				token = r.Header.Get("X-Auth-Token")
				http.Redirect(w, r, elsewhere.URL+"/x?y=s3cret", http.StatusTemporaryRedirect)
			})
	_, err := c.Query(within(t, time.Minute), "d1")
	require.ErrorContains(t, err, "redirects to "+elsewhere.URL+"/x;")
	require.Equal(t, "one", token)
	require.False(t, other)

	_, err = New(t.Context(), "https://h", env(map[string]string{"OS_TOKEN": "s3cret\nX: y"}))
	require.ErrorContains(t, err, "OS_TOKEN")
	require.NotContains(t, err.Error(), "s3cret")
}

// A unix socket needs no token; OpenStack's stays here.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v2" {
			fmt.Fprint(w, versions)
			return
		}
		if err := json.NewEncoder(w).
			Encode(map[string]string{"name": r.URL.Path, "serial": r.Header.Get("X-Auth-Token")}); err != nil {
			panic(http.ErrAbortHandler)
		}
	})}
	go func() { _ = server.Serve(l) }() // ends with the test
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	c := dialed(t, "unix:"+path, env(map[string]string{"OS_TOKEN": "two", "OS_CLOUD": "none"}))
	v, err := c.Query(within(t, time.Minute), "d1")
	require.NoError(t, err)
	require.Equal(t, "/v2/devices/d1", v.Name)
	require.Empty(t, v.Serial)
}
