package nvmesim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"burnish/internal/testkit/proc"
)

const (
	// dirPrefix is how the name of a host's directory begins.
	dirPrefix = "burnish-nvme-"
	// ownerFile is the file in it that is locked as long as the host exists.
	ownerFile = "owner"
)

// ErrUnavailable means that this machine has no loop devices, device nodes or nvme-cli.
var ErrUnavailable = errors.New("no NVMe controller can be emulated here")

// Emulation is the files of a host with NVMe controllers. Dir has everything; Sys and Dev
// are what the kernel would show below /sys and /dev.
type Emulation struct {
	Dir, Sys, Dev string

	owner *os.File
}

// Host is an Emulation that a test controls. Its methods fail the test on an error, and
// may be called while commands run.
type Host struct {
	*Emulation
	t testing.TB
}

// New creates a host with these controllers, named nvme0, nvme1 and so on, each bound to
// the driver nvme. It ends with the test, which is skipped where emulation is unavailable.
func New(t testing.TB, controllers ...Controller) *Host {
	t.Helper()
	e, err := Create(controllers...)
	switch {
	case errors.Is(err, ErrUnavailable):
		t.Skip(err)
	case err != nil:
		t.Fatalf("create the host: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("remove the host: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(e.Dir, runsFile), []byte(toolPath+runsSuffix), 0o644); err != nil {
		t.Fatalf("record the runs of nvme: %v", err)
	}
	return &Host{e, t}
}

// QuietProc is a procfs without processes. To look for users of a drive among all processes of
// the machine takes longer than most tests, and finds those of other tests, whose controllers have the same number.
func QuietProc(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"self", "swaps", "fs"} {
		if err := os.Symlink(filepath.Join("/proc", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Create is New outside of a test, where nvme runs for each command. The caller closes it.
func Create(controllers ...Controller) (*Emulation, error) {
	if err := checkPrerequisites(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	removeLeftovers(os.TempDir())
	dir, owner, err := createDir()
	if err != nil {
		return nil, err
	}
	e := &Emulation{Dir: dir, Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), owner: owner}
	if err := e.create(controllers); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if err := checkDeviceNodes(filepath.Join(e.Dev, "probe")); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), e.Close())
	}
	return e, nil
}

// Close frees the loop devices and removes all files.
func (e *Emulation) Close() error {
	return errors.Join(detachAll(e.Dir), os.RemoveAll(e.Dir), e.owner.Close())
}

// checkPrerequisites checks what can be checked before anything is created.
func checkPrerequisites() error {
	switch _, err := os.Stat(toolCommand()[0]); {
	case !traceable:
		return errors.New("system calls cannot be intercepted on this processor")
	case err != nil:
		return fmt.Errorf("nvme-cli: %w", err)
	case os.Geteuid() != 0:
		return errors.New("it needs root")
	}
	return unix.Access("/dev/loop-control", unix.R_OK|unix.W_OK)
}

// checkDeviceNodes checks that a device node at path can be opened.
func checkDeviceNodes(path string) error {
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(fullDevice)); err != nil {
		return fmt.Errorf("make a device node: %w", err)
	}
	node, err := os.Open(path)
	if err == nil {
		err = node.Close()
	}
	return errors.Join(err, os.Remove(path))
}

// createDir creates a host's directory and locks it.
func createDir() (dir string, held *os.File, err error) {
	if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return "", nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", nil, err
	}
	// The file gets its name once it is locked, so that removeLeftovers cannot take it.
	if held, err = os.Create(filepath.Join(dir, "new")); err != nil {
		return "", nil, err
	}
	err = errors.Join(unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB),
		os.Rename(held.Name(), filepath.Join(dir, ownerFile)))
	return dir, held, err
}

// removeLeftovers removes the hosts of tests that were killed.
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
			_ = errors.Join(detachAll(dir), os.RemoveAll(dir)) // the next test tries again
		}
		_ = held.Close()
	}
}

