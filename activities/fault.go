// Package activities adapts ports to Temporal: each activity continues where an earlier
// attempt stopped, calls a port, and turns its error into one that says whether the
// server retries. Every activity is idempotent: its comment says what a second run finds.
package activities

import (
	"context"
	"errors"
	"strings"

	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// Refuse turns a fault into Temporal's ApplicationError, here alone: its type is the
// fault's code, its one detail the Refusal. Only transient faults are retried.
func Refuse(r contract.Refusal) error {
	// An error that is not valid UTF-8 cannot be sent, and its activity would be retried.
	r.Fault.Message = strings.ToValidUTF8(r.Fault.Message, "\uFFFD")
	return temporal.NewApplicationErrorWithOptions(r.Fault.Message, string(r.Fault.Code), temporal.ApplicationErrorOptions{
		NonRetryable: r.Fault.Class != device.Transient,
		Details:      []any{r},
	})
}

// asError maps an activity's error: a fault as Refuse does, a canceled context unchanged
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
	return Refuse(contract.Refusal{Fault: *f, Device: name})
}
