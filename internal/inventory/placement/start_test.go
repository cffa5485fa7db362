package placement_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

// tenant is the instance that a bind is for.
const tenant = "5f3c2a8e-1b7d-4c90-9e42-7a10c6d5b3f8"

// That includes a Placement that answers with its versions, but not yet requests with
// credentials.
func TestTransientErrorsDoNotPreventTheStart(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	for name, answer := range map[string]openstack.Injection{
		"Keystone is away": {Status: 503, Body: `{"message": "The Keystone service is temporarily unavailable."}`},
		"a proxy's 404":    {Status: 404, Body: "<html>no server</html>"},
		"a proxy's 504":    {Status: 504},
		"too many":         {Status: 429},
		"nothing":          {LoseAnswer: true},
	} {
		t.Run(name, func(t *testing.T) {
			undo := s.recorder.Inject(openstack.Match{Path: "/resource_providers"}, answer)
			store, err := placement.Open(t.Context(), placement.Settings{Getenv: openstack.Noauth(s.recorder.URL)})
			require.NoError(t, err)
			undo()
			require.NoError(t, store.ListNova(t.Context(), nil, nil, nil))
		})
	}
}

// A worker that starts before Placement need not be restarted.
func TestStartsBeforePlacement(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	p, _ := s.free(t)
	s.server.Kill(t)
	late := s.open(t, placement.Settings{})
	require.Contains(t, s.log.String(), "Placement does not answer")
	_, err := late.Reservation(t.Context(), p.UUID)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
	s.server.Restart(t)
	_, err = late.Reservation(t.Context(), p.UUID)
	require.NoError(t, err)
}