func (s *Emulation) create(controllers []Controller) error {
	for _, name := range []string{"sys", "dev", "media"} {
		if err := os.Mkdir(filepath.Join(s.Dir, name), 0o755); err != nil {
			return err
		}
	}
	tool, err := builtTool()
	if err != nil {
		return err
	}
	// It finds the host by its own path.
	if err := os.Link(tool, s.Tool()); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, toolFile), []byte(strings.Join(toolCommand(), "\n")), 0o644); err != nil {
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

// builtTool is the program that runs in place of nvme, built once. A test program, which knows
// far more, would start several times as slowly.
var builtTool = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d", buildPrefix, os.Getpid()))
	if err := proc.Compile("", "burnish/internal/testkit/cmd/emulate", path); err != nil {
		return "", fmt.Errorf("build the emulator: %w", err)
	}
	toolPath = path
	return path, os.Mkdir(path+runsSuffix, 0o777)
})

// runsSuffix is what the name of the folder with recorded runs has behind the program's.
const runsSuffix = ".runs"

// toolPath is the path of what builtTool has built, "" for none.
var toolPath string

const buildPrefix = "burnish-emulate-"

// Main is for a TestMain: it runs the tests, and removes what they have built. It returns the
// exit code.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	_ = RemoveTool() // a file in the folder for temporary ones
	return code
}

// RemoveTool removes what Create has built, at the end of a program.
func RemoveTool() error {
	if toolPath == "" {
		return nil
	}
	return errors.Join(os.Remove(toolPath), os.RemoveAll(toolPath+runsSuffix))
}

// complete sets the fields that a controller must have.
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
func (s *Emulation) Tool() string { return filepath.Join(s.Dir, "nvme") }

// Node is the present path of controller i's node.
func (s *Host) Node(i int) string {
	s.t.Helper()
	var name string
	s.change(i, func(_ *state, one *slot) error {
		name = one.Name
		return nil
	})
	return filepath.Join(s.Dev, name)
}

// Media is the path of the file with all bytes of the drive in slot i, allocated or not.
// A write to it reaches a namespace's node only while no process has the node open; a write
// to a node reaches the file when the writer has synced or closed.
func (s *Host) Media(i int) string {
	s.t.Helper()
	var path string
	s.change(i, func(w *state, one *slot) error {
		path = w.media(one)
		return nil
	})
	return path
}

// Fill writes this byte over the whole media of drive i, allocated or not, as a tenant
// would. The drive no longer reports that it is erased.
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

// Write writes to the media of drive i at an offset, as a tenant would.
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

// MarkWritten makes drive i report that it was written to since it was erased. Synced
// writes to its nodes have the same effect.
func (s *Host) MarkWritten(i int) {
	s.t.Helper()
	s.Change(i, func(c *Controller) { c.Sanitize.GlobalErased = false })
}

// State is controller i as it is now.
func (s *Host) State(i int) Controller {
	s.t.Helper()
	var c Controller
	s.change(i, func(_ *state, one *slot) error {
		c = one.Controller
		return nil
	})
	return c
}

// Change edits controller i between two commands. The host sees changed namespaces only
// after a rescan. Address cannot be changed.
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

// Rescan makes the host rescan controller i.
func (s *Host) Rescan(i int) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.rescan(one) })
}

// Swap puts another drive into slot i: a copy of the first with another serial number and
// these changes, whose media is all zeros. The first one's media file stays.
func (s *Host) Swap(i int, serial string, change ...func(*Controller)) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.swap(one, i, serial, change...) })
}

// Renumber removes controller i and adds it under another name, as a rescan of the bus may.
func (s *Host) Renumber(i int, name string) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.renumber(one, name) })
}

// Remove removes controller i from the bus. Insert puts it back.
func (s *Host) Remove(i int) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.unplug(one) })
}

// BindDriver binds controller i to a driver: "nvme", "vfio-pci", or "" for none.
func (s *Host) BindDriver(i int, driver string) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error { return w.bind(one, driver) })
}

// Log is every command that was answered so far, in order.
func (s *Host) Log() []Command {
	s.t.Helper()
	all, err := readLog(s.Dir)
	if err != nil {
		s.t.Fatalf("read the log: %v", err)
	}
	return all
}

// ClearLog empties the log.
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
		s.t.Fatalf("change the host: %v", err)
	}
}

func (w *state) renumber(s *slot, name string) error {
	driver := s.Driver
	if err := w.unplug(s); err != nil {
		return err
	}
	s.Name = name
	return errors.Join(w.plug(s), w.bind(s, driver))
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
