package block

import (
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// discoverDevice refuses: whole block devices, loops among them, need interlocks of
// their own (SAFETY F12, F14).
func (d *Driver) discoverDevice(path string) (hardware.Discovery, error) {
	return hardware.Discovery{}, noDevices(path)
}

// openDevice refuses, as discoverDevice does.
func (d *Driver) openDevice(path string) error {
	return noDevices(path)
}

func noDevices(path string) *device.Fault {
	return invalid("%q is a block device: this version takes regular files only", path)
}
