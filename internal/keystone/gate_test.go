package keystone_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/api"
	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/internal/keystone"
	"burnish/internal/testkit/openstack"
)

// call sends a request to Keystone, and gives its answer and the token in it.
func call(t *testing.T, method, url, token string, body any) (answer map[string]any, issued string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Auth-Token", token)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.Less(t, got.StatusCode, 300, "%s %s", method, url)
	if got.StatusCode != http.StatusNoContent {
		require.NoError(t, json.NewDecoder(got.Body).Decode(&answer))
	}
	require.NoError(t, got.Body.Close())
	return answer, got.Header.Get("X-Subject-Token")
}

// caller authenticates by a real gate; code is "" where the token is accepted.
func caller(t *testing.T, g *access.Gate, token string) (who access.Principal, code device.Code) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/devices", nil)
	r.Header.Set("X-Auth-Token", token)
	who, err := g.Authenticate(r)
	if f, ok := device.AsFault(err); ok {
		return who, f.Code
	}
	require.NoError(t, err)
	return who, ""
}

func TestTokensOfARealKeystone(t *testing.T) {
	t.Parallel()
	real := openstack.StartKeystone(t, openstack.KeystoneOptions{})
	v := newValidator(t, real.Environment())
	admin := real.Token(t)
	owner, err := v.Owner(t.Context(), admin)
	require.NoError(t, err)
	require.Equal(t, openstack.User, owner.UserName)
	require.Len(t, owner.UserID, 32)
	require.Len(t, owner.ProjectID, 32)
	require.Contains(t, owner.Roles, "admin")
	require.WithinDuration(t, time.Now().Add(time.Hour), owner.ExpiresAt, 5*time.Minute)
	for _, wrong := range []string{"gAAAAAB" + admin[9:], "nonsense", admin + "x"} {
		_, err = v.Owner(t.Context(), wrong)
		require.ErrorIs(t, err, keystone.ErrNoToken)
	}

	vera, uwe, mia := real.AddUser(t, "vera", "reader"), real.AddUser(t, "uwe", "admin"), real.AddUser(t, "mia", "member")
	_, unscoped := call(t, http.MethodPost, real.URL+"/v3/auth/tokens", "", map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{
			"name": "mia", "password": openstack.Password, "domain": map[string]any{"id": "default"}}}}}})
	revoked, disabled, kept := vera.Token(t), uwe.Token(t), mia.Token(t)

	g := access.NewGate(access.Settings{Keystone: access.NewKeystone(v, slog.New(slog.DiscardHandler)), Rate: 10,
		Concurrency: 10, Log: slog.New(slog.DiscardHandler)})
	policy, err := access.ReadPolicy("", api.AdminRules())
	require.NoError(t, err)
	// A member is a reader too, for Keystone.
	for token, may := range map[string][2]bool{admin: {true, true}, revoked: {true, false}, disabled: {true, true},
		kept: {true, false}, unscoped: {false, false}} {
		who, code := caller(t, g, token)
		require.Empty(t, code)
		require.True(t, strings.HasPrefix(who.ID, "keystone:") && len(who.ID) == len("keystone:")+32, who.ID)
		require.Equal(t, may, [2]bool{policy.Allows("cyborg:device:get_all", who), policy.Allows("cyborg:device:clean", who)},
			who)
	}
	who, _ := caller(t, g, unscoped)
	require.Empty(t, who.Roles)
	require.Empty(t, who.Project)

	// A revoked token, and those of a disabled user, are refused ten seconds later at the latest.
	real.Revoke(t, revoked)
	user, code := caller(t, g, disabled)
	require.Empty(t, code)
	call(t, http.MethodPatch, real.URL+"/v3/users/"+strings.TrimPrefix(user.ID, "keystone:"), real.Token(t),
		map[string]any{"user": map[string]any{"enabled": false}})
	changed := time.Now()
	accepted := changed // when it was last asked with a token that was accepted
	for _, token := range []string{revoked, disabled} {
		require.Eventually(t, func() bool {
			asked := time.Now()
			_, code := caller(t, g, token)
			if code == "" {
				accepted = asked
			}
			return code == device.CodeNotAuthenticated
		}, time.Minute, 50*time.Millisecond)
	}
	require.Less(t, accepted.Sub(changed), 10*time.Second)

	// Without Keystone, a token that it has just confirmed lasts its ten seconds.
	kept = mia.Token(t)
	_, code = caller(t, g, kept)
	require.Empty(t, code)
	real.Kill(t)
	_, code = caller(t, g, kept)
	require.Empty(t, code)
	_, code = caller(t, g, "another-token")
	require.Equal(t, device.CodeAuthenticationUnavailable, code)
	_, err = v.Owner(t.Context(), kept)
	require.Error(t, err)
	require.NotErrorIs(t, err, keystone.ErrNoToken, "no answer says nothing about the token")
	require.NotContains(t, err.Error(), openstack.Password)

	// A proxy that has lost its Keystone answers 404 too.
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	listener, err := net.Listen("tcp", strings.TrimPrefix(real.URL, "http://"))
	require.NoError(t, err)
	require.NoError(t, web.Listener.Close())
	web.Listener = listener
	web.Start()
	_, err = v.Owner(t.Context(), "some-token")
	web.Close()
	require.Error(t, err)
	require.NotErrorIs(t, err, keystone.ErrNoToken)

	// With Keystone, the validator answers again, and gets itself another token if it must.
	real.Restart(t)
	require.Eventually(t, func() bool {
		_, err := v.Owner(t.Context(), mia.Token(t))
		return err == nil
	}, 30*time.Second, 100*time.Millisecond)
}

// The validator's own token ends too, and that of a caller is refused then.
func TestExpiredTokensOfARealKeystone(t *testing.T) {
	t.Parallel()
	real := openstack.StartKeystone(t, openstack.KeystoneOptions{TokenLifetime: 8 * time.Second})
	v := newValidator(t, real.Environment())
	token := real.Token(t)
	_, err := v.Owner(t.Context(), token)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := v.Owner(t.Context(), token)
		return errors.Is(err, keystone.ErrNoToken)
	}, time.Minute, 500*time.Millisecond)
	owner, err := v.Owner(t.Context(), real.Token(t))
	require.NoError(t, err)
	require.True(t, slices.Contains(owner.Roles, "admin"))
}
