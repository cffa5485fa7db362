// Package steps holds what the steps of a clean do to a device, through the ports of
// internal/hardware. A new step is one file here and one line in all.go; neither the
// workflow nor the activities change.
package steps

import (
	"context"
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Chunk is how many bytes a step handles between two resume points: what a crash
// costs at most (SAFETY F2).
const Chunk = 64 << 20

// Work is what a step is given to do its work.
type Work struct {
	Device    hardware.Handle
	Operation device.Operation
	// Enrolled is the device as it was enrolled.
	Enrolled device.Identity
	// Resume is the first byte that is not known to be done.
	Resume int64
	// Settings are those that the plan recorded.
	Settings device.StepSettings
	// Keep records a value under a name for the rest of this clean, on stable storage
	// when it returns nil; Recall gives the last one kept, and whether there is one.
	SaveEvidence func(name string, value any) error
	LoadEvidence func(name string, into any) (bool, error)
	// Checkpoint records that everything before offset is done and on stable
	// storage. Its error ends the step: the caller lost its right or its reason to
	// go on, and the device is left as it is.
	Checkpoint func(offset int64) error
}

// Outcome is what a step reports.
type Outcome struct {
	// Bytes is how many bytes of the device the step has dealt with, those of
	// earlier attempts of the same step included.
	Bytes int64
	// Method says how: "o_direct", "full", …
	Method string
	// Note is one line for the record.
	Note string
}

// Step is one step: what the planner knows of it, and what it does.
type Step struct {
	clean.Step
	// Writes says whether the step changes the device.
	Writes bool
	// Run does the step, from w.Resume on. ctx ends only where the step must stop at
	// once; what may wait for the next resume point comes from w.Checkpoint.
	Run func(ctx context.Context, w *Work) (Outcome, error)
}

// sizeOf gives the device's size. A device without bytes is a fault, never done
// (SAFETY F17), and so is a resume point that is not one of this device's.
func sizeOf(w *Work) (int64, error) {
	size := w.Device.Size()
	if size <= 0 {
		return 0, &device.Fault{Class: device.NeedsOperator, Code: device.CodeStepFailed,
			Message: "the device has no bytes", Remedy: "look at the device: it must have its enrolled size"}
	}
	if w.Resume < 0 || w.Resume > size {
		return 0, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal,
			Message: fmt.Sprintf("the resume point %d does not lie within the device's %d bytes", w.Resume, size),
			Remedy:  "clean the device again"}
	}
	return size, nil
}
