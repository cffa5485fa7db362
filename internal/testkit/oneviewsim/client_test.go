package oneviewsim_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
)

// client is a plain HTTP client of one appliance.
type client struct {
	t       testing.TB
	url     string
	http    *http.Client
	version string
	auth    string
}

// reply is an answer, or its absence.
type reply struct {
	status int
	header http.Header
	body   map[string]any
	err    error
}

// at is a value inside the body.
func (r reply) at(keys ...string) any {
	var value any = r.body
	for _, key := range keys {
		doc, _ := value.(map[string]any)
		value = doc[key]
	}
	return value
}

// names are those of the members.
func (r reply) names() []string {
	members, _ := r.at("members").([]any)
	names := []string{}
	for _, one := range members {
		name, _ := one.(map[string]any)["name"].(string)
		names = append(names, name)
	}
	return names
}

func connect(t testing.TB, url, ca string) *client {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(ca)))
	// On a connection that was used before, Go would repeat a GET by itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	return &client{t: t, url: url, version: "2000", http: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// login is a client with a session of Burnish's user.
func login(t testing.TB, s *oneviewsim.Server) *client {
	t.Helper()
	c := connect(t, s.URL, s.CA)
	c.login(s.Username, s.Password)
	return c
}

func (c *client) login(user, password string) {
	c.t.Helper()
	r := c.do("POST", "/rest/login-sessions",
		map[string]any{"userName": user, "password": password, "authLoginDomain": "Local", "loginMsgAck": true})
	require.NoError(c.t, r.err)
	require.Equal(c.t, 200, r.status, r.body)
	c.auth, _ = r.at("sessionID").(string)
}

func (c *client) do(method, path string, body any, header ...string) reply {
	c.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(c.t, err)
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(raw))
	require.NoError(c.t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.version != "" {
		request.Header.Set("X-API-Version", c.version)
	}
	if c.auth != "" {
		request.Header.Set("auth", c.auth)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	raw, err = io.ReadAll(response.Body)
	r := reply{status: response.StatusCode, header: response.Header, err: err}
	if err == nil && len(raw) > 0 {
		r.err = json.Unmarshal(raw, &r.body)
	}
	return r
}

func (c *client) get(path string) reply {
	c.t.Helper()
	return c.do("GET", path, nil)
}

// hardware is the URI of a server by name.
func (c *client) hardware(name string) string {
	c.t.Helper()
	r := c.get("/rest/server-hardware")
	require.Equal(c.t, 200, r.status, r.body)
	members, _ := r.at("members").([]any)
	i := slices.Index(r.names(), name)
	require.GreaterOrEqual(c.t, i, 0)
	uri, _ := members[i].(map[string]any)["uri"].(string)
	return uri
}

// profile is a body for a new profile on a server, from the template.
func (c *client) profile(name, server string) map[string]any {
	c.t.Helper()
	r := c.get(oneviewsim.TemplateURI + "/new-profile")
	require.Equal(c.t, 200, r.status, r.body)
	r.body["name"], r.body["serverHardwareUri"] = name, server
	return r.body
}

// apply posts a profile, and gives the end of its task.
func (c *client) apply(name, server string) reply {
	c.t.Helper()
	return c.ended(c.do("POST", "/rest/server-profiles", c.profile(name, server)))
}

// ended is the task of an answer when it has ended.
func (c *client) ended(r reply) reply {
	c.t.Helper()
	require.NoError(c.t, r.err)
	require.Equal(c.t, 202, r.status, r.body)
	uri := r.header.Get("Location")
	if uri == "" {
		uri, _ = r.at("uri").(string)
	}
	var task reply
	require.NoError(c.t, proc.Await(c.t.Context(), time.Minute, time.Millisecond, "the end of "+uri,
		func() (bool, string) {
			task = c.get(strings.TrimPrefix(uri, c.url))
			state, _ := task.at("taskState").(string)
			return task.at("percentComplete") == 100.0, state
		}))
	return task
}

// power switches a server, and gives the end of the task.
func (c *client) power(server, state, control string) reply {
	c.t.Helper()
	return c.ended(c.do("PUT", server+"/powerState", map[string]any{"powerState": state, "powerControl": control}))
}

// code is that of the first error of a task.
func (r reply) code() string {
	problems, _ := r.at("taskErrors").([]any)
	if len(problems) == 0 {
		return ""
	}
	code, _ := problems[0].(map[string]any)["errorCode"].(string)
	return code
}
