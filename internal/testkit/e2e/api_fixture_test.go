package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/apitest"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// API is a site whose control worker serves the HTTP API. Its callers log in at a real
// Keystone, whose catalog names the API.
type API struct {
	*Site
	Keystone *openstack.Keystone
	URL      string
	Control  *Worker
	// Two administrators, and a user who may only read.
	Admin, Second, Viewer openstack.Account
}

// newAPI starts the Keystone and the workers, with these variables for the control worker.
func newAPI(t *testing.T, env ...string) *API {
	t.Helper()
	a := &API{Site: newSite(t), Keystone: openstack.StartKeystone(t, openstack.KeystoneOptions{})}
	a.Admin, a.Second = a.Keystone.AddUser(t, "ada", "admin"), a.Keystone.AddUser(t, "ben", "admin")
	a.Viewer = a.Keystone.AddUser(t, "vera", "reader")
	for name, value := range a.Keystone.AddUser(t, "burnish", "admin").Environment() {
		env = append(env, name+"="+value)
	}
	address, err := proc.FreeAddress()
	require.NoError(t, err)
	a.URL = "http://" + address
	a.Keystone.RegisterService(t, "accelerator", a.URL)
	a.Control = a.Run(t, "control", append(env, "BURNISH_API_KEY="+a.apiKey(t), "BURNISH_API_ADDRESS="+address)...)
	Caller{URL: a.URL}.AwaitReady(t)
	a.Run(t, "host", "BURNISH_MAX_CLEANS_PER_HOST=2")
	return a
}

// apiKey writes the key that all control workers of the site sign with.
func (s *Site) apiKey(t testing.TB) string {
	t.Helper()
	return s.writeFile(t, "api.key", strings.Repeat("0123456789abcdef", 2))
}

// As is the API as this user's client sees it.
func (a *API) As(t testing.TB, who openstack.Account) Caller {
	t.Helper()
	return Caller{URL: a.URL, Token: who.Token(t)}
}

// EnrollAll enrolls simulated devices with a fleet file, each with these settings.
func (s *Site) EnrollAll(t testing.TB, devices map[string]string) {
	t.Helper()
	var fleet strings.Builder
	fleet.WriteString("devices:\n")
	for name, more := range devices {
		fmt.Fprintf(&fleet, "  - {name: %q, host: %s, driver: fake, %s}\n", name, s.Host, more)
	}
	s.Must(t, "enroll", "-f", s.writeFile(t, "fleet.yaml", fleet.String()))
}

// Caller is a client of the API with a token.
type Caller struct {
	URL, Token string
	Client     *http.Client // nil is the default one
}

// overUnix is a client of the API at a unix socket.
func overUnix(t testing.TB, socket string) Caller {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return Caller{URL: "http://localhost", Client: &http.Client{Transport: transport}}
}

// Answer is one of the API's answers.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ask makes one request in microversion 2.1. A body is sent as JSON. Headers are "Name: value".
func (c Caller) Ask(t testing.TB, method, path, body string, headers ...string) Answer {
	t.Helper()
	a, err := c.try(t, method, path, body, headers...)
	require.NoError(t, err)
	return a
}

// try is Ask of an API that may be away. What was refused because Keystone did not answer in time,
// as on a busy machine, is sent again, as the answer says.
func (c Caller) try(t testing.TB, method, path, body string, headers ...string) (a Answer, err error) {
	t.Helper()
	Await(t, time.Minute, "Keystone to answer the API", func() (bool, string) {
		a, err = c.once(t, method, path, body, headers...)
		return a.Status != http.StatusServiceUnavailable ||
			!strings.Contains(a.Body, string(device.CodeAuthenticationUnavailable)), a.Body
	})
	return a, err
}

