// Package uevent receives what the kernel reports of its devices: that one was added, removed,
// changed, or bound to a driver.
package uevent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Event is one report of the kernel.
type Event struct {
	Action    string // add, remove, change …
	Subsystem string
	Path      string // in sysfs, from /devices on
	// Controllers are those of an NVMe disk that the kernel shows below a subsystem, by their paths.
	Controllers []string
	// Requested: a program asked for the event; udev does when somebody who could write closes a disk.
	Requested bool
}

// ErrLost says that events came faster than they were read, and that some are lost.
var ErrLost = errors.New("events of the kernel were lost")

// kernelGroup is the multicast group in which the kernel sends, maxEvent more than it sends in one
// message, and queued how many bytes may wait to be read.
const (
	kernelGroup = 1
	maxEvent    = 16 << 10
	queued      = 4 << 20
)

// Socket receives events from when it was opened. In a container the kernel sends them only to a
// network namespace of the machine's own user namespace.
type Socket struct {
	file *os.File
	conn syscall.RawConn
	buf  []byte
}

// Open begins to receive.
func Open() (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &Socket{file: os.NewFile(uintptr(fd), "uevents"), buf: make([]byte, maxEvent)}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queued) != nil { // it needs a privilege
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, queued)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup})
	}
	if err == nil {
		s.conn, err = s.file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), s.file.Close())
	}
	return s, nil
}

// Read waits for the next event. After ErrLost it goes on.
func (s *Socket) Read() (Event, error) {
	for {
		var n int
		var from unix.Sockaddr
		var err error
		waited := s.conn.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), s.buf, 0)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case waited != nil:
			return Event{}, waited
		case errors.Is(err, unix.ENOBUFS):
			return Event{}, ErrLost
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return Event{}, os.NewSyscallError("recvfrom", err)
		case !ok || sender.Pid != 0: // a process, not the kernel
			continue
		}
		if e, ok := parse(s.buf[:n]); ok {
			e.Controllers = controllers(sysfs, e.Path)
			return e, nil
		}
	}
}

// Close ends a Read that waits.
func (s *Socket) Close() error { return s.file.Close() }

// parse reads ACTION@PATH and then fields NAME=VALUE, each with a zero at its end.
func parse(message []byte) (e Event, ok bool) {
	head, fields, _ := strings.Cut(string(message), "\x00")
	e.Action, e.Path, ok = strings.Cut(head, "@")
	for field := range strings.SplitSeq(fields, "\x00") {
		if value, found := strings.CutPrefix(field, "SUBSYSTEM="); found {
			e.Subsystem = value
		}
		e.Requested = e.Requested || strings.HasPrefix(field, "SYNTH_UUID=")
	}
	return e, ok && strings.HasPrefix(e.Path, "/")
}

const sysfs = "/sys"

// controllers are the paths of the controllers in whose subsystem a path is.
func controllers(sysfs, path string) (all []string) {
	above, below, found := strings.Cut(path, "/nvme-subsystem/")
	if !found {
		return nil
	}
	subsystem, _, _ := strings.Cut(below, "/")
	links, _ := filepath.Glob(filepath.Join(sysfs, above, "nvme-subsystem", subsystem, "nvme*")) // the pattern is valid
	for _, link := range links {
		// Not what is a directory itself, or has gone.
		if target, err := os.Readlink(link); err == nil {
			all = append(all, target)
		}
	}
	return all
}
