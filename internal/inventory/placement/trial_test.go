package placement_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/inventory/placement"
	"burnish/internal/testkit/openstack"
)

// A trial says whether Placement lets an instance with a burned device move, and leaves nothing;
// what it may have left is said.
//
// S0.25
func TestWhetherInstancesCanMoveIsTried(t *testing.T) {
	s := newTestPlacement(t, openstack.Options{}, placement.Settings{})
	left := func() (providers []struct{ UUID string }) {
		var answer struct {
			Providers []struct{ UUID string } `json:"resource_providers"`
		}
		status, text, err := s.nova.Do(t.Context(), http.MethodGet, "/resource_providers?name=burnish-doctor-trial",
			nil, &answer)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, text)
		return answer.Providers
	}
	refusal, err := s.store.TryMove(t.Context())
	require.NoError(t, err)
	require.Contains(t, refusal, "exceed the capacity", "Debian's Placement is too old")
	require.Empty(t, left())

	// One of 2025.2 allows it, which this one does where the provider is not reserved.
	undo := s.recorder.Inject(openstack.Match{Method: http.MethodPost, Path: "^/allocations$", Nth: 2},
		openstack.Injection{Before: func() { s.nova.SetReserved(left()[0].UUID, 0) }})
	refusal, err = s.store.TryMove(t.Context())
	require.NoError(t, err)
	require.Empty(t, refusal)
	require.Empty(t, left())
	undo()

	for _, broken := range []openstack.Match{
		{Method: http.MethodPut, Path: "/resource_classes/"}, {Method: http.MethodPut, Path: "/inventories$", Nth: 2},
		{Method: http.MethodPost, Path: "^/allocations$", Nth: 1}, {Method: http.MethodPost, Path: "^/allocations$", Nth: 2},
	} {
		undo := s.recorder.Inject(broken, openstack.Injection{LoseAnswer: true})
		refusal, err = s.store.TryMove(t.Context())
		require.Error(t, err)
		require.Empty(t, refusal)
		require.Empty(t, left(), "after a lost answer to %+v", broken)
		undo()
	}
	undo = s.recorder.Inject(openstack.Match{Method: http.MethodPost}, openstack.Injection{Status: http.StatusForbidden})
	_, err = s.store.TryMove(t.Context())
	require.ErrorContains(t, err, "refuses Burnish's credentials")
	require.NotContains(t, err.Error(), "may be left")
	undo()
	undo = s.recorder.Inject(openstack.Match{Method: http.MethodDelete, Path: "/resource_providers/"},
		openstack.Injection{Drop: true})
	_, err = s.store.TryMove(t.Context())
	require.ErrorContains(t, err, left()[0].UUID)
	undo()
	_, err = s.store.TryMove(t.Context())
	require.ErrorContains(t, err, "another trial runs, or was killed")
}
