package pci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
)

// resetWays are the ways to reset the device that the kernel has for each function, that the policy allows,
// and that reach no other device, the strongest first. A policy that requires another one is a fault.
func (c *card) resetWays() (ways []string, err error) {
	offered := map[string]int{}
	for _, f := range c.functions {
		text, err := f.Attribute("reset_method")
		if err != nil {
			return nil, err
		}
		for _, way := range strings.Fields(text) {
			offered[way]++
		}
	}
	if !c.aloneOnBus() { // which both reach
		delete(offered, "bus")
	} else if c.slot() != "" {
		offered["slot"] = len(c.functions)
	}
	for _, way := range device.ResetWays() {
		if offered[way] == len(c.functions) && c.model.Reset.Allows(way) {
			ways = append(ways, way)
		}
	}
	if required := c.model.Reset.Require; required != "" && len(ways) == 0 {
		return nil, hardware.Refused(device.CodePolicyUnsatisfied, "correct reset in models of the policy",
			"the policy requires that %s is reset by %s, and the kernel does not offer that, or it would reset other devices",
			c.functions[0].Address, required)
	}
	return ways, nil
}

// aloneOnBus says that the functions are on one bus, and nothing else is but what they give away.
func (c *card) aloneOnBus() bool {
	first := c.functions[0].Address
	bus := first[:strings.LastIndexByte(first, ':')]
	all, _ := filepath.Glob(filepath.Join(c.kernel.Devices(), bus+":*")) // the pattern is valid
	all = slices.DeleteFunc(all, func(path string) bool {
		_, err := os.Lstat(filepath.Join(path, "physfn"))
		return err == nil
	})
	for _, f := range c.functions {
		if !slices.Contains(all, f.Path("")) {
			return false
		}
	}
	return len(all) == len(c.functions)
}

// slot is the folder of the slot whose power can be switched, or "".
func (c *card) slot() string {
	all, _ := filepath.Glob(filepath.Join(c.kernel.Sys, "bus/pci/slots/*/power")) // the pattern is valid
	for _, power := range all {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(power), "address"))
		if err == nil && strings.TrimSpace(string(text)) == slotOf(c.functions[0].Address) {
			return filepath.Dir(power)
		}
	}
	return ""
}

// reset resets the device in the strongest way that is safe, waits until it answers, and binds it as it was
// enrolled. A cancel does not interrupt it: the device must not be left off its bus.
func (h *handle) reset(ctx context.Context, run hardware.StepRun) (note string, err error) {
	ways, err := h.resetWays()
	if err != nil {
		return "", err
	}
	if len(ways) == 0 {
		return "", hardware.Refused(device.CodeNoSuchStep, "reset it by hand, or power-cycle the host",
			"the kernel has no way to reset %s that the policy allows and that reaches no other device", h.functions[0].Address)
	}
	way := ways[0]
	if err := errors.Join(run.Progress(0, "reset by "+way), h.closeMemory()); err != nil {
		return "", err
	}
	if err := h.detach(ctx); err != nil {
		return "", err
	}
	if err := h.resetBy(ctx, way); err != nil {
		return "", err
	}
	err = h.each(func(f *pcifunction.Function) error {
		return f.AwaitReturn(context.WithoutCancel(ctx), h.returns)
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("reset by %s; a reset erases nothing", way), h.attach(ctx)
}

// resetBy resets each function in one way. The kernel's order of the ways is put back. The slot is switched
// off and on: the functions leave the bus, and are found again.
func (h *handle) resetBy(ctx context.Context, way string) (err error) {
	switch slot := h.slot(); way {
	case "slot":
		if err := hardware.MayWrite(ctx); err != nil {
			return err
		}
		err = errors.Join(h.write(slot+"/power", "0"), h.write(slot+"/power", "1"))
	default:
		for _, f := range h.functions {
			before, unread := f.Attribute("reset_method")
			if unread != nil {
				return unread
			}
			if err := h.set(ctx, f.Path("reset_method"), way); err != nil {
				return err
			}
			failed := h.write(f.Path("reset"), "1")
			if err = errors.Join(failed, h.write(f.Path("reset_method"), before)); err != nil || way == "bus" {
				break // that of a bus reaches all of them at once
			}
		}
	}
	if err == nil {
		return nil
	}
	return hardware.Refused(device.CodeStepFailed,
		"see the kernel's log (dmesg); power-cycle the host if the device does not answer, or forbid this way in models of "+
			"the policy; then clean "+h.target.Name,
		"%s cannot be reset by %s: %v", h.functions[0].Address, way, hardware.Reason(err))
}

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
