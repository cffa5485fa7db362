package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/starter/internal/terminal"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fleetCommand is the command burnish over a fleet of 600 devices, for tests on a terminal. The
// fleet's clock stands still, but for those commands that look twice.
func fleetCommand() {
	a := newApp()
	began := time.Now()
	a.now = func() time.Time { return clock }
	if len(os.Args) > 1 && (os.Args[1] == "watch" || os.Args[1] == "top") {
		a.now = func() time.Time { return clock.Add(time.Since(began)) }
	}
	l := bigFleet(a.now)
	a.dial = func(context.Context) (deviceClient, error) { return l, nil }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := a.run(ctx, os.Args[1:])
	stop()
	if code != exitOK {
		os.Exit(code)
	}
}

// bigFleet is 600 devices on 20 hosts: 100 in cleaning, of which 60 run, 250 that wait, and 250
// in state error. The running ones come further as time goes.
func bigFleet(now func() time.Time) *fakeClient {
	began := now()
	devices := map[string]client.Execution{}
	for i := range 600 {
		v := in(fmt.Sprintf("h%02d_0000:%02x:00.0", i%20, i/20), device.Error)
		v.Hostname, v.Type, v.Model, v.Vendor, v.Serial = fmt.Sprintf("h%02d", i%20), "NVME", "X 100\x1b[31m", "Acme",
			fmt.Sprintf("S%03d", i)
		v.UpdatedAt, v.Dirty = clock.Add(-time.Duration(i)*time.Minute), true
		switch {
		case i < 100:
			v.DeviceState, v.CleanStep = device.Cleaning, &contract.CleanStep{Step: "zero", Priority: 70, Interface: "deploy"}
		case i < 350:
			v.DeviceState = device.PendingCleaning
		default:
			v.Fault, v.NeedsOperator, v.LastError, v.Remedy = "io_error", true, "write failed at 4 MiB\x1b]0;owned\x07",
				"clean it again, or retire it"
		}
		devices[v.Name] = running(v)
	}
	list := func(string) (all []client.Execution, err error) {
		for _, e := range devices {
			all = append(all, e)
		}
		return all, nil
	}
	describe := func(name string) (client.Execution, error) {
		e, ok := devices[name]
		if !ok {
			return client.Execution{}, gone()
		}
		if e.Status.DeviceState != device.Cleaning {
			return e, nil
		}
		var host, slot int
		if _, err := fmt.Sscanf(name, "h%d_0000:%x:", &host, &slot); err != nil {
			return client.Execution{}, err
		}
		ran := 10*time.Second + now().Sub(began).Truncate(time.Second)
		beat := &contract.Progress{Step: "zero", Size: 100 << 30, Offset: int64(ran.Seconds()) * int64(10+host) * mib,
			RunTime: ran, ProgressAt: now(), BudgetEnds: clock.Add(3 * time.Hour)}
		if slot >= 3 {
			beat = &contract.Progress{Step: "zero", Size: 100 << 30, Waiting: contract.QueuedForSlot(slot - 2)}
		}
		e.Pending = map[string]client.Pending{"zero": {Started: true, Attempt: 1, Progress: beat}}
		return e, nil
	}
	query := func(_ context.Context, name string) (contract.DeviceStatus, error) {
		return devices[name].Status, nil
	}
	return &fakeClient{onList: list, onDescribe: describe, onQuery: query}
}

// pseudoTerminal is a program on a terminal, with all that it wrote.
type pseudoTerminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File
	read chan struct{} // closed when all was read

	mu  sync.Mutex
	out bytes.Buffer
}

// onTerminal starts a program on a terminal of this size.
func onTerminal(t *testing.T, width, height int, program string, args ...string) *pseudoTerminal {
	t.Helper()
	p := &pseudoTerminal{t: t, cmd: exec.Command(program, args...)}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") })
	p.cmd.Env = append(p.cmd.Env, "TERM=xterm-256color")
	file, err := pty.StartWithSize(p.cmd, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)})
	require.NoError(t, err)
	p.file, p.read = file, make(chan struct{})
	go func() {
		defer close(p.read)
		_, _ = io.Copy(p, file) // ends with an error when the program does
	}()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		<-p.read
		_ = file.Close()
	})
	return p
}

func (p *pseudoTerminal) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// written is all that the program wrote.
func (p *pseudoTerminal) written() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// types sends keys.
func (p *pseudoTerminal) types(keys string) {
	p.t.Helper()
	_, err := p.file.WriteString(keys)
	require.NoError(p.t, err)
}

// waits until what was written fulfills a condition.
func (p *pseudoTerminal) waits(what string, ok func(written string) bool) {
	p.t.Helper()
	for began := time.Now(); !ok(p.written()); <-time.After(20 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			written := p.written()
			require.Fail(p.t, "no "+what, "%q", written[max(len(written)-4000, 0):])
		}
	}
}

// ends waits for the program's end and gives its exit code.
func (p *pseudoTerminal) ends() int {
	p.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.cmd.Wait() // ProcessState says how it ended
	}()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		require.Fail(p.t, "the program does not end", "%q", p.written())
	}
	<-p.read
	return p.cmd.ProcessState.ExitCode()
}

