package pci

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// check proves that nothing else uses the device, and that it is the enrolled one; of the zero identity it
// does not prove that.
func (c *card) check(ctx context.Context, enrolled device.Identity) error {
	if err := c.checkUnchanged(); err != nil {
		return err
	}
	if enrolled == (device.Identity{}) {
		return c.checkFree(ctx, enrolled)
	}
	now, err := c.identity(ctx, enrolled)
	if err != nil {
		return err
	}
	if field := enrolled.Differs(now); field != "" {
		return hardware.Changed(field, fmt.Sprintf("%s has the serial %q, the functions %q and %d bytes of memory by the "+
			"policy, %d in all BARs; enrolled were %q, %q, %d and %d", now.Path, now.Serial, now.Subsystem, now.Size,
			now.Capacity, enrolled.Serial, enrolled.Subsystem, enrolled.Size, enrolled.Capacity))
	}
	return c.checkFree(ctx, enrolled)
}

// identity reads who the device is. What was recorded at the enrollment stays.
func (c *card) identity(ctx context.Context, known device.Identity) (device.Identity, error) {
	first := &c.functions[0]
	var functions []string
	capacity := int64(0) // of all BARs: a card of the same model with more memory is another one
	for i := range c.functions {
		config, err := c.functions[i].configuration()
		if err != nil {
			return device.Identity{}, err
		}
		regions, err := c.regions(&c.functions[i])
		if err != nil {
			return device.Identity{}, err
		}
		for _, bar := range regions[:min(len(regions), 6)] {
			capacity += int64(bar.size)
		}
		functions = append(functions, fmt.Sprintf("%s %04x:%04x rev %02x", modelOf(c.functions[i].Device),
			binary.LittleEndian.Uint16(config[0x2c:]), binary.LittleEndian.Uint16(config[0x2e:]), config[0x08]))
	}
	id := device.Identity{
		Vendor: first.Vendor, Product: first.Product, Model: modelOf(first.Device), Path: first.Address,
		Subsystem: strings.Join(functions, "; "), Size: c.model.Memory.Size, Capacity: capacity,
		Properties: known.Properties, Firmware: known.Firmware, MAC: cmp.Or(first.MAC, known.MAC),
	}
	var err error
	id.Serial, err = c.serial(ctx, known)
	return id, err
}

// serial gives the serial of the device: the enrolled one if any source has it, else that of the first
// source which has one. The configuration space can be read at any time, the others while a driver is bound:
// of a device that Burnish has unbound it is what Open found.
func (c *card) serial(ctx context.Context, known device.Identity) (string, error) {
	another := ""
	for i, source := range c.serials() {
		text, err := source(ctx)
		if err != nil {
			return "", err
		}
		text = hardware.CanonicalSerial(text)
		switch always := i < 2; {
		case text == "":
		case text == known.Serial, known == (device.Identity{}):
			return text, nil
		case always || known.Serial != "": // else its driver was not bound at the enrollment
			another = cmp.Or(another, text)
		}
	}
	if another == "" && known.Serial != "" {
		if unbound, err := c.unbound(); err != nil || unbound {
			return known.Serial, err
		}
		return "", hardware.Busy("nothing tells the serial of the device at %s while it is on the driver %q; it was %s",
			c.functions[0].Address, c.functions[0].Driver, known.Serial)
	}
	return another, nil
}

// serials are the sources of a serial. The first two do not need a driver.
func (c *card) serials() []func(context.Context) (string, error) {
	return []func(context.Context) (string, error){c.serialNumber, c.vitalSerial, c.permanentMAC, c.devlinkSerial}
}

// devlinkSerial is the serial that the device's driver tells.
func (c *card) devlinkSerial(ctx context.Context) (string, error) {
	info, err := c.info(ctx)
	return cmp.Or(info.Serial, info.Board), err
}

// permanentMAC is the MAC that the hardware brought along, of a device with one interface; else "".
func (c *card) permanentMAC(ctx context.Context) (string, error) {
	names, err := c.children(&c.functions[0], users{})
	if err != nil || len(names) != 1 {
		return "", err
	}
	is, err := c.interfaceOf(ctx, names[0])
	if err != nil || is.Permanent != "" {
		return is.Permanent, err
	}
	kind, err := os.ReadFile(filepath.Join(c.sys, "class/net", names[0], "addr_assign_type"))
	if err != nil || strings.TrimSpace(string(kind)) != "0" { // 0 is NET_ADDR_PERM
		return "", nil // one that is set or random tells nothing
	}
	return is.Address, nil
}

// serialNumber is the Device Serial Number, or "".
func (c *card) serialNumber(context.Context) (string, error) {
	config, err := c.functions[0].configuration()
	if err != nil {
		return "", err
	}
	at, ok := capabilities(config)["x0003"]
	if !ok {
		return "", nil
	}
	var bytes []string
	for n := 11; n > 3; n-- {
		bytes = append(bytes, fmt.Sprintf("%02x", config[at+n]))
	}
	return strings.Join(bytes, "-"), nil
}

// vitalTimeout limits a read of the vital product data, which hangs on broken devices.
const vitalTimeout = 3 * time.Second

// vitalSerial is the serial in the vital product data, or "".
func (c *card) vitalSerial(ctx context.Context) (string, error) {
	read := make(chan []byte, 1)
	go func() {
		data, _ := os.ReadFile(c.path(&c.functions[0], "vpd")) // none, or none that can be read
		read <- data
	}()
	timer := time.NewTimer(vitalTimeout)
	defer timer.Stop()
	select {
	case data := <-read:
		return serialInVPD(data), nil
	case <-timer.C:
		return "", hardware.Busy("the vital product data of %s is not read within %s", c.functions[0].Address, vitalTimeout)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// serialInVPD finds the keyword SN in the read-only part of vital product data.
func serialInVPD(data []byte) string {
	const large, readOnly, end = 0x80, 0x90, 0x78
	for len(data) >= 3 {
		tag, n, head := data[0], int(data[0]&7), 1
		if tag&large != 0 {
			n, head = int(binary.LittleEndian.Uint16(data[1:])), 3
		}
		if tag == end || head+n > len(data) {
			return ""
		}
		part := data[head : head+n]
		for tag == readOnly && len(part) >= 3 && 3+int(part[2]) <= len(part) {
			if string(part[:2]) == "SN" {
				return strings.Trim(string(part[3:3+int(part[2])]), " \x00")
			}
			part = part[3+int(part[2]):]
		}
		data = data[head+n:]
	}
	return ""
}
