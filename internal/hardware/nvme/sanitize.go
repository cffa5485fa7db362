package nvme

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
)

// The sanitize actions: dword 10 of the command, with every other bit clear. AUSE,
// which would let a failed sanitize be left, is never set (SAFETY F12).
const (
	actionBlockErase        = 2
	actionCryptoErase       = 4
	actionLeaveVerification = 5
	// verifying is SANS of the media verification state.
	verifying = 5
)

// Sanitize reads the drive's Sanitize Status log; see hardware.Sanitizer.
func (h *handle) Sanitize(ctx context.Context) (hardware.Sanitize, error) {
	log, err := h.c.sanitizeLog(ctx)
	if err != nil {
		return hardware.Sanitize{}, err
	}
	states := map[nvmecli.SanitizeStatus]hardware.SanitizeState{
		nvmecli.NeverSanitized: hardware.SanitizeNever, nvmecli.SanitizeRuns: hardware.SanitizeRunning,
		nvmecli.SanitizeDone: hardware.SanitizeDone, nvmecli.SanitizeDoneNoFree: hardware.SanitizeDone,
		nvmecli.SanitizeFailed: hardware.SanitizeFailed,
	}
	return hardware.Sanitize{
		State: states[log.Status], Progress: int64(log.Progress), GlobalErased: log.GlobalErased,
		Command: log.CDW10, Verifying: log.State == verifying,
	}, nil
}

func (c *controller) sanitizeLog(ctx context.Context) (nvmecli.SanitizeLog, error) {
	output, err := c.query(ctx, "sanitize-log", "--output-format=json")
	if err != nil {
		return nvmecli.SanitizeLog{}, asFault(err)
	}
	return nvmecli.ParseSanitizeLog(output)
}

// SanitizeCommand is dword 10 of the sanitize by this operation; see
// hardware.Sanitizer.
func (h *handle) SanitizeCommand(o device.Operation) (uint32, error) {
	switch o {
	case device.CryptoErase:
		return actionCryptoErase, nil
	case device.BlockErase:
		return actionBlockErase, nil
	}
	return 0, &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: string(o) + " is no sanitize"}
}

// StartSanitize issues the one command; see hardware.Sanitizer.
func (h *handle) StartSanitize(ctx context.Context, o device.Operation) error {
	if !h.c.id.Capabilities().Supports(o) {
		return refused(device.CodeCommandRefused, "clean it by another operation: in error a new look may choose one", "the drive at %s cannot do %s (SANICAP)", h.c.address, o)
	}
	action := map[device.Operation]string{device.CryptoErase: "4", device.BlockErase: "2"}[o]
	return h.change(ctx, always, "sanitize", "--sanact="+action)
}

// LeaveVerification ends the media verification state; see hardware.Sanitizer.
func (h *handle) LeaveVerification(ctx context.Context) error {
	return h.change(ctx, always, "sanitize", "--sanact=5")
}

// always is the mayGoOn of a caller that has asked.
func always() error { return nil }
