package keystone_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/keystone"
	"burnish/internal/testkit/openstack"
)

func newValidator(t *testing.T, variables map[string]string) *keystone.Validator {
	t.Helper()
	access, err := keystone.Read(openstack.Environment(variables))
	require.NoError(t, err)
	v, err := keystone.NewValidator(access)
	require.NoError(t, err)
	return v
}

func TestKeystoneSaysWhoseATokenIs(t *testing.T) {
	real := openstack.StartKeystone(t, openstack.KeystoneOptions{})
	v := newValidator(t, real.Environment())
	token := real.Token(t)
	owner, err := v.Owner(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, openstack.User, owner.UserName)
	require.Len(t, owner.UserID, 32)
	require.Len(t, owner.ProjectID, 32)
	require.Contains(t, owner.Roles, "admin")
	require.WithinDuration(t, time.Now().Add(time.Hour), owner.ExpiresAt, 5*time.Minute)

	for _, wrong := range []string{"gAAAAAB" + token[9:], "nonsense", token + "x"} {
		_, err = v.Owner(t.Context(), wrong)
		require.ErrorIs(t, err, keystone.ErrNoToken)
	}
	real.Revoke(t, token)
	_, err = v.Owner(t.Context(), token)
	require.ErrorIs(t, err, keystone.ErrNoToken)

	real.Kill(t)
	_, err = v.Owner(t.Context(), token)
	require.Error(t, err)
	require.NotErrorIs(t, err, keystone.ErrNoToken, "no answer says nothing about the token")
	require.NotContains(t, err.Error(), openstack.Password)
}

// A proxy that has lost its Keystone answers 404 too.
func TestAnotherServersNotFoundIsNoAnswer(t *testing.T) {
	real := openstack.StartKeystone(t, openstack.KeystoneOptions{})
	v := newValidator(t, real.Environment())
	_, err := v.Owner(t.Context(), real.Token(t))
	require.NoError(t, err)
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	real.Kill(t)
	listener, err := net.Listen("tcp", strings.TrimPrefix(real.URL, "http://"))
	require.NoError(t, err)
	require.NoError(t, web.Listener.Close())
	web.Listener = listener
	web.Start()
	t.Cleanup(web.Close)
	_, err = v.Owner(t.Context(), "some-token")
	require.Error(t, err)
	require.NotErrorIs(t, err, keystone.ErrNoToken)
}
