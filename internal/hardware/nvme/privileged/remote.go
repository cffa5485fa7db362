package privileged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"net"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
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
func (r *Remote) Version(ctx context.Context) (output []byte, err error) {
	h, err := r.start()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	_, output, err = h.request(ctx, call{Do: doVersion}, nil)
	return output, err
}

// Rebind binds a drive to the host's driver; see Executor.
func (r *Remote) Rebind(ctx context.Context, address string, fence *os.File) (err error) {
	h, err := r.start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	c := call{Do: doRebind, Address: address}
	// Once started, it is waited for.
	if err := context.Cause(ctx); err != nil {
		return err
	}
	_, _, err = h.request(context.WithoutCancel(ctx), c, HeldFiles{Fence: fence}.descriptors(&c))
	return err
}

// Open starts a helper that opens the drive; see Executor.
func (r *Remote) Open(ctx context.Context, address string) (Drive, error) {
	h, err := r.start()
	if err != nil {
		return nil, err
	}
	reply, _, err := h.request(ctx, call{Do: doOpen, Address: address}, nil)
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
	program string
	path    DevicePath
	ended   chan struct{}

	mu     sync.Mutex
	conn   *net.UnixConn
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
	err = cmd.Start()
	if closed := theirs.Close(); err != nil || closed != nil {
		if cmd.Process != nil {
			go func() { _ = cmd.Wait() }() // it ends because its caller closed the socket
		}
		return nil,
			errors.Join(hardware.Refused(device.CodeToolMissing, "install the helper (see docs/nvme.md), or run the host "+
				"worker as root", "cannot run the NVMe helper: %v", errors.Join(err, closed)), conn.Close())
	}
	h := &remoteDrive{program: r.Program, conn: conn, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		_ = cmd.Wait() // its answers reported all errors
	}()
	return h, nil
}

// lostFault is the fault of a helper that is gone. It no longer holds anything, so the drive
// must be opened again.
func (h *remoteDrive) lostFault(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("it ended")
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeIO,
		Message: fmt.Sprintf("the NVMe helper %s was lost: %v", h.program, err),
		Remedy:  "none: Burnish retries with a new helper; the worker's output shows why it was lost"}
}

// request sends one call and waits for the answer. If ctx ends first, the helper is given
// up.
func (h *remoteDrive) request(ctx context.Context, c call, fds []int) (reply answer, output []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return reply, nil, h.broken
	}
	if err := context.Cause(ctx); err != nil {
		return reply, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.conn.SetDeadline(time.Unix(1, 0)) }) // fails only on a closed connection
	defer stop()
	reply, output, err = h.exchange(c, fds)
	if err != nil {
		h.broken = h.lostFault(err)
		if cause := context.Cause(ctx); cause != nil {
			return reply, nil, cause
		}
		return reply, nil, h.broken
	}
	if !stop() {
		h.broken = h.lostFault(context.Cause(ctx))
	}
	return reply, output, reply.err()
}

func (h *remoteDrive) exchange(c call, fds []int) (reply answer, output []byte, err error) {
	if err := send(h.conn, c, fds); err != nil {
		return reply, nil, err
	}
	files, err := receive(h.conn, &reply)
	if err := errors.Join(err, closeAll(files)); err != nil {
		return reply, nil, err
	}
	if reply.Size < 0 || reply.Size > nvmecli.MaxOutput+1 {
		return reply, nil, fmt.Errorf("an output of %d bytes is not valid", reply.Size)
	}
	output = make([]byte, reply.Size)
	for at := 0; at < reply.Size; {
		n, err := h.conn.Read(output[at:])
		if err != nil {
			return reply, nil, err
		}
		at += n
	}
	return reply, output, nil
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
	_, _, err := h.request(ctx, call{Do: doLock, Address: h.path.Address}, nil)
	return err
}

// Read has the helper run a verb that changes nothing; see Drive.
func (h *remoteDrive) Read(ctx context.Context, r Request) ([]byte, error) {
	_, output, err := h.request(ctx, call{Do: doRead, Address: h.path.Address, Request: &r}, nil)
	return output, err
}

// Change has the helper run a verb that changes something; see Drive.
func (h *remoteDrive) Change(ctx context.Context, r Request, serial string, held HeldFiles) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c := call{Do: doChange, Address: h.path.Address, Serial: serial, Request: &r}
	fds := held.descriptors(&c)
	_, _, err := h.request(context.WithoutCancel(ctx), c, fds)
	return err
}

// Close closes the socket and waits until the helper has ended.
func (h *remoteDrive) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken == nil || !errors.Is(h.broken, os.ErrClosed) {
		err := h.conn.Close()
		h.broken = fmt.Errorf("the NVMe helper: %w", os.ErrClosed)
		<-h.ended
		return err
	}
	return nil
}
