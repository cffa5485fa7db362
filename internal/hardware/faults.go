package hardware

import (
	"fmt"

	"burnish/internal/device"
)

// What drivers of disks and drives refuse in the same words.

// Refused is a fault that only a person can clear.
func Refused(code device.Code, remedy, format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Changed is the fault of a device that is not the enrolled one; field is what differs.
func Changed(field, message string) *device.Fault {
	return Refused(device.MismatchCode(field), "bring the enrolled one back, or replace the device", "not the enrolled device (%s): %s", field, message)
}

// Missing is the fault of a device that is not there.
func Missing(format string, args ...any) *device.Fault {
	return Refused(device.CodeTargetMissing, "put it back, or retire the device", format, args...)
}

// Invalid is the fault of an enrolment that can never work.
func Invalid(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting, Message: fmt.Sprintf(format, args...), Remedy: "enroll it with other settings"}
}

// Busy is the fault of a device that somebody uses now and may leave later.
func Busy(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Transient, Code: device.CodeTargetBusy, Message: fmt.Sprintf(format, args...), Remedy: "end that use"}
}
