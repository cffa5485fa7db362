package nvme

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/pci"
)

// controller is one controller whose node is held open: for as long as it is, the
// kernel gives its number to no other (SAFETY F11, measured).
type controller struct {
	*Driver
	target  hardware.Target
	address string // on the PCI bus
	pci     pci.Device
	name    string // the kernel's: nvme0
	dir     string // in sysfs, without links
	path    string // its node
	node    *os.File
	// id is what the controller said last.
	id nvmecli.Controller
	// fence, where there is one, goes to each child that changes something.
	fence *os.File
	options
}

// controller opens the controller at the target's address and reads who it is. The
// caller closes it.
func (d *Driver) controller(ctx context.Context, t hardware.Target, known device.Identity) (_ *controller, err error) {
	chosen, err := settings(t)
	if err != nil {
		return nil, err
	}
	address := strings.ToLower(t.Address)
	if address == "" {
		return nil, invalid("the driver nvme needs the PCI address of the drive (--address)")
	}
	c := &controller{Driver: d, target: t, address: address, fence: t.Fence, options: chosen}
	if c.pci, err = d.onBus(address); err != nil {
		return nil, err
	}
	if err := d.allowed(c.pci); err != nil {
		return nil, err
	}
	if c.pci, err = d.onHostsDriver(ctx, c.pci, chosen.rebind && t.Step != ""); err != nil {
		return nil, err
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.closeInto(&err)
		}
	}()
	if known.Path != "" && known.Path != address {
		return nil, changed("path", fmt.Sprintf("it was enrolled at %s and this is %s", known.Path, address))
	}
	return c, c.read(ctx)
}

// onBus looks at what is at a PCI address.
func (d *Driver) onBus(address string) (pci.Device, error) {
	dev, found, err := pci.Look(filepath.Join(d.sys, "bus/pci/devices"), address)
	switch {
	case err != nil:
		return pci.Device{}, err
	case !found:
		return pci.Device{}, missing("there is no PCI device at %s", address)
	case dev.Class != class:
		return pci.Device{}, invalid("what is at %s is no NVMe controller (class %s)", address, dev.Class)
	case dev.Type == pci.Virtual:
		return pci.Device{}, invalid("%s is a virtual function; only whole drives are cleaned", address)
	case len(dev.Functions) > 0:
		return pci.Device{}, refused(device.CodeTargetShared, "switch its virtual functions off", "%s has %d virtual functions, which reach the same drive", address, len(dev.Functions))
	}
	return dev, nil
}

// hostDriver is the kernel's driver on which a drive must be to be cleaned (S2.60).
const hostDriver = "nvme"

// open opens the controller's node and proves that it is that of the address. After a
// rebind the kernel takes a moment to make it.
func (c *controller) open(ctx context.Context) error {
	deadline := time.NewTimer(c.patience)
	defer deadline.Stop()
	again := time.NewTicker(nodeEvery)
	defer again.Stop()
	for {
		err := c.openOnce()
		if f, ok := device.AsFault(err); !ok || f.Code != device.CodeTargetMissing {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return err
		case <-again.C:
		}
	}
}

const (
	// nodePatience is how long the kernel may take to make a node, nodeEvery how often
	// it is looked for.
	nodePatience = 5 * time.Second
	nodeEvery    = 50 * time.Millisecond
)

func (c *controller) openOnce() (err error) {
	below := filepath.Join(c.sys, "bus/pci/devices", c.address, "nvme")
	entries, err := os.ReadDir(below)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the controller of %s: %w", c.address, err)
	}
	if len(entries) != 1 {
		return missing("the kernel shows no controller for %s", c.address)
	}
	c.name = entries[0].Name()
	if c.dir, err = filepath.EvalSymlinks(filepath.Join(below, c.name)); err != nil {
		return missing("the controller of %s is gone: %v", c.address, err)
	}
	c.path = filepath.Join(c.dev, c.name)
	node, err := os.OpenFile(c.path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return missing("%s is not there: %v", c.path, err)
	case errors.Is(err, fs.ErrPermission):
		return refused(device.CodeNotAllowed, "run the host worker as root", "%s may not be opened", c.path)
	case err != nil:
		return fmt.Errorf("open %s: %w", c.path, err)
	}
	c.node = node
	if err := c.pinned(); err != nil {
		return errors.Join(err, c.close())
	}
	return nil
}

