package pci

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
)

// card is what goes to a tenant together. The first function is the one that was enrolled.
type card struct {
	*Driver
	target hardware.Target
	// enrolled is who the device was at its enrollment, and recorded are its facts of then; zero before that. now is
	// who it was at the last check.
	enrolled, now device.Identity
	recorded      map[string]string
	model         device.Model
	functions     []*pcifunction.Function
	// byPlace: Burnish has unbound it, and its serial cannot be read meanwhile.
	byPlace bool
	// ran are the programs that are installed.
	ran map[string]bool
	// unseen is what the last search for users could not look into.
	unseen string
}

// open opens the device at the target's address, which the caller closes: the functions that the operator names, or
// those that go to a tenant together. This host must allow to destroy each, and the policy must know its model.
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
	c := &card{Driver: d, target: t, enrolled: enrolled, recorded: properties.Facts, ran: map[string]bool{}}
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
			return hardware.Invalid("the function at %s (class %s) is a bridge, behind which other devices are", address,
				dev.Class)
		}
		return c.host.Allow(dev)
	})
	if err == nil {
		c.functions = append(c.functions, f)
	}
	return err
}

func isBridge(dev pci.Device) bool { return strings.HasPrefix(dev.Class, "06") }

// together gives the addresses of the functions that a guest has together with one of them, in order: those of its
// IOMMU group, or without one of its slot, but bridges, and virtual functions, which a function gives away.
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

// Check proves that the device is the enrolled one, if it was enrolled, and that nothing else uses it.
func (c *card) Check(ctx context.Context) (err error) {
	if err := c.each((*pcifunction.Function).CheckUnchanged); err != nil {
		return err
	}
	if c.now, err = c.identity(ctx); err != nil {
		return err
	}
	was, now := c.enrolled, c.now
	if field := was.Differs(now); field != "" && was != (device.Identity{}) {
		return hardware.Changed(field, fmt.Sprintf("%s has the serial %q, the functions %q and %d bytes of memory by the "+
			"policy, %d in all BARs; enrolled were %q, %q, %d and %d", now.Path, now.Serial, now.Subsystem, now.Size,
			now.Capacity, was.Serial, was.Subsystem, was.Size, was.Capacity))
	}
	return c.checkFree(ctx)
}

// identity reads who the device is. What was recorded at the enrollment stays.
func (c *card) identity(ctx context.Context) (device.Identity, error) {
	first := c.functions[0]
	id := device.Identity{
		Vendor: first.Vendor, Product: first.Product, Model: first.ID(), Path: first.Address, Size: c.model.Memory.Size,
		Properties: c.enrolled.Properties, Firmware: c.enrolled.Firmware, MAC: cmp.Or(first.MAC, c.enrolled.MAC),
	}
	var functions []string
	for _, f := range c.functions {
		config, err := configuration(f)
		if err != nil {
			return id, err
		}
		for _, size := range regions(f) { // a card of the same model with more memory is another one
			id.Capacity += size
		}
		functions = append(functions, fmt.Sprintf("%s %04x:%04x rev %02x", f.ID(),
			binary.LittleEndian.Uint16(config[0x2c:]), binary.LittleEndian.Uint16(config[0x2e:]), config[0x08]))
	}
	id.Subsystem = strings.Join(functions, "; ")
	var err error
	id.Serial, err = c.serial(ctx)
	return id, err
}

// serial gives the serial of the device: the enrolled one if any source has it, else that of the first
// source which has one. The configuration space can be read at any time, the others while a driver is bound:
// of a device that Burnish has unbound it is what Open found.
func (c *card) serial(ctx context.Context) (string, error) {
	was, found := c.enrolled.Serial, ""
	for i, source := range []func(context.Context) (string, error){
		c.serialNumber, c.vitalSerial, c.permanentMAC, c.devlinkSerial} { // the first two do not need a driver
		text, err := source(ctx)
		if err != nil {
			return "", err
		}
		text = hardware.CanonicalSerial(text)
		if text != "" && text == was {
			return text, nil
		}
		// Of one without a serial the driver was not bound at the enrollment.
		if always := i < 2; always || was != "" || c.enrolled == (device.Identity{}) {
			found = cmp.Or(found, text)
		}
	}
	if found != "" || was == "" {
		return found, nil
	}
	first := c.functions[0] // which is the first to be unbound, and to be bound
	held, err := first.Attribute("driver_override")
	if c.byPlace = held == noDriver && first.Driver == ""; err != nil || c.byPlace {
		return was, err
	}
	return "", hardware.Busy("the serial of the device at %s cannot be read while it is on the driver %q; it was %s",
		first.Address, first.Driver, was)
}

// devlinkSerial is the serial that the device's driver reports.
func (c *card) devlinkSerial(ctx context.Context) (string, error) {
	info, err := c.info(ctx)
	return cmp.Or(info.Serial, info.Board), err
}

// permanentMAC is the MAC that the hardware brought along, of a device with one interface; else "".
func (c *card) permanentMAC(ctx context.Context) (string, error) {
	made, err := c.functions[0].Made()
	if err != nil || len(made.Interfaces) != 1 {
		return "", err
	}
	text, err := c.ask(ctx, nil, "ethtool", "-P", made.Interfaces[0])
	mac, none := device.CanonicalMAC(pairs(text)["permanent address"])
	if none != nil {
		return "", err // "not set"
	}
	return mac, err
}

