package block

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The kernel's fiemap and fsxattr interfaces, which package unix lacks.
const (
	iocFiemap     = 0xc020660b // FS_IOC_FIEMAP
	iocGetXattr   = 0x801c581f // FS_IOC_FSGETXATTR
	iocGetVersion = 0x80087601 // FS_IOC_GETVERSION, on 64 bits

	fiemapSync = 0x1

	extentLast          = 0x0001
	extentUnknown       = 0x0002
	extentDelalloc      = 0x0004
	extentEncoded       = 0x0008
	extentDataEncrypted = 0x0080
	extentNotAligned    = 0x0100
	extentDataInline    = 0x0200
	extentDataTail      = 0x0400
	extentShared        = 0x2000

	xflagRealtime = 0x1
)

type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

type fiemap struct {
	start, length uint64
	flags, mapped uint32
	count, _      uint32
	extents       [256]fiemapExtent
}

// eachExtent calls check with the flags of every extent of the file, after flushing the
// file's cached writes.
func eachExtent(fd int, path string, check func(flags uint32) error) error {
	var m fiemap
	for start := uint64(0); ; {
		m.start, m.length = start, ^uint64(0)-start
		m.flags, m.mapped, m.count = fiemapSync, 0, uint32(len(m.extents))
		if err := ioctl(fd, iocFiemap, unsafe.Pointer(&m)); err != nil {
			return overwriteUnsupported("cannot read the extents of %q: %v", path, err)
		}
		if m.mapped == 0 {
			return nil
		}
		for _, extent := range m.extents[:m.mapped] {
			if err := check(extent.flags); err != nil {
				return err
			}
			if extent.flags&extentLast != 0 {
				return nil
			}
			next := extent.logical + extent.length
			if next <= start {
				return overwriteUnsupported("the extents of %q go backwards at %d", path, extent.logical)
			}
			start = next
		}
	}
}

// extentFault refuses an extent whose bytes another file shares and would keep, or that is
// not overwritten in place.
func extentFault(path string, flags uint32) error {
	switch {
	case flags&extentShared != 0:
		return hardware.Refused(device.CodeTargetShared, "copy it without --reflink and remove its clones",
			"%q shares extents with another file, which would keep the bytes", path)
	case flags&extentDelalloc != 0:
		// eachExtent flushed all writes, so another process has written since.
		return hardware.Busy("%q is being written to", path)
	case flags&(extentEncoded|extentDataEncrypted) != 0:
		return overwriteUnsupported("%q is stored encoded (compressed or encrypted)", path)
	case flags&(extentDataInline|extentDataTail|extentNotAligned) != 0:
		return overwriteUnsupported("%q is stored inside its file system's own records", path)
	case flags&extentUnknown != 0:
		return overwriteUnsupported("%q has bytes at an unknown location", path)
	}
	return nil
}

// checkNotRealtime refuses files in an xfs realtime section. A zoned one writes to a new
// location each time, which its extents do not show.
func checkNotRealtime(fd int, path string) error {
	flags, err := attributes(fd)
	if err != nil {
		return hardware.IOFault("read the attributes of", path, err)
	}
	return attributeFault(path, flags)
}

func attributeFault(path string, flags uint32) error {
	if flags&xflagRealtime != 0 {
		return overwriteUnsupported("%q is in the realtime section of an xfs", path)
	}
	return nil
}

// attributes reads the fsxattr flags.
func attributes(fd int) (uint32, error) {
	var a struct {
		xflags, extsize, nextents, projid, cowextsize uint32
		_                                             [8]byte
	}
	err := ioctl(fd, iocGetXattr, unsafe.Pointer(&a))
	return a.xflags, err
}

// generation distinguishes a file from a later one with the same inode number, if the file
// system supports it.
func generation(fd int) (uint32, error) {
	return unix.IoctlGetUint32(fd, iocGetVersion) // its number encodes a long, but the kernel writes an int
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	return retryEINTR(func() error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
			return errno
		}
		return nil
	})
}
