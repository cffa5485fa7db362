package nvme

import (
	"errors"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// asFault makes a fault of a command that failed: the drive's refusal, or an error of
// the host. Faults and ends of a context stay what they are.
func asFault(err error) error {
	var f *privileged.Failure
	if !errors.As(err, &f) {
		return err
	}
	if !f.Answered {
		return &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: f.Error(), Remedy: "look at the drive and at the kernel's log"}
	}
	code, remedy := device.CodeCommandRefused, "the drive does not do what it says it can: look at it with nvme-cli, or choose another erase policy"
	switch f.Status {
	case nvmecli.StatusSanitizeInProgress:
		return &device.Fault{Class: device.Transient, Code: device.CodeSanitizeRunning, Message: f.Error() + ": a sanitize runs", Remedy: "it is waited for"}
	case nvmecli.StatusSanitizeFailed:
		code, remedy = device.CodeSanitizeFailed, "the drive takes nothing but another sanitize: clean it again by one, or retire it"
	}
	return hardware.Refused(code, remedy, "%s", f.Error())
}
