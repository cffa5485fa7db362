package pci

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
)

// onHost says that a driver of the host's has a function: it makes interfaces and a device of devlink.
func onHost(f *pcifunction.Function) bool { return f.Driver != "" && !hardware.ForGuests(f.Driver) }

// noDriver is the driver_override of a function that Burnish has unbound: no driver has this name, so that
// the kernel gives the function to none while its memory is erased and read.
const noDriver = "burnish"

// detach unbinds every function from its driver: nothing in the kernel uses the device any more. The
// caller has proved that nobody else does.
func (c *card) detach(ctx context.Context) error {
	return c.each(func(f *pcifunction.Function) error { return c.bind(ctx, f, "", noDriver) })
}

// attach binds every function to the driver that it had when it was enrolled.
func (c *card) attach(ctx context.Context) error {
	for i, f := range c.functions {
		driver := c.recorded[key(i, "driver")]
		if err := c.bind(ctx, f, driver, driver); err != nil {
			return err
		}
	}
	return nil
}

// unbound says that Burnish has unbound the device, and that no driver has it. Its first function is the first
// to go, and to come back.
func (c *card) unbound() (bool, error) {
	held, err := c.functions[0].Attribute("driver_override")
	return held == noDriver && c.functions[0].Driver == "", err
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
	if err := h.checkFree(ctx); err != nil {
		return err
	}
	if err := h.attach(ctx); err != nil {
		return err
	}
	return h.settled(ctx)
}

// bind binds a function to a driver, or to none. No other driver than override gets it meanwhile.
func (c *card) bind(ctx context.Context, f *pcifunction.Function, driver, override string) error {
	held, err := f.Attribute("driver_override")
	if err != nil {
		return err
	}
	if err := f.Refresh(); err != nil {
		return err
	}
	if f.Driver == driver && (held == override || held != noDriver && override != noDriver) {
		return nil
	}
	set := func(path, text string) error { return c.set(ctx, path, text) }
	if err := f.Bind(driver, override, set); err != nil {
		return err
	}
	if err := f.Refresh(); err != nil {
		return err
	}
	if f.Driver != driver {
		return hardware.Refused(device.CodeCommandRefused, "see the kernel's log (dmesg); bind it by hand, then clean "+
			c.target.Name, "%s is on the driver %q and does not change to %q", f.Address, f.Driver, driver)
	}
	if override == noDriver || hardware.ForGuests(driver) {
		return nil
	}
	return set(f.Path("driver_override"), "\n") // the kernel chooses again, as before
}
