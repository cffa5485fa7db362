package privileged

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
)

// Executor does what needs privilege.
type Executor interface {
	// Version returns the output of nvme version. Fault: tool_missing.
	Version(ctx context.Context) ([]byte, error)
	// Open opens the controller at a PCI address. It waits a moment for the kernel to
	// show one. Faults: target_missing, not_allowed, identity_changed.
	Open(ctx context.Context, address string) (Drive, error)
	// Rebind takes the drive at a PCI address from the guests' driver and gives it to the
	// host's, if no guest has it. fence is the caller's. It does not wait until the driver
	// has bound the drive. Faults: target_busy, target_missing, not_allowed.
	Rebind(ctx context.Context, address string, fence *os.File) error
}

// Drive is one controller with its node open. While it is open, the kernel gives its number
// to no other controller (F11, measured).
type Drive interface {
	// Path locates it in the kernel.
	Path() DevicePath
	// Lock takes the exclusive lock on the node (F1). Fault: target_busy.
	Lock(ctx context.Context) error
	// Read runs a verb that changes nothing, and returns the data that the drive returned: of
	// a feature its value, of 4 bytes. The error of a failed command is a *Failure.
	Read(ctx context.Context, r Request) ([]byte, error)
	// Change runs a verb that changes something, only if the drive has this serial. It
	// returns when the command has ended, even after ctx ends. The command's process
	// inherits held.
	Change(ctx context.Context, r Request, serial string, held HeldFiles) error
	Close() error
}

// HeldFiles are the descriptors that keep others away from the drive: the file whose lock
// is the device's fence, or nil, and the disks, opened exclusively. A download has its image
// with them.
type HeldFiles struct {
	Fence *os.File
	// Image is the firmware image of a download: a sealed file in memory, or nil.
	Image *os.File
	Disks []int
}

// Local is the Executor in this process.
type Local struct {
	Tool string // path of nvme-cli
	Sys  string // path of sysfs
	Dev  string // directory of device nodes
	Proc string // path of procfs, for a Server only
	// Timeout is how long the kernel may take to create a node.
	Timeout time.Duration
	// OpenGroup opens a VFIO group; nil means hardware.OpenVFIO.
	OpenGroup func(path string) (int, error)
	// Run runs a command of nvme-cli; nil means exec.Cmd.Run.
	Run func(*exec.Cmd) error
	// AmbientCaps are the capabilities that nvme-cli needs in addition to its user's.
	AmbientCaps []uintptr
}

// KernelTimeout is the default of Local.Timeout.
const KernelTimeout = 5 * time.Second

// Version returns the output of nvme version; see Executor.
func (l *Local) Version(ctx context.Context) ([]byte, error) {
	stdout, _, err := l.read(ctx, "version", []string{"version"})
	return stdout, err
}

// Open opens the controller's node and proves that it is the one at address; see Executor.
func (l *Local) Open(ctx context.Context, address string) (d Drive, err error) {
	err = hardware.Poll(ctx, l.Timeout, func() (again bool, err error) {
		d, err = l.openOnce(address)
		f, ok := device.AsFault(err)
		return ok && f.Code == device.CodeTargetMissing, err
	})
	return d, err
}

