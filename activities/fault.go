// Package activities adapts ports to Temporal: each activity continues where an earlier
// attempt stopped, calls a port, and turns its error into one that says whether the
// server retries. Every activity is idempotent: its comment says what a second run finds.
package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// asError maps an activity's error: a fault as contract.Refuse does, a canceled context unchanged
// (its caller knows the reason), any other error as an internal fault, which is retried.
func asError(err error, name string) error {
	if err == nil || errors.Is(err, context.Canceled) || temporal.IsCanceledError(err) {
		return err
	}
	f, ok := device.AsFault(err)
	var corrupt *host.CorruptError
	if errors.As(err, &corrupt) {
		f, ok = &device.Fault{Class: device.NeedsOperator, Code: device.CodeStateDirError, Message: err.Error(),
			Remedy: "take " + corrupt.Path + " away, then clean " + corrupt.Name + ": its state is unknown"}, true
	}
	if !ok {
		f = &device.Fault{Class: device.Transient, Code: device.CodeInternal, Message: err.Error()}
	}
	refusal := contract.Refusal{Fault: *f, Device: name}
	if newer := (*supersededError)(nil); errors.As(err, &newer) {
		refusal.Known = &newer.known
	}
	return contract.Refuse(refusal)
}
