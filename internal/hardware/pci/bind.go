package pci

import (
	"context"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// guests says that a driver gives a function to a guest.
func guests(driver string) bool { return strings.Contains(driver, "vfio") }

// onHost says that a driver of the host's has a function: it makes interfaces and a device of devlink.
func onHost(f *function) bool { return f.Driver != "" && !guests(f.Driver) }

// noDriver is the driver_override of a function that Burnish has unbound: no driver has this name, so that
// the kernel gives the function to none while its memory is erased and read.
const noDriver = "burnish"

// detach unbinds every function from its driver: nothing in the kernel uses the device any more. The
// caller has proved that nobody else does.
func (c *card) detach(ctx context.Context) error {
	for i := range c.functions {
		if err := c.bind(ctx, &c.functions[i], "", noDriver); err != nil {
			return err
		}
	}
	return nil
}

// unbound says that Burnish has unbound a function, and that no driver has it.
func (c *card) unbound() (bool, error) {
	for i := range c.functions {
		f := &c.functions[i]
		held, err := c.attribute(f, "driver_override")
		if err != nil || held == noDriver && f.Driver == "" {
			return err == nil, err
		}
	}
	return false, nil
}

// bindToIdentify binds a device that a worker left unbound when it was killed, if only a driver tells its
// serial.
func (h *handle) bindToIdentify(ctx context.Context) error {
	unbound, err := h.unbound()
	if err != nil || !unbound || h.enrolled.Serial == "" {
		return err
	}
	for _, source := range h.serials()[:2] {
		if text, err := source(ctx); err != nil || hardware.CanonicalSerial(text) != "" {
			return err
		}
	}
	if err := h.checkFree(ctx, h.enrolled); err != nil {
		return err
	}
	if err := h.attach(ctx, h.enrolled); err != nil {
		return err
	}
	return h.settled(ctx)
}

// attach binds every function to the driver that it had when it was enrolled.
func (c *card) attach(ctx context.Context, enrolled device.Identity) error {
	recorded, err := recordedFacts(enrolled)
	if err != nil {
		return err
	}
	for i := range c.functions {
		driver := recorded[key(i, "driver")]
		if err := c.bind(ctx, &c.functions[i], driver, driver); err != nil {
			return err
		}
	}
	return nil
}

// bind binds a function to a driver, or to none. No other driver than override gets it meanwhile.
func (c *card) bind(ctx context.Context, f *function, driver, override string) error {
	held, err := c.attribute(f, "driver_override")
	if err != nil {
		return err
	}
	if err := c.refresh(); err != nil {
		return err
	}
	if f.Driver == driver && (held == override || held != noDriver && override != noDriver) {
		return nil
	}
	if override != "" {
		if err := c.set(ctx, f, "driver_override", override); err != nil {
			return err
		}
	}
	if f.Driver != "" && f.Driver != driver {
		if err := c.set(ctx, f, "driver/unbind", f.Address); err != nil {
			return err
		}
	}
	if driver != "" {
		if err := c.set(ctx, f, "../../drivers_probe", f.Address); err != nil {
			return err
		}
	}
	err = hardware.Poll(ctx, c.returns, func() (again bool, err error) {
		if err := c.refresh(); err != nil || f.Driver == driver {
			return false, err
		}
		return true, hardware.Refused(device.CodeCommandRefused, "see the kernel's log (dmesg); bind it by hand, then clean "+
			c.target.Name, "%s is on the driver %q and does not change to %q", f.Address, f.Driver, driver)
	})
	if err == nil && override != noDriver && !guests(driver) {
		err = c.set(ctx, f, "driver_override", "\n") // the kernel chooses again, as before
	}
	return err
}
