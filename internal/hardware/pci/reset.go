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
	"burnish/internal/pci"
)

// resetWays are the ways to reset the device that the kernel has for each function, that the policy allows,
// and that reach no other device, the strongest first. A policy that requires another one is a fault.
func (c *card) resetWays() (ways []string, err error) {
	offered, err := c.kernelWays()
	if err != nil {
		return nil, err
	}
	for _, way := range device.ResetWays() {
		if slices.Contains(offered, way) && c.model.Reset.Allows(way) {
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

// kernelWays are the ways that the kernel has. A slot's power and a bus reset reach whatever is on the bus.
func (c *card) kernelWays() (ways []string, err error) {
	for i := range c.functions {
		text, err := c.attribute(&c.functions[i], "reset_method")
		if err != nil {
			return nil, err
		}
		if of := strings.Fields(text); i == 0 {
			ways = of
		} else {
			ways = slices.DeleteFunc(ways, func(way string) bool { return !slices.Contains(of, way) })
		}
	}
	alone, err := c.aloneOnBus()
	if err != nil || !alone {
		return slices.DeleteFunc(ways, func(way string) bool { return way == "bus" }), err
	}
	if c.slot() != "" {
		ways = append(ways, "slot")
	}
	return ways, nil
}

// aloneOnBus says that the functions are on one bus, and nothing else is.
func (c *card) aloneOnBus() (bool, error) {
	on := busOf(c.functions[0].Address)
	ours := map[string]bool{}
	for _, f := range c.functions {
		if ours[f.Address] = true; busOf(f.Address) != on {
			return false, nil
		}
	}
	all, _ := filepath.Glob(filepath.Join(c.devices(), on+":*")) // the pattern is valid
	for _, path := range all {
		if ours[filepath.Base(path)] {
			continue
		}
		f, there, err := pci.ReadDevice(c.devices(), filepath.Base(path))
		if err != nil || there && f.Type != pci.Virtual {
			return false, err
		}
	}
	return true, nil
}

// slot is the folder of the slot whose power can be switched, or "".
func (c *card) slot() string {
	address := c.functions[0].Address
	all, _ := filepath.Glob(filepath.Join(c.sys, "bus/pci/slots/*/power")) // the pattern is valid
	for _, power := range all {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(power), "address"))
		if err == nil && strings.TrimSpace(string(text)) == slotOf(address) {
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
	if err := h.answers(context.WithoutCancel(ctx)); err != nil {
		return "", err
	}
	return way, h.attach(ctx, h.enrolled)
}

// resetBy resets each function in one way. The kernel's order of the ways is put back. The slot is switched
// off and on: the functions leave the bus, and are found again.
func (h *handle) resetBy(ctx context.Context, way string) error {
	failed := func(err error) error {
		return hardware.Refused(device.CodeStepFailed,
			"see the kernel's log (dmesg); power-cycle the host if the device does not answer, or forbid this way in models of "+
				"the policy; then clean "+h.target.Name,
			"%s cannot be reset by %s: %v", h.functions[0].Address, way, plain(err))
	}
	if way == "slot" {
		if err := hardware.MayWrite(ctx); err != nil {
			return err
		}
		power := filepath.Join(h.slot(), "power")
		if err := errors.Join(h.write(power, "0"), h.write(power, "1")); err != nil {
			return failed(err)
		}
		return nil
	}
	for i := range h.functions {
		f := &h.functions[i]
		before, err := h.attribute(f, "reset_method")
		if err != nil {
			return err
		}
		if err := h.set(ctx, f, "reset_method", way); err != nil {
			return err
		}
		err = h.write(h.path(f, "reset"), "1")
		if back := h.write(h.path(f, "reset_method"), before); err != nil || back != nil {
			return failed(errors.Join(err, back))
		}
		if way == "bus" { // which reaches all of them
			break
		}
	}
	return nil
}

// answers waits until each function is back on its bus and answers. What does not come back is an
// operator's. The caller proves that it is the enrolled device.
func (h *handle) answers(ctx context.Context) error {
	return hardware.Poll(ctx, h.returns, func() (again bool, err error) {
		if err = h.refresh(); err == nil {
			err = h.checkUnchanged()
		}
		if _, gone := device.AsFault(err); gone { // it may be there again, with other descriptors
			h.closeAndJoin(new(error))
			if err = h.openConfigs(); err == nil {
				err = h.lock(ctx)
			}
		}
		f, ok := device.AsFault(err)
		return ok && (f.Code == device.CodeTargetMissing || f.Code == device.CodeTargetBusy), err
	})
}
