package site

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"burnish/internal/testkit/suites/hardwaretest"
)

// MiB is the unit of sizes.
const MiB = 1 << 20

// Device is how a device is enrolled, and where its bytes are.
type Device struct {
	Name, Driver, Path string
	Size               int64
	Set                []string
}

// FakeDevice is a simulated device of the site's host.
func (s *Site) FakeDevice(name string, size int64, set ...string) Device {
	return Device{
		Name: name, Driver: "fake", Size: size, Set: append([]string{fmt.Sprintf("size=%d", size)}, set...),
		Path: filepath.Join(s.State, "fake", name, "contents"),
	}
}

// FileDevice is a file that the block driver cleans.
func (s *Site) FileDevice(name string, size int64) Device {
	path := filepath.Join(s.Files, name+".img")
	return Device{Name: name, Driver: "block", Path: path, Size: size, Set: []string{"path=" + path}}
}

// EnrollArgs is the command that enrolls the device on the site's host.
func (s *Site) EnrollArgs(d Device, flags ...string) []string {
	args := []string{"enroll", d.Name, "--host", s.Host, "--driver", d.Driver}
	for _, set := range d.Set {
		args = append(args, "--set", set)
	}
	return append(args, flags...)
}

// Blocks is how many stamps the device holds.
func (d Device) Blocks() int { return int((d.Size + hardwaretest.Block - 1) / hardwaretest.Block) }

// Stamp writes every block as a tenant would, with this nonce, and syncs. It makes the
// file where it is missing.
func (d Device) Stamp(nonce uint64) error {
	if err := os.MkdirAll(filepath.Dir(d.Path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(d.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(hardwaretest.Stamp(file, d.Size, nonce), file.Sync(), file.Close())
}

// Count counts the blocks that carry exactly their own stamp with this nonce, the zero
// ones, and all others.
func (d Device) Count(nonce uint64) (stamped, zero, other int, err error) {
	file, err := os.Open(d.Path)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return 0, 0, 0, err
	}
	if info.Mode().IsRegular() && info.Size() != d.Size {
		return 0, 0, 0, fmt.Errorf("%s has %d bytes, want %d", d.Path, info.Size(), d.Size)
	}
	return hardwaretest.Count(file, d.Size, nonce)
}
