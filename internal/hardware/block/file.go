package block

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// modelFile is the model of every regular file.
const modelFile = "file"

// fileInfo describes an open regular file.
type fileInfo struct {
	stat *unix.Stat_t
	on   fileSystem
}

// identify reads the identity of an open file.
func (s system) identify(fd int, given, path string) (device.Identity, fileInfo, error) {
	stat, err := checkRegular(fd, path)
	if err != nil {
		return device.Identity{}, fileInfo{}, err
	}
	if stat.Size == 0 {
		return device.Identity{}, fileInfo{}, hardware.Invalid("%q is empty", path)
	}
	on, statfs, err := s.fileSystemOf(fd, path)
	if err != nil {
		return device.Identity{}, fileInfo{}, err
	}
	// The number of a removed inode is reused at once (measured on ext4), so the serial
	// includes its generation. tmpfs has no generation but never reuses a number; its random
	// file system ID distinguishes it from the tmpfs of another host.
	number, err := generation(fd)
	if errors.Is(err, unix.ENOTTY) {
		number, err = uint32(statfs.Fsid.Val[0])^uint32(statfs.Fsid.Val[1]), nil
	}
	if err != nil {
		return device.Identity{}, fileInfo{}, hardware.IOFault("read the generation of", path, err)
	}
	return device.Identity{
		Serial: fmt.Sprintf("ino-%x-%d-%08x", uint64(stat.Dev), stat.Ino, number),
		Model:  modelFile,
		Size:   stat.Size,
		Given:  given,
		Path:   path,
		Device: uint64(stat.Dev),
		Inode:  stat.Ino,
	}, fileInfo{stat, on}, nil
}

// checkRegular proves that a descriptor is of a regular file with exactly one name.
func checkRegular(fd int, path string) (*unix.Stat_t, error) {
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &stat) }); err != nil {
		return nil, hardware.IOFault("fstat", path, err)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, hardware.Changed("path", fmt.Sprintf("%q is no longer a regular file", path))
	case stat.Nlink == 0:
		return nil, hardware.Changed("path", fmt.Sprintf("%q was removed", path))
	case stat.Nlink > 1:
		return nil, hardware.Refused(device.CodeTargetShared, "remove its other names", "%q has %d names (hard links)",
			path, stat.Nlink)
	}
	return &stat, nil
}
