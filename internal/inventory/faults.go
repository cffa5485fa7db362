package inventory

import (
	"fmt"
	"strings"

	"burnish/internal/device"
)

// NoProvider is the fault of every call except Create and Delete for a provider that
// does not exist.
func NoProvider(uuid string) error {
	return &device.Fault{
		Class:   device.Permanent,
		Code:    device.CodeNoProvider,
		Message: fmt.Sprintf("the inventory has no provider %s", uuid),
		Remedy:  "if it was deleted by mistake, enroll the device again: its provider is created burned, and it is cleaned",
	}
}

// NoNovaProvider is the fault of every call for a device for which Nova has no one-time-use
// provider now. Nova re-creates it as long as the device is in its configuration.
func NoNovaProvider(name string) error {
	return &device.Fault{
		Class:   device.Permanent,
		Code:    device.CodeNoProvider,
		Message: fmt.Sprintf("Nova has no provider of the one-time-use device %s", name),
		Remedy: "Nova makes it again when it next updates its resources, if device_spec names the device there; it is " +
			"reserved then",
	}
}

// Conflict is the fault of a write whose generation is not the provider's present one:
// the write changed nothing.
func Conflict(uuid string, generation int64) error {
	return &device.Fault{
		Class:   device.Transient,
		Code:    device.CodeConflict,
		Message: fmt.Sprintf("provider %s is no longer at generation %d", uuid, generation),
		Remedy:  "another client wrote it in between; it is read again",
	}
}

// InUse is the fault of a call that only an unused provider allows.
func InUse(uuid string, consumers []string) error {
	by := "an unknown consumer"
	if len(consumers) > 0 {
		by = strings.Join(consumers, ", ")
	}
	return &device.Fault{
		Class:   device.Permanent,
		Code:    device.CodeInUse,
		Message: fmt.Sprintf("provider %s is in use by %s", uuid, by),
		Remedy:  "wait until it is released, or delete the allocation if its consumer is gone",
	}
}

// Invalid is the final fault of an inventory, or of a call, that is wrong. Message and
// remedy are one line each.
func Invalid(message, remedy string) error {
	return &device.Fault{
		Class:   device.NeedsOperator,
		Code:    device.CodeInventoryInvalid,
		Message: message,
		Remedy:  remedy,
	}
}

// NotOne is the fault of a write that would offer a provider with another total than 1: a
// scheduler could give the device to several instances.
func NotOne(uuid string, total int) error {
	return Invalid(
		fmt.Sprintf("provider %s has total %d, so its device would be given to %d instances: it stays reserved", uuid,
			total, total),
		"set its total to 1, then clean the device")
}

// Unavailable is the fault of a call that failed on the way or whose answer was lost:
// whether it took effect is unknown. errors.Is and errors.As find cause too.
func Unavailable(what, remedy string, cause error) error {
	return &unavailable{
		fault: &device.Fault{
			Class:   device.Transient,
			Code:    device.CodeInventoryUnavailable,
			Message: fmt.Sprintf("%s: %v", what, cause),
			Remedy:  remedy,
		},
		cause: cause,
	}
}

// unavailable keeps the cause with the fault, so that callers can distinguish a
// canceled context from a full disk.
type unavailable struct {
	fault *device.Fault
	cause error
}

func (u *unavailable) Error() string   { return u.fault.Error() }
func (u *unavailable) Unwrap() []error { return []error{u.fault, u.cause} }

// isConflict says whether err is a Conflict, the only fault to retry at once.
func isConflict(err error) bool {
	f, ok := device.AsFault(err)
	return ok && f.Code == device.CodeConflict
}
