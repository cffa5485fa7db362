package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// MiB is the unit of sizes here.
const MiB = 1 << 20

// Device is one device of a test: how it is enrolled, and where its bytes are.
type Device struct {
	Name, Driver, Path string
	Size               int64
	Set                []string
}

// Fake is a simulated device of the site's host.
func (s *Site) Fake(t testing.TB, name string, size int64, set ...string) Device {
	t.Helper()
	d := Device{
		Name: name, Driver: "fake", Size: size, Set: append([]string{fmt.Sprintf("size=%d", size)}, set...),
		Path: filepath.Join(s.State, "fake", name, "contents"),
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(d.Path), 0o700))
	return d
}

// File is a real file that the block driver cleans.
func (s *Site) File(t testing.TB, name string, size int64) Device {
	t.Helper()
	path := filepath.Join(s.Files, name+".img")
	return Device{Name: name, Driver: "block", Path: path, Size: size, Set: []string{"path=" + path}}
}

// Kinds are the drivers that a machine without hardware has.
var Kinds = []string{"fake", "block"}

// Device makes a device of a kind, full of the bytes of an earlier life. A fake one
// takes delay for a pass; a file is as fast as its disk.
func (s *Site) Device(t testing.TB, kind, name string, size int64, delay time.Duration) Device {
	t.Helper()
	d := s.File(t, name, size)
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
	args := []string{"enroll", d.Name, "--host", s.Host, "--driver", d.Driver}
	for _, set := range d.Set {
		args = append(args, "--set", set)
	}
	return append(args, flags...)
}

// Blocks is how many stamps the device holds.
func (d Device) Blocks() int { return int((d.Size + hardwaretest.Block - 1) / hardwaretest.Block) }

// Stamp is a tenant that writes every block, with this nonce, and syncs.
func (d Device) Stamp(t testing.TB, nonce uint64) {
	t.Helper()
	file, err := os.OpenFile(d.Path, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, errors.Join(hardwaretest.Stamp(file, d.Size, nonce), file.Sync(), file.Close()))
}

// Count counts the blocks that carry exactly their own stamp with this nonce, the
// zero ones, and all others.
func (d Device) Count(t testing.TB, nonce uint64) (stamped, zero, other int) {
	t.Helper()
	file, err := os.Open(d.Path)
	require.NoError(t, err)
	stamped, zero, other, err = hardwaretest.Count(file, d.Size, nonce)
	require.NoError(t, errors.Join(err, file.Close()))
	info, err := os.Stat(d.Path)
	require.NoError(t, err)
	if info.Mode().IsRegular() {
		require.Equal(t, d.Size, info.Size(), "%s keeps its size", d.Path)
	}
	return stamped, zero, other
}

// RequireStamps: every block is the tenant's.
func (d Device) RequireStamps(t testing.TB, nonce uint64) {
	t.Helper()
	stamped, zero, other := d.Count(t, nonce)
	require.Equal(t, [3]int{d.Blocks(), 0, 0}, [3]int{stamped, zero, other}, "%s: stamped, zero, other blocks", d.Name)
}

// RequireZero: nothing of anybody is left.
func (d Device) RequireZero(t testing.TB) {
	t.Helper()
	stamped, zero, other := d.Count(t, 0)
	require.Equal(t, [3]int{0, d.Blocks(), 0}, [3]int{stamped, zero, other}, "%s: stamped, zero, other blocks", d.Name)
}

// Resume is the host's journal of a device as its file shows it: the resume point of
// the latest step.
type Resume struct {
	Seq     int64
	Attempt int32
	Step    string
	Offset  int64
	// Working says that an attempt has the device in hand, or was ended by a crash.
	Working, Done bool
	Updated       time.Time
}

// Journal reads the journal of a device; false where there is none.
func (s *Site) Journal(t testing.TB, name string) (Resume, bool) {
	t.Helper()
	return journal(t, s.State, name)
}

func journal(t testing.TB, stateDir, name string) (Resume, bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(stateDir, "journal", name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Resume{}, false
	}
	require.NoError(t, err)
	var stored struct{ Data Resume }
	require.NoError(t, json.Unmarshal(text, &stored))
	return stored.Data, true
}

// AwaitMidWipe returns as soon as the step zero of a device has journalled an offset
// of at least `past`, with what the journal said.
func (s *Site) AwaitMidWipe(t testing.TB, d Device, past int64, within time.Duration) Resume {
	t.Helper()
	var e Resume
	PollFast(t, within, d.Name+" to be in mid-wipe", func() (bool, string) {
		e, _ = s.Journal(t, d.Name)
		return e.Step == "zero" && !e.Done && e.Offset >= past && e.Offset < d.Size,
			fmt.Sprintf("step %s, offset %d, done %v", e.Step, e.Offset, e.Done)
	})
	return e
}

// AwaitReturned waits until the inventory offers the device. At that very moment
// nothing of anybody may be left on it (S2.40); then the device must say that it is
// available and clean.
func (s *Site) AwaitReturned(t testing.TB, d Device, within time.Duration) contract.DeviceStatus {
	t.Helper()
	Await(t, within, d.Name+" to be returned", func() (bool, string) {
		p, err := s.provider(d.Name)
		if err == nil && p.Reserved == 0 {
			return true, ""
		}
		_, r, shown := s.show(d.Name)
		return false, fmt.Sprintf("%+v %v; %v %v", p, err, r, shown)
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
func (s *Site) AwaitTenant(t testing.TB, d Device, tenant string, nonce uint64, within time.Duration) contract.DeviceStatus {
	t.Helper()
	v := s.AwaitDevice(t, d.Name, within, "to be "+tenant+"'s", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Allocated && v.InstanceUUID != nil && *v.InstanceUUID == Instance(tenant)
	})
	d.RequireStamps(t, nonce)
	require.Equal(t, 1, s.Provider(t, d.Name).Reserved)
	return v
}

// Undisturbed watches for a while that nobody writes to the tenant's device and that
// it is offered to nobody.
func (s *Site) RequireUntouched(t testing.TB, d Device, nonce uint64, length time.Duration) {
	t.Helper()
	RequireThroughout(t, length, d.Name+" stays as its tenant left it", func() (bool, string) {
		stamped, zero, other := d.Count(t, nonce)
		p, err := s.provider(d.Name)
		return err == nil && stamped == d.Blocks() && p.Reserved == 1,
			fmt.Sprintf("stamped %d, zero %d, other %d blocks; %+v %v", stamped, zero, other, p, err)
	})
}
