package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// untouchable are devices of which a test says that no request reaches them: a call fails.
type untouchable struct{ Devices }

// guarded is the API behind its real gate, with the tokens admin-token, reader-token and
// member-token, and what it logs. Rules are lines of a policy, none are the defaults.
func guarded(t *testing.T, devices Devices, rules ...string) (http.Handler, *strings.Builder) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "tokens.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`tokens:
- {user: olga, roles: admin, token: admin-token}
- {user: vera, roles: reader, token: reader-token}
- {user: mia, roles: member, project: other, token: member-token}
`), 0o600))
	lines := &strings.Builder{}
	log := slog.New(slog.NewTextHandler(lines, nil))
	tokens, err := access.OpenTokens(file, log)
	require.NoError(t, err)
	given := filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(given, []byte(strings.Join(rules, "\n")), 0o600))
	policy, err := access.ReadPolicy(given, AdminRules())
	require.NoError(t, err)
	gate := access.NewGate(access.Settings{Tokens: tokens, Hosts: []string{"example.com"}, Rate: 10_000,
		Concurrency: 100, Log: log})
	return gate.Wrap(New(Options{Devices: devices, Authenticator: gate, Policy: policy, Guards: gate, Log: log,
		Ready: func(context.Context) error { return nil }})), lines
}

// requestOf is one request for a route.
func requestOf(t *testing.T, r route, method string, headers ...string) *http.Request {
	t.Helper()
	path := strings.NewReplacer("{device}", testName, "{instance}", testInstance, "{cloud}", "default", "{appliance}",
		"rack1", "{queue}", "burnish").Replace(r.Path)
	q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"reason":"mine"}`))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("OpenStack-API-Version", "accelerator 2.1")
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		q.Header.Add(name, value)
	}
	return q
}

func TestAStolenTokenOfAViewerChangesNothing(t *testing.T) {
	h, lines := guarded(t, untouchable{})
	policy, err := access.ReadPolicy("", AdminRules())
	require.NoError(t, err)
	changes := 0
	for _, r := range routes(contract.Verbs) {
		if r.Rule == "" {
			require.Equal(t, http.MethodGet, r.Method, "what needs no token changes nothing")
			continue
		}
		require.True(t, policy.Allows(r.Rule, access.Principal{Roles: []string{"admin"}}), "%s: an admin may do everything",
			r.Rule)
		if r.Method == http.MethodGet {
			continue
		}
		if !r.ReadOnly {
			changes++
		}
		t.Run(r.Operation, func(t *testing.T) {
			for headers, want := range map[string]int{
				"X-Auth-Token: reader-token":                                                   http.StatusForbidden,
				"X-Auth-Token: reader-token|X-Roles: admin|X-User-Id: olga":                    http.StatusForbidden,
				"X-Auth-Token: reader-token|X-HTTP-Method-Override: GET|Cookie: t=admin-token": http.StatusForbidden,
				"Authorization: Bearer member-token":                                           http.StatusForbidden,
				"X-Auth-Token: reader-token|Authorization: Bearer admin-token":                 http.StatusBadRequest,
				"X-Auth-Token: admin-token|Origin: http://evil.example.org":                    http.StatusForbidden,
				"": http.StatusUnauthorized,
			} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, requestOf(t, r, r.Method, strings.Split(headers, "|")...))
				require.Equal(t, want, w.Code, "%s: %s", headers, w.Body)
				require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
			}
			q := requestOf(t, r, r.Method, "X-Auth-Token: admin-token")
			q.Host = "evil.example.org"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			require.Equal(t, http.StatusForbidden, w.Code)
		})
	}
	require.Greater(t, changes, 15)
	require.NotContains(t, lines.String(), "panic", "no device is asked")
	require.GreaterOrEqual(t, strings.Count(lines.String(), `msg="API: change" by=vera`), 3*changes,
		"each attempt stands in the log")
	require.NotContains(t, lines.String(), "-token")
}

// Whoever has a token that the policy lets do one thing can do that, and nothing else.
func TestAStolenTokenDoesWhatItsRuleAllows(t *testing.T) {
	all := routes(contract.Verbs)
	for _, rule := range AdminRules() {
		h, lines := guarded(t, untouchable{}, rule+": role:member")
		allowed := 0
		for _, r := range all {
			if r.Rule == "" {
				continue
			}
			require.Equal(t, strings.HasPrefix(r.Path, "/v2/instances/"), strings.HasPrefix(r.Rule, "cyborg:instance:"), r.Path)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, requestOf(t, r, r.Method, "X-Auth-Token: member-token"))
			refused := strings.Contains(w.Body.String(), `"code":"`+string(device.CodeForbidden)+`"`)
			require.Equal(t, r.Rule != rule, refused, "with %s: %s %s: %s", rule, r.Method, r.Path, w.Body)
			if r.Rule == rule {
				allowed++
			}
		}
		require.Positive(t, allowed, rule)
		require.NotContains(t, lines.String(), "-token")
	}
}

func TestTheLineOfAChangeNamesTheRequestAsItsAnswerDoes(t *testing.T) {
	h, lines := guarded(t, &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: testStatus()}})
	for _, given := range []string{"", "X-Openstack-Request-Id: req-of-mine"} {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/devices/"+contract.DeviceUUID(testName)+
			"/clean", strings.NewReader(`{"reason":"why"}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("OpenStack-API-Version", "accelerator 2.1")
		q.Header.Set("X-Auth-Token", "admin-token")
		if name, value, ok := strings.Cut(given, ": "); ok {
			q.Header.Set(name, value)
		}
		lines.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		require.Equal(t, http.StatusAccepted, w.Code, w.Body)
		require.Contains(t, lines.String(), "device="+testName+" status=202 request="+
			w.Header().Get("X-Openstack-Request-Id")+" reason=why")
		if given != "" {
			require.Contains(t, lines.String(), "req-of-mine")
		}
	}
}
