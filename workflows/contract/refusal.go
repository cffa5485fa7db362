package contract

import (
	"errors"
	"strings"

	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
)

// Refusal is what an update that was refused or that failed tells its caller: it
// is the one detail of the ApplicationError, whose type is the fault's code.
type Refusal struct {
	Fault  device.Fault `json:"fault"`
	Device string       `json:"device,omitempty"`
	State  device.State `json:"state,omitempty"`
}

// Refuse is the one place where a fault becomes Temporal's ApplicationError: its type
// is the fault's code, its one detail the Refusal. Only transient faults are retried.
func Refuse(r Refusal) error {
	// Temporal cannot send a message that is not valid UTF-8.
	r.Fault.Message = strings.ToValidUTF8(r.Fault.Message, "\uFFFD")
	return temporal.NewApplicationErrorWithOptions(r.Fault.Message, string(r.Fault.Code), temporal.ApplicationErrorOptions{
		NonRetryable: r.Fault.Class != device.Transient,
		Details:      []any{r},
	})
}

// RefusalOf finds the Refusal in an error that came out of Temporal. An
// ApplicationError without one gives its type and message.
func RefusalOf(err error) (Refusal, bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return Refusal{}, false
	}
	var r Refusal
	if app.HasDetails() && app.Details(&r) == nil && r.Fault.Code != "" {
		return r, true
	}
	return Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.Code(app.Type()), Message: app.Message()}}, true
}