func (l *Local) openOnce(address string) (Drive, error) {
	below := filepath.Join(l.Sys, "bus/pci/devices", address, "nvme")
	entries, err := os.ReadDir(below)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the controllers of %s: %w", address, err)
	}
	if len(entries) != 1 {
		return nil, hardware.Missing("the kernel shows no controller for %s", address)
	}
	p := DevicePath{Address: address, Controller: entries[0].Name(), Sys: l.Sys, Dev: l.Dev}
	if p.Dir, err = filepath.EvalSymlinks(filepath.Join(below, p.Controller)); err != nil {
		return nil, hardware.Missing("the controller of %s is gone: %v", address, err)
	}
	p.Node = filepath.Join(l.Dev, p.Controller)
	node, err := os.OpenFile(p.Node, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return nil, hardware.Missing("%s is not there: %v", p.Node, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, hardware.Refused(device.CodeNotAllowed,
			"run the host worker as root, or with a helper (BURNISH_NVME_HELPER)", "no permission to open %s", p.Node)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", p.Node, err)
	}
	d := &localDrive{Local: l, path: p, node: node}
	if err := d.verifyNode(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// localDrive is a controller that this process has open.
type localDrive struct {
	*Local
	path DevicePath
	node *os.File
}

// Path locates it in the kernel.
func (d *localDrive) Path() DevicePath { return d.path }

// verifyNode proves, by device number, that the open node belongs to the controller that
// sysfs now shows at the address.
func (d *localDrive) verifyNode() error {
	p := d.path
	if d.node == nil {
		return fmt.Errorf("%s: %w", p.Node, os.ErrClosed)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(d.node.Fd()), &stat); err != nil {
		return fmt.Errorf("stat %s: %w", p.Node, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return hardware.Refused(device.CodeIdentityChanged, "check the host's /dev", "%s is not a character device", p.Node)
	}
	number := deviceNumber(stat)
	now, err := os.Stat(filepath.Join(p.Sys, "bus/pci/devices", p.Address, "nvme", p.Controller))
	then, gone := os.Stat(p.Dir)
	if err != nil || gone != nil || !os.SameFile(now, then) {
		return hardware.Missing("the controller %s of %s is gone", p.Controller, p.Address)
	}
	for name, want := range map[string]string{"dev": number, "address": p.Address} {
		got, err := p.Attribute(name)
		if err != nil {
			return err
		}
		if got != want {
			return hardware.Changed("device", fmt.Sprintf("%s of %s is %q instead of %q", name, p.Controller, got, want))
		}
	}
	return nil
}

// verifySerial proves by sysfs that the open drive has this serial. After a swap sysfs
// shows another one.
func (d *localDrive) verifySerial(serial string) error {
	if err := d.verifyNode(); err != nil {
		return err
	}
	got, err := d.path.Attribute("serial")
	if err != nil {
		return err
	}
	if serial == "" || hardware.CanonicalSerial(got) != serial {
		return hardware.Changed("serial", fmt.Sprintf("%s has serial %q instead of %q", d.path.Controller, got, serial))
	}
	return nil
}

// Lock takes the exclusive lock on the node; see Drive.
func (d *localDrive) Lock(ctx context.Context) error {
	if err := d.verifyNode(); err != nil {
		return err
	}
	return hardware.Lock(ctx, int(d.node.Fd()), d.path.Node)
}

// Read runs a verb that changes nothing; see Drive.
func (d *localDrive) Read(ctx context.Context, r Request) ([]byte, error) {
	k, err := r.spec(false)
	if err != nil {
		return nil, err
	}
	if err := d.verifyNode(); err != nil {
		return nil, err
	}
	command := k.command(r)
	stdout, stderr, err := d.read(ctx, string(r.Verb), command.Args(d.path.Node, false))
	if err != nil {
		return nil, err
	}
	if err := d.verifyNode(); err != nil {
		return nil, err
	}
	if command.Receives > 0 {
		return command.Received(stdout)
	}
	value, err := nvmecli.ParseResult(slices.Concat(stderr, stdout)) // where it is printed differs by version
	return binary.LittleEndian.AppendUint32(nil, value), err
}

// Change runs a verb that changes something; see Drive.
func (d *localDrive) Change(ctx context.Context, r Request, serial string, held HeldFiles) error {
	k, err := r.spec(true)
	if err != nil {
		return err
	}
	if err := d.verifySerial(serial); err != nil {
		return err
	}
	keep := []int{int(d.node.Fd())}
	if held.Fence != nil {
		keep = append(keep, int(held.Fence.Fd()))
	}
	var data io.Reader
	switch {
	case held.Image != nil && !k.image:
		return invalidRequest("the verb %q takes no image", r.Verb)
	case k.image:
		if err := CheckImage(held.Image, r.Digest); err != nil {
			return err
		}
		data = held.Image
	case k.data != nil:
		data = bytes.NewReader(k.data(r))
	}
	if err := d.change(ctx, append(keep, held.Disks...), data, string(r.Verb), k.args(r, d.path.Node)); err != nil {
		return err
	}
	return d.verifySerial(serial)
}

// args are the arguments of nvme-cli.
func (k verbSpec) args(r Request, node string) []string {
	if k.words == nil {
		return k.command(r).Args(node, k.changes)
	}
	words := k.words(r)
	return slices.Concat(words[:1], []string{node}, words[1:])
}

// Close closes the node, which frees the controller's number.
func (d *localDrive) Close() error {
	if d.node == nil {
		return nil
	}
	node := d.node
	d.node = nil
	return node.Close()
}

// deviceNumber is the device number in stat, in the form of sysfs.
func deviceNumber(stat unix.Stat_t) string {
	return fmt.Sprintf("%d:%d", unix.Major(uint64(stat.Rdev)), unix.Minor(uint64(stat.Rdev)))
}
