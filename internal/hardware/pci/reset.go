package pci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	switch alone := c.aloneOnBus(); { // what both reach
	case !alone:
		delete(offered, "bus")
	case c.slot() != "":
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
	on := busOf(c.functions[0].Address)
	ours := map[string]bool{}
	for _, f := range c.functions {
		ours[f.Address] = true
	}
	all, _ := filepath.Glob(filepath.Join(c.kernel.Devices(), on+":*")) // the pattern is valid
	count := 0
	for _, path := range all {
		if ours[filepath.Base(path)] {
			count++
		} else if _, err := os.Lstat(filepath.Join(path, "physfn")); err != nil {
			return false // it is no virtual function
		}
	}
	return count == len(c.functions)
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

// runReset resets the device in the strongest way that is safe.
func (h *handle) runReset(ctx context.Context, run hardware.StepRun) (string, error) {
	way, err := h.reset(ctx, run)
	return fmt.Sprintf("reset by %s; a reset erases nothing", way), err
}

// reset resets the device, waits until it answers, and binds it as it was enrolled. A cancel does not
// interrupt it: the device must not be left off its bus.
func (h *handle) reset(ctx context.Context, run hardware.StepRun) (way string, err error) {
	ways, err := h.resetWays()
	if err != nil {
		return "", err
	}
	if len(ways) == 0 {
		return "", hardware.Refused(device.CodeNoSuchStep, "reset it by hand, or power-cycle the host",
			"the kernel has no way to reset %s that the policy allows and that reaches no other device", h.functions[0].Address)
	}
	way = ways[0]
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
	return way, h.attach(ctx)
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
