package privileged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/pci"
)

// Server carries out what a caller without privilege asks for. It believes nothing that
// it can see for itself: the drive is opened, and the disks are looked for, by the
// server, and the host's rules are asked again before each call.
type Server struct {
	Local *Local
	// Allow is the host's word on which PCI devices may be destroyed (SAFETY F13), from
	// a file that no caller can write.
	Allow func(pci.Device) error
	// StartupError, where it is set, is all that anybody gets to hear.
	StartupError error
}

// session is one caller with the one drive that it has opened.
type session struct {
	*Server
	drive  *localDrive
	locked bool
}

// Serve answers one caller until it is gone. A command that changes something is waited
// for even then, with everything held that it holds; one that reads is ended.
func (s *Server) Serve(ctx context.Context, conn *net.UnixConn) (err error) {
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	type asked struct {
		call  call
		files []*os.File
		err   error
	}
	calls := make(chan asked)
	go func() {
		defer close(calls)
		for {
			var a asked
			a.files, a.err = receive(conn, &a.call)
			_, wellFormed := device.AsFault(a.err)
			if a.err != nil && !wellFormed {
				gone(io.EOF)
				_ = closeAll(a.files) // nobody is there any more
				return
			}
			calls <- a
		}
	}()
	here := &session{Server: s}
	defer func() {
		if here.drive != nil {
			err = errors.Join(err, here.drive.Close())
		}
		for a := range calls { // until the reader has ended
			err = errors.Join(err, closeAll(a.files))
		}
	}()
	defer func() { err = errors.Join(err, conn.Close()) }()
	for a := range calls {
		var output []byte
		reply := answer{}
		if a.err == nil {
			output, a.err = here.answer(ctx, a.call, a.files, &reply)
		}
		if a.err != nil {
			output, reply = nil, errorAnswer(a.err)
		}
		reply.Size = len(output)
		if err := errors.Join(closeAll(a.files), send(conn, reply, nil)); err != nil {
			return nil // the caller is gone
		}
		for part := range slices.Chunk(output, maxPacket) {
			if _, err := conn.Write(part); err != nil {
				return nil
			}
		}
	}
	return nil
}

// answer carries out one call.
func (s *session) answer(ctx context.Context, c call, files []*os.File, reply *answer) (output []byte, err error) {
	if s.StartupError != nil {
		return nil, s.StartupError
	}
	if (c.Request != nil) != (c.Do == doRead || c.Do == doChange) || (c.Serial != "") != (c.Do == doChange) {
		return nil, invalidRequest("%q is asked for with what it does not take", c.Do)
	}
	if len(files) > 0 && c.Do != doChange && c.Do != doRebind {
		return nil, invalidRequest("%q takes no descriptors", c.Do)
	}
	if c.Do == doVersion {
		return s.Local.Version(ctx)
	}
	if err := s.checkAllowed(c.Address); err != nil {
		return nil, err
	}
	switch c.Do {
	case doRebind:
		held, err := checkFence(c, files)
		if err == nil && len(held.Disks) > 0 {
			err = invalidRequest("a drive that a guest may have shows no disks")
		}
		if err != nil {
			return nil, err
		}
		return nil, s.Local.Rebind(ctx, c.Address, held.Fence)
	case doOpen:
		if s.drive != nil {
			return nil, invalidRequest("one drive is open already")
		}
		if s.drive, err = s.Local.open(ctx, c.Address); err != nil {
			s.drive = nil
			return nil, err
		}
		path := s.drive.path
		reply.Path = &path
		return nil, nil
	}
	if s.drive == nil || s.drive.path.Address != c.Address {
		return nil, invalidRequest("the drive at %q is not open", c.Address)
	}
	switch c.Do {
	case doLock:
		err := s.drive.Lock(ctx)
		s.locked = s.locked || err == nil
		return nil, err
	case doRead:
		return s.drive.Read(ctx, *c.Request)
	case doChange:
		held, err := s.checkGuarded(c, files)
		if err != nil {
			return nil, err
		}
		return nil, s.drive.Change(ctx, *c.Request, c.Serial, held)
	}
	return nil, invalidRequest("%q is nothing that a helper does", c.Do)
}

// checkAllowed asks the host's rules about what is at an address now (SAFETY F13).
func (s *session) checkAllowed(address string) error {
	dev, err := FindController(s.Local.Sys, address)
	if err != nil {
		return err
	}
	if s.Allow == nil {
		return hardware.Refused(device.CodeNotAllowed, "allow it in the host's host.yaml, if it may be destroyed", "PCI device %s may not be destroyed", address)
	}
	return s.Allow(dev)
}

// checkFence sorts the descriptors and wants the fence among them (SAFETY F1): a file whose
// lock nobody else has.
func checkFence(c call, files []*os.File) (HeldFiles, error) {
	if !c.Fence || len(files) == 0 {
		return HeldFiles{}, invalidRequest("nothing is changed without the device's fence")
	}
	held := HeldFiles{Fence: files[0]}
	for _, file := range files[1:] {
		held.Disks = append(held.Disks, int(file.Fd()))
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(held.Fence.Fd()), &stat); err != nil {
		return HeldFiles{}, fmt.Errorf("look at the fence: %w", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return HeldFiles{}, invalidRequest("what is given for the device's fence is no file")
	}
	// Nothing changes for the one who holds it.
	if err := atomicfile.TryLock(int(held.Fence.Fd())); err != nil {
		return HeldFiles{}, hardware.Busy("the device's fence is not the caller's: %v", err)
	}
	return held, nil
}

// checkGuarded proves that the caller keeps everybody else away: the fence, the lock on the
// node, and every disk that the kernel makes of the drive, opened exclusively, and in
// no other use (SAFETY F12). What a verb does that reaches no disk needs none.
func (s *session) checkGuarded(c call, files []*os.File) (HeldFiles, error) {
	held, err := checkFence(c, files)
	if err != nil {
		return HeldFiles{}, err
	}
	if !s.locked {
		return HeldFiles{}, invalidRequest("nothing is changed before the controller's node is locked")
	}
	given := map[string]bool{}
	for _, fd := range held.Disks {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return HeldFiles{}, fmt.Errorf("look at a disk: %w", err)
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
			return HeldFiles{}, invalidRequest("what is given for a disk is none")
		}
		given[deviceNumber(stat)] = true
	}
	disks, err := s.drive.path.Disks()
	if err != nil {
		return HeldFiles{}, err
	}
	if k, known := verbSpecs[c.Request.Verb]; known && k.noNamespaces {
		return held, nil
	}
	for _, disk := range disks {
		text, err := os.ReadFile(filepath.Join(disk.Dir, "dev"))
		if err != nil {
			return HeldFiles{}, hardware.Missing("the number of %s cannot be read: %v", disk.Name, err)
		}
		number := strings.TrimSpace(string(text))
		if !given[number] {
			return HeldFiles{}, hardware.Busy("%s is not held by the caller", disk.Name)
		}
		if err := errors.Join(checkClaimed(disk.Node, number), checkUnused(s.Local.Proc, disk)); err != nil {
			return HeldFiles{}, err
		}
	}
	return held, nil
}

// checkClaimed proves that somebody has the disk exclusively: a second claim is refused.
func checkClaimed(node, number string) error {
	fd, err := unix.Open(node, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	if err != nil {
		return hardware.Busy("%s (%s) cannot be looked at: %v", node, number, err)
	}
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close %s: %w", node, err)
	}
	return hardware.Busy("%s is not opened exclusively by the caller", node)
}
