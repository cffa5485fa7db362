package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// Faults that several drivers return, with the same wording.

// Refused is a fault that only an operator can clear.
func Refused(code device.Code, remedy, format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: code, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Changed is the fault of a device that is not the enrolled one. field is what differs.
func Changed(field, message string) *device.Fault {
	return Refused(device.MismatchCode(field), "put the enrolled device back, or replace the device",
		"not the enrolled device (%s): %s", field, message)
}

// Missing is the fault of a device that is not there.
func Missing(format string, args ...any) *device.Fault {
	return Refused(device.CodeTargetMissing, "put the device back, or retire it", format, args...)
}

// Invalid is the fault of settings that can never work.
func Invalid(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting, Message: fmt.Sprintf(format, args...),
		Remedy: "enroll it with other settings"}
}

// Busy is the fault of a device that is in use now and may become free.
func Busy(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Transient, Code: device.CodeTargetBusy, Message: fmt.Sprintf(format, args...),
		Remedy: "end that use"}
}

// CallerError is the fault of a caller that broke a port's contract.
func CallerError(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: fmt.Sprintf(format, args...)}
}

// CheckWrite refuses a write that the caller of a Handle may not make: of a device that is open for
// reading only, outside of it, or of less than whole blocks but for the device's last.
func CheckWrite(name string, writable bool, size, unit, offset, n int64) error {
	switch {
	case !writable:
		return CallerError("%q was opened for reading only", name)
	case offset < 0 || n < 0 || offset > size || n > size-offset:
		return CallerError("%d bytes at %d are outside %q, which has %d bytes", n, offset, name, size)
	case offset%unit != 0 || n%unit != 0 && offset+n != size:
		return CallerError("%d bytes at %d of %q are not whole blocks of %d", n, offset, name, unit)
	}
	return nil
}

// IOFault is the fault of a system call that failed. Lack of space is transient: only a hole
// of a sparse file can cause it, a hole holds no tenant's data, and once there is room the
// same write works.
func IOFault(doing, path string, err error) *device.Fault {
	err = Reason(err)
	fault := &device.Fault{Class: device.Permanent, Code: device.CodeIO,
		Message: fmt.Sprintf("%s %q: %v", doing, path, err)}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		fault.Class, fault.Remedy = device.Transient, "free space on its file system"
	}
	return fault
}

// Reason is an error without the path that it is about.
func Reason(err error) error {
	var inPath *fs.PathError
	if errors.As(err, &inPath) {
		return inPath.Err
	}
	return err
}

// KnownSettings refuses a setting of the target that its driver does not have, so that a
// misspelled one is not silently ignored.
func (t Target) KnownSettings(known ...string) error {
	for _, key := range slices.Sorted(maps.Keys(t.Settings)) {
		if !slices.Contains(known, key) {
			return Invalid("the driver %s has no setting %q: must be one of %s", t.Driver, key, strings.Join(known, ", "))
		}
	}
	return nil
}
