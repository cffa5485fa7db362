package nvme

import (
	"context"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// Health reads the drive's SMART log; see hardware.HealthReporter.
func (h *handle) Health(ctx context.Context) (hardware.Health, error) {
	log, err := ask(ctx, h.c, privileged.Request{Verb: privileged.Health}, nvmecli.ParseHealth)
	if err != nil {
		return hardware.Health{}, err
	}
	return hardware.Health{
		PercentUsed: int(log.PercentUsed), Spare: int(log.AvailableSpare), SpareThreshold: int(log.SpareThreshold),
		Critical: log.CriticalWarning, PowerOn: time.Duration(min(log.PowerOnHours, 1<<20)) * time.Hour,
	}, nil
}

// Reset resets the controller and waits until the kernel reports it live; see
// hardware.Resetter. A reset would activate firmware that a tenant staged, so that is
// refused first (F20).
func (h *handle) Reset(ctx context.Context) error {
	if h.c.noReset {
		return nil
	}
	if err := h.c.checkFirmware(ctx, h.enrolled); err != nil {
		return err
	}
	if err := h.change(ctx, neverStop, privileged.Request{Verb: privileged.Reset}); err != nil {
		return err
	}
	if err := h.awaitLive(ctx, resetTimeout); err != nil {
		return err
	}
	return h.Check(ctx)
}

// resetTimeout is how long a controller may take until it is live again.
const resetTimeout = 30 * time.Second

// awaitLive waits until the kernel shows the drive's controller live, whatever its number is now. Meanwhile
// the controller that was reset stays open, and its disks stay claimed.
func (h *handle) awaitLive(ctx context.Context, timeout time.Duration) error {
	return hardware.Poll(ctx, timeout, func() (again bool, err error) {
		state := h.c.kernelAttribute(h.c.Address, "state")
		if state == "live" {
			return false, nil
		}
		return true, hardware.Refused(device.CodeIO, "check the drive and the kernel's log",
			"the controller at %s is still %q %s after its reset", h.c.Address, state, timeout)
	})
}
