package nvmesim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/testkit/loops"
)

// readOnly is the flag of a loop device that refuses writes.
const readOnly = 1

// attach shows a part of a file as a loop device.
func attach(file string, offset, size uint64, blockSize int, flags uint32) (int, error) {
	behind, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = behind.Close() }()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = control.Close() }()
	release, err := loops.Keep()
	if err != nil {
		return 0, err
	}
	defer release()
	config := unix.LoopConfig{Fd: uint32(behind.Fd()), Size: uint32(blockSize)}
	config.Info = unix.LoopInfo64{Offset: offset, Sizelimit: size, Flags: flags}
	copy(config.Info.File_name[:63], file)
	const tries = 64 // a program that is no test may take the free one
	for range tries {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return 0, fmt.Errorf("find a free loop device: %w", err)
		}
		loop, err := os.OpenFile(loopNode(number), os.O_RDWR, 0)
		if err != nil {
			return 0, err
		}
		err = errors.Join(unix.IoctlLoopConfigure(int(loop.Fd()), &config), loop.Close())
		switch {
		case err == nil:
			return number, nil
		case !errors.Is(err, unix.EBUSY):
			return 0, fmt.Errorf("attach %s: %w", loopNode(number), err)
		}
	}
	return 0, errors.New("no loop device stays free")
}

// detach frees a loop device whose file is below dir. An open one loses its bytes, as a disk
// that the kernel removed, and is freed when it is closed.
func detach(dir string, number int) error {
	mine := func() bool { return strings.HasPrefix(loopFile(number), dir+"/") }
	if !mine() {
		return nil
	}
	loop, err := os.OpenFile(loopNode(number), os.O_RDONLY, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil // It was open when it was detached, and is being freed at this moment.
	}
	if err != nil {
		return err
	}
	// One that was freed before it was opened may be another process's by now. One that is
	// open is not freed.
	if !mine() {
		return loop.Close()
	}
	// The kernel keeps the refusal of writes for the next file of this loop device.
	err = errors.Join(refuseWrites(loop, false), detachBytes(int(loop.Fd())),
		unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_CLR_FD, 0))
	if errors.Is(err, unix.ENXIO) {
		err = nil
	}
	return errors.Join(err, loop.Close())
}

// detachBytes moves the start of a loop device far beyond the end of its file.
func detachBytes(loop int) error {
	info, err := unix.IoctlLoopGetStatus64(loop)
	if err != nil {
		return err
	}
	info.Offset, info.Sizelimit = 1<<50, 0
	const tries = 100 // refused while a page of the old bytes is in use
	for range tries {
		if err = unix.IoctlLoopSetStatus64(loop, info); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return err
}

// detachAll frees every loop device whose file is below dir.
func detachAll(dir string) error {
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, file := range all {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		number, bad := strconv.Atoi(strings.TrimPrefix(name, "loop"))
		if bad != nil {
			continue
		}
		err = errors.Join(err, detach(dir, number))
	}
	return err
}

// loopFile is the backing file of a loop device, "" for none.
func loopFile(number int) string {
	text, err := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/loop/backing_file", number))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// refuseWrites makes a loop device refuse writes, or take them again.
func refuseWrites(loop *os.File, refuse bool) error {
	value := 0
	if refuse {
		value = 1
	}
	return unix.IoctlSetPointerInt(int(loop.Fd()), unix.BLKROSET, value)
}

// restrictWrites makes the disks of a drive that sanitizes, or whose sanitize failed, refuse
// writes, and the others take them. A disk stays open meanwhile.
func (w *state) restrictWrites() error {
	var all error
	for _, s := range w.Slots {
		for i := range s.Disks {
			d, restricted := &s.Disks[i], s.sanitizing() || s.failed()
			if d.Loop < 0 || d.Restricted == restricted || d.Namespace.WriteProtected {
				continue
			}
			loop, err := os.OpenFile(loopNode(d.Loop), os.O_RDONLY, 0)
			if err != nil {
				all = errors.Join(all, err)
				continue
			}
			err = errors.Join(refuseWrites(loop, restricted), loop.Close())
			if d.Restricted = restricted; err != nil {
				all = errors.Join(all, fmt.Errorf("restrict %s: %w", d.Name, err))
			}
		}
	}
	return all
}

func loopNode(number int) string { return fmt.Sprintf("/dev/loop%d", number) }

// loopDevice is the device number of a loop device.
func loopDevice(number int) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(loopNode(number), &stat); err != nil {
		return 0, err
	}
	return uint64(stat.Rdev), nil
}
