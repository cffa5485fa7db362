package privileged

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
)

// MaxImage bounds the size of a firmware image.
const MaxImage = 128 << 20

// LoadImage copies a firmware image into memory, seals the copy, and gives it with its
// SHA-256. A download sends this copy: these bytes and no others. The caller closes it.
// Fault: firmware_image_invalid.
func LoadImage(path string) (_ *os.File, digest [sha256.Size]byte, err error) {
	from, err := hardware.OpenImage(path)
	if err != nil {
		return nil, digest, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	image, size, digest, err := hardware.Sealed(from, MaxImage, 0)
	if err != nil {
		return nil, digest, hardware.InvalidImage("the image %s cannot be read: %v", path, err)
	}
	if size == 0 || size > MaxImage || size%4 != 0 {
		err := hardware.InvalidImage("the image %s has %d bytes: it must have at most %d, and a multiple of 4", path, size,
			MaxImage)
		return nil, digest, errors.Join(err, image.Close())
	}
	return image, digest, nil
}

// CheckImage proves that the bytes of a held image can no longer change, and that they have
// this digest.
func CheckImage(image *os.File, digest [sha256.Size]byte) error {
	if image == nil {
		return invalidRequest("a download needs its image")
	}
	seals, err := unix.FcntlInt(image.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&hardware.Seals != hardware.Seals {
		return invalidRequest("the image is not a sealed file in memory")
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(image, 0, MaxImage)); err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	if have := [sha256.Size]byte(sum.Sum(nil)); have != digest {
		return hardware.InvalidImage("the image has the SHA-256 %x instead of %x", have, digest)
	}
	return nil
}
