package pci

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/pci"
)

// function is one PCI function with an open descriptor of its configuration space. Once the function
// is removed the descriptor cannot be read any more, even if another one is now at its address (F11).
type function struct {
	pci.Device
	config *os.File
}

// card is what goes to a tenant together. The first function is the one that was enrolled.
type card struct {
	*Driver
	target    hardware.Target
	model     device.Model
	functions []function
	// unseen is what the last search for users could not look into.
	unseen string
}

// open opens the device at the target's address, if this host allows to destroy each function of it
// and the policy knows its model. The caller closes it.
func (d *Driver) open(t hardware.Target, known device.Identity) (_ *card, err error) {
	if err := t.KnownSettings("functions"); err != nil {
		return nil, err
	}
	address := strings.ToLower(t.Address)
	if address == "" {
		return nil, hardware.Invalid("the driver pci needs the PCI address of the device (--address)")
	}
	if known.Path != "" && known.Path != address {
		return nil, hardware.Changed("path", fmt.Sprintf("enrolled at %s, opened at %s", known.Path, address))
	}
	functions, err := d.find(address, t.Settings["functions"])
	if err != nil {
		return nil, err
	}
	first := functions[0]
	// The rules may refuse another device without saying that it is another one (F27).
	if known.Vendor != "" && known.Vendor != first.Vendor {
		return nil, hardware.Changed("vendor", address)
	}
	if known.Product != "" && known.Product != first.Product {
		return nil, hardware.Changed("product", address)
	}
	c := &card{Driver: d, target: t}
	for _, f := range functions {
		if err := checkKind(f); err != nil {
			return nil, err
		}
		if err := d.host.Allow(f); err != nil {
			return nil, err
		}
		c.functions = append(c.functions, function{Device: f})
	}
	if c.model, err = d.modelFor(first); err != nil {
		return nil, err
	}
	if err := c.openConfigs(); err != nil {
		c.closeAndJoin(&err)
		return nil, err
	}
	return c, nil
}

// modelFor is the policy's entry for the device's model.
func (d *Driver) modelFor(dev pci.Device) (device.Model, error) {
	id := modelOf(dev)
	i := slices.IndexFunc(d.host.Models, func(m device.Model) bool { return m.ID == id })
	if i < 0 {
		return device.Model{}, hardware.Refused(device.CodePolicyUnsatisfied,
			fmt.Sprintf(`add to models in the policy (BURNISH_POLICY) of this host: {model: %q, memory: "bar N size S"}, or `+
				`memory: "script NAME", or memory: none; restart its worker`, id),
			"the policy does not say where %s at %s has its memory", id, dev.Address)
	}
	return d.host.Models[i], nil
}

// checkKind refuses what this driver does not clean.
func checkKind(f pci.Device) error {
	what := ""
	switch {
	case strings.HasPrefix(f.Class, storage):
		what = "storage, which the drivers nvme and block erase and prove"
	case strings.HasPrefix(f.Class, bridge):
		what = "a bridge, behind which other devices are"
	case f.Type == pci.Virtual:
		what = "a virtual function; only whole devices are cleaned"
	default:
		return nil
	}
	return hardware.Invalid("the function at %s (class %s) is %s", f.Address, f.Class, what)
}

// find lists the functions of the device at address, that one first: those that the operator names,
// or those that go to a tenant together.
func (d *Driver) find(address, named string) ([]pci.Device, error) {
	wanted := strings.Fields(strings.ReplaceAll(strings.ToLower(named), ",", " "))
	var functions []pci.Device
	for _, at := range append([]string{address}, wanted...) {
		f, there, err := pci.ReadDevice(d.devices(), at)
		if err != nil {
			return nil, err
		}
		if !there {
			return nil, hardware.Missing("there is no PCI function at %s", at)
		}
		functions = append(functions, f)
	}
	if named == "" {
		others, err := d.beside(functions[0])
		if err != nil {
			return nil, err
		}
		functions = append(functions, together(others, functions[0])...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(functions, func(f pci.Device) bool {
		again := seen[f.Address]
		seen[f.Address] = true
		return again
	}), nil
}

// beside reads the functions of the IOMMU group or of the slot of one of them.
func (d *Driver) beside(with pci.Device) (all []pci.Device, err error) {
	if with.IOMMUGroup != "" {
		all, err = pci.Scan(filepath.Join(d.devices(), with.Address, "iommu_group/devices"))
		if err == nil && len(all) == 0 {
			err = hardware.Missing("the IOMMU group of %s went away", with.Address)
		}
		return all, err
	}
	for n := range 8 {
		f, there, err := pci.ReadDevice(d.devices(), slotOf(with.Address)+fmt.Sprint(".", n))
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, f)
		}
	}
	return all, nil
}

// slotOf is an address without its function, busOf without its slot too.
func slotOf(address string) string { return address[:strings.LastIndexByte(address, '.')] }
func busOf(address string) string  { return address[:strings.LastIndexByte(address, ':')] }

