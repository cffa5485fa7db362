package nvmesim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// realTool is the nvme-cli that is run.
const realTool = "/usr/sbin/nvme"

const (
	// prefix is how a site's directory begins.
	dirPrefix = "burnish-nvme-"
	// owner is the file in it that is locked as long as the test lives.
	ownerFile = "owner"
)

// Site is a host with NVMe controllers. Its methods fail the test where they cannot do
// what they say. They may be called while commands run.
type Host struct {
	// Dir has everything; Sys and Dev are where the kernel would show /sys and /dev.
	Dir, Sys, Dev string

	t testing.TB
}

// New makes a site with these controllers, named nvme0, nvme1 and so on, each with the
// driver nvme. It is gone with the test. Where loop devices, device nodes or nvme-cli
// cannot be had, the test is skipped.
func New(t testing.TB, controllers ...Controller) *Host {
	t.Helper()
	if err := checkPrerequisites(); err != nil {
		t.Skipf("no NVMe controller can be emulated here: %v", err)
	}
	removeLeftovers(os.TempDir())
	dir, held, err := createDir()
	if err != nil {
		t.Fatalf("make a site: %v", err)
	}
	s := &Host{Dir: dir, Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), t: t}
	t.Cleanup(func() {
		if err := errors.Join(detachAll(dir), os.RemoveAll(dir), held.Close()); err != nil {
			t.Errorf("remove the site: %v", err)
		}
	})
	if err := s.create(controllers); err != nil {
		t.Fatalf("make a site: %v", err)
	}
	if err := checkDeviceNodes(filepath.Join(s.Dev, "probe")); err != nil {
		t.Skipf("no NVMe controller can be emulated here: %v", err)
	}
	return s
}

// possible says why a site cannot be, before anything is made.
func checkPrerequisites() error {
	switch _, err := os.Stat(realTool); {
	case !traceable:
		return errors.New("this processor's calls cannot be answered")
	case err != nil:
		return fmt.Errorf("nvme-cli: %w", err)
	case os.Geteuid() != 0:
		return errors.New("it needs root")
	}
	return unix.Access("/dev/loop-control", unix.R_OK|unix.W_OK)
}

// usable says whether a node in this place can be opened.
func checkDeviceNodes(path string) error {
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		return fmt.Errorf("make a device node: %w", err)
	}
	node, err := os.Open(path)
	if err == nil {
		err = node.Close()
	}
	return errors.Join(err, os.Remove(path))
}

// own makes a site's directory and locks it.
func createDir() (dir string, held *os.File, err error) {
	if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return "", nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, err
	}
	// It gets its name when it is locked, so that sweep cannot come between.
	if held, err = os.Create(filepath.Join(dir, "new")); err != nil {
		return "", nil, err
	}
	err = errors.Join(unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB), os.Rename(held.Name(), filepath.Join(dir, ownerFile)))
	return dir, held, err
}

// sweep frees what a test left that was killed.
func removeLeftovers(temp string) {
	if real, err := filepath.EvalSymlinks(temp); err == nil {
		temp = real
	}
	left, err := filepath.Glob(filepath.Join(temp, dirPrefix+"*", ownerFile))
	if err != nil {
		return
	}
	for _, file := range left {
		held, err := os.Open(file)
		if err != nil {
			continue
		}
		if unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			dir := filepath.Dir(file)
			_ = errors.Join(detachAll(dir), os.RemoveAll(dir)) // Whoever comes next tries again.
		}
		_ = held.Close()
	}
}

func (s *Host) create(controllers []Controller) error {
	for _, name := range []string{"sys", "dev", "media"} {
		if err := os.Mkdir(filepath.Join(s.Dir, name), 0o755); err != nil {
			return err
		}
	}
	self, err := emulatorBinary()
	if err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", hostVariable, s.Dir, self)
	if err := os.WriteFile(s.Tool(), []byte(script), 0o755); err != nil {
		return err
	}
	return withState(s.Dir, func(w *state) error {
		for i, c := range controllers {
			c.complete(i)
			one := &slot{Controller: c, Name: fmt.Sprintf("nvme%d", i)}
			w.Slots = append(w.Slots, one)
			if err := errors.Join(w.insert(one, i), w.plug(one)); err != nil {
				return err
			}
			if err := w.bind(one, nvmeDriver); err != nil {
				return err
			}
		}
		return nil
	})
}

// program is what plays nvme: this test program itself, or, where that is slow to start,
// one that is built once.
var emulatorBinary = sync.OnceValues(func() (string, error) {
	if !slowStart {
		return os.Executable()
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d", buildPrefix, os.Getpid()))
	build := exec.Command("go", "build", "-o", path, "burnish/internal/testkit/cmd/emulate")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the emulator: %w: %s", err, out)
	}
	builtEmulator = path
	return path, nil
})

// built is the program that program has built, "" where it has not.
var builtEmulator string

// buildPrefix names the built programs in the folder for temporary files.
const buildPrefix = "burnish-emulate-"

// complete fills in what a controller needs to be one.
func (c *Controller) complete(i int) {
	for _, name := range []struct {
		field *string
		value string
	}{
		{&c.Address, fmt.Sprintf("0000:%02x:00.0", i+1)},
		{&c.Serial, fmt.Sprintf("EMULATED%04d", i)},
		{&c.Model, "Emulated NVMe Drive"},
		{&c.Firmware, "1.0.0"},
	} {
		if *name.field == "" {
			*name.field = name.value
		}
	}
	if c.SubsystemNQN == "" {
		c.SubsystemNQN = "nqn.2014-08.org.nvmexpress:emulated:" + c.Serial
	}
	if c.VendorID == 0 {
		c.VendorID, c.ProductID = 0x1b36, 0x0010
	}
	if len(c.Formats) == 0 {
		c.Formats = []Format{{BlockSize: 512}}
	}
	c.NN = max(c.NN, 1)
}

