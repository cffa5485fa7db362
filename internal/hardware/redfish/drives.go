package redfish

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

func (h *handle) eraseDrives(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "eraseDrives is not built yet")
}

func (h *handle) verifyDrives(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "verifyDrives is not built yet")
}
