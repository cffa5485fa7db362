// Package pcifunction is what the drivers of PCI devices have in common: a function that stays the same one
// for as long as it is open, and what its sysfs directory says of it.
package pcifunction

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/pci"
)

// Function is one PCI function with an open descriptor of its configuration space. Once the function
// is removed the descriptor cannot be read any more, even if another one is now at its address (F11).
type Function struct {
	pci.Device
	Config *os.File
	// devices is where sysfs lists all of them.
	devices string
}

// New gives a function as it was read, without a descriptor.
func New(devices string, dev pci.Device) *Function { return &Function{Device: dev, devices: devices} }

// Address is that of a target.
func Address(t hardware.Target) (string, error) {
	if t.Address == "" {
		return "", hardware.Invalid("the driver %s needs the PCI address of the device (--address)", t.Driver)
	}
	return strings.ToLower(t.Address), nil
}

// Open opens the function at an address, if it is one that drivers of PCI devices clean and that the host's
// rules let Burnish destroy. known is the enrolled device whose first function it is, or zero.
func Open(devices, address string, known device.Identity, allow func(pci.Device) error) (*Function, error) {
	f := New(devices, pci.Device{Address: address})
	if err := f.Refresh(); err != nil {
		return nil, err
	}
	// The rules may refuse another device without saying that it is another one (F27).
	for _, is := range [][3]string{{"path", known.Path, address}, {"vendor", known.Vendor, f.Vendor},
		{"product", known.Product, f.Product}} {
		if field, was, now := is[0], is[1], is[2]; was != "" && was != now {
			return nil, hardware.Changed(field, fmt.Sprintf("%s: %s, enrolled was %s", address, now, was))
		}
	}
	if err := allow(f.Device); err != nil {
		return nil, err
	}
	return f, f.Reopen()
}

// Refresh reads the function again: its driver, its group and its virtual functions change.
func (f *Function) Refresh() error {
	dev, there, err := pci.ReadDevice(f.devices, f.Address)
	if err != nil {
		return err
	}
	if !there {
		return hardware.Missing("there is no PCI function at %s", f.Address)
	}
	if what := Other(dev); what != "" {
		return hardware.Invalid("the function at %s (class %s) is %s", f.Address, dev.Class, what)
	}
	f.Device = dev
	return nil
}

// Other says what a function is that these drivers do not clean; "" of any other.
func Other(dev pci.Device) string {
	const storage = "01"
	switch {
	case strings.HasPrefix(dev.Class, storage):
		return "storage, which the drivers nvme and block erase and prove"
	case dev.Type == pci.Virtual:
		return "a virtual function; only whole devices are cleaned"
	}
	return ""
}

// Reopen opens what is at the function's address now, and proves that it is the function which was read. The
// lock goes with the earlier descriptor.
func (f *Function) Reopen() error {
	err := f.Close()
	if err != nil {
		return err
	}
	if f.Config, err = os.Open(f.Path("config")); host.IsTransient(err) {
		return fmt.Errorf("open the configuration of %s: %w", f.Address, err)
	} else if err != nil {
		return hardware.Missing("the configuration of the PCI function at %s cannot be opened: %v", f.Address,
			hardware.Reason(err))
	}
	if err = f.CheckUnchanged(); err != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}

// CheckUnchanged proves, by its descriptor, that the function answers and is the one that was opened. It is
// cheap.
func (f *Function) CheckUnchanged() error {
	var ids [4]byte
	if _, err := f.Config.ReadAt(ids[:], 0); host.IsTransient(err) {
		return fmt.Errorf("read the configuration of %s: %w", f.Address, err)
	} else if err != nil {
		return hardware.Missing("the PCI function at %s was removed: %v", f.Address, hardware.Reason(err))
	}
	if ids == [4]byte{0xff, 0xff, 0xff, 0xff} {
		return hardware.Missing("the PCI function at %s does not answer: it left the bus", f.Address)
	}
	have := fmt.Sprintf("%04x:%04x", binary.LittleEndian.Uint16(ids[:]), binary.LittleEndian.Uint16(ids[2:]))
	if want := f.ID(); have != want {
		return hardware.Changed("product", fmt.Sprintf("%s is %s instead of %s", f.Address, have, want))
	}
	return nil
}

// AwaitReturn waits until the function is on its bus, and answers, after what may have taken it away, and holds it
// as before. What does not come back is an operator's. The caller proves that it is the enrolled one.
func (f *Function) AwaitReturn(ctx context.Context, timeout time.Duration) error {
	return hardware.Poll(ctx, timeout, func() (again bool, err error) {
		if err = f.Refresh(); err == nil {
			err = f.Reopen()
		}
		if err == nil {
			err = f.Lock(ctx)
		}
		return device.HasCode(err, device.CodeTargetMissing, device.CodeTargetBusy), err
	})
}

// Lock takes the function's lock (F1).
func (f *Function) Lock(ctx context.Context) error {
	return hardware.Lock(ctx, int(f.Config.Fd()), f.Address)
}

// Close closes the descriptor, which releases the lock.
func (f *Function) Close() (err error) {
	if f.Config != nil {
		err = f.Config.Close()
		f.Config = nil
	}
	return err
}

// Path is a file of the function in sysfs.
func (f *Function) Path(name string) string { return filepath.Join(f.devices, f.Address, name) }

// Attribute reads a file of the function in sysfs; "" where there is none.
func (f *Function) Attribute(name string) (string, error) {
	text, err := os.ReadFile(f.Path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read %s of %s: %w", name, f.Address, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Bind gives the function to a driver, or to none. No other driver than override gets it meanwhile, nor later
// until that is taken back.
func (f *Function) Bind(driver, override string, write func(path, text string) error) error {
	for _, one := range []struct {
		needed     bool
		name, text string
	}{
		{override != "", "driver_override", override},
		{f.Driver != "" && f.Driver != driver, "driver/unbind", f.Address},
		{driver != "", "../../drivers_probe", f.Address},
	} {
		if one.needed {
			if err := write(f.Path(one.name), one.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Match finds the entry of device_spec for a function.
func Match(specs func() (pci.Specs, error), dev pci.Device) (pci.Spec, bool, error) {
	all, err := specs()
	if err != nil {
		return pci.Spec{}, false, err
	}
	return match(all, dev)
}

func match(specs pci.Specs, dev pci.Device) (pci.Spec, bool, error) {
	entry, matches, err := specs.Match(dev)
	if err != nil {
		return pci.Spec{}, false, fmt.Errorf("match PCI device %s: %w", dev.Address, err)
	}
	return entry, matches, nil
}

// Find lists the functions that device_spec matches; see hardware.Finder. describe fills in what it knows of a
// function, and is false for one that is no device of the driver's.
func Find(devices string, specs func() (pci.Specs, error),
	describe func(pci.Device, pci.Spec, *hardware.Found) (bool, error)) (found []hardware.Found, err error) {
	rules, err := specs()
	if err != nil {
		return nil, err
	}
	all, err := pci.Scan(devices)
	if err != nil {
		return nil, err
	}
	for _, dev := range all {
		if dev.Type == pci.Virtual {
			continue
		}
		entry, matches, err := match(rules, dev)
		is := hardware.Found{Address: dev.Address, OneTimeUse: entry.OneTimeUse()}
		if err == nil && matches {
			matches, err = describe(dev, entry, &is)
		}
		if err != nil {
			return nil, err
		}
		if matches {
			found = append(found, is)
		}
	}
	return found, nil
}
