package hardware

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// OpenImage opens a firmware image of the policy, which must be a regular file. Fault:
// firmware_image_invalid.
func OpenImage(path string) (*os.File, error) {
	// Not blocking: the path may be a pipe.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, InvalidImage("the image cannot be opened: %v", err)
	}
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
		return nil, errors.Join(InvalidImage("%s is not a regular file", path), file.Close())
	}
	return file, nil
}

// InvalidImage is the fault of an image that is not the policy's.
func InvalidImage(format string, args ...any) error {
	return Refused(device.CodeFirmwareImage, "put the right image on the host, or correct the firmware policy "+
		"(image, sha256)", format, args...)
}
