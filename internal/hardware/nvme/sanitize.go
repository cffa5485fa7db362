package nvme

import (
	"context"
	"fmt"

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
	// noProgress is SPROG where none is made.
	noProgress = 65535
	// verifying is SANS of the media verification state.
	verifying = 5
)

// Sanitize reads the drive's Sanitize Status log; see hardware.Sanitizer.
func (h *handle) Sanitize(ctx context.Context) (hardware.Sanitize, error) {
	log, err := h.c.sanitizeLog(ctx)
	if err != nil {
		return hardware.Sanitize{}, err
	}
	if log.Running() && log.Progress == noProgress && log.State < 0 {
		// It runs and gets nowhere: it may wait in media verification, which most versions
		// of nvme-cli do not tell.
		output, err := h.c.query(ctx, "get-log", "--log-id=0x81", "--log-len=512", "--raw-binary")
		if err != nil {
			return hardware.Sanitize{}, asFault(err)
		}
		if log.State, err = nvmecli.ParseSanitizeState(output); err != nil {
			return hardware.Sanitize{}, err
		}
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
	action, err := h.SanitizeCommand(o)
	if err != nil {
		return err
	}
	return h.change(ctx, always, "sanitize", fmt.Sprintf("--sanact=%d", action))
}

// LeaveVerification ends the media verification state; see hardware.Sanitizer.
func (h *handle) LeaveVerification(ctx context.Context) error {
	// nvme sanitize itself refuses this action in the versions that are about.
	return h.change(ctx, always, "admin-passthru", "--opcode=0x84", fmt.Sprintf("--cdw10=%d", actionLeaveVerification))
}

// always is the mayGoOn of a caller that has asked.
func always() error { return nil }
