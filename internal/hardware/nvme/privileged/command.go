package privileged

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/host"
)

// readTimeout bounds a command that only reads. It is longer than the kernel's own
// time-out of an admin command. A command that changes something has no time-out: giving
// up on it would not stop the drive.
const readTimeout = 90 * time.Second

// Failure is a command of nvme-cli that failed. Its error text is kept short.
type Failure struct {
	// Command is the verb, or "version".
	Command string `json:"command"`
	// Status is the controller's answer. Answered: there was one.
	Status   nvmecli.Status `json:"status,omitempty"`
	Answered bool           `json:"answered,omitempty"`
	Text     string         `json:"text,omitempty"`
}

// Error names the command and its error.
func (f *Failure) Error() string {
	if f.Answered {
		return fmt.Sprintf("the drive refused %s (status 0x%x)", f.Command, uint16(f.Status))
	}
	return fmt.Sprintf("nvme-cli failed at %s: %s", f.Command, f.Text)
}

// StatusOf gives the controller's answer, if err holds one.
func StatusOf(err error) (nvmecli.Status, bool) {
	var f *Failure
	if !errors.As(err, &f) {
		return 0, false
	}
	return f.Status, f.Answered
}

// read runs a command that only reads, and returns what it printed.
func (l *Local) read(ctx context.Context, what string, args []string) (stdout, stderr []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return l.run(ctx, nil, nil, what, args)
}

// change runs a command that changes the drive, and waits for its end even after ctx ends.
// The child inherits the descriptors in held and keeps them for as long as it lives (F1,
// F12). It reads data, if not nil, from its stdin.
func (l *Local) change(ctx context.Context, held []int, data io.Reader, what string, args []string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	_, _, err := l.run(context.WithoutCancel(ctx), held, data, what, args)
	return err
}

// run runs nvme-cli with a list of arguments, never through a shell. what names the command in an
// error.
func (l *Local) run(
	ctx context.Context, held []int, data io.Reader, what string, args []string,
) (stdout, stderr []byte, err error) {
	cmd := exec.CommandContext(ctx, l.Tool, args...)
	cmd.Env, cmd.Dir = host.ChildEnv(), "/"
	// The child dies with this process and has its own process group. Never call this from
	// a goroutine that is locked to its thread: the death signal is sent when that thread
	// ends (measured).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, AmbientCaps: l.AmbientCaps}
	// Long, because a busy host can be slow to drain the pipes of a command that succeeded
	// (seen with eight cleans at once).
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdin = data
	var out, complaint limitedBuffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	for _, fd := range held {
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("copy a descriptor for nvme: %w", err)
		}
		file := os.NewFile(uintptr(copied), "held")
		defer func() { err = errors.Join(err, file.Close()) }()
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	run := (*exec.Cmd).Run
	if l.Run != nil {
		run = l.Run
	}
	err = run(cmd)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, nil, hardware.Refused(device.CodeToolMissing, "install nvme-cli on this host",
			"cannot run nvme-cli: %v", err)
	case err == nil:
		return out.Bytes(), complaint.Bytes(), nil
	case context.Cause(ctx) != nil:
		return nil, nil, fmt.Errorf("nvme-cli was stopped at %s: %w", what, context.Cause(ctx))
	}
	// Some versions print some of their errors on stdout.
	f := &Failure{Command: what}
	for _, said := range [][]byte{complaint.Bytes(), out.Bytes()} {
		if !f.Answered {
			f.Status, f.Answered = nvmecli.ParseStatus(said)
		}
		if f.Text == "" {
			f.Text = hardware.OneLine(string(said))
		}
	}
	if f.Text == "" {
		f.Text = err.Error()
	}
	return nil, nil, f
}

// limitedBuffer keeps a command's output up to slightly more than the parsers accept.
type limitedBuffer struct{ bytes.Buffer }

// Write accepts everything and discards what exceeds the limit.
func (c *limitedBuffer) Write(p []byte) (int, error) {
	if room := nvmecli.MaxOutput + 1 - c.Len(); room > 0 {
		c.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// ReadFrom goes through Write, so that the limit holds.
func (c *limitedBuffer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}
