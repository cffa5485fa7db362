package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

const latestDocument = "/openstack/latest/meta_data.json"

// fleet is a site whose control worker serves guests, with hosts of their own state directories.
type fleet struct {
	*Site
	Service metadataService
}

// newFleet starts the control worker, which serves guests.
func newFleet(t testing.TB, env ...string) *fleet {
	t.Helper()
	f := &fleet{Site: newSite(t)}
	service, more := f.metadataService(t)
	f.Service = service
	f.Run(t, "control", append(env, more...)...)
	return f
}

// fleetHost is a host of a fleet. Its devices are h.Name's by their short names.
type fleetHost struct {
	*Worker
	fleet *fleet
}

// host starts the worker of another host.
func (f *fleet) host(t testing.TB) *fleetHost {
	t.Helper()
	w := f.Worker(t, "host")
	w.Host = site.NewHost()
	w.StateDir = filepath.Join(f.Dir, w.Host)
	w.Start(t)
	return &fleetHost{w, f}
}

// small is the size of a fleet's devices.
const small = 64 << 10

// enroll takes NVMe drives of the host into service, whose serial is the name in capitals. It returns
// when all are available.
func (h *fleetHost) enroll(t testing.TB, names ...string) []Device {
	t.Helper()
	var text strings.Builder
	text.WriteString("devices:\n")
	var all []Device
	for _, name := range names {
		fmt.Fprintf(&text, "  - {name: %q, host: %s, driver: fake, type: NVME, provide: true, set: {size: %d, serial: "+
			"%s}}\n", name, h.Host, small, strings.ToUpper(name))
		all = append(all, Device(h.FakeDevice(name, small)))
	}
	h.fleet.Must(t, "enroll", "-f", h.fleet.writeFile(t, names[0]+".yaml", text.String()))
	h.fleet.awaitAll(t, all, "to be available", isAvailable)
	return all
}

func isAvailable(v contract.DeviceStatus) bool { return v.DeviceState == device.Available && !v.Dirty }

// heldBy accepts a device that the instance has.
func heldBy(instance string) func(contract.DeviceStatus) bool {
	return func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Allocated && v.InstanceUUID != nil && *v.InstanceUUID == instance
	}
}

// status asks a device itself.
func (f *fleet) status(t testing.TB, d Device) contract.DeviceStatus {
	t.Helper()
	return f.AwaitStatus(t, d.Name, 30*time.Second, "to answer", func(contract.DeviceStatus) bool { return true })
}

// awaitAll waits until each of the devices is as wanted.
func (f *fleet) awaitAll(t testing.TB, devices []Device, what string, ok func(contract.DeviceStatus) bool) {
	t.Helper()
	for _, d := range devices {
		f.AwaitStatus(t, d.Name, 40*time.Second, what, ok)
	}
}

// awaitReturned waits until the devices are offered again: no byte of a tenant is on them.
func (f *fleet) awaitReturned(t testing.TB, devices ...Device) {
	t.Helper()
	f.awaitAll(t, devices, "to be cleaned and available", isAvailable)
	for _, d := range devices {
		f.AwaitReserved(t, d.Name, 0)
		d.RequireZero(t)
	}
}

// requireHeld asserts that the instance has the device, burned, with the tenant's bytes.
func (f *fleet) requireHeld(t testing.TB, instance string, nonce uint64, devices ...Device) {
	t.Helper()
	for _, d := range devices {
		v := f.status(t, d)
		require.True(t, heldBy(instance)(v), "%s of %s: %+v", d.Name, instance, v)
		f.RequireReserved(t, d.Name, 1)
		d.RequireStamps(t, nonce)
	}
}

// stampAll writes what a tenant writes.
func stampAll(t testing.TB, nonce uint64, devices ...Device) {
	t.Helper()
	for _, d := range devices {
		d.Stamp(t, nonce)
	}
}

// act is `burnish instance VERB UUID …`, which must succeed.
func (f *fleet) act(t testing.TB, verb, instance string, more ...string) string {
	t.Helper()
	return f.Must(t, append([]string{"instance", verb, instance}, more...)...)
}

// refuse is act that must be refused with this code.
func (f *fleet) refuse(t testing.TB, code device.Code, verb, instance string, more ...string) {
	t.Helper()
	f.Refused(t, code, append([]string{"instance", verb, instance}, more...)...)
}

// instance is `burnish instance show -o json`.
func (f *fleet) instance(t testing.TB, instance string) (v contract.InstanceStatus) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(f.act(t, "show", instance, "-o", "json")), &v))
	return v
}

// roles are the devices of an instance with their tags.
func roles(v contract.InstanceStatus) map[string]string {
	found := map[string]string{}
	for _, d := range v.Devices {
		found[d.Name] = d.Tag
	}
	return found
}

// named are the --device flags of the devices; a tag is their name's.
func named(devices ...Device) (flags []string) {
	for _, d := range devices {
		flags = append(flags, "--device", d.Name+"=tag of "+d.Name)
	}
	return flags
}

// guestAt asks for a path as the guest that has an address of the loopback.
func (m metadataService) guestAt(t testing.TB, address, path string) (int, string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url+path, nil)
	require.NoError(t, err)
	answer, err := client.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(text)
}

// shown are the tags of the document that the guest at the address reads, by serial.
func (f *fleet) shown(t testing.TB, address string) map[string]string {
	t.Helper()
	status, text := f.Service.guestAt(t, address, latestDocument)
	require.Equal(t, http.StatusOK, status, text)
	return tags(t, text)
}

// requireNoDocument asserts that the guest at the address has none.
func (f *fleet) requireNoDocument(t testing.TB, address string) {
	t.Helper()
	status, text := f.Service.guestAt(t, address, latestDocument)
	require.Equal(t, http.StatusNotFound, status, text)
}
