package privileged

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Executor carry out what needs privilege.
type Executor interface {
	// Version gives what nvme-cli says of itself. Fault: tool_missing.
	Version(ctx context.Context) ([]byte, error)
	// Open opens the controller at a PCI address, and waits a moment for one that the
	// kernel is about to show. Faults: target_missing, not_allowed, identity_changed.
	Open(ctx context.Context, address string) (Drive, error)
	// Rebind takes the drive at a PCI address from the guests' driver and gives it to
	// the host's, once no guest has it; fence is what the caller holds. It does not wait
	// for the driver. Faults: target_busy, target_missing, not_allowed.
	Rebind(ctx context.Context, address string, fence *os.File) error
}

// Drive is one controller whose node is held open: for as long as it is, the kernel
// gives its number to no other (SAFETY F11, measured).
type Drive interface {
	// Path is where the kernel shows it.
	Path() DevicePath
	// Lock takes the exclusive lock on the node (SAFETY F1). Fault: target_busy.
	Lock(ctx context.Context) error
	// Read carries out a verb that changes nothing and gives what nvme-cli printed. A
	// command that failed is a *Failure.
	Read(ctx context.Context, r Request) ([]byte, error)
	// Change carries out a verb that changes something, on the drive with this serial
	// alone, and returns when it has ended, whatever becomes of ctx meanwhile. The
	// command holds what is held, too.
	Change(ctx context.Context, r Request, serial string, held HeldFiles) error
	Close() error
}

// HeldFiles are descriptors that keep others away from the drive: the file whose lock is the
// device's fence, nil where there is none, and the disks, opened exclusively.
type HeldFiles struct {
	Fence *os.File
	Disks []int
}

// Local acts in this process.
type Local struct {
	Tool string // nvme-cli's program
	Sys  string // where sysfs is
	Dev  string // where nodes are
	Proc string // where the tables of mounts and swaps are; a server's only
	// Timeout is how long the kernel may take to make a node.
	Timeout time.Duration
	// OpenGroup opens a VFIO group; nil opens it as a guest does.
	OpenGroup func(path string) (int, error)
	// CleanEnvironment: nothing of this process's environment goes to nvme-cli.
	CleanEnvironment bool
	// AmbientCaps are the capabilities that nvme-cli needs besides those it has by its user.
	AmbientCaps []uintptr
}

// KernelTimeout is how long the kernel may take to make a node, for who knows no better.
const KernelTimeout = 5 * time.Second

// Version gives what nvme-cli says of itself; see Executor.
func (l *Local) Version(ctx context.Context) ([]byte, error) { return l.read(ctx, "version") }

// Open opens the controller's node and proves that it is that of the address; see Executor.
func (l *Local) Open(ctx context.Context, address string) (Drive, error) {
	d, err := l.open(ctx, address)
	if err != nil {
		return nil, err // and no Drive that is nil inside
	}
	return d, nil
}

func (l *Local) open(ctx context.Context, address string) (*localDrive, error) {
	var d *localDrive
	err := hardware.Poll(ctx, l.Timeout, func() (again bool, err error) {
		d, err = l.openOnce(address)
		f, ok := device.AsFault(err)
		return ok && f.Code == device.CodeTargetMissing, err
	})
	return d, err
}

func (l *Local) openOnce(address string) (*localDrive, error) {
	below := filepath.Join(l.Sys, "bus/pci/devices", address, "nvme")
	entries, err := os.ReadDir(below)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for the controller of %s: %w", address, err)
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
		return nil, hardware.Refused(device.CodeNotAllowed, "run the host worker as root, or with a helper (BURNISH_NVME_HELPER)", "%s may not be opened", p.Node)
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

// Path is where the kernel shows it.
func (d *localDrive) Path() DevicePath { return d.path }

// verifyNode proves that what is open is the controller of the address, by the number that
// the kernel's tables give for it now.
func (d *localDrive) verifyNode() error {
	p := d.path
	if d.node == nil {
		return fmt.Errorf("%s: %w", p.Node, os.ErrClosed)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(d.node.Fd()), &stat); err != nil {
		return fmt.Errorf("look at %s: %w", p.Node, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return hardware.Refused(device.CodeIdentityChanged, "look at the host's /dev", "%s is no character device", p.Node)
	}
	number := deviceNumber(stat)
	now, err := filepath.EvalSymlinks(filepath.Join(p.Sys, "bus/pci/devices", p.Address, "nvme", p.Controller))
	if err != nil || now != p.Dir {
		return hardware.Missing("the controller %s of %s is gone", p.Controller, p.Address)
	}
	for name, want := range map[string]string{"dev": number, "address": p.Address} {
		got, err := p.Attribute(name)
		if err != nil {
			return err
		}
		if got != want {
			return hardware.Changed("device", fmt.Sprintf("%s of %s is %q and not %q", name, p.Controller, got, want))
		}
	}
	return nil
}

// verifySerial proves by the kernel's tables that what is open is the drive with this serial: one
// that was swapped has another entry there.
func (d *localDrive) verifySerial(serial string) error {
	if err := d.verifyNode(); err != nil {
		return err
	}
	got, err := d.path.Attribute("serial")
	if err != nil {
		return err
	}
	if serial == "" || got != serial {
		return hardware.Changed("serial", fmt.Sprintf("%s says %q and not %q", d.path.Controller, got, serial))
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

// Read carries out a verb that changes nothing; see Drive.
func (d *localDrive) Read(ctx context.Context, r Request) ([]byte, error) {
	k, err := r.spec(false)
	if err != nil {
		return nil, err
	}
	if err := d.verifyNode(); err != nil {
		return nil, err
	}
	output, err := d.read(ctx, d.argv(k, r)...)
	if err != nil {
		return nil, err
	}
	return output, d.verifyNode()
}

// Change carries out a verb that changes something; see Drive.
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
	var data []byte
	if k.stdin != nil {
		data = k.stdin(r)
	}
	if _, err := d.change(ctx, append(keep, held.Disks...), data, d.argv(k, r)...); err != nil {
		return err
	}
	return d.verifySerial(serial)
}

// argv is the command line: the command, the controller, its options.
func (d *localDrive) argv(k verbSpec, r Request) []string {
	words := k.argv(r)
	return slices.Concat(words[:1], []string{d.path.Node}, words[1:])
}

// Close gives the controller's number up.
func (d *localDrive) Close() error {
	if d.node == nil {
		return nil
	}
	node := d.node
	d.node = nil
	return node.Close()
}
