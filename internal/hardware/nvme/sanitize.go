package nvme

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// mediaVerification is the value of SANS in the media verification state.
const mediaVerification = 5

// CanSanitize: the drive reports a sanitize (SANICAP), and then has its log.
func (h *handle) CanSanitize() bool { return h.c.id.SANICAP != 0 }

// Sanitize reads the drive's Sanitize Status log; see hardware.Sanitizer.
func (h *handle) Sanitize(ctx context.Context) (hardware.Sanitize, error) {
	log, err := h.c.sanitizeLog(ctx)
	if err != nil {
		return hardware.Sanitize{}, err
	}
	states := map[nvmecli.SanitizeStatus]hardware.SanitizeState{
		nvmecli.NeverSanitized: hardware.SanitizeNever, nvmecli.SanitizeInProgress: hardware.SanitizeRunning,
		nvmecli.SanitizeDone: hardware.SanitizeDone, nvmecli.SanitizeDoneNoDealloc: hardware.SanitizeDone,
		nvmecli.SanitizeFailed: hardware.SanitizeFailed,
	}
	return hardware.Sanitize{
		State: states[log.Status], Progress: int64(log.Progress), GlobalErased: log.GlobalErased,
		Command: log.CDW10, Verifying: log.State == mediaVerification,
	}, nil
}

func (c *controller) sanitizeLog(ctx context.Context) (nvmecli.SanitizeLog, error) {
	return ask(ctx, c, privileged.Request{Verb: privileged.SanitizeLog}, nvmecli.ParseSanitizeLog)
}

// SanitizeCommand is dword 10 of the sanitize for this operation; see hardware.Sanitizer.
func (h *handle) SanitizeCommand(o device.Operation) (uint32, error) {
	switch o {
	case device.CryptoErase:
		return privileged.CryptoErase, nil
	case device.BlockErase:
		return privileged.BlockErase, nil
	}
	return 0, hardware.CallerError("%s is not a sanitize operation", o)
}

// StartSanitize sends the command; see hardware.Sanitizer.
func (h *handle) StartSanitize(ctx context.Context, o device.Operation) error {
	if !h.c.id.Capabilities().Supports(o) {
		return hardware.Refused(device.CodeCommandRefused, "clean it by another operation: in state error, a refresh may "+
			"choose one", "the drive at %s does not support %s (SANICAP)", h.c.Address, o)
	}
	action, err := h.SanitizeCommand(o)
	if err != nil {
		return err
	}
	return h.change(ctx, neverStop, privileged.Request{Verb: privileged.Sanitize, Action: uint8(action)})
}

// ExitMediaVerification leaves the media verification state; see hardware.Sanitizer.
func (h *handle) ExitMediaVerification(ctx context.Context) error {
	return h.change(ctx, neverStop, privileged.Request{Verb: privileged.ExitMediaVerification})
}

// neverStop is the mayGoOn of a caller that checked it already.
func neverStop() error { return nil }