// serialNumber is the Device Serial Number, or "".
func (c *card) serialNumber(context.Context) (string, error) {
	config, err := configuration(c.functions[0])
	if err != nil {
		return "", err
	}
	for at, name := range capabilities(config) {
		if name == "x0003" {
			number := slices.Clone(config[at+4:][:8])
			slices.Reverse(number)
			return strings.ReplaceAll(fmt.Sprintf("% x", number), " ", "-"), nil
		}
	}
	return "", nil
}

// vitalTimeout limits a read of the vital product data, which hangs on broken devices.
const vitalTimeout = 3 * time.Second

// vitalSerial is the serial in the vital product data, or "".
func (c *card) vitalSerial(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, vitalTimeout, hardware.Busy(
		"the vital product data of %s is not read within %s", c.functions[0].Address, vitalTimeout))
	defer cancel()
	read := make(chan []byte, 1)
	go func() {
		data, _ := os.ReadFile(c.functions[0].Path("vpd")) // none, or none that can be read
		read <- data
	}()
	select {
	case data := <-read:
		return serialInVPD(data), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// serialInVPD finds the keyword SN in the read-only part of vital product data.
func serialInVPD(data []byte) string {
	const large, readOnly, end = 0x80, 0x90, 0x78
	for len(data) >= 3 && data[0] != end {
		n, head := int(data[0]&7), 1
		if data[0]&large != 0 {
			n, head = int(binary.LittleEndian.Uint16(data[1:])), 3
		}
		if head+n > len(data) {
			return ""
		}
		for part := data[head : head+n]; data[0] == readOnly && len(part) >= 3 && 3+int(part[2]) <= len(part); {
			if string(part[:2]) == "SN" {
				return strings.Trim(string(part[3:3+int(part[2])]), " \x00")
			}
			part = part[3+int(part[2]):]
		}
		data = data[head+n:]
	}
	return ""
}

// checkFree proves that the device is not in use: by no guest, no process, no network, no display, no module.
// What cannot be shown to be free is busy (F12, F21, F40).
func (c *card) checkFree(ctx context.Context) error {
	if err := c.each((*pcifunction.Function).Refresh); err != nil {
		return err
	}
	functions := slices.Clone(c.functions)
	for _, f := range c.functions {
		if c.enrolled == (device.Identity{}) && len(f.Functions) > 0 {
			return hardware.Refused(device.CodeTargetShared, "disable its virtual functions",
				"%s has %d virtual functions, which reach the same device", f.Address, len(f.Functions))
		}
		for _, address := range f.Functions {
			virtual, there, err := pci.ReadDevice(c.kernel.Devices(), address)
			if err != nil {
				return err
			}
			if there {
				functions = append(functions, pcifunction.New(c.kernel.Devices(), virtual))
			}
		}
	}
	var made pcifunction.Made
	for i, f := range functions {
		one, err := c.kernel.CheckHost(f)
		if err != nil {
			return err
		}
		if err := checkDriver(f, one, c.recorded[key(i, "interfaces")]); err != nil {
			return err
		}
		made.Add(one)
	}
	ports, err := c.ports(ctx)
	if err != nil {
		return err
	}
	for name, p := range ports {
		if p.Netdev != "" {
			made.Interfaces = append(made.Interfaces, p.Netdev)
		} else if p.Type == "eth" {
			return hardware.Busy("the network interface of port %s is in another network namespace", name)
		}
	}
	c.unseen, err = c.kernel.CheckUsers(made, functions...)
	return err
}

// harmless are the subsystems of what a driver makes of a function that cannot be used, or whose use is
// found by its node or its interface. Whatever else a driver makes is busy.
var harmless = strings.Fields("accel auxiliary devfreq devlink drm drm_dp_aux_dev hwmon i2c i2c-dev infiniband " +
	"infiniband_mad infiniband_verbs leds mdio_bus net nvmem pps ptp sound thermal uio vfio vfio-dev virtio wakeup")

// checkDriver refuses a function that is used by way of its driver. interfaces is how many it had when it was
// enrolled, or "".
func checkDriver(f *pcifunction.Function, made pcifunction.Made, interfaces string) error {
	for _, subsystem := range made.Subsystems {
		if !slices.Contains(harmless, subsystem) {
			return hardware.Busy("the driver %s of %s has made a device of the kind %s, which cannot be shown to be free",
				f.Driver, f.Address, subsystem)
		}
	}
	if !onHost(f) {
		return nil
	}
	want, _ := strconv.Atoi(interfaces) // which this driver wrote
	if kindOf(f.Device) == "NIC" {
		want = max(want, 1)
	} else if used, err := f.Attribute("driver/module/refcnt"); err != nil || used != "" && used != "0" {
		// That of a network driver is always in use; its interfaces tell more.
		return errors.Join(err, hardware.Busy("the module of the driver %s of %s is in use (%s times)", f.Driver, f.Address,
			used))
	}
	if have := len(made.Interfaces); have < want { // those of another network namespace are not in sysfs
		return hardware.Busy("%s is on the driver %s and shows %d of %d network interfaces: another may be in a network "+
			"namespace of its own", f.Address, f.Driver, have, want)
	}
	return nil
}
