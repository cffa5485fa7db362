package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/testkit/proc"
)

// Guest is one machine, which may be started again and again with the same disks. Its
// methods are for one goroutine, except Run and those that only read.
type Guest struct {
	// Config is read at each Boot; only the drives' properties may change in between.
	Config Config

	parts parts
	// Of the latest boot.
	process   *proc.Process
	agent     *agent
	workerLog int64 // the length of the worker's log before it
}

// Start makes a guest and boots it; see Boot. Its state is empty. The caller ends it
// with Kill, at the latest with its own process.
func Start(ctx context.Context, config Config) (*Guest, error) {
	p, err := findParts()
	if err != nil {
		return nil, err
	}
	if err := config.complete(); err != nil {
		return nil, err
	}
	g := &Guest{Config: config, parts: p}
	if err := errors.Join(p.makeState(g.path("state.img")), p.writeImage(g.path("initramfs"), config)); err != nil {
		return nil, err
	}
	return g, g.Boot(ctx)
}

func (g *Guest) path(name string) string { return filepath.Join(g.Config.Dir, name) }

// Address is the PCI address of the controller with this serial, "" where there is none.
func (g *Guest) Address(serial string) string {
	for _, c := range g.Config.Controllers {
		if c.Serial == serial {
			return c.Address
		}
	}
	return ""
}

// Bounds of a boot, which takes seconds, on a machine that is very busy.
const (
	bootWithin  = 5 * time.Minute
	readyWithin = 10 * time.Minute
)

// Boot starts a guest that does not run, and returns when it takes commands; its worker
// may still be starting. A guest that does not come so far within ctx, or 5 minutes, is ended.
func (g *Guest) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootWithin, fmt.Errorf("it takes no command within %s", bootWithin))
	defer cancel()
	if g.process.Alive() {
		return errors.New("the guest runs already")
	}
	g.workerLog = 0
	if info, err := os.Stat(g.path("worker.log")); err == nil {
		g.workerLog = info.Size()
	}
	if err := g.launch(); err != nil {
		return err
	}
	if _, err := g.agent.answer(ctx); err != nil {
		return errors.Join(fmt.Errorf("the guest does not boot: %w; the emulator: %s; the console: %s", err, g.process.Tail(),
			tail(g.path("console.log"))), g.Kill())
	}
	return nil
}

// launch starts the emulator with one end of the agent's line as its descriptor 3.
func (g *Guest) launch() error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	theirs, ours := os.NewFile(uintptr(ends[0]), "agent"), os.NewFile(uintptr(ends[1]), "agent")
	defer theirs.Close() // the emulator has its own copy
	line, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		return err
	}
	cmd := exec.Command(g.parts.emulator, g.arguments()...)
	cmd.ExtraFiles = []*os.File{theirs}
	if g.process, err = proc.Start("the emulator", g.path("emulator.log"), cmd); err != nil {
		return errors.Join(err, line.Close())
	}
	g.agent = newAgent(line)
	return nil
}

// Kill cuts the power: the guest stops at whatever it was doing, and what it had only
// in memory is lost. It returns when nothing writes to the images any more. It does
// nothing to a guest that does not run.
func (g *Guest) Kill() error {
	if !g.process.Alive() {
		return nil
	}
	return errors.Join(g.process.Kill(), g.agent.line.Close())
}

// Age is the time since the latest boot began.
func (g *Guest) Age() time.Duration { return time.Since(g.process.Started) }

// Console is what the kernel and the first process printed, of all boots.
func (g *Guest) Console() string { return text(g.path("console.log")) }

// WorkerLog is what the worker wrote since the latest boot.
func (g *Guest) WorkerLog() string {
	all := text(g.path("worker.log"))
	return all[min(g.workerLog, int64(len(all))):]
}

// WaitReady returns when the worker of the latest boot polls, after 10 minutes at most.
func (g *Guest) WaitReady(ctx context.Context) error {
	started := func() bool { return strings.Contains(g.WorkerLog(), "worker started") }
	err := proc.Await(ctx, readyWithin, 5*time.Millisecond, "the guest's worker to start", func() (bool, string) {
		return started() || strings.Contains(g.WorkerLog(), "guest: the worker ended") || !g.process.Alive(), ""
	})
	if err == nil && !started() {
		err = errors.New("the guest or its worker ended")
	}
	if err != nil {
		return fmt.Errorf("%w: %s; the console: %s", err, g.WorkerLog(), tail(g.path("console.log")))
	}
	return nil
}

// text is a log as far as it is written; one that cannot be read says why.
func text(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// tail is the end of a log, for a message.
func tail(path string) string {
	const length = 2000
	all := strings.TrimSpace(text(path))
	return all[max(0, len(all)-length):]
}