// once is try without another attempt.
func (c Caller) once(t testing.TB, method, path, body string, headers ...string) (a Answer, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("OpenStack-API-Version", "accelerator 2.1")
	if c.Token != "" {
		r.Header.Set("X-Auth-Token", c.Token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	client := c.Client
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(r)
	if err != nil {
		return a, err
	}
	text, err := io.ReadAll(answer.Body)
	a = Answer{answer.StatusCode, answer.Header, string(text)}
	requireNoCORS(t, a)
	apitest.Check(t, method, path, a.Status, a.Header, text)
	return a, errors.Join(err, answer.Body.Close())
}

// requireNoCORS asserts that no page of another site may read the answer.
func requireNoCORS(t testing.TB, a Answer) {
	t.Helper()
	for name := range a.Header {
		require.False(t, strings.HasPrefix(name, "Access-Control-"), "%s: %s", name, a.Header.Get(name))
	}
}

// Must is Ask whose answer has this status; it reads the body into what `into` points to.
func (c Caller) Must(t testing.TB, status int, method, path, body string, into any, headers ...string) Answer {
	t.Helper()
	a := c.Ask(t, method, path, body, headers...)
	require.Equal(t, status, a.Status, "%s %s: %s", method, path, a.Body)
	if into != nil {
		require.NoError(t, json.Unmarshal([]byte(a.Body), into), a.Body)
	}
	return a
}

// Refused is Ask whose answer has this status and a fault's body.
func (c Caller) Refused(t testing.TB, status int, code device.Code, method, path, body string,
	headers ...string) Answer {
	t.Helper()
	a := c.Ask(t, method, path, body, headers...)
	a.requireFault(t, status, code)
	return a
}

// requireFault asserts the status and the body of an error.
func (a Answer) requireFault(t testing.TB, status int, code device.Code) {
	t.Helper()
	require.Equal(t, status, a.Status, a.Body)
	var fault struct {
		Error struct {
			Code                           device.Code
			Device, State, Message, Remedy *string
		}
	}
	d := json.NewDecoder(bytes.NewReader([]byte(a.Body)))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&fault), a.Body)
	require.Equal(t, code, fault.Error.Code, a.Body)
	require.True(t, fault.Error.Device != nil && fault.Error.State != nil, "every member is there: %s", a.Body)
	require.NotEmpty(t, *fault.Error.Message, a.Body)
	require.NotEmpty(t, *fault.Error.Remedy, a.Body)
}

const operatorToken = "operator-token-of-the-tests-0123456789"

// tokenFile writes a file of static tokens: an operator and a reader.
func (s *Site) tokenFile(t testing.TB) string {
	t.Helper()
	return s.writeFile(t, "tokens.yaml", fmt.Sprintf(`- {user: olga, roles: [admin], token: %q}
- {user: rita, roles: [reader], token: "reader-token-of-the-tests-0123456789ab"}
`, operatorToken))
}

// ServeAPI runs a control worker that serves the API on a free port to the users of the
// token file.
func (s *Site) ServeAPI(t testing.TB, env ...string) (*Worker, Caller) {
	t.Helper()
	address, err := proc.FreeAddress()
	require.NoError(t, err)
	w := s.Run(t, "control", append(env, "BURNISH_API_ADDRESS="+address, "BURNISH_API_TOKENS="+s.tokenFile(t))...)
	// Each request has a connection of its own: none is repeated by the client's library.
	c := Caller{URL: "http://" + address, Token: operatorToken,
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	c.AwaitReady(t)
	return w, c
}

// AwaitReady waits until the API takes requests for changes.
func (c Caller) AwaitReady(t testing.TB) {
	t.Helper()
	Await(t, 30*time.Second, "/readyz to answer 200", func() (bool, string) {
		answer := c.Ask(t, http.MethodGet, "/readyz", "")
		return answer.Status == http.StatusOK, answer.Body
	})
}

// devicePath is the path of a device, or of something below it.
func devicePath(name string, more ...string) string {
	return strings.Join(append([]string{"/v2/devices", contract.DeviceUUID(name)}, more...), "/")
}

// events is how many events the history of a device's newest run has, with the run, once
// nothing is under way in it.
func (s *Site) events(t testing.TB, name string) string {
	t.Helper()
	s.awaitIdle(t, name)
	info := s.Describe(t, name).GetWorkflowExecutionInfo()
	return fmt.Sprintf("%d of %s", info.GetHistoryLength(), info.GetExecution().GetRunId())
}

// writeFile writes a private file of the site, and gives its path.
func (s *Site) writeFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(s.Dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
