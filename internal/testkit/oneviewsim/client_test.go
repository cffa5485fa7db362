package oneviewsim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
)

// client is one of an appliance.
type client struct {
	*simserver.Client
	t testing.TB
}

// reply is an answer, or its absence.
type reply struct{ simserver.Reply }

// names are those of the members.
func (r reply) names() []string {
	members, _ := r.At("members").([]any)
	names := []string{}
	for _, one := range members {
		name, _ := one.(map[string]any)["name"].(string)
		names = append(names, name)
	}
	return names
}

func connect(t testing.TB, url, ca string) *client {
	t.Helper()
	c := &client{Client: simserver.Connect(t, url, ca), t: t}
	c.Always["X-API-Version"] = "2000"
	return c
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
	require.NoError(c.t, r.Err)
	require.Equal(c.t, 200, r.Status, r.Body)
	c.Always["auth"], _ = r.At("sessionID").(string)
}

func (c *client) do(method, path string, body any, header ...string) reply {
	c.t.Helper()
	return reply{c.Do(method, path, body, header...)}
}

func (c *client) get(path string) reply {
	c.t.Helper()
	return c.do("GET", path, nil)
}

// hardware is the URI of a server by name.
func (c *client) hardware(name string) string {
	c.t.Helper()
	r := c.get("/rest/server-hardware")
	require.Equal(c.t, 200, r.Status, r.Body)
	members, _ := r.At("members").([]any)
	i := slices.Index(r.names(), name)
	require.GreaterOrEqual(c.t, i, 0)
	uri, _ := members[i].(map[string]any)["uri"].(string)
	return uri
}

// profile is a body for a new profile on a server, from the template.
func (c *client) profile(name, server string) map[string]any {
	c.t.Helper()
	r := c.get(oneviewsim.TemplateURI + "/new-profile")
	require.Equal(c.t, 200, r.Status, r.Body)
	r.Body["name"], r.Body["serverHardwareUri"] = name, server
	return r.Body
}

// apply posts a profile, and gives the end of its task.
func (c *client) apply(name, server string) reply {
	c.t.Helper()
	return c.ended(c.do("POST", "/rest/server-profiles", c.profile(name, server)))
}

// ended is the task of an answer when it has ended.
func (c *client) ended(r reply) reply {
	c.t.Helper()
	require.NoError(c.t, r.Err)
	require.Equal(c.t, 202, r.Status, r.Body)
	uri := r.Header.Get("Location")
	if uri == "" {
		uri, _ = r.At("uri").(string)
	}
	var task reply
	require.NoError(c.t, proc.Await(c.t.Context(), time.Minute, time.Millisecond, "the end of "+uri,
		func() (bool, string) {
			task = c.get(strings.TrimPrefix(uri, c.URL))
			state, _ := task.At("taskState").(string)
			return task.At("percentComplete") == 100.0, state
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
	problems, _ := r.At("taskErrors").([]any)
	if len(problems) == 0 {
		return ""
	}
	code, _ := problems[0].(map[string]any)["errorCode"].(string)
	return code
}
