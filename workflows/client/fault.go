package client

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc/codes"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// AcceptedError is the error of a request that the device accepted, and whose result did
// not arrive in time.
type AcceptedError struct{ Err error }

// Error is the message of the error that ended the wait.
func (e AcceptedError) Error() string { return e.Err.Error() }

// Unwrap returns the error that ended the wait.
func (e AcceptedError) Unwrap() error { return e.Err }

// Accepted reports whether the request behind err was accepted and still runs.
func Accepted(err error) bool { return errors.As(err, new(AcceptedError)) }

// UnconfirmedError is the error of a request that was sent and not answered: whether it
// arrived is unknown, so that it may still be carried out.
type UnconfirmedError struct{ Err error }

// Error is the message of the error that ended the wait.
func (e UnconfirmedError) Error() string { return e.Err.Error() }

// Unwrap returns the error that ended the wait.
func (e UnconfirmedError) Unwrap() error { return e.Err }

// EndedError is the error of a request whose workflow ended, other than by itself, before it had
// answered. What it had begun may have taken effect: a device that comes back has what the
// inventory records.
type EndedError struct{ Err error }

// Error says that the workflow ended. The cause is not unwrapped: that the workflow was not found
// is no answer to this request.
func (e EndedError) Error() string {
	return "its workflow ended before it had answered: " + e.Err.Error()
}

// Ended reports whether the workflow of the request behind err ended before it had answered.
func Ended(err error) bool { return errors.As(err, new(EndedError)) }

// ended marks the error of a request whose workflow ended before it had answered.
func ended(err error) error { return UnconfirmedError{EndedError{err}} }

// What became of a change that was not answered in time, as the HTTP API's answer says it: see
// AcceptedError and UnconfirmedError.
const (
	OutcomeAccepted    = "accepted"
	OutcomeUnconfirmed = "unconfirmed"
)

// Problem is the HTTP API's error of a request, as the command line shows it too.
type Problem struct {
	Code    device.Code  `json:"code"`
	Device  string       `json:"device"`
	State   device.State `json:"state"`
	Message string       `json:"message"`
	Remedy  string       `json:"remedy"`
	// Outcome is, for a change that was not answered in time, whether it was accepted.
	Outcome string `json:"outcome,omitempty"`
}

// ErrorBody is the body of every answer of the API that is an error.
type ErrorBody struct {
	Error Problem `json:"error"`
}

// RefusedError is a refusal that came by the HTTP API, not by Temporal.
type RefusedError struct{ contract.Refusal }

// Error is the refusal's message, and its remedy.
func (e RefusedError) Error() string { return e.Fault.Error() }

// NotFoundError is the HTTP API's answer that what was asked for does not exist.
type NotFoundError struct{ Message string }

// Error is the API's message.
func (e NotFoundError) Error() string { return e.Message }

// Unconfirmed reports whether the request behind err may still be carried out, although
// nothing says that it was accepted.
func Unconfirmed(err error) bool { return errors.As(err, new(UnconfirmedError)) }

// unconfirmed marks the error of a request that may have arrived. An answer of the server or
// of the device proves that it is not carried out.
func unconfirmed(err error) error {
	switch code(err) {
	case codes.Unavailable, codes.Canceled, codes.Internal, codes.Aborted, codes.DataLoss,
		codes.FailedPrecondition: // the workflow task that had begun to carry it out failed
		return UnconfirmedError{err}
	}
	if TimedOut(err) || errors.Is(err, context.Canceled) || Encrypted(err) {
		return UnconfirmedError{err}
	}
	return err
}

// Unanswerable reports whether the server failed at the request itself. It does so for good under the ID of an update
// that a Reset had it send again, and that was refused then (measured, server 1.32).
func Unanswerable(err error) bool { return code(err) == codes.Internal }

// Encrypted reports whether err is that an answer is encrypted with a key that this process does not have.
func Encrypted(err error) bool { return errors.Is(err, converter.ErrEncodingIsNotSupported) }

// TimedOut reports whether err is the end of a request's time.
func TimedOut(err error) bool {
	var service *sdkclient.WorkflowUpdateServiceTimeoutOrCanceledError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &service) || code(err) == codes.DeadlineExceeded
}

// Fault reads what a device refused, or why Temporal could not answer. Message and remedy
// are for operators. ok is false for an error that says neither: it is internal, or see
// [NotFound], [TimedOut] and [Accepted].
func Fault(err error) (refusal contract.Refusal, ok bool) {
	var (
		noNamespace *serviceerror.NamespaceNotFound
		denied      *serviceerror.PermissionDenied
	)
	unreachable := func(message, remedy string) (contract.Refusal, bool) {
		return contract.Refusal{Fault: device.Fault{Class: device.Transient, Code: device.CodeUnreachable, Message: message,
			Remedy: remedy}}, true
	}
	var refused RefusedError
	if errors.As(err, &refused) {
		return refused.Refusal, true
	}
	if fault, ok := device.AsFault(err); ok {
		return contract.Refusal{Fault: *fault}, true
	}
	if refusal, ok := contract.RefusalOf(err); ok && refusal.Fault.Code != "" {
		return refusal, true
	}
	switch {
	case Encrypted(err):
		return unreachable("what Temporal has is encrypted with a key that is missing here",
			"set BURNISH_CODEC_KEYS to the file of keys that the workers have")
	case errors.As(err, &noNamespace):
		return unreachable(fmt.Sprintf("Temporal has no namespace %q", noNamespace.Namespace),
			"create it, or set TEMPORAL_NAMESPACE")
	case errors.As(err, &denied):
		return unreachable("Temporal refuses these credentials: "+err.Error(),
			"set TEMPORAL_API_KEY or another TEMPORAL_NAMESPACE")
	case code(err) == codes.Unavailable:
		return unreachable("Temporal does not answer: "+err.Error(), "start it, or set TEMPORAL_ADDRESS")
	case code(err) == codes.ResourceExhausted:
		return unreachable("Temporal is too busy: "+err.Error(), "try again")
	}
	return contract.Refusal{}, false
}

// code returns the gRPC code of an error of Temporal's services.
func code(err error) codes.Code {
	var s serviceerror.ServiceError
	if errors.As(err, &s) {
		return s.Status().Code()
	}
	return codes.Unknown
}
