package keystone_test

import (
	"testing"

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

func TestWithoutKeystoneThereIsNoValidator(t *testing.T) {
	access, err := keystone.Read(openstack.Noauth("http://127.0.0.1:1"))
	require.NoError(t, err)
	_, err = keystone.NewValidator(access)
	require.ErrorContains(t, err, "without Keystone")
}