// frames gives the whole pictures among what was written, each in its lines.
func frames(written string) (all [][]string) {
	for _, part := range strings.Split(written, "\x1b[H")[1:] {
		if picture, _, whole := strings.Cut(part, "\x1b[J"); whole {
			all = append(all, strings.Split(strings.NewReplacer("\x1b[K", "", "\r", "").Replace(uncolored(picture)), "\n"))
		}
	}
	return all
}

// uncolored takes the colors out of text.
func uncolored(text string) string {
	for _, c := range []terminal.Color{terminal.Good, terminal.Busy, terminal.Warn, terminal.Bad, terminal.Title,
		terminal.Faint, "0"} {
		text = strings.ReplaceAll(text, "\x1b["+string(c)+"m", "")
	}
	return text
}

// fits says whether a picture is within a size.
func fits(picture []string, width, height int) bool {
	return len(picture) <= height && !slices.ContainsFunc(picture, func(line string) bool {
		return terminal.Width(line) > width || strings.ContainsAny(line, "\x1b\a")
	})
}

const (
	takesTerminal = "\x1b[?1049h"
	givesTerminal = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// The picture of 600 devices follows the size of its terminal, and stays after Ctrl-C.
func TestWatchOnATerminal(t *testing.T) {
	p := onTerminal(t, 100, 30, "burnish-fleet", "watch")
	last := func(written string) []string {
		all := frames(written)
		if len(all) == 0 {
			return nil
		}
		return all[len(all)-1]
	}
	p.waits("picture with a bar", func(written string) bool {
		return strings.Contains(strings.Join(last(written), "\n"), "[")
	})
	for _, picture := range frames(p.written()) {
		require.True(t, fits(picture, 100, 30), "%q", picture)
		require.Contains(t, picture[0], "250 failed")
	}
	// Each has the whole screen: nothing is erased before it is drawn again.
	require.NotContains(t, p.written(), "\x1b[2J")

	before := len(frames(p.written()))
	require.NoError(t, pty.Setsize(p.file, &pty.Winsize{Cols: 60, Rows: 12}))
	p.waits("picture in the new size", func(written string) bool {
		return len(frames(written)) > before+1 && fits(last(written), 60, 12)
	})
	require.NoError(t, pty.Setsize(p.file, &pty.Winsize{Cols: 180, Rows: 50}))
	p.waits("picture in the larger size", func(written string) bool {
		picture := last(written)
		return len(picture) > 40 && strings.Contains(strings.Join(picture, "\n"), "BUDGET")
	})
	p.types("\x03")
	require.Equal(t, exitInterrupted, p.ends())
	written := p.written()
	require.Greater(t, strings.LastIndex(written, givesTerminal), strings.LastIndex(written, takesTerminal))
	_, left, _ := strings.Cut(written, givesTerminal)
	require.Contains(t, left, "250 failed")
	require.Contains(t, left, "RUNNING")
	require.NotContains(t, written, "owned\x07")
}

// Ctrl-Z gives the terminal back to the shell, and fg takes it again.
func TestWatchIsStoppedAndContinued(t *testing.T) {
	script := `set -m; burnish-fleet watch; echo "stopped"; read line; fg; echo "ended"`
	p := onTerminal(t, 80, 24, "sh", "-c", script)
	p.waits("picture", func(written string) bool { return len(frames(written)) > 0 })
	p.types("\x1a")
	p.waits("prompt", func(written string) bool { return strings.Contains(written, "stopped\r\n") })
	written := p.written()
	given, stopped := strings.LastIndex(written, givesTerminal), strings.LastIndex(written, "stopped\r\n")
	require.Positive(t, given)
	require.Greater(t, given, strings.LastIndex(written, takesTerminal))
	require.Greater(t, stopped, given)
	require.Empty(t, frames(written[given:]), "it draws while it is stopped")

	p.types("\n")
	p.waits("picture after fg", func(written string) bool {
		at := strings.LastIndex(written, takesTerminal)
		return at > stopped && len(frames(written[at:])) > 0
	})
	p.types("\x03")
	p.waits("end", func(written string) bool { return strings.Contains(written, "ended\r\n") })
	p.ends()
	require.Equal(t, 2, strings.Count(p.written(), takesTerminal))
	require.Equal(t, 2, strings.Count(p.written(), givesTerminal))
}

// A watch that no shell could continue is not stopped.
func TestWatchIsNotStoppedForGood(t *testing.T) {
	p := onTerminal(t, 80, 24, "burnish-fleet", "watch") // the leader of its session
	p.waits("picture", func(written string) bool { return len(frames(written)) > 0 })
	p.types("\x1a")
	p.waits("picture after Ctrl-Z", func(written string) bool {
		_, after, given := strings.Cut(written, givesTerminal)
		return given && len(frames(after)) > 0
	})
	p.types("\x03")
	require.Equal(t, exitInterrupted, p.ends())
}
