package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

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

// fleetNews names the file that says what becomes of a fleet: "away", its server is; "back", it is again,
// and meanwhile a device has come, and another is gone.
const fleetNews = "BURNISH_TEST_FLEET"

// bigFleet is 600 devices on 20 hosts: 100 in cleaning, of which 60 run, 250 that wait, and 250
// in state error. The running ones come further as time goes.
func bigFleet(now func() time.Time) *fakeClient {
	began := now()
	devices := map[string]client.Execution{}
	for i := range 600 {
		v := in(fmt.Sprintf("h%02d_0000:%02x:00.0", i%20, i/20), device.Error)
		v.Hostname, v.Type, v.Model, v.Vendor = fmt.Sprintf("h%02d", i%20), "NVME", "X 100\x1b[31m", "Acme"
		v.Serial = fmt.Sprintf("S%03d", i)
		v.UpdatedAt, v.Dirty = clock.Add(-time.Duration(i)*time.Minute), true
		switch {
		case i < 100:
			v.DeviceState, v.CleanStep = device.Cleaning, &contract.CleanStep{Step: "zero", Priority: 70, Interface: "deploy"}
		case i < 350:
			v.DeviceState = device.PendingCleaning
		default:
			v.Fault, v.NeedsOperator = "io_error", true
			v.LastError, v.Remedy = "write failed at 4 MiB\x1b]0;owned\x07", "clean it again, or retire it"
		}
		devices[v.Name] = running(v)
	}
	list := func(string) (all []client.Execution, err error) {
		switch told, _ := os.ReadFile(os.Getenv(fleetNews)); string(told) {
		case "away":
			return nil, serviceerror.NewUnavailable("closing")
		case "back":
			delete(devices, "h00_0000:00:00.0")
			all = append(all, cleaningAt("new-device", 0, 100*mib, 0, ""))
		}
		for _, e := range devices {
			all = append(all, e)
		}
		return all, nil
	}
	describe := func(name string) (client.Execution, error) {
		if name == "new-device" {
			return cleaningAt(name, 99*mib, 100*mib, 99*time.Second, ""), nil
		}
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

// uncolored takes the colors out of text.
func uncolored(text string) string {
	for _, c := range []terminal.Color{terminal.Good, terminal.Busy, terminal.Warn, terminal.Bad, terminal.Title,
		terminal.Faint, "0"} {
		text = strings.ReplaceAll(text, "\x1b["+string(c)+"m", "")
	}
	return text
}

const (
	takesTerminal = "\x1b[?1049h"
	givesTerminal = "\x1b[?1049l"
)

// after waits until a text was written after another.
func (p *pseudoTerminal) after(mark int, text string) {
	p.t.Helper()
	p.waits(text, func(written string) bool { return strings.Contains(written[mark:], text) })
}

// The picture of 600 devices follows the size of its terminal and the keys, and stays after the end.
func TestWatchOnATerminal(t *testing.T) {
	p := onTerminal(t, 60, 12, "burnish-fleet", "watch")
	p.after(0, "250 failed")
	require.NotContains(t, p.written(), "BUDGET")
	mark := len(p.written())
	require.NoError(t, pty.Setsize(p.file, &pty.Winsize{Cols: 180, Rows: 50}))
	p.after(mark, "BUDGET")
	mark = len(p.written())
	p.types("/h19_0000:1d\r\r")
	p.after(mark, "needs operator")
	p.after(mark, "clean it again, or retire it")
	p.types("q")
	require.Equal(t, exitInterrupted, p.ends())
	written := p.written()
	require.Greater(t, strings.LastIndex(written, givesTerminal), strings.LastIndex(written, takesTerminal))
	_, left, _ := strings.Cut(written, givesTerminal)
	require.Contains(t, left, "250 failed")
	require.Contains(t, left, "h19_0000:1d:00.0")
	require.NotContains(t, left, "h00_0000")
	require.NotContains(t, written, "owned\x07")
	kept, _, erases := strings.Cut(left, "\x1b[J\x1b[?25h")
	require.True(t, erases)
	require.NotContains(t, kept[strings.LastIndex(kept, "\n"):], "_0000", "the line that is erased then is empty")
}

// While the server is away, the last rows stay; then one device has come, and another is gone.
func TestWatchOutlivesItsServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet")
	t.Setenv(fleetNews, file)
	p := onTerminal(t, 100, 30, "burnish-fleet", "watch")
	p.after(0, "250 failed")
	require.NoError(t, os.WriteFile(file, []byte("away"), 0o600))
	p.after(0, "not updated since")
	require.NotContains(t, p.written(), "gone")
	mark := len(p.written())
	require.NoError(t, os.WriteFile(file, []byte("back"), 0o600))
	p.after(mark, "new-device")
	p.after(mark, "h00_0000:00:00.0: gone")
	p.types("\x03")
	require.Equal(t, exitInterrupted, p.ends())
}

// Ctrl-Z gives the terminal back to the shell, and fg takes it again.
func TestWatchIsStoppedAndContinued(t *testing.T) {
	script := `set -m; burnish-fleet watch; echo "stopped"; read line; fg; echo "ended"`
	p := onTerminal(t, 80, 24, "sh", "-c", script)
	p.after(0, "250 failed")
	p.types("\x1a")
	p.after(0, "stopped\r\n")
	written := p.written()
	stopped := strings.LastIndex(written, "stopped\r\n")
	require.Greater(t, strings.LastIndex(written, givesTerminal), strings.LastIndex(written, takesTerminal))
	require.NotContains(t, written[stopped:], "failed", "it draws while it is stopped")
	p.types("\n")
	p.after(stopped, takesTerminal)
	p.after(stopped, "250 failed")
	p.types("\x03")
	p.after(stopped, "ended\r\n")
	p.ends()
}

// A watch that no shell could continue is not stopped.
func TestWatchIsNotStoppedForGood(t *testing.T) {
	p := onTerminal(t, 80, 24, "burnish-fleet", "watch") // the leader of its session
	p.after(0, "250 failed")
	p.types("\x1a")
	p.after(0, givesTerminal)
	p.after(strings.Index(p.written(), givesTerminal), takesTerminal)
	p.types("\x03")
	require.Equal(t, exitInterrupted, p.ends())
}

// Each command that goes on has the live view, and what its rows open.
func TestLiveViewsOnATerminal(t *testing.T) {
	for name, tt := range map[string]struct {
		args          []string
		shows, opened string
	}{
		"top":    {[]string{"top", "--watch", "--interval", "1s"}, "600 devices on 20 hosts", "h00_0000:00:00.0"},
		"list":   {[]string{"list", "--watch", "--sort-by", "fault"}, "600 devices", "clean it again, or retire it"},
		"events": {[]string{"events", "--follow", "--state", "error"}, "events", "clean it again, or retire it"},
	} {
		t.Run(name, func(t *testing.T) {
			p := onTerminal(t, 120, 40, "burnish-fleet", tt.args...)
			p.after(0, tt.shows)
			p.after(0, "q end")
			mark := len(p.written())
			if name == "top" {
				p.types("j")
			}
			p.types("\r")
			p.after(mark, tt.opened)
			p.types("\x03")
			require.Equal(t, exitInterrupted, p.ends())
			_, left, given := strings.Cut(p.written(), givesTerminal)
			require.True(t, given)
			require.Contains(t, left, tt.shows)
			require.NotContains(t, p.written(), "owned\x07")
		})
	}
}
