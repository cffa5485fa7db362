package privileged

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/pci"
)

// Server acts for a caller without privilege. It trusts the caller in nothing that it can
// check itself: it opens the drive, finds the disks, and applies the host's rules before
// each call.
type Server struct {
	Local *Local
	// Allow is the host's rule on PCI devices (F13), from a file that no caller can write.
	Allow func(pci.Device) error
	// StartupError, if set, is the answer to every call.
	StartupError error
}

// session is one caller with its one open drive.
type session struct {
	*Server
	drive  Drive
	locked bool
}

// Serve answers one caller until that is gone. Even then a running command is waited for, with everything
// held that it needs.
func (s *Server) Serve(conn *net.UnixConn) (err error) {
	here := &session{Server: s}
	defer func() {
		err = errors.Join(err, conn.Close())
		if here.drive != nil {
			err = errors.Join(err, here.drive.Close())
		}
	}()
	for {
		var c call
		files, err := receive(conn, &c)
		if _, answered := device.AsFault(err); err != nil && !answered {
			return closeAll(files) // no caller is left to report to
		}
		var reply answer
		if err == nil {
			reply, err = here.answer(context.Background(), c, files)
		}
		if err != nil {
			reply = errorAnswer(err)
		}
		if err := errors.Join(closeAll(files), send(conn, reply, nil)); err != nil {
			return nil // the caller is gone
		}
	}
}

// answer executes one call.
func (s *session) answer(ctx context.Context, c call, files []*os.File) (reply answer, err error) {
	if s.StartupError != nil {
		return answer{}, s.StartupError
	}
	if (c.Request != nil) != (c.Do == doRead || c.Do == doChange) || (c.Serial != "") != (c.Do == doChange) {
		return answer{}, invalidRequest("the call %q has fields that it does not take", c.Do)
	}
	if len(files) > 0 && c.Do != doChange && c.Do != doRebind {
		return answer{}, invalidRequest("the call %q takes no descriptors", c.Do)
	}
	if c.Do == doVersion {
		reply.Output, err = s.Local.Version(ctx)
		return reply, err
	}
	if err := s.checkAllowed(c.Address); err != nil {
		return answer{}, err
	}
	switch c.Do {
	case doRebind:
		held, err := checkFence(c, files)
		if err == nil && (len(held.Disks) > 0 || held.Image != nil) {
			err = invalidRequest("a rebind takes no disks and no image")
		}
		if err != nil {
			return answer{}, err
		}
		return answer{}, s.Local.Rebind(ctx, c.Address, held.Fence)
	case doOpen:
		if s.drive != nil {
			return answer{}, invalidRequest("a drive is open already")
		}
		if s.drive, err = s.Local.Open(ctx, c.Address); err != nil {
			return answer{}, err
		}
		path := s.drive.Path()
		return answer{Path: &path}, nil
	}
	if s.drive == nil || s.drive.Path().Address != c.Address {
		return answer{}, invalidRequest("the drive at %q is not open", c.Address)
	}
	switch c.Do {
	case doLock:
		err := s.drive.Lock(ctx)
		s.locked = s.locked || err == nil
		return answer{}, err
	case doRead:
		reply.Output, err = s.drive.Read(ctx, *c.Request)
		return reply, err
	case doChange:
		held, err := s.checkGuarded(c, files)
		if err != nil {
			return answer{}, err
		}
		return answer{}, s.drive.Change(ctx, *c.Request, c.Serial, held)
	}
	return answer{}, invalidRequest("there is no call %q", c.Do)
}

// checkAllowed applies the host's rules to the device that is now at address (F13).
func (s *session) checkAllowed(address string) error {
	dev, err := FindController(s.Local.Sys, address)
	if err != nil {
		return err
	}
	return s.Allow(dev)
}

// checkFence sorts the descriptors, and proves that the first one is a file whose lock the
// caller has (F1).
func checkFence(c call, files []*os.File) (HeldFiles, error) {
	if !c.Fence || len(files) == 0 {
		return HeldFiles{}, invalidRequest("a change needs the device's fence")
	}
	held := HeldFiles{Fence: files[0]}
	files = files[1:]
	if c.Image {
		if len(files) == 0 {
			return HeldFiles{}, invalidRequest("the descriptor of the image is missing")
		}
		held.Image, files = files[0], files[1:]
	}
	for _, file := range files {
		held.Disks = append(held.Disks, int(file.Fd()))
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(held.Fence.Fd()), &stat); err != nil {
		return HeldFiles{}, fmt.Errorf("stat the fence: %w", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return HeldFiles{}, invalidRequest("the descriptor of the device's fence is not a regular file")
	}
	// If the caller has the lock, this does not change it.
	if err := atomicfile.TryLock(int(held.Fence.Fd())); err != nil {
		return HeldFiles{}, hardware.Busy("the caller does not hold the device's fence: %v", err)
	}
	return held, nil
}

// checkGuarded proves that the caller keeps everyone else away: it has the fence and the
// lock on the node, and every disk of the drive is opened exclusively and not otherwise in
// use (F12). A verb that reaches no namespace needs no disks.
func (s *session) checkGuarded(c call, files []*os.File) (HeldFiles, error) {
	held, err := checkFence(c, files)
	if err != nil {
		return HeldFiles{}, err
	}
	if !s.locked {
		return HeldFiles{}, invalidRequest("a change needs the lock on the controller's node")
	}
	given := map[string]bool{}
	for _, fd := range held.Disks {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return HeldFiles{}, fmt.Errorf("stat a disk: %w", err)
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
			return HeldFiles{}, invalidRequest("the descriptor of a disk is not a block device")
		}
		given[deviceNumber(stat)] = true
	}
	disks, err := s.drive.Path().Disks()
	if err != nil {
		return HeldFiles{}, err
	}
	if k, known := verbSpecs[c.Request.Verb]; known && k.noNamespaces {
		return held, nil
	}
	for _, disk := range disks {
		text, err := os.ReadFile(filepath.Join(disk.Dir, "dev"))
		if err != nil {
			return HeldFiles{}, hardware.Missing("cannot read the device number of %s: %v", disk.Name, err)
		}
		number := strings.TrimSpace(string(text))
		if !given[number] {
			return HeldFiles{}, hardware.Busy("the caller does not hold %s", disk.Name)
		}
		if err := errors.Join(checkClaimed(disk.Node, number), s.kernel().CheckUnused(disk.Node, disk.Dir)); err != nil {
			return HeldFiles{}, err
		}
	}
	return held, nil
}

// kernel is where the tables show who uses a disk. A refused claim proves only that someone has
// the disk; they prove that it is no mount, no swap and no other device.
func (s *session) kernel() block.Kernel {
	return block.Kernel{Proc: s.Local.Proc, Sys: s.Local.Sys, Dev: s.Local.Dev}
}

// checkClaimed proves that the disk is opened exclusively, because a second claim fails.
func checkClaimed(node, number string) error {
	fd, err := unix.Open(node, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	if err != nil {
		return hardware.Busy("cannot check who holds %s (%s): %v", node, number, err)
	}
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close %s: %w", node, err)
	}
	return hardware.Busy("the caller has not opened %s exclusively", node)
}
