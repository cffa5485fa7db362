package block

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// modelLoop is the model of every loop device.
const modelLoop = "loop"

// loopImage is the file behind a loop device. Its inode is the loop's identity (F14), because
// its bytes are what is erased. It stays open for reading as long as the loop, so that its
// inode number is not reused and its cache can be dropped.
type loopImage struct {
	fd   int
	path string
	info unix.LoopInfo64
}

func (i *loopImage) close() error {
	if err := unix.Close(i.fd); err != nil && !errors.Is(err, unix.EINTR) {
		return hardware.IOFault("close", i.path, err)
	}
	return nil
}

// addLoopImage adds the file behind a loop device to its info.
func (s system) addLoopImage(fd int, v info) (info, error) {
	path := v.identity.Path
	status, err := s.loopStatus(fd)
	if errors.Is(err, unix.ENXIO) {
		return info{}, hardware.Refused(device.CodeTargetMissing, "attach its file again, or retire the device",
			"%q has no file behind it", path)
	}
	if err != nil {
		return info{}, hardware.IOFault("read the status of the loop device", path, err)
	}
	// Rdevice is 0 for a file. A device behind the loop must be enrolled itself.
	if status.Rdevice != 0 {
		return info{}, hardware.Invalid("%q is attached to another device: enroll that one", path)
	}
	name, err := hardware.Attribute(v.node.dir, "loop/backing_file")
	if err != nil {
		return info{}, hardware.IOFault("read the file's name of", path, err)
	}
	below, err := openNoFollow(name, unix.O_RDONLY)
	if err != nil {
		return info{}, loopFileFault(path, name, err)
	}
	v.image = &loopImage{fd: below, path: name, info: *status}
	identity, file, err := s.identify(below, v.identity.Given, name)
	if err != nil {
		return v, loopFileFault(path, name, err)
	}
	if (inode{dev: status.Device, ino: status.Inode}) != inodeOf(file.stat) {
		return v, hardware.Changed("inode", fmt.Sprintf("%q names another file than the one behind %q", name, path))
	}
	v.file = file
	v.identity.Serial, v.identity.Model = identity.Serial, modelLoop
	v.identity.Device, v.identity.Inode = identity.Device, identity.Inode
	return v, nil
}

// loopFileFault adds the loop device to a fault of its file.
func loopFileFault(loop, file string, err error) error {
	fault, ok := device.AsFault(err)
	if !ok {
		return err
	}
	if strings.HasSuffix(file, " (deleted)") && fault.Code == device.CodeTargetMissing {
		return hardware.Refused(device.CodeIdentityChanged, "attach a file that has a name", "the file behind %q was removed",
			loop)
	}
	return &device.Fault{Class: fault.Class, Code: fault.Code, Remedy: fault.Remedy,
		Message: fmt.Sprintf("the file behind %s: %s", filepath.Base(loop), fault.Message)}
}

// checkCovered proves that the loop shows every byte of its file, because hidden bytes would
// not be erased.
func (i *loopImage) checkCovered(loop string, size, whole int64, first bool) error {
	limit := int64(i.info.Sizelimit)
	if i.info.Offset == 0 && (limit == 0 || limit == whole) && size == whole {
		return nil
	}
	message := fmt.Sprintf("%q shows %d bytes from offset %d of its file, which has %d", loop, size, i.info.Offset, whole)
	if first {
		return hardware.Invalid("%s: attach the whole file, a multiple of 512 bytes, without offset or size limit", message)
	}
	return hardware.Changed("size", message)
}

// checkAttached proves, on the open descriptor, that the loop still shows this file.
func (i *loopImage) checkAttached(sys system, fd int, loop string) error {
	now, err := sys.loopStatus(fd)
	if err != nil {
		return hardware.IOFault("read the status of the loop device", loop, err)
	}
	if now.Device != i.info.Device || now.Inode != i.info.Inode || now.Offset != i.info.Offset ||
		now.Sizelimit != i.info.Sizelimit {
		return hardware.Changed("inode", fmt.Sprintf("%q was attached to something else after it was opened", loop))
	}
	return nil
}
