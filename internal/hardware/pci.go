package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// CheckWholePCI refuses what is no whole PCI device: nothing, a virtual function, and a function that has virtual
// functions. Faults: target_missing, invalid_setting, target_shared.
func CheckWholePCI(address string, found, virtual bool, functions int) error {
	switch {
	case !found:
		return Missing("there is no PCI device at %s", address)
	case virtual:
		return Invalid("%s is a virtual function; only whole devices are cleaned", address)
	case functions > 0:
		return Refused(device.CodeTargetShared, "disable its virtual functions",
			"%s has %d virtual functions, which reach the same device", address, functions)
	}
	return nil
}

// Attribute reads one sysfs attribute without surrounding blanks. It is "" if missing.
func Attribute(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENODATA),
		errors.Is(err, unix.EINVAL):
		return "", nil
	case err != nil:
		return "", err
	}
	return strings.Trim(string(text), " \t\n\x00"), nil
}
