package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// MiB is the unit of sizes here.
const MiB = site.MiB

// Device is a device of one test.
type Device site.Device

// Fake is a simulated device of the site's host.
func (s *Site) Fake(t testing.TB, name string, size int64, set ...string) Device {
	t.Helper()
	d := s.FakeDevice(name, size, set...)
	require.NoError(t, os.MkdirAll(filepath.Dir(d.Path), 0o700))
	return Device(d)
}

// File is a file that the block driver cleans.
func (s *Site) File(name string, size int64) Device { return Device(s.FileDevice(name, size)) }

// Device makes a device of a kind, full of the bytes of an earlier tenant. A fake one
// takes delay for a pass; a file is as fast as its disk.
func (s *Site) Device(t testing.TB, kind, name string, size int64, delay time.Duration) Device {
	t.Helper()
	d := s.File(name, size)
	if kind == "fake" {
		d = s.Fake(t, name, size, "delay="+delay.String())
	}
	d.Stamp(t, 1)
	return d
}

// Enroll takes the device into service.
func (s *Site) Enroll(t testing.TB, d Device, flags ...string) {
	t.Helper()
	s.Must(t, s.EnrollArgs(d, flags...)...)
}

// EnrollArgs is the command line of Enroll.
func (s *Site) EnrollArgs(d Device, flags ...string) []string {
	return s.Site.EnrollArgs(site.Device(d), flags...)
}

// Blocks is how many stamps the device holds.
func (d Device) Blocks() int { return site.Device(d).Blocks() }

// Stamp writes every block as a tenant would, with this nonce, and syncs.
func (d Device) Stamp(t testing.TB, nonce uint64) {
	t.Helper()
	require.NoError(t, site.Device(d).Stamp(nonce))
}

// Count counts the blocks that carry exactly their own stamp with this nonce, the
// zero ones, and all others.
func (d Device) Count(t testing.TB, nonce uint64) (stamped, zero, other int) {
	t.Helper()
	stamped, zero, other, err := site.Device(d).Count(nonce)
	require.NoError(t, err)
	return stamped, zero, other
}

// RequireStamps asserts that every block is the tenant's.
func (d Device) RequireStamps(t testing.TB, nonce uint64) {
	t.Helper()
	stamped, zero, other := d.Count(t, nonce)
	require.Equal(t, [3]int{d.Blocks(), 0, 0}, [3]int{stamped, zero, other}, "%s: stamped, zero, other blocks", d.Name)
}

// RequireZero asserts that no byte is left.
func (d Device) RequireZero(t testing.TB) {
	t.Helper()
	stamped, zero, other := d.Count(t, 0)
	require.Equal(t, [3]int{0, d.Blocks(), 0}, [3]int{stamped, zero, other}, "%s: stamped, zero, other blocks", d.Name)
}

// Journal reads the resume point that the host keeps of a device; false where there is none.
func (s *Site) Journal(t testing.TB, name string) (host.Entry, bool) {
	t.Helper()
	e, found, err := s.Site.Journal(name)
	require.NoError(t, err)
	return e, found
}

// BoundDevice gives a simulated device of 2 MiB that the tenant has, with nonce 2 in all its
// blocks.
func (s *Site) BoundDevice(t testing.TB, name, tenant string) Device {
	t.Helper()
	d := s.Device(t, "fake", name, 2*MiB, 0)
	s.Enroll(t, d, "--provide")
	s.AwaitReturned(t, d, 20*time.Second)
	s.Bind(t, name, tenant)
	d.Stamp(t, 2)
	return d
}

// AwaitMidWipe returns as soon as the step zero of a device has journalled an offset
// of at least `past`, with what the journal said.
func (s *Site) AwaitMidWipe(t testing.TB, d Device, past int64, within time.Duration) host.Entry {
	t.Helper()
	var e host.Entry
	PollFast(t, within, d.Name+" to be in mid-wipe", func() (bool, string) {
		e, _ = s.Journal(t, d.Name)
		return e.Step == "zero" && !e.Done && e.Offset >= past && e.Offset < d.Size,
			fmt.Sprintf("step %s, offset %d, done %v", e.Step, e.Offset, e.Done)
	})
	return e
}

// AwaitReturned waits until the inventory offers the device. At that very moment
// no byte of a tenant may be left on it; then the device must say that it is
// available and clean.
func (s *Site) AwaitReturned(t testing.TB, d Device, within time.Duration) contract.DeviceStatus {
	t.Helper()
	Await(t, within, d.Name+" to be returned", func() (bool, string) {
		p, err := s.Site.Provider(d.Name)
		if err == nil && p.Reserved == 0 {
			return true, ""
		}
		_, seen, _ := s.query(t.Context(), d.Name)
		return false, fmt.Sprintf("%+v %v; %s", p, err, seen)
	})
	d.RequireZero(t)
	v := s.AwaitState(t, d.Name, 10*time.Second, device.Available)
	require.False(t, v.Dirty)
	require.False(t, v.NotSanitized)
	s.RequireReserved(t, d.Name, 0)
	return v
}

// AwaitTenant waits until the device is the tenant's: allocated, burned, with every
// byte as it was written.
func (s *Site) AwaitTenant(t testing.TB, d Device, tenant string, nonce uint64,
	within time.Duration) contract.DeviceStatus {
	t.Helper()
	v := s.AwaitStatus(t, d.Name, within, "to be "+tenant+"'s", heldBy(Instance(tenant)))
	d.RequireStamps(t, nonce)
	Await(t, 10*time.Second, d.Name+" to be reserved", func() (bool, string) { // its provider may have to be made again
		p, err := s.Site.Provider(d.Name)
		return err == nil && p.Reserved == 1, fmt.Sprint(p, err)
	})
	return v
}

// RequireUntouched asserts for a while that nothing is written to the tenant's device and
// that it stays reserved.
func (s *Site) RequireUntouched(t testing.TB, d Device, nonce uint64, length time.Duration) {
	t.Helper()
	RequireThroughout(t, length, d.Name+" stays as its tenant left it", func() (bool, string) {
		stamped, zero, other := d.Count(t, nonce)
		p, err := s.Site.Provider(d.Name)
		return err == nil && stamped == d.Blocks() && p.Reserved == 1,
			fmt.Sprintf("stamped %d, zero %d, other %d blocks; %+v %v", stamped, zero, other, p, err)
	})
}
