package redfish

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

func (h *handle) securityCheck(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "securityCheck is not built yet")
}