// together gives the functions that a guest has together with one of them: those of its IOMMU group
// but bridges, or without one those of its slot. Virtual functions are what a function gives away.
func together(all []pci.Device, with pci.Device) (functions []pci.Device) {
	for _, f := range all {
		same := f.IOMMUGroup == with.IOMMUGroup && (with.IOMMUGroup != "" || slotOf(f.Address) == slotOf(with.Address))
		if f.Address == with.Address || same && !strings.HasPrefix(f.Class, bridge) && f.Type != pci.Virtual {
			functions = append(functions, f)
		}
	}
	return functions
}

// openConfigs opens the configuration space of each function, and proves that it is that of the
// function which was read.
func (c *card) openConfigs() (err error) {
	for i := range c.functions {
		f := &c.functions[i]
		if f.config, err = os.Open(c.path(f, "config")); host.IsTransient(err) {
			return fmt.Errorf("open the configuration of %s: %w", f.Address, err)
		} else if err != nil {
			return hardware.Missing("the configuration of the PCI function at %s cannot be opened: %v", f.Address, plain(err))
		}
	}
	return c.checkUnchanged()
}

// path is a file of a function in sysfs.
func (c *card) path(f *function, name string) string {
	return filepath.Join(c.devices(), f.Address, name)
}

// attribute reads a file of a function in sysfs; "" where there is none.
func (c *card) attribute(f *function, name string) (string, error) {
	text, err := os.ReadFile(c.path(f, name))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s of %s: %w", name, f.Address, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// set writes a file of a function in sysfs, once the worker may still change its device.
func (c *card) set(ctx context.Context, f *function, name, text string) error {
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	if err := c.write(c.path(f, name), text); err != nil {
		return hardware.Refused(device.CodeCommandRefused, "see the kernel's log (dmesg), then clean "+c.target.Name,
			"the kernel refuses to write %q to %s of %s: %v", text, filepath.Base(name), f.Address, plain(err))
	}
	return nil
}

// plain is the reason of an error, without the path.
func plain(err error) error {
	var inPath *os.PathError
	if errors.As(err, &inPath) {
		return inPath.Err
	}
	return err
}

// lock takes the lock of each function (F1).
func (c *card) lock(ctx context.Context) error {
	for i := range c.functions {
		if err := hardware.Lock(ctx, int(c.functions[i].config.Fd()), c.functions[i].Address); err != nil {
			return err
		}
	}
	return nil
}

// checkUnchanged proves, by each function's own descriptor, that it answers and is the one that was
// opened. It is cheap.
func (c *card) checkUnchanged() error {
	for i := range c.functions {
		f := &c.functions[i]
		var ids [4]byte
		if _, err := f.config.ReadAt(ids[:], 0); host.IsTransient(err) {
			return fmt.Errorf("read the configuration of %s: %w", f.Address, err)
		} else if err != nil {
			return hardware.Missing("the PCI function at %s was removed: %v", f.Address, plain(err))
		}
		if ids == [4]byte{0xff, 0xff, 0xff, 0xff} {
			return hardware.Missing("the PCI function at %s does not answer: it left the bus", f.Address)
		}
		have := fmt.Sprintf("%04x:%04x", binary.LittleEndian.Uint16(ids[:]), binary.LittleEndian.Uint16(ids[2:]))
		if want := modelOf(f.Device); have != want {
			return hardware.Changed("product", fmt.Sprintf("%s is %s instead of %s", f.Address, have, want))
		}
	}
	return nil
}

// configuration reads the whole configuration space of a function, of which only root sees more than
// the first 64 bytes.
func (f *function) configuration() ([]byte, error) {
	buffer := make([]byte, 4096)
	n, err := f.config.ReadAt(buffer, 0)
	if n < 256 {
		return nil, hardware.Refused(device.CodeNotAllowed, "run burnish-worker as root on this host",
			"the kernel shows only %d bytes of the configuration of %s: %v", n, f.Address, err)
	}
	return buffer[:n], nil
}

// capabilities gives the places of the capabilities in a configuration space by their names: "01", and
// for extended ones "x0003".
func capabilities(config []byte) map[string]int {
	found := map[string]int{}
	const status, hasList = 0x06, 1 << 4
	if config[status]&hasList != 0 {
		for at, left := int(config[0x34]&^3), 48; at >= 0x40 && left > 0; left-- {
			found[fmt.Sprintf("%02x", config[at])] = at
			at = int(config[at+1] &^ 3)
		}
	}
	for at, left := 0x100, 960; at >= 0x100 && at+12 <= len(config) && left > 0; left-- {
		header := binary.LittleEndian.Uint32(config[at:])
		if header == 0 || header == ^uint32(0) {
			break
		}
		found[fmt.Sprintf("x%04x", header&0xffff)] = at
		at = int(header >> 20 &^ 3)
	}
	return found
}

// refresh reads the functions again from sysfs: driver, group and virtual functions change.
func (c *card) refresh() error {
	for i := range c.functions {
		now, there, err := pci.ReadDevice(c.devices(), c.functions[i].Address)
		if err != nil {
			return err
		}
		if !there {
			return hardware.Missing("there is no PCI function at %s any more", c.functions[i].Address)
		}
		c.functions[i].Device = now
	}
	return nil
}

// closeAndJoin closes the configuration spaces, which releases the locks.
func (c *card) closeAndJoin(err *error) {
	for i := range c.functions {
		if f := &c.functions[i]; f.config != nil {
			*err = errors.Join(*err, f.config.Close())
			f.config = nil
		}
	}
}
