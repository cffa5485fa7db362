package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Somebody terminates an instance's workflow: its devices stay bound, and are not cleaned. A
// release frees them and the guest's address, as it would have before; so does the unbind of one.
func TestInstancesWhoseWorkflowIsTerminated(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	devices := f.host(t).enroll(t, "d1", "d2", "d3")
	const guest = "127.6.0.1"
	alice, bob := Instance("alice"), Instance("bob")
	f.act(t, "bind", alice, append(named(devices...), "--address", guest, "--project", "p1")...)
	stampAll(t, 2, devices...)
	terminate := func(instance string) {
		require.NoError(t, f.Client.TerminateWorkflow(t.Context(), contract.InstanceWorkflowID(instance), "", "by mistake"))
	}
	terminate(alice)
	f.requireHeld(t, alice, 2, devices...)
	f.refuse(t, device.CodeRefused, "bind", bob, "--device", "d1")
	require.Len(t, f.shown(t, guest), 3, "the guest still has its devices")

	f.Must(t, "unbind", "d1", "--instance", alice)
	f.awaitReturned(t, devices[0])
	require.Len(t, f.shown(t, guest), 2)
	f.requireHeld(t, alice, 2, devices[1:]...)

	require.Contains(t, f.act(t, "release", alice), "released")
	f.requireNoDocument(t, guest)
	status, text := f.Service.get(t, latestDocument, alice, "p1")
	require.Equal(t, 404, status, text)
	require.Equal(t, contract.InstanceReleased, f.instance(t, alice).Phase)
	require.Contains(t, f.act(t, "release", alice), "already released")
	f.awaitReturned(t, devices...)

	// Both are free for others.
	f.act(t, "bind", bob, append(named(devices...), "--address", guest)...)
	require.Len(t, f.shown(t, guest), 3)
}
