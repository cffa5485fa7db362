package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/pci"
)

// FindPCI reads the PCI device at an address from sysfs. It refuses a virtual function, and a function that has
// virtual functions. Faults: target_missing, invalid_setting, target_shared.
func FindPCI(sys, address string) (pci.Device, error) {
	dev, found, err := pci.ReadDevice(filepath.Join(sys, "bus/pci/devices"), address)
	switch {
	case err != nil:
		return pci.Device{}, err
	case !found:
		return pci.Device{}, Missing("there is no PCI device at %s", address)
	case dev.Type == pci.Virtual:
		return pci.Device{}, Invalid("%s is a virtual function; only whole devices are cleaned", address)
	case len(dev.Functions) > 0:
		return pci.Device{}, Refused(device.CodeTargetShared, "disable its virtual functions",
			"%s has %d virtual functions, which reach the same device", address, len(dev.Functions))
	}
	return dev, nil
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
