package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// An instance moves between hosts: each move on real workers, with the devices' bytes.
func TestInstanceMoves(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "BURNISH_HOST_SILENT_AFTER=3s")
	left, right, third := f.host(t), f.host(t), f.host(t)
	beside(t, map[string]func(*testing.T){
		"confirmed": func(t *testing.T) { f.migrateAndConfirm(t, left, right) },
		"evacuated": func(t *testing.T) { f.evacuate(t, third, right) },
	})
}

// bound binds the devices, each with a tag and a guest's address, to the instance, whose guest
// has this IP address, and writes the tenant's bytes.
func (f *fleet) bound(t *testing.T, instance, address string, nonce uint64, devices ...Device) {
	t.Helper()
	flags := []string{"--address", address}
	for i, device := range named(devices...) {
		if flags = append(flags, device); i%2 == 1 {
			flags = append(flags, "--guest", fmt.Sprintf("bus=pci,address=0000:00:%02x.0", i))
		}
	}
	f.act(t, "bind", instance, flags...)
	stampAll(t, nonce, devices...)
	f.requireHeld(t, instance, nonce, devices...)
}

// migrateAndConfirm: the source stays burned until the instance has left it, and is cleaned then;
// the destination has the source's tags, and the guest reads the new serials.
func (f *fleet) migrateAndConfirm(t *testing.T, from, to *fleetHost) {
	const guest = "127.3.0.1"
	source, destination := from.enroll(t, "ca1", "ca2"), to.enroll(t, "cb1", "cb2")
	vm, other := Instance("confirmed"), Instance("other")
	f.bound(t, vm, guest, 2, source...)
	require.Equal(t, map[string]string{"CA1": "tag of ca1", "CA2": "tag of ca2"}, f.shown(t, guest))

	f.act(t, "migrate", vm, "--to", to.Host, "--device", "cb1", "--device", "cb2")
	v := f.instance(t, vm)
	require.Equal(t, contract.InstanceMigrating, v.Phase)
	require.Equal(t, map[string]string{"cb1": "tag of ca1", "cb2": "tag of ca2"}, roles(v))
	require.Equal(t, to.Host, v.Host)
	require.Len(t, v.Move.Source, 2)
	status, text := f.Service.guestAt(t, guest, latestDocument)
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, map[string]string{"CB1": "tag of ca1", "CB2": "tag of ca2"}, tags(t, text))
	require.NotContains(t, text, "0000:00", "where the guest finds them there is not known")
	f.requireHeld(t, vm, 2, source...)
	stampAll(t, 3, destination...)
	f.requireHeld(t, vm, 3, destination...)
	f.refuse(t, device.CodeRefused, "bind", other, "--device", "ca1")
	f.refuse(t, device.CodeRefused, "detach", vm, "ca1")
	f.refuse(t, device.CodeRefused, "migrate", vm, "--to", from.Host)
	f.requireHeld(t, vm, 2, source...)

	f.act(t, "confirm", vm)
	f.awaitReturned(t, source...)
	f.requireHeld(t, vm, 3, destination...)
	v = f.instance(t, vm)
	require.Equal(t, contract.InstanceActive, v.Phase)
	require.Nil(t, v.Move)
	require.Equal(t, map[string]string{"CB1": "tag of ca1", "CB2": "tag of ca2"}, f.shown(t, guest))
	f.act(t, "release", vm)
	f.requireNoDocument(t, guest)
	f.awaitReturned(t, destination...)
}

// evacuate: the host's worker is dead. The instance gets its devices elsewhere; those of the dead
// host stay burned with their bytes, and are cleaned when it is back.
func (f *fleet) evacuate(t *testing.T, from, to *fleetHost) {
	const guest = "127.3.0.5"
	source, destination := from.enroll(t, "ea1", "ea2"), to.enroll(t, "eb1", "eb2")
	vm, other := Instance("evacuated"), Instance("another")
	f.bound(t, vm, guest, 2, source...)
	from.Kill(t)
	f.act(t, "evacuate", vm, "--to", to.Host, "--device", "eb1", "--device", "eb2")
	stampAll(t, 3, destination...)
	f.requireHeld(t, vm, 3, destination...)
	v := f.instance(t, vm)
	require.Equal(t, contract.InstanceActive, v.Phase)
	require.Equal(t, map[string]string{"eb1": "tag of ea1", "eb2": "tag of ea2"}, roles(v))
	require.Equal(t, map[string]string{"EB1": "tag of ea1", "EB2": "tag of ea2"}, f.shown(t, guest))

	f.awaitAll(t, source, "to wait for its host", func(v contract.DeviceStatus) bool {
		return v.NeedsOperator && v.Fault == string(device.CodeHostUnreachable) && v.Dirty && v.InstanceUUID == nil
	})
	for _, d := range source {
		f.RequireReserved(t, d.Name, 1)
		d.RequireStamps(t, 2)
		f.refuse(t, device.CodeRefused, "bind", other, "--device", d.Name)
	}
	RequireThroughout(t, time.Second, "nothing is returned", func() (bool, string) {
		p := f.Provider(t, "ea1")
		return p.Reserved == p.Total, fmt.Sprint(p)
	})

	from.Start(t)
	f.awaitReturned(t, source...)
	f.requireHeld(t, vm, 3, destination...)
	f.act(t, "bind", other, named(source...)...)
	f.act(t, "release", other)
	f.act(t, "release", vm)
	f.awaitReturned(t, slices.Concat(source, destination)...)
}
