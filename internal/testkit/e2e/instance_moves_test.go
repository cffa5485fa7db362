package e2e

import (
	"fmt"
	"maps"
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
		"reverted":  func(t *testing.T) { f.migrateAndRevert(t, left, right) },
		"live":      func(t *testing.T) { f.liveMigrate(t, left, right) },
		"rebuilt":   func(t *testing.T) { f.rebuildInPlace(t, right) },
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

// unchanged asserts that the devices were neither bound nor cleaned since they were seen.
func (f *fleet) unchanged(t *testing.T, before []contract.DeviceStatus, devices ...Device) {
	t.Helper()
	for i, d := range devices {
		now := f.status(t, d)
		require.Equal(t, before[i].DeviceState, now.DeviceState, d.Name)
		require.Equal(t, before[i].Binding, now.Binding, d.Name)
		require.Len(t, now.Bindings, len(before[i].Bindings), d.Name)
		require.Len(t, now.Cleans, len(before[i].Cleans), d.Name)
	}
}

func (f *fleet) statuses(t testing.TB, devices ...Device) (all []contract.DeviceStatus) {
	t.Helper()
	for _, d := range devices {
		all = append(all, f.status(t, d))
	}
	return all
}

// migrateAndConfirm: the source stays burned until the instance has left it, and is cleaned then;
// the destination has the source's tags, and the guest reads the new serials.
func (f *fleet) migrateAndConfirm(t *testing.T, from, to *fleetHost) {
	const guest = "127.3.0.1"
	source, destination := from.enroll(t, "", "ca1", "ca2"), to.enroll(t, "", "cb1", "cb2")
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

// migrateAndRevert: the destination is cleaned, and the source is as it was.
func (f *fleet) migrateAndRevert(t *testing.T, from, to *fleetHost) {
	const guest = "127.3.0.2"
	source, destination := from.enroll(t, "", "ra1", "ra2"), to.enroll(t, "", "rb1", "rb2")
	vm := Instance("reverted")
	f.bound(t, vm, guest, 2, source...)
	_, document := f.Service.guestAt(t, guest, latestDocument)
	before, seen := f.instance(t, vm), f.statuses(t, source...)
	f.act(t, "migrate", vm, "--to", to.Host, "--device", "rb1", "--device", "rb2")
	stampAll(t, 3, destination...)
	f.act(t, "revert", vm)
	f.awaitReturned(t, destination...)
	f.requireHeld(t, vm, 2, source...)
	f.unchanged(t, seen, source...)
	after := f.instance(t, vm)
	require.Equal(t, before.Devices, after.Devices)
	require.Equal(t, contract.InstanceActive, after.Phase)
	_, now := f.Service.guestAt(t, guest, latestDocument)
	require.Equal(t, document, now)
	f.refuse(t, device.CodeRefused, "revert", vm)

	// A release in mid-migration gives both sides back.
	f.act(t, "migrate", vm, "--to", to.Host, "--device", "rb2", "--device", "rb1")
	stampAll(t, 4, destination...)
	f.act(t, "release", vm)
	f.awaitReturned(t, slices.Concat(source, destination)...)
}

// liveMigrate: devices that are not marked are refused before anything is claimed.
func (f *fleet) liveMigrate(t *testing.T, from, to *fleetHost) {
	const guest = "127.3.0.3"
	const marked = `, vendor: live, live_migratable: "yes"`
	live, plain := from.enroll(t, marked, "la1"), from.enroll(t, ", vendor: live", "la2")
	liveThere, plainThere := to.enroll(t, marked, "lb1"), to.enroll(t, ", vendor: live", "lb2")
	there := slices.Concat(liveThere, plainThere)
	vm := Instance("live")
	seen := f.statuses(t, there...)
	f.bound(t, vm, guest, 2, plain...)
	f.refuse(t, device.CodeRefused, "live-migrate", vm, "--to", to.Host)
	f.refuse(t, device.CodeRefused, "live-migrate", vm, "--to", to.Host, "--device", "lb1")
	f.unchanged(t, seen, there...)
	f.act(t, "release", vm)
	f.awaitReturned(t, plain...)

	f.bound(t, vm, guest, 3, live...)
	f.refuse(t, device.CodeRefused, "live-migrate", vm, "--to", to.Host, "--device", "lb2")
	f.unchanged(t, seen, there...)
	f.requireHeld(t, vm, 3, live...)
	f.act(t, "live-migrate", vm, "--to", to.Host)
	v := f.instance(t, vm)
	require.Equal(t, map[string]string{"lb1": "tag of la1"}, roles(v), "the marked one was picked")
	require.Equal(t, contract.VerbInstanceLiveMigrate.Update(), v.Move.Verb)
	stampAll(t, 4, liveThere...)
	f.requireHeld(t, vm, 3, live...)
	require.Equal(t, map[string]string{"LB1": "tag of la1"}, f.shown(t, guest))
	f.act(t, "confirm", vm)
	f.awaitReturned(t, live...)
	f.requireHeld(t, vm, 4, liveThere...)
	f.unchanged(t, seen[1:], plainThere...)
}

// rebuildInPlace: nothing is cleaned, nothing is burned again.
func (f *fleet) rebuildInPlace(t *testing.T, on *fleetHost) {
	devices := on.enroll(t, "", "bb1", "bb2")
	vm := Instance("rebuilt")
	f.bound(t, vm, "127.3.0.4", 2, devices...)
	seen := f.statuses(t, devices...)
	generations := map[string]int64{}
	for _, d := range devices {
		generations[d.Name] = f.Provider(t, d.Name).Generation
	}
	before := maps.Clone(generations)
	f.act(t, "rebuild", vm)
	f.act(t, "rebuild", vm)
	f.requireHeld(t, vm, 2, devices...)
	f.unchanged(t, seen, devices...)
	for _, d := range devices {
		generations[d.Name] = f.Provider(t, d.Name).Generation
	}
	require.Equal(t, before, generations, "the inventory was not written")
	f.act(t, "release", vm)
	f.awaitReturned(t, devices...)
}

// evacuate: the host's worker is dead. The instance gets its devices elsewhere; those of the dead
// host stay burned with their bytes, and are cleaned when it is back.
func (f *fleet) evacuate(t *testing.T, from, to *fleetHost) {
	const guest = "127.3.0.5"
	source, destination := from.enroll(t, "", "ea1", "ea2"), to.enroll(t, "", "eb1", "eb2")
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
