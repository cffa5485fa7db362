package instance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// An instance gets all devices that it names, with their tags.
func TestBindNamedDevices(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	var bound *answer
	e.then(func() {
		bound = e.update("u1", contract.UpdateInstanceBind, contract.InstanceBindInput{Devices: choices("h1_a oracledb", "h1_b")})
	})
	e.then(func() {
		require.NoError(t, bound.err)
		s := e.status()
		require.Equal(t, contract.InstanceActive, s.Phase)
		require.Equal(t, []string{"h1_a", "h1_b"}, devicesOf(s))
		require.Equal(t, "oracledb", s.Devices[0].Tag)
		require.Equal(t, 1, s.Devices[0].Binding)
		require.Equal(t, "u1", s.Devices[0].Request)
		require.Equal(t, "h1", s.Host)
		require.Equal(t, []string{"h1_a", "h1_b"}, e.held(guest))
		e.update("u2", contract.UpdateInstanceRelease, contract.InstanceActInput{})
	})
	e.run(nil)
	require.NoError(t, e.GetWorkflowError())
	require.Equal(t, contract.InstanceReleased, e.status().Phase)
	require.Equal(t, []string{"h1_a", "h1_b"}, e.cleaned())
}
