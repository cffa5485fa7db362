// Package activities adapts: each takes up where an earlier attempt stopped, calls a
// port, and maps what went wrong to an error that Temporal and an operator
// understand. Every activity is idempotent: its comment says what a second run finds.
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

// Refuse is the one place where a fault becomes Temporal's ApplicationError: its type
// is the fault's code, its one detail the Refusal. Only transient faults are retried.
func Refuse(r contract.Refusal) error {
	// A message that is no text cannot be sent: its step would be tried again for nothing.
	r.Fault.Message = strings.ToValidUTF8(r.Fault.Message, "\uFFFD")
	return temporal.NewApplicationErrorWithOptions(r.Fault.Message, string(r.Fault.Code), temporal.ApplicationErrorOptions{
		NonRetryable: r.Fault.Class != device.Transient,
		Details:      []any{r},
	})
}

// asError maps an activity's error: faults as Refuse does, a context's end as it is
// (the caller says what it meant), anything else as an internal fault that is retried.
func asError(err error, name string) error {
	if err == nil || errors.Is(err, context.Canceled) || temporal.IsCanceledError(err) {
		return err
	}
	f, ok := device.AsFault(err)
	var corrupt *host.CorruptError
	if errors.As(err, &corrupt) {
		f, ok = &device.Fault{Class: device.NeedsOperator, Code: device.CodeStateDirError, Message: err.Error(),
			Remedy: "take " + corrupt.Path + " away, then clean " + corrupt.Name + ": nobody knows what became of it"}, true
	}
	if !ok {
		f = &device.Fault{Class: device.Transient, Code: device.CodeInternal, Message: err.Error()}
	}
	return Refuse(contract.Refusal{Fault: *f, Device: name})
}
