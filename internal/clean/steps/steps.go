// Package steps holds the steps of a clean: what the planner needs of each, and what it
// does to a device through the ports of internal/hardware. A new step is one file here and
// one line in all.go; neither workflows nor activities change.
package steps

import (
	"context"
	"encoding/json"
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Chunk is how many bytes a step handles between two resume points (F2).
const Chunk = 64 << 20

// MaxRepeated is how many bytes a crash repeats at most: the chunk whose resume point was not
// on stable storage yet, and the one that was begun meanwhile (see recordBehind).
const MaxRepeated = 2 * Chunk

// Work is what a step works with.
type Work struct {
	Device    hardware.Handle
	Operation device.Operation
	// Enrolled is the identity with which the device was enrolled.
	Enrolled device.Identity
	// Resume is the first byte that is not known to be done. A step that only reads begins at
	// 0 in each attempt (F37).
	Resume int64
	// Settings are those that the plan recorded.
	Settings device.StepSettings
	// Args are the step's arguments that the plan recorded, a JSON object; nil: it has none.
	Args json.RawMessage
	// Rest are the later steps of the plan's phase restore; only its own steps have them.
	Rest []string
	// Reflash records the firmware revision that the step is about to give the device.
	Reflash func(revision string) error
	// Progress shows how far a step is that counts no bytes, in percent, and what it does.
	Progress func(percent int, doing string)
	// SaveEvidence saves a value under a name for the rest of this clean; when it returns
	// nil, the value is on stable storage. LoadEvidence reads the last one saved, and says
	// whether there is one.
	SaveEvidence func(name string, value any) error
	LoadEvidence func(name string, into any) (bool, error)
	// Record records that everything before offset is done and on stable storage; when it
	// returns nil, so is the record. Its error ends the step. One call is made at a time, but
	// perhaps in another goroutine than the one that uses the device.
	Record func(offset int64) error
	// MayGoOn gives the reason why the step must end and leave the device as it is: the
	// attempt was canceled or superseded, or has lost its fence. nil: only the context ends
	// the step.
	MayGoOn func() error
}

// Checkpoint records that everything before offset is done and on stable storage, and says
// whether the step may go on.
func (w *Work) Checkpoint(offset int64) error {
	if err := w.Record(offset); err != nil {
		return err
	}
	return w.mayGoOn()
}

func (w *Work) mayGoOn() error {
	if w.MayGoOn == nil {
		return nil
	}
	return w.MayGoOn()
}

// Outcome is what a step reports.
type Outcome struct {
	// Bytes is how many bytes of the device the step has read or written, in all its
	// attempts.
	Bytes int64
	// Held is how many bytes this attempt read of the device, which it held all the time (F37).
	Held int64
	// Method says how: "o_direct", "full", …
	Method string
	// Note is one line for the record.
	Note string
	// Seed is that of the samples that the step took; 0 if it took none.
	Seed uint64
	// Firmware is the revision that the step gave the device, or empty.
	Firmware string
}

// Step is one step: what the planner needs, and what the step does.
type Step struct {
	clean.Step
	// Writes says whether the step changes the device.
	Writes bool
	// Run carries out the step, one that writes from w.Resume on. ctx ends only for a reason to stop at
	// once; w.MayGoOn returns the others.
	Run func(ctx context.Context, w *Work) (Outcome, error)
}

// sizeOf gives the device's size. A device without bytes is a fault and never counts as
// done (F17); so is a resume point outside of the device.
func sizeOf(w *Work) (int64, error) {
	size := w.Device.Size()
	if size <= 0 {
		return 0, &device.Fault{Class: device.NeedsOperator, Code: device.CodeStepFailed,
			Message: "the device has no bytes", Remedy: "check the device: it must have its enrolled size"}
	}
	if w.Resume < 0 || w.Resume > size {
		return 0, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal,
			Message: fmt.Sprintf("the resume point %d is outside of the device's %d bytes", w.Resume, size),
			Remedy:  "clean the device again"}
	}
	return size, nil
}
