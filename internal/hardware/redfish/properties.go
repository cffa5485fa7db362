package redfish

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

func (h *handle) verifyProperties(context.Context, hardware.StepRun) (string, error) {
	return "", hardware.Refused(device.CodeNoSuchStep, "", "verifyProperties is not built yet")
}

// readProperties reads what a server consists of that is on and whose POST has ended.
func (h *handle) readProperties(context.Context, *system) (device.Properties, error) {
	return device.Properties{}, hardware.Refused(device.CodeNoSuchStep, "", "readProperties is not built yet")
}
