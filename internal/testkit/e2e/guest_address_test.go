package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// A guest's address belongs to one living instance. It is free again when release answers, and
// when the instance's workflow was terminated.
func TestGuestAddressesBelongToOneInstance(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	for _, name := range []string{"d1", "d2"} {
		s.Must(t, "enroll", name, "--host", s.Host, "--driver", "fake", "--set", "size=1MiB", "--provide")
		s.AwaitState(t, name, time.Minute, device.Available)
	}
	alice, bob, address := Instance("alice"), Instance("bob"), "192.0.2.7"
	bind := func(instance, name string) []string {
		return []string{"instance", "bind", instance, "--device", name + "=disk", "--address", address}
	}
	has := func() string {
		v, err := s.Workflows().InstanceByAddress(t.Context(), address)
		if client.NotFound(err) {
			return ""
		}
		require.NoError(t, err)
		return v.UUID
	}
	require.Empty(t, has())
	s.Must(t, bind(alice, "d1")...)
	require.Equal(t, alice, has())
	refused := s.Refused(t, device.CodeConflict, bind(bob, "d2")...)
	require.Contains(t, refused.Stderr, alice)
	require.Equal(t, device.Available, s.Show(t, "d2").DeviceState, "nothing was bound")
	s.Must(t, "instance", "release", alice)
	require.Empty(t, has())
	released, err := s.Workflows().Instance(t.Context(), alice)
	require.NoError(t, err)
	require.Equal(t, contract.InstanceReleased, released.Phase)

	s.Must(t, bind(bob, "d2")...)
	require.Equal(t, bob, has())
	s.AwaitState(t, "d1", time.Minute, device.Available)
	require.NoError(t, s.Client.TerminateWorkflow(t.Context(), contract.InstanceWorkflowID(bob), "", "for this test"))
	s.Refused(t, device.CodeConflict, bind(alice, "d1")...)
	// The instance's workflow is gone: its release gives back what its last run had, the address too.
	s.Must(t, "instance", "release", bob)
	s.Must(t, bind(alice, "d1")...)
	require.Equal(t, alice, has())

	s.AwaitState(t, "d2", time.Minute, device.Available)
	// An unbind by a raw client: the device signals its instance.
	_, err = s.Workflows().Send(t.Context(), "d1", contract.VerbUnbind, contract.UnbindInput{Instance: alice})
	require.NoError(t, err)
	Await(t, time.Minute, "the instance's end", func() (bool, string) {
		v, err := s.Workflows().Instance(t.Context(), alice)
		require.NoError(t, err)
		return v.Phase == contract.InstanceReleased && has() == "", string(v.Phase)
	})
}
