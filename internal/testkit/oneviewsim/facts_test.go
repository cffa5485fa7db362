package oneviewsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
)

// Each request has the answer that an appliance gives.
func TestAnswersAreThoseOfAnAppliance(t *testing.T) {
	s := oneviewsim.Start(t)
	c := login(t, s)
	server := c.hardware("server-1")
	profile := c.profile("p", server)
	without := func(key string) map[string]any {
		doc := c.profile("p", server)
		delete(doc, key)
		return doc
	}
	changed := func(key, value string) map[string]any {
		doc := c.profile("p", server)
		doc[key] = value
		return doc
	}
	credentials := func(key string, value any) map[string]any {
		doc := map[string]any{"userName": s.Username, "password": s.Password, "authLoginDomain": s.Domain,
			"loginMsgAck": true}
		doc[key] = value
		return doc
	}
	power := func(state, control string) any {
		return map[string]any{"powerState": state, "powerControl": control}
	}
	for _, one := range []struct {
		name, method, path string
		body               any
		header             []string
		status             int
		code               string
	}{
		{"version needs no header", "GET", "/rest/version", nil, []string{"X-API-Version", "", "auth", ""}, 200, ""},
		{"a version that is too high", "GET", "/rest/server-hardware", nil, []string{"X-API-Version", "99999"}, 412, "INVALID_API_VERSION"},
		{"a version that is too low", "GET", "/rest/server-hardware", nil, []string{"X-API-Version", "2"}, 412, "INVALID_API_VERSION"},
		{"no version", "GET", "/rest/server-hardware", nil, []string{"X-API-Version", ""}, 412, "INVALID_API_VERSION"},
		{"no session", "GET", "/rest/server-hardware", nil, []string{"auth", ""}, 401, "AUTHORIZATION"},
		{"another session", "GET", "/rest/server-hardware", nil, []string{"auth", "other"}, 401, "AUTHORIZATION"},
		{"a wrong password", "POST", "/rest/login-sessions", credentials("password", "x"), nil, 401, "AUTHN_AUTH_FAIL"},
		{"a wrong domain", "POST", "/rest/login-sessions", credentials("authLoginDomain", "x"), nil, 401, "AUTHN_AUTH_FAIL"},
		{"no acknowledgement", "POST", "/rest/login-sessions", credentials("loginMsgAck", false), nil, 403, "AUTHN_LOGIN_MSG_NOT_ACK"},
		{"a path that is nothing", "GET", "/rest/nothing", nil, nil, 404, "RESOURCE_NOT_FOUND"},
		{"no such server", "GET", "/rest/server-hardware/x", nil, nil, 404, "RESOURCE_NOT_FOUND"},
		{"no such task", "GET", "/rest/tasks/x", nil, nil, 404, "RESOURCE_NOT_FOUND"},
		{"no such profile", "GET", "/rest/server-profiles/x", nil, nil, 404, "RESOURCE_NOT_FOUND"},
		{"no such profile to delete", "DELETE", "/rest/server-profiles/x", nil, nil, 404, "RESOURCE_NOT_FOUND"},
		{"no such template", "GET", "/rest/server-profile-templates/x/new-profile", nil, nil, 404, "RESOURCE_NOT_FOUND"},
		{"another method", "DELETE", server, nil, nil, 405, "INVALID_REQUEST"},
		{"another media type", "POST", "/rest/server-profiles", profile, []string{"Content-Type", "text/plain"}, 415, "INVALID_REQUEST"},
		{"a profile without a name", "POST", "/rest/server-profiles", without("name"), nil, 400, "INVALID_REQUEST"},
		{"a profile without a type", "POST", "/rest/server-profiles", without("type"), nil, 400, "INVALID_REQUEST"},
		{"a profile for no such server", "POST", "/rest/server-profiles", changed("serverHardwareUri", "/rest/server-hardware/x"), nil, 400, "INVALID_REQUEST"},
		{"a profile from no such template", "POST", "/rest/server-profiles", changed("serverProfileTemplateUri", "/rest/server-profile-templates/x"), nil, 400, "INVALID_REQUEST"},
		{"a power state that is none", "PUT", server + "/powerState", power("Up", "MomentaryPress"), nil, 400, "INVALID_REQUEST"},
		{"a control of the other state", "PUT", server + "/powerState", power("On", "PressAndHold"), nil, 400, "INVALID_REQUEST"},
		{"power on without a profile", "PUT", server + "/powerState", power("On", "MomentaryPress"), nil, 409, "SERVER_HAS_NO_PROFILE"},
		{"a start that is none", "GET", "/rest/server-hardware?start=x", nil, nil, 400, "INVALID_REQUEST"},
	} {
		t.Run(one.name, func(t *testing.T) {
			r := c.do(one.method, one.path, one.body, one.header...)
			require.NoError(t, r.Err)
			require.Equal(t, one.status, r.Status, r.Body)
			if one.code == "" {
				return
			}
			require.Equal(t, one.code, r.At("errorCode"))
			require.NotEmpty(t, r.At("message"))
			require.Contains(t, r.Body, "details")
			require.Contains(t, r.Body, "recommendedActions")
		})
	}
	require.Empty(t, s.Profiles(s.Username), "what was refused has no effect")
	version := c.get("/rest/version")
	require.Equal(t, map[string]any{"currentVersion": 6200.0, "minimumVersion": 120.0}, version.Body)
}

// Pages follow each other by nextPageUri; no page is larger than the
// appliance allows.
func TestPagesFollowEachOther(t *testing.T) {
	s := oneviewsim.Start(t, oneviewsim.Servers(250))
	c := login(t, s)
	var seen []string
	for next := any("/rest/server-hardware?count=1000"); next != nil; {
		uri, _ := next.(string)
		r := c.get(uri)
		require.Equal(t, 250.0, r.At("total"))
		require.Equal(t, float64(len(seen)), r.At("start"))
		require.LessOrEqual(t, r.At("count"), 100.0)
		seen = append(seen, r.names()...)
		next = r.At("nextPageUri")
	}
	require.Len(t, seen, 250)
	require.Equal(t, "server-1", seen[0])

	list := func(query string) []string {
		r := c.get("/rest/server-hardware?" + query)
		require.Equal(t, 200, r.Status, r.Body)
		return r.names()
	}
	require.Len(t, list(""), 25)
	require.Len(t, list("count=-1"), 100)
	require.Equal(t, []string{"server-250"}, list("start=249&count=5"))
	require.Empty(t, list("start=999"))
}
