package steps

import (
	"context"
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// EraseDevice has the operator's program erase the device: the memory of a GPU, the storage
// of a NIC (S0.31). A second run starts over.
func EraseDevice() Step {
	return Step{
		Step: clean.Step{
			Name: "erase_device", Interface: "vendor", Phase: clean.Erase, Priority: 75, Version: 1, Abortable: true,
			Applies: func(s clean.Subject) bool { return s.Operation == device.Script }, Timeout: twiceTheEstimate,
		},
		Writes: true,
		Run:    driverStep("erase_device"),
	}
}

// FirmwareReflash has the device's firmware written (S0.31): by the operator's program, or
// the images that the firmware policy names for the device. A cancel does not interrupt it:
// half-written firmware must not be left. A second run of the program writes it again; a
// driver reads the running version first.
func FirmwareReflash() Step {
	return Step{
		Step: clean.Step{
			Name: "firmware_reflash", Interface: "firmware", Phase: clean.Restore, Priority: 50, Version: 1,
			Applies: supportedByDriver("firmware_reflash"), Timeout: firmwareBudget, FromPolicy: firmwareOf,
			Args: firmwareSchema, Combine: chooseComponent,
		},
		Writes: true,
		Run:    driverStep("firmware_reflash"),
	}
}

// PCIReset has the device reset on its bus, or power-cycled (S0.31). A cancel does not
// interrupt it: the device must not be left off its bus. A second run resets it again.
func PCIReset() Step {
	return Step{
		Step: clean.Step{
			Name: "pci_reset", Interface: "power", Phase: clean.Restore, Priority: 0, Version: 1,
			Applies: supportedByDriver("pci_reset"), Timeout: fixedBudget,
		},
		Writes: true,
		Run:    driverStep("pci_reset"),
	}
}

func driverStep(step string) func(context.Context, *Work) (Outcome, error) {
	return func(ctx context.Context, w *Work) (Outcome, error) { return runOnDriver(ctx, w, step) }
}

// runOnDriver has the device's driver carry out a whole step.
func runOnDriver(ctx context.Context, w *Work, step string) (Outcome, error) {
	driver, ok := w.Device.(hardware.StepRunner)
	if !ok {
		return Outcome{}, unsupported(w, fmt.Sprintf("do %s by itself", step))
	}
	mayGoOn := func() error { return w.Checkpoint(0) }
	firmware := ""
	note, err := driver.RunStep(ctx, hardware.StepRun{
		Step: step, Rest: w.Rest, Args: w.Args, Settings: w.Settings, MayGoOn: mayGoOn,
		Progress: func(percent int, doing string) error {
			w.Progress(percent, doing)
			return mayGoOn()
		},
		Save: w.SaveEvidence, Load: w.LoadEvidence,
		Reflash: func(revision string) error {
			firmware = revision
			return w.Reflash(revision)
		},
	})
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Method: w.Device.Method(), Note: note, Firmware: firmware}, nil
}
