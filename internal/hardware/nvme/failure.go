package nvme

import (
	"errors"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// unsupported reports whether the drive refused a command as one that it does not have. Any
// other refusal says nothing about the drive's abilities.
func unsupported(err error) bool {
	switch status, _ := privileged.StatusOf(err); status {
	case nvmecli.StatusInvalidOpcode, nvmecli.StatusInvalidField, nvmecli.StatusInvalidNamespace:
		return true
	}
	return false
}

// asFault turns a failed nvme-cli command into a fault. Other errors stay as they are:
// faults, and the ends of a context.
func asFault(err error) error {
	var f *privileged.Failure
	if !errors.As(err, &f) {
		return err
	}
	if !f.Answered {
		return &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: f.Error(),
			Remedy: "check the drive and the kernel's log"}
	}
	code, remedy := device.CodeCommandRefused, "the drive refuses what it claims to support: examine it with nvme-cli, "+
		"or choose another erase policy"
	switch f.Status {
	case nvmecli.StatusSanitizeInProgress:
		return &device.Fault{Class: device.Transient, Code: device.CodeSanitizeRunning, Message: f.Error() +
			": a sanitize is running", Remedy: "none: Burnish waits for it to end"}
	case nvmecli.StatusSanitizeFailed:
		code, remedy = device.CodeSanitizeFailed, "the drive accepts only another sanitize: clean it again by one, or "+
			"retire it"
	case nvmecli.StatusNeedsReset, nvmecli.StatusNeedsSubsystemReset, nvmecli.StatusNeedsControllerReset:
		return hardware.Refused(device.CodeFirmwareChanged, stagedFirmwareRemedy, "%s: firmware is staged for its next reset",
			f.Error())
	}
	return hardware.Refused(code, remedy, "%s", f.Error())
}
