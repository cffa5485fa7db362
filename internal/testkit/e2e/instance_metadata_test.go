package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Each guest reads what its instance has at this moment, also where a device left by itself: by
// an unbind that its instance did not ask for. An address is one living instance's.
func TestGuestsReadTheirOwnDevicesOnly(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	devices := f.host(t).enroll(t, "", "d1", "d2", "d3", "d4")
	const first, second = "127.4.0.1", "127.4.0.2"
	alice, bob, carol := Instance("alice"), Instance("bob"), Instance("carol")
	f.act(t, "bind", alice, append(named(devices[:3]...), "--address", first, "--project", "p1")...)
	f.act(t, "bind", bob, append(named(devices[3]), "--address", second, "--project", "p2")...)
	all := map[string]string{"D1": "tag of d1", "D2": "tag of d2", "D3": "tag of d3"}
	require.Equal(t, all, f.shown(t, first))
	require.Equal(t, map[string]string{"D4": "tag of d4"}, f.shown(t, second))
	f.requireNoDocument(t, "127.4.0.3")

	// The device's own unbind: the entry is gone when it is answered, and so for the instance.
	_, err := f.Workflows().Send(t.Context(), "d1", contract.VerbUnbind, contract.UnbindInput{Instance: alice})
	require.NoError(t, err)
	delete(all, "D1")
	require.Equal(t, all, f.shown(t, first))
	status, text := f.Service.get(t, latestDocument, alice, "p1")
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, all, tags(t, text))
	Await(t, 20*time.Second, "the instance to drop what left", func() (bool, string) {
		v, err := f.Workflows().Instance(t.Context(), alice)
		_, has := v.Has("d1")
		return err == nil && !has && len(v.Devices) == 2, ""
	})
	f.awaitReturned(t, devices[0])

	// It is another's at once, and in no other document.
	f.refuse(t, device.CodeConflict, "bind", carol, append(named(devices[0]), "--address", first)...)
	require.True(t, isAvailable(f.status(t, devices[0])), "nothing was claimed for a refused address")
	f.act(t, "attach", bob, named(devices[0])...)
	require.Equal(t, all, f.shown(t, first))
	require.Equal(t, map[string]string{"D4": "tag of d4", "D1": "tag of d1"}, f.shown(t, second))

	f.act(t, "detach", alice, "d2")
	delete(all, "D2")
	require.Equal(t, all, f.shown(t, first))
	f.act(t, "release", alice)
	f.requireNoDocument(t, first)
	f.awaitReturned(t, devices[1:3]...)
	f.act(t, "bind", carol, append(named(devices[2]), "--address", first)...)
	require.Equal(t, map[string]string{"D3": "tag of d3"}, f.shown(t, first))

	// The last device leaves by itself: so does the document, and the address is free.
	_, err = f.Workflows().Send(t.Context(), "d3", contract.VerbUnbind, contract.UnbindInput{Instance: carol})
	require.NoError(t, err)
	Await(t, 20*time.Second, "the instance to end", func() (bool, string) {
		v, err := f.Workflows().Instance(t.Context(), carol)
		return err == nil && v.Phase == contract.InstanceReleased, ""
	})
	f.requireNoDocument(t, first)
	f.act(t, "bind", alice, append(named(devices[1]), "--address", first)...)
	require.Equal(t, map[string]string{"D2": "tag of d2"}, f.shown(t, first))
}
