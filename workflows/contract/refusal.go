package contract

import (
	"errors"
	"strings"

	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
)

// Refusal is the error of an update that was refused or failed, as its caller reads it. It
// is the one detail of an ApplicationError whose type is the fault's code.
type Refusal struct {
	Fault  device.Fault `json:"fault"`
	Device string       `json:"device,omitempty"`
	State  device.State `json:"state,omitempty"`
	// Known is set with the fault superseded: the workflow continues with these numbers.
	Known *HostNumbers `json:"known,omitempty"`
	// Progress is how far a step was that failed for good, in its attempt number Attempt.
	Progress *Progress `json:"progress,omitempty"`
	Attempt  int32     `json:"attempt,omitempty"`
}

// Refuse makes a Refusal an ApplicationError. Every fault that Temporal carries is made
// here. Only transient faults are retried.
func Refuse(r Refusal) error {
	// Temporal cannot send a message that is not valid UTF-8.
	r.Fault.Message = strings.ToValidUTF8(r.Fault.Message, "\uFFFD")
	return temporal.NewApplicationErrorWithOptions(r.Fault.Message, string(r.Fault.Code), temporal.ApplicationErrorOptions{
		NonRetryable: r.Fault.Class != device.Transient,
		Details:      []any{r},
	})
}

// RefusalOf finds the Refusal in an error from Temporal. For an ApplicationError without
// one it makes a Refusal from the error's type and message.
func RefusalOf(err error) (Refusal, bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return Refusal{}, false
	}
	var r Refusal
	if app.HasDetails() && app.Details(&r) == nil && r.Fault.Code != "" {
		return r, true
	}
	return Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.Code(app.Type()), Message: app.Message()}},
		true
}
