package steps

import (
	"context"
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/hardware"
)

// EraseDevice has the device's own program erase it: a GPU's memory, what a NIC keeps
// (S0.31). A second run begins again.
func EraseDevice() Step {
	return Step{Step: clean.Describe(clean.StepEraseDevice), Writes: true, Run: driverStep(clean.StepEraseDevice)}
}

// FirmwareReflash has the device's firmware written anew (S0.31), which a cancel does
// not stop half-way. A second run writes it once more.
func FirmwareReflash() Step {
	return Step{Step: clean.Describe(clean.StepFirmwareReflash), Writes: true, Run: driverStep(clean.StepFirmwareReflash)}
}

// PCIReset has the device reset on its bus, or switched off and on (S0.31), which a
// cancel does not stop half-way. A second run resets it once more.
func PCIReset() Step {
	return Step{Step: clean.Describe(clean.StepPCIReset), Writes: true, Run: driverStep(clean.StepPCIReset)}
}

func driverStep(step string) func(context.Context, *Work) (Outcome, error) {
	return func(ctx context.Context, w *Work) (Outcome, error) { return runOnDriver(ctx, w, step) }
}

// perform has the device's driver do a whole step in its own way.
func runOnDriver(ctx context.Context, w *Work, step string) (Outcome, error) {
	driver, ok := w.Device.(hardware.StepRunner)
	if !ok {
		return Outcome{}, unsupported(w, fmt.Sprintf("do %s by itself", step))
	}
	note, err := driver.RunStep(ctx, step, func() error { return w.Checkpoint(0) })
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Method: w.Device.Method(), Note: note}, nil
}