// pinned proves that what is open is the controller of the address, by the number that
// the kernel's tables give for it now.
func (c *controller) pinned() error {
	var stat unix.Stat_t
	if err := unix.Fstat(c.fd(), &stat); err != nil {
		return fmt.Errorf("look at %s: %w", c.path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return refused(device.CodeIdentityChanged, "look at the host's /dev", "%s is no character device", c.path)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(uint64(stat.Rdev)), unix.Minor(uint64(stat.Rdev)))
	now, err := filepath.EvalSymlinks(filepath.Join(c.sys, "bus/pci/devices", c.address, "nvme", c.name))
	if err != nil || now != c.dir {
		return missing("the controller %s of %s is gone", c.name, c.address)
	}
	for name, want := range map[string]string{"dev": number, "address": c.address} {
		got, err := c.attribute(name)
		if err != nil {
			return err
		}
		if got != want {
			return changed("device", fmt.Sprintf("%s of %s is %q and not %q", name, c.name, got, want))
		}
	}
	return nil
}

// attribute reads one of the controller's attributes in sysfs.
func (c *controller) attribute(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		return "", missing("%s of %s cannot be read: %v", name, c.name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// read asks the controller who it is, through the number that is held.
func (c *controller) read(ctx context.Context) error {
	if err := c.pinned(); err != nil {
		return err
	}
	output, err := c.tool.run(ctx, "id-ctrl", c.path, "--output-format=json")
	if err != nil {
		return asFault(err)
	}
	if c.id, err = nvmecli.ParseController(output); err != nil {
		return err
	}
	if c.id.Serial == "" {
		return invalid("the drive at %s tells no serial: it could not be told from another", c.address)
	}
	return c.pinned()
}

// query runs a command that only reads, on the drive that is held. The identity is
// asked of the kernel's tables: a drive that was swapped has another entry there.
func (c *controller) query(ctx context.Context, command string, args ...string) ([]byte, error) {
	if err := c.pinned(); err != nil {
		return nil, err
	}
	if serial, err := c.attribute("serial"); err != nil {
		return nil, err
	} else if serial != c.id.Serial {
		return nil, changed("serial", fmt.Sprintf("%s says %q and not %q", c.name, serial, c.id.Serial))
	}
	output, err := c.tool.run(ctx, slices.Concat([]string{command, c.path}, args)...)
	return output, err
}

// alone refuses a drive of whose subsystem another controller is, or may be, part
// (SAFETY F12): through it somebody else could reach the same namespaces.
func (c *controller) alone(ctx context.Context) error {
	shared := func(how string) error {
		return refused(device.CodeTargetShared, "leave the drive one controller", "the drive at %s can be reached by another controller: %s", c.address, how)
	}
	subsystem, err := c.subsystem()
	if err != nil {
		return err
	}
	if subsystem != "" {
		entries, err := os.ReadDir(subsystem)
		if err != nil {
			return fmt.Errorf("look at the subsystem of %s: %w", c.name, err)
		}
		for _, entry := range entries {
			if name := entry.Name(); isController(name) && name != c.name {
				return shared(name)
			}
		}
	}
	const mayHaveMore = 1 << 1 // CMIC
	if c.id.CMIC&mayHaveMore == 0 {
		return nil
	}
	output, err := c.query(ctx, "list-ctrl", "--output-format=json")
	if err != nil {
		return asFault(err)
	}
	ids, err := nvmecli.ParseControllerList(output)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id != c.id.ID {
			return shared(fmt.Sprintf("controller %d", id))
		}
	}
	return nil
}

// subsystem is the directory in sysfs of the controller's subsystem, "" where the
// kernel shows none.
func (c *controller) subsystem() (string, error) {
	all, err := filepath.Glob(filepath.Join(c.sys, "class/nvme-subsystem/nvme-subsys*", c.name))
	if err != nil || len(all) == 0 {
		return "", err
	}
	if len(all) > 1 {
		return "", refused(device.CodeTargetShared, "look at /sys/class/nvme-subsystem", "%s is in more than one subsystem", c.name)
	}
	return filepath.EvalSymlinks(filepath.Dir(all[0]))
}

// isController tells the name of a controller (nvme0) from those of namespaces and paths.
func isController(name string) bool {
	number, ok := strings.CutPrefix(name, "nvme")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// estimates asks how long a sanitize takes.
func (c *controller) estimates(ctx context.Context) (map[device.Operation]time.Duration, error) {
	log, err := c.sanitizeLog(ctx)
	if err != nil {
		return nil, err
	}
	estimates := map[device.Operation]time.Duration{}
	for operation, takes := range map[device.Operation]time.Duration{device.CryptoErase: log.CryptoErase, device.BlockErase: log.BlockErase} {
		if takes != nvmecli.Unknown {
			estimates[operation] = takes
		}
	}
	return estimates, nil
}

// digest changes with whatever the kernel shows of a drive: which one it is, which
// driver it is on, how it is cut. It asks the drive nothing.
func (d *Driver) digest(dev pci.Device) string {
	sum := sha256.New()
	fmt.Fprintln(sum, dev.Address, dev.Vendor, dev.Product, dev.Driver, len(dev.Functions))
	controllers, _ := filepath.Glob(filepath.Join(d.sys, "bus/pci/devices", dev.Address, "nvme/nvme*")) // the pattern is right
	for _, dir := range controllers {
		for _, name := range []string{"serial", "model", "firmware_rev", "state", "subsysnqn"} {
			text, _ := os.ReadFile(filepath.Join(dir, name)) // gone: another digest, which is right
			fmt.Fprintln(sum, name, strings.TrimSpace(string(text)))
		}
		sizes, _ := filepath.Glob(filepath.Join(dir, "nvme*n*/size")) // the pattern is right
		for _, file := range sizes {
			text, _ := os.ReadFile(file) // as above
			fmt.Fprintln(sum, filepath.Base(filepath.Dir(file)), strings.TrimSpace(string(text)))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// shownSerial is the serial that the kernel shows of the drive at an address.
func (d *Driver) shownSerial(address string) string {
	all, err := filepath.Glob(filepath.Join(d.sys, "bus/pci/devices", address, "nvme/nvme*/serial"))
	if err != nil || len(all) != 1 {
		return ""
	}
	text, err := os.ReadFile(all[0])
	if err != nil {
		return "" // it is going: what there is to know the enrolment finds out
	}
	return strings.TrimSpace(string(text))
}

// fd is the descriptor that pins the controller.
func (c *controller) fd() int { return int(c.node.Fd()) }

func (c *controller) close() error {
	if c.node == nil {
		return nil
	}
	node := c.node
	c.node = nil
	return node.Close()
}

// closeInto closes and adds what went wrong to *err.
func (c *controller) closeInto(err *error) {
	if closeErr := c.close(); closeErr != nil {
		*err = errors.Join(*err, closeErr)
	}
}
