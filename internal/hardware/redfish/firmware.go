package redfish

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

func (h *handle) reflash(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "reflash is not built yet")
}

func (h *handle) verifyFirmware(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "verifyFirmware is not built yet")
}
