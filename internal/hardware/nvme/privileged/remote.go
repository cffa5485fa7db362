package privileged

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Subcommand is the only argument of a helper.
const Subcommand = "nvme-helper"

// Remote is the Executor by a helper: a privileged program that serves at its descriptor 3.
// Each opened drive has its own helper process, which ends with it.
type Remote struct {
	// Program is the helper's path.
	Program string
}

// Version returns the output of nvme version; see Executor.
func (r *Remote) Version(ctx context.Context) ([]byte, error) {
	reply, err := r.once(ctx, call{Do: doVersion}, HeldFiles{})
	return reply.Output, err
}

// Rebind binds a drive to the host's driver; see Executor.
func (r *Remote) Rebind(ctx context.Context, address string, fence *os.File) error {
	_, err := r.once(ctx, call{Do: doRebind, Address: address}, HeldFiles{Fence: fence})
	return err
}

// once has a helper of its own answer one call.
func (r *Remote) once(ctx context.Context, c call, held HeldFiles) (reply answer, err error) {
	h, err := r.start()
	if err != nil {
		return answer{}, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return h.request(ctx, c, held)
}

// Open starts a helper that opens the drive; see Executor.
func (r *Remote) Open(ctx context.Context, address string) (Drive, error) {
	h, err := r.start()
	if err != nil {
		return nil, err
	}
	reply, err := h.request(ctx, call{Do: doOpen, Address: address}, HeldFiles{})
	if err == nil && reply.Path == nil {
		err = h.lostFault(errors.New("it sent no path"))
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.path = *reply.Path
	return h, nil
}

// remoteDrive is one helper process and the drive that it has open.
type remoteDrive struct {
	helper *exec.Cmd
	path   DevicePath
	conn   *net.UnixConn // nil when closed
	broken error
}

// start starts a helper. It has its own process group and does not die with this process:
// it waits for a running command, and keeps the descriptors of that command open.
func (r *Remote) start() (_ *remoteDrive, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create a socket for the NVMe helper: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "helper")
	conn, err := connection(pair[0])
	if err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	cmd := exec.Command(r.Program, Subcommand)
	cmd.Env, cmd.Dir, cmd.Stderr, cmd.ExtraFiles = []string{}, "/", os.Stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		return nil,
			errors.Join(hardware.Refused(device.CodeToolMissing, "install the helper (see docs/nvme.md), or run the host "+
				"worker as root", "cannot run the NVMe helper: %v", err), conn.Close())
	}
	return &remoteDrive{helper: cmd, conn: conn}, nil
}

// lostFault is the fault of a helper that is gone. It no longer holds anything, so the drive
// must be opened again.
func (h *remoteDrive) lostFault(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("it ended")
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeIO,
		Message: fmt.Sprintf("the NVMe helper %s was lost: %v", h.helper.Path, err),
		Remedy:  "none: Burnish retries with a new helper; the worker's output shows why it was lost"}
}

// request sends one call and waits for the answer, even after ctx ends: a command that reads ends by itself,
// and one that changes something cannot be given up.
func (h *remoteDrive) request(ctx context.Context, c call, held HeldFiles) (reply answer, err error) {
	if err := cmp.Or(h.broken, context.Cause(ctx)); err != nil {
		return answer{}, err
	}
	fds := held.descriptors(&c)
	err = send(h.conn, c, fds)
	if err == nil {
		var files []*os.File
		files, err = receive(h.conn, &reply)
		err = errors.Join(err, closeAll(files))
	}
	if err != nil {
		h.broken = h.lostFault(err)
		return answer{}, h.broken
	}
	return reply, reply.err()
}

// descriptors lists what is held in the order of a call, and sets c.Fence.
func (held HeldFiles) descriptors(c *call) []int {
	var fds []int
	if c.Fence = held.Fence != nil; c.Fence {
		fds = append(fds, int(held.Fence.Fd()))
	}
	if c.Image = held.Image != nil; c.Image {
		fds = append(fds, int(held.Image.Fd()))
	}
	return append(fds, held.Disks...)
}

// Path locates the drive in the kernel.
func (h *remoteDrive) Path() DevicePath { return h.path }

// Lock has the helper lock the node; see Drive.
func (h *remoteDrive) Lock(ctx context.Context) error {
	_, err := h.request(ctx, call{Do: doLock, Address: h.path.Address}, HeldFiles{})
	return err
}

// Read has the helper run a verb that changes nothing; see Drive.
func (h *remoteDrive) Read(ctx context.Context, r Request) ([]byte, error) {
	reply, err := h.request(ctx, call{Do: doRead, Address: h.path.Address, Request: &r}, HeldFiles{})
	return reply.Output, err
}

// Change has the helper run a verb that changes something; see Drive.
func (h *remoteDrive) Change(ctx context.Context, r Request, serial string, held HeldFiles) error {
	_, err := h.request(ctx, call{Do: doChange, Address: h.path.Address, Serial: serial, Request: &r}, held)
	return err
}

// Close closes the socket and waits until the helper has ended.
func (h *remoteDrive) Close() error {
	if h.conn == nil {
		return nil
	}
	err := h.conn.Close()
	h.conn, h.broken = nil, fmt.Errorf("the NVMe helper: %w", os.ErrClosed)
	_ = h.helper.Wait() // its answers reported all errors
	return err
}