// Tool is the path of the program to run in place of nvme.
func (s *Host) Tool() string { return filepath.Join(s.Dir, "nvme") }

// Node is the path of controller i's node, as it is named now.
func (s *Host) Node(i int) string {
	s.t.Helper()
	var name string
	s.change(i, func(_ *state, one *slot) error {
		name = one.Name
		return nil
	})
	return filepath.Join(s.Dev, name)
}

// Media is the path of the file with all bytes of the drive in slot i, allocated or
// not. What is written to it reaches a namespace's node only while nobody holds that
// open; what is written to a node is in it when the writer has synced or closed.
func (s *Host) Media(i int) string {
	s.t.Helper()
	var path string
	s.change(i, func(w *state, one *slot) error {
		path = w.media(one)
		return nil
	})
	return path
}

// Fill writes this byte over the whole media of drive i, as a tenant would: what is
// not allocated too. The drive no longer says that it is erased.
func (s *Host) Fill(i int, b byte) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error {
		one.Controller.Sanitize.GlobalErased = false
		chunk := make([]byte, one.Size)
		for at := range chunk {
			chunk[at] = b
		}
		return errors.Join(os.WriteFile(w.media(one), chunk, 0o600), w.recordMediaTime(one))
	})
}

// Write writes to the media of drive i, from an offset on, as a tenant would.
func (s *Host) Write(i int, offset int64, data []byte) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error {
		if offset < 0 || uint64(offset)+uint64(len(data)) > one.Size {
			return fmt.Errorf("the media has %d bytes", one.Size)
		}
		one.Controller.Sanitize.GlobalErased = false
		file, err := os.OpenFile(w.media(one), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(data, offset)
		return errors.Join(err, file.Close(), w.recordMediaTime(one))
	})
}

// Dirtied makes drive i say that something was written since it was erased. Writes to
// its nodes do so by themselves, when they were synced.
func (s *Host) MarkWritten(i int) {
	s.t.Helper()
	s.Change(i, func(c *Controller) { c.Sanitize.GlobalErased = false })
}

// Look gives controller i as it is now.
func (s *Host) State(i int) Controller {
	s.t.Helper()
	var c Controller
	s.change(i, func(_ *state, one *slot) error {
		c = one.Controller
		return nil
	})
	return c
}

// Change edits controller i between two commands. The host sees another namespace, or
// another name, only after a rescan, and another Address never.
func (s *Host) Change(i int, change func(*Controller)) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error {
		address := one.Controller.Address
		change(&one.Controller)
		one.Controller.Address = address
		if one.Controller.Sanitize.GlobalErased {
			return w.recordMediaTime(one)
		}
		return nil
	})
}

// Rescan makes the host look at controller i again.
func (s *Host) Rescan(i int) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.rescan(one) })
}

// Swap puts another drive into slot i, like the first but for its serial number and
// what change makes of it; its media is all zeros. The first one's media file stays.
func (s *Host) Swap(i int, serial string, change ...func(*Controller)) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.swap(one, i, serial, change...) })
}

// Renumber removes controller i and finds it again under another name, as a rescan of
// the bus may.
func (s *Host) Renumber(i int, name string) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error {
		driver := one.Driver
		if err := w.unplug(one); err != nil {
			return err
		}
		one.Name = name
		return errors.Join(w.plug(one), w.bind(one, driver))
	})
}

// Remove takes controller i from the bus: its slot is empty. Insert puts it back.
func (s *Host) Remove(i int) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.unplug(one) })
}

// Insert puts back what Remove took.
func (s *Host) Insert(i int) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return errors.Join(w.plug(one), w.bind(one, nvmeDriver)) })
}

// BindDriver gives controller i to a driver: "nvme", "vfio-pci", or "" for none.
func (s *Host) BindDriver(i int, driver string) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.bind(one, driver) })
}

// Log gives every command that was answered so far, in order.
func (s *Host) Log() []Command {
	s.t.Helper()
	all, err := readLog(s.Dir)
	if err != nil {
		s.t.Fatalf("read the log: %v", err)
	}
	return all
}

// Forget empties the log.
func (s *Host) ClearLog() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, logFile), nil, 0o600); err != nil {
		s.t.Fatalf("empty the log: %v", err)
	}
}

func (s *Host) change(i int, do func(*state, *slot) error) {
	s.t.Helper()
	err := withState(s.Dir, func(w *state) error {
		if i < 0 || i >= len(w.Slots) {
			return fmt.Errorf("there is no controller %d", i)
		}
		return do(w, w.Slots[i])
	})
	if err != nil {
		s.t.Fatalf("change the site: %v", err)
	}
}

func (w *state) swap(s *slot, i int, serial string, change ...func(*Controller)) error {
	driver := s.Driver
	if err := w.unplug(s); err != nil {
		return err
	}
	c := &s.Controller
	c.SubsystemNQN = strings.ReplaceAll(c.SubsystemNQN, c.Serial, serial)
	c.Serial = serial
	c.Sanitize.Status, c.Sanitize.CDW10, c.Sanitize.GlobalErased, c.Sanitize.Verifying = 0, 0, true, false
	for _, one := range change {
		one(c)
	}
	return errors.Join(w.insert(s, i), w.plug(s), w.bind(s, driver))
}
