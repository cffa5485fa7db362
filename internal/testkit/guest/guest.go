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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Guest is one machine, which may be started again and again with the same disks. Its
// methods are for one goroutine, but Run and what reads, which any may call.
type Guest struct {
	// Config is read at each Boot; only what of it names drives may change in between.
	Config Config

	needs needs
	// Of the latest boot.
	process *exec.Cmd
	ended   chan struct{}
	began   time.Time
	logged  int64 // the worker's log had this length
	agent   *agent
}

// Start makes a guest and boots it; see Boot. Its state is empty. The caller ends it
// with Kill or Stop, at the latest with its own process.
func Start(ctx context.Context, config Config) (*Guest, error) {
	n, err := find()
	if err != nil {
		return nil, err
	}
	if err := config.settle(); err != nil {
		return nil, err
	}
	g := &Guest{Config: config, needs: n}
	if err := errors.Join(n.makeState(g.path("state.img")), n.writeImage(g.path("initramfs"), config)); err != nil {
		return nil, err
	}
	return g, g.Boot(ctx)
}

func (g *Guest) path(name string) string { return filepath.Join(g.Config.Dir, name) }

// Address is where the controller of this serial sits, "" where there is none.
func (g *Guest) Address(serial string) string {
	for _, c := range g.Config.Controllers {
		if c.Serial == serial {
			return c.Address
		}
	}
	return ""
}

// Boot starts a guest that does not run, and returns when it takes commands; its worker
// may still be starting. A guest that does not come so far within ctx is ended.
func (g *Guest) Boot(ctx context.Context) error {
	if g.Alive() {
		return errors.New("the guest runs already")
	}
	g.logged = 0
	if info, err := os.Stat(g.path("worker.log")); err == nil {
		g.logged = info.Size()
	}
	if err := g.launch(); err != nil {
		return err
	}
	if err := g.agent.greeted(ctx, g.ended); err != nil {
		g.Kill()
		return fmt.Errorf("the guest does not boot: %w; its emulator said: %s; its console: %s", err, tail(g.path("emulator.log")), tail(g.path("console.log")))
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
	line, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		return errors.Join(err, theirs.Close())
	}
	out, err := os.OpenFile(g.path("emulator.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Join(err, theirs.Close(), line.Close())
	}
	cmd := exec.Command(g.needs.emulator, g.arguments()...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{theirs}
	// It outlives neither Ctrl-C, which reaches the tests first, nor the tests.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	g.began = time.Now()
	if err := errors.Join(cmd.Start(), out.Close(), theirs.Close()); err != nil {
		return errors.Join(err, line.Close())
	}
	ended := make(chan struct{})
	g.process, g.ended, g.agent = cmd, ended, newAgent(line)
	go func() {
		_ = cmd.Wait() // a guest ends by force most of the time
		close(ended)
	}()
	return nil
}

// Alive says whether the guest has power.
func (g *Guest) Alive() bool {
	if g.process == nil {
		return false
	}
	select {
	case <-g.ended:
		return false
	default:
		return true
	}
}

// Kill cuts the power: the guest stops at whatever it was doing, and what it had only
// in memory is lost. It returns when nothing writes to the images any more. A guest
// that does not run stays so.
func (g *Guest) Kill() {
	if g.process == nil {
		return
	}
	_ = g.process.Process.Kill() // it may have ended before
	<-g.ended
	g.agent.close()
}

// Stop ends the worker and then the guest in order; one that is not off within ctx is
// killed, which is an error.
func (g *Guest) Stop(ctx context.Context) error {
	defer g.Kill()
	_, err := g.Run(ctx, "worker=$(cat /run/worker.pid 2>/dev/null) && kill $worker && while [ -e /run/worker.pid ]; do usleep 20000; done; umount "+State+"; (usleep 100000; poweroff -f) >/dev/null 2>&1 &")
	if err != nil {
		return err
	}
	select {
	case <-g.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the guest is not off: %w", ctx.Err())
	}
}

// Age is the time since the latest boot began.
func (g *Guest) Age() time.Duration { return time.Since(g.began) }

// Console is what the kernel and the first process said, of all boots.
func (g *Guest) Console() string { return text(g.path("console.log")) }

// WorkerLog is what the worker wrote since the latest boot.
func (g *Guest) WorkerLog() string {
	all := text(g.path("worker.log"))
	return all[min(g.logged, int64(len(all))):]
}

// WaitReady returns when the worker of the latest boot has started: it polls then.
func (g *Guest) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		said := g.WorkerLog()
		switch {
		case strings.Contains(said, "worker started"):
			return nil
		case strings.Contains(said, "guest: the worker ended"):
			return fmt.Errorf("the worker ended: %s", said)
		}
		select {
		case <-tick.C:
		case <-g.ended:
			return fmt.Errorf("the guest ended: %s", tail(g.path("console.log")))
		case <-ctx.Done():
			return fmt.Errorf("the worker has not started: %w: %s; the console: %s", ctx.Err(), said, tail(g.path("console.log")))
		}
	}
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
	const most = 2000
	all := strings.TrimSpace(text(path))
	return all[max(0, len(all)-most):]
}
