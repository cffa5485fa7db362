package nvme

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
	"burnish/internal/hardware/nvme/nvmecli"
)

// tool runs nvme-cli: always one program with a list of arguments, never a shell.
type tool struct {
	program string
	// within bounds a command that only reads. One that changes something is waited
	// for: what the drive does cannot be taken back by not waiting.
	within time.Duration
}

// readWithin is longer than the kernel's own time-out of an admin command.
const readWithin = 90 * time.Second

func newTool(program string) *tool {
	if program == "" {
		program = "nvme"
	}
	return &tool{program: program, within: readWithin}
}

// failure is a command of nvme-cli that ended badly. Its own words are kept short.
type failure struct {
	command string
	// status is the controller's answer, where it gave one.
	status   nvmecli.Status
	answered bool
	text     string
}

// Error gives the command and what was said.
func (f *failure) Error() string {
	if f.answered {
		return fmt.Sprintf("the drive refused %s (status 0x%x)", f.command, uint16(f.status))
	}
	return fmt.Sprintf("nvme %s failed: %s", f.command, f.text)
}

// statusOf gives what a controller answered, and whether it did.
func statusOf(err error) (nvmecli.Status, bool) {
	var f *failure
	if !errors.As(err, &f) {
		return 0, false
	}
	return f.status, f.answered
}

// run runs a command that only reads, and gives its output.
func (t *tool) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	return t.start(ctx, nil, args)
}

// change runs a command that changes the drive and waits for its end, whatever becomes
// of ctx meanwhile; held are descriptors that the child shall keep as long as it lives
// (SAFETY F1, F12).
func (t *tool) change(ctx context.Context, held []int, args ...string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return t.start(context.WithoutCancel(ctx), held, args)
}

func (t *tool) start(ctx context.Context, held []int, args []string) (output []byte, err error) {
	cmd := exec.CommandContext(ctx, t.program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	// It dies with its worker and has a group of its own. Never called by a goroutine
	// that is locked to its thread: the signal comes when the thread ends (measured).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// Long: an overloaded host may be slow to drain the pipes of a command that ended well
	// (seen with eight cleans at once).
	cmd.WaitDelay = 30 * time.Second
	var stdout, stderr capped
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	for _, fd := range held {
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("copy a descriptor for nvme: %w", err)
		}
		file := os.NewFile(uintptr(copied), "held")
		defer func() { err = errors.Join(err, file.Close()) }()
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, refused(device.CodeToolMissing, "install nvme-cli on this host", "nvme-cli cannot be run: %v", err)
	case err == nil:
		return stdout.Bytes(), nil
	case context.Cause(ctx) != nil:
		return nil, fmt.Errorf("nvme %s was stopped: %w", args[0], context.Cause(ctx))
	}
	f := &failure{command: args[0], text: short(oneLine(stderr.String()))}
	f.status, f.answered = nvmecli.ParseStatus(stderr.Bytes())
	if f.text == "" {
		f.text = err.Error()
	}
	return nil, f
}

// capped keeps what a command prints, up to a little more than is ever read.
type capped struct{ bytes.Buffer }

// Write takes everything and keeps some.
func (c *capped) Write(p []byte) (int, error) {
	if room := nvmecli.MaxOutput + 1 - c.Len(); room > 0 {
		c.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// ReadFrom reads through Write, so that the bound holds.
func (c *capped) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// short cuts what is too long for a line.
func short(text string) string {
	const most = 200
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// asFault makes a fault of a command that failed: the drive's refusal, or an error of
// the host. Faults and ends of a context stay what they are.
func asFault(err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	if !f.answered {
		return &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: f.Error(), Remedy: "look at the drive and at the kernel's log"}
	}
	code, remedy := device.CodeCommandRefused, "the drive does not do what it says it can: look at it with nvme-cli, or choose another erase policy"
	switch f.status {
	case nvmecli.StatusSanitizeInProgress:
		return &device.Fault{Class: device.Transient, Code: device.CodeSanitizeRunning, Message: f.Error() + ": a sanitize runs", Remedy: "it is waited for"}
	case nvmecli.StatusSanitizeFailed:
		code, remedy = device.CodeSanitizeFailed, "the drive takes nothing but another sanitize: clean it again by one, or retire it"
	}
	return refused(code, remedy, "%s", f.Error())
}
