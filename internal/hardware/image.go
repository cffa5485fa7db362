package hardware

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// FirmwareImage is what the firmware policy has for one component: the only update of it that is allowed.
type FirmwareImage struct {
	Component string   `json:"component"`
	From      []string `json:"from"`
	To        string   `json:"to"`
	Path      string   `json:"image"`
	// SHA256 is in lower case.
	SHA256 string `json:"sha256"`
	// Rewrite: the image is written although its version runs already; only the driver pci does.
	Rewrite string `json:"rewrite"`
}

// FirmwareImages reads the arguments of the steps firmware_reflash and verify_firmware. Fault: invalid_setting.
func FirmwareImages(step string, args json.RawMessage) ([]FirmwareImage, error) {
	var given struct {
		Components []FirmwareImage `json:"components"`
	}
	if args != nil {
		if err := json.Unmarshal(args, &given); err != nil {
			return nil, WrongFirmwarePolicy(step, "%v", err)
		}
	}
	if len(given.Components) == 0 {
		return nil, WrongFirmwarePolicy(step, "the firmware policy has no image for this device")
	}
	for i, one := range given.Components {
		why := ""
		digest, err := hex.DecodeString(one.SHA256)
		switch {
		case one.To == "":
			why = "the policy does not name the version"
		case !filepath.IsAbs(one.Path):
			why = fmt.Sprintf("%q is not the absolute path of an image", one.Path)
		case err != nil || len(digest) != sha256.Size:
			why = fmt.Sprintf("%q is not a SHA-256", one.SHA256)
		}
		if why != "" {
			return nil, WrongFirmwarePolicy(step, "component %q: %s", one.Component, why)
		}
		given.Components[i].SHA256 = strings.ToLower(one.SHA256)
	}
	return given.Components, nil
}

// OnlyFirmwareImage is FirmwareImages of a device that has one firmware.
func OnlyFirmwareImage(step string, args json.RawMessage) (FirmwareImage, error) {
	images, err := FirmwareImages(step, args)
	if err != nil {
		return FirmwareImage{}, err
	}
	if len(images) != 1 {
		return FirmwareImage{}, WrongFirmwarePolicy(step, "a device takes one image, the policy has %d for it", len(images))
	}
	if name := images[0].Component; name != "" && name != "firmware" {
		return FirmwareImage{}, WrongFirmwarePolicy(step, "a device has no component %q, only firmware", name)
	}
	return images[0], nil
}

// WrongFirmwarePolicy is the fault of a policy that fits no device of the driver's.
func WrongFirmwarePolicy(step, format string, args ...any) error {
	return Refused(device.CodeInvalidSetting, "correct the firmware policy", "%s: %s", step, fmt.Sprintf(format, args...))
}

// CheckFrom refuses an update of what runs a version that the policy does not list. Fault: firmware_not_listed.
func (i FirmwareImage) CheckFrom(what, running string) error {
	if slices.Contains(i.From, running) {
		return nil
	}
	return Refused(device.CodeFirmwareNotListed,
		"find out where it comes from; if it may be updated, add it to the firmware policy (from)",
		"%s runs firmware %q, and the policy allows updates to %q from %s only", what, running, i.To,
		cmp.Or(strings.Join(i.From, ", "), "no version"))
}

// FirmwareNotActive is the fault of firmware that is written and does not run.
func FirmwareNotActive(format string, args ...any) error {
	return Refused(device.CodeFirmwareNotActive,
		"power-cycle the host, then clean it; if the version stays, update it with the vendor's tool", format, args...)
}

// largestImage bounds the size of a firmware image.
const largestImage = 2 << 30

// CopyTo copies the image to a file, and checks the SHA-256 of what it copied. Faults: firmware_image_invalid,
// io_error.
func (i FirmwareImage) CopyTo(to *os.File) (size int64, err error) {
	from, err := OpenImage(i.Path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.Close() }() // it is only read
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, largestImage+1))
	have := hex.EncodeToString(sum.Sum(nil))
	switch {
	case err != nil:
		return 0, IOFault("copy the image "+i.Path+" to", to.Name(), err)
	case size == 0 || size > largestImage:
		return 0, InvalidImage("the image %s has %d bytes: it must have at most %d", i.Path, size, largestImage)
	case have != i.SHA256:
		return 0, InvalidImage("the image %s has the SHA-256 %s, the policy names %s", i.Path, have, i.SHA256)
	}
	return size, nil
}

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
