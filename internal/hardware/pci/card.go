package pci

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
)

// card is what goes to a tenant together. The first function is the one that was enrolled.
type card struct {
	*Driver
	target hardware.Target
	// enrolled is who the device was at its enrollment, and recorded are its facts of then; zero before that.
	enrolled  device.Identity
	recorded  map[string]string
	model     device.Model
	functions []*pcifunction.Function
	// byPlace: Burnish has unbound it, and nothing tells its serial meanwhile.
	byPlace bool
	// ran are the programs that are installed, devlinks the functions with their drivers that are devices of devlink.
	ran, devlinks map[string]bool
	// unseen is what the last search for users could not look into.
	unseen string
}

// open opens the device at the target's address, if this host allows to destroy each function of it
// and the policy knows its model: the functions that the operator names, or those that go to a tenant
// together. The caller closes it.
func (d *Driver) open(t hardware.Target, enrolled device.Identity) (_ *card, err error) {
	if err := t.KnownSettings("functions"); err != nil {
		return nil, err
	}
	address, err := pcifunction.Address(t)
	if err != nil {
		return nil, err
	}
	properties, err := device.ParseProperties(enrolled.Properties)
	if err != nil {
		return nil, hardware.Changed("properties", err.Error())
	}
	c := &card{Driver: d, target: t, enrolled: enrolled, recorded: properties.Facts, ran: map[string]bool{},
		devlinks: map[string]bool{}}
	defer func() {
		if err != nil {
			c.closeAndJoin(&err)
		}
	}()
	if err := c.add(address, enrolled); err != nil {
		return nil, err
	}
	first := c.functions[0].Device
	others := strings.Fields(strings.ReplaceAll(strings.ToLower(t.Settings["functions"]), ",", " "))
	if len(others) == 0 {
		if others, err = d.together(first); err != nil {
			return nil, err
		}
	}
	for _, other := range others {
		if err := c.add(other, device.Identity{}); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(d.host.Models, func(m device.Model) bool { return m.ID == first.ID() })
	if i < 0 {
		return nil, hardware.Refused(device.CodePolicyUnsatisfied,
			fmt.Sprintf(`add to models in the policy (BURNISH_POLICY) of this host: {model: %q, memory: "bar N size S"}, or `+
				`memory: "script NAME", or memory: none; restart its worker`, first.ID()),
			"the policy does not say where %s at %s has its memory", first.ID(), first.Address)
	}
	c.model = d.host.Models[i]
	return c, c.checkMemory()
}

// add opens one more function, unless it is open.
func (c *card) add(address string, known device.Identity) error {
	if slices.ContainsFunc(c.functions, func(f *pcifunction.Function) bool { return f.Address == address }) {
		return nil
	}
	f, err := pcifunction.Open(c.kernel.Devices(), address, known, func(dev pci.Device) error {
		if isBridge(dev) {
			return hardware.Invalid("the function at %s (class %s) is a bridge, behind which other devices are", address, dev.Class)
		}
		return c.host.Allow(dev)
	})
	if err == nil {
		c.functions = append(c.functions, f)
	}
	return err
}

func isBridge(dev pci.Device) bool { return strings.HasPrefix(dev.Class, "06") }

// together gives the addresses of the functions that a guest has together with one of them, in order: those
// of its IOMMU group but bridges, or without one those of its slot. Virtual functions are what a function gives
// away.
func (d *Driver) together(with pci.Device) (addresses []string, err error) {
	pattern := filepath.Join(d.kernel.Devices(), slotOf(with.Address)+".*")
	if with.IOMMUGroup != "" {
		pattern = filepath.Join(d.kernel.Devices(), with.Address, "iommu_group/devices/*")
	}
	all, _ := filepath.Glob(pattern) // it is valid
	for _, path := range all {
		f, there, err := pci.ReadDevice(d.kernel.Devices(), filepath.Base(path))
		if err != nil {
			return nil, err
		}
		if there && f.IOMMUGroup == with.IOMMUGroup && !isBridge(f) && f.Type != pci.Virtual {
			addresses = append(addresses, f.Address)
		}
	}
	return addresses, nil
}

// slotOf is an address without its function.
func slotOf(address string) string { return address[:strings.LastIndexByte(address, '.')] }

// set writes a file of sysfs, once the worker may still change its device.
func (c *card) set(ctx context.Context, path, text string) error {
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	if err := c.write(path, text); err != nil {
		return hardware.Refused(device.CodeCommandRefused, "see the kernel's log (dmesg), then clean "+c.target.Name,
			"the kernel refuses to write %q to %s: %v", text, path, hardware.Reason(err))
	}
	return nil
}

// each calls do with each function, until it fails.
func (c *card) each(do func(*pcifunction.Function) error) error {
	for _, f := range c.functions {
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

// closeAndJoin closes the configuration spaces, which releases the locks.
func (c *card) closeAndJoin(err *error) {
	for _, f := range c.functions {
		*err = errors.Join(*err, f.Close())
	}
}

// configuration reads the whole configuration space of a function, of which only root sees more than
// the first 64 bytes.
func configuration(f *pcifunction.Function) ([]byte, error) {
	buffer := make([]byte, 4096)
	n, err := f.Config.ReadAt(buffer, 0)
	if n < 256 {
		return nil, hardware.Refused(device.CodeNotAllowed, "run burnish-worker as root on this host",
			"the kernel shows only %d bytes of the configuration of %s: %v", n, f.Address, err)
	}
	return buffer[:n], nil
}

// capabilities gives the names of the capabilities in a configuration space by their places: "01", and
// for extended ones "x0003".
func capabilities(config []byte) map[int]string {
	found := map[int]string{}
	const status, hasList = 0x06, 1 << 4
	if config[status]&hasList != 0 {
		for at := int(config[0x34] &^ 3); at >= 0x40 && found[at] == ""; at = int(config[at+1] &^ 3) {
			found[at] = fmt.Sprintf("%02x", config[at])
		}
	}
	for at := 0x100; at >= 0x100 && at+12 <= len(config) && found[at] == ""; {
		header := binary.LittleEndian.Uint32(config[at:])
		if header == 0 || header == ^uint32(0) {
			break
		}
		found[at] = fmt.Sprintf("x%04x", header&0xffff)
		at = int(header >> 20 &^ 3)
	}
	return found
}
