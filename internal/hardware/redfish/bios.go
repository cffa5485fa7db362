package redfish

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

func (h *handle) runBIOSReset(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "runBIOSReset is not built yet")
}

func (h *handle) runBIOSApply(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "runBIOSApply is not built yet")
}
