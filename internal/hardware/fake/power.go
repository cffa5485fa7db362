package fake

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// PowerState reads the simulated power state; see hardware.PowerController.
func (h *handle) PowerState(context.Context) (string, error) {
	if h.wanted.power == "" {
		return "", noPower(h)
	}
	now, err := h.dir.load()
	if err != nil {
		return "", err
	}
	if now.Power == "" {
		return h.wanted.power, nil
	}
	return now.Power, nil
}

// Power changes it; see hardware.PowerController. A fault of the step power is injected after
// the change, as where an answer is lost.
func (h *handle) Power(ctx context.Context, action string) error {
	switch {
	case h.wanted.power == "":
		return noPower(h)
	case !h.writable:
		return hardware.CallerError("%q was opened for reading only", h.dir.contents())
	}
	if action != hardware.PowerOn && action != hardware.PowerOff && action != hardware.PowerReset {
		return hardware.Invalid("the power action must be on, off or reset, not %q", action)
	}
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	now, err := h.dir.load()
	if err != nil {
		return err
	}
	now.Power = action
	if action == hardware.PowerReset {
		now.Power = hardware.PowerOn
		now.Resets++
	}
	if err := h.dir.store(now); err != nil {
		return err
	}
	h.state = now
	return h.injectDue(ctx, h.Size())
}

func noPower(h *handle) error {
	return hardware.Refused(device.CodeNoPowerControl, "enroll it with --set power=on",
		"the fake device %q has no power control", h.dir.contents())
}
