package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// interruption is one command line that Ctrl-C ends.
type interruption struct {
	l     deviceClient
	stdin io.Reader
	// dialed is called when the command has its connection, paused when it waits, and asked
	// with what it has written on stderr.
	dialed, paused func(ctrlC func())
	asked          func(text string, ctrlC func())
}

func (i interruption) burnish(t *testing.T, args ...string) ran {
	t.Helper()
	var errs *listener
	got := burnishWith(t, i.l, func(a *app, ctrlC func()) {
		errs = &listener{heard: func(text string) {
			if i.asked != nil {
				i.asked(text, ctrlC)
			}
		}}
		a.stdin, a.stderr, a.terminal = i.stdin, errs, func() bool { return true }
		a.dial = func(context.Context) (deviceClient, error) {
			if i.dialed != nil {
				i.dialed(ctrlC)
			}
			return i.l, nil
		}
		a.pause = func(ctx context.Context, _ time.Duration) error {
			if i.paused != nil {
				i.paused(ctrlC)
			}
			return ctx.Err()
		}
	}, args...)
	got.errors = errs.String()
	return got
}

// listener is a writer that others listen to.
type listener struct {
	mu    sync.Mutex
	text  bytes.Buffer
	heard func(text string)
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	n, err := l.text.Write(p)
	text := l.text.String()
	l.mu.Unlock()
	l.heard(text)
	return n, err
}

func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Ctrl-C during --wait is no failure of the device, and the line says that its clean goes on.
func TestInterruptedWait(t *testing.T) {
	l := &fakeClient{
		onUpdate: func(context.Context, string, string, any) (contract.Result, error) {
			return contract.Result{Device: in("d1", device.PendingCleaning)}, nil
		},
		onDescribe: func(string) (client.Execution, error) { return running(in("d1", device.Cleaning)), nil },
		onQuery:    func(context.Context, string) (contract.DeviceStatus, error) { return in("d1", device.Cleaning), nil },
	}
	waits := interruption{l: l, paused: func(ctrlC func()) { ctrlC() }}
	line := "interrupted; the clean goes on; see burnish show d1\n"
	require.Equal(t, ran{exitInterrupted, "", "burnish: clean d1: " + line}, waits.burnish(t, "clean", "d1", "--wait"))
	require.Equal(t, ran{exitInterrupted, "", "burnish: provide d1: " + line},
		waits.burnish(t, "provide", "d1", "--wait", "--timeout", "1h"))

	got := waits.burnish(t, "clean", "d1", "d2", "--wait")
	require.Equal(t, exitInterrupted, got.code)
	require.Regexp(t, `burnish: clean d[12]: interrupted; the clean goes on; see burnish show d[12]\n`, got.errors,
		"two are asked at once")
	require.Contains(t, got.errors, "burnish: clean: interrupted; 0 of 2 devices are done")

	got = waits.burnish(t, "clean", "d1", "--wait", "-o", "json")
	require.Equal(t, exitInterrupted, got.code)
	require.JSONEq(t,
		`{"error":{"code":"interrupted","device":"d1","state":"cleaning","message":"interrupted; the clean goes on","remedy":"see burnish show d1"}}`, got.errors)
}

// What an interrupted request may still do is said where it was sent, and nowhere else.
func TestInterruptedRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		dialed func(func())
		err    error // of the update
		says   string
	}{
		"before it was sent": {dialed: func(ctrlC func()) { ctrlC() }, says: "interrupted; nothing was sent"},
		"sent":               {err: client.UnconfirmedError{Err: context.Canceled}, says: "interrupted; the request may still be carried out; see burnish show d1"},
		"accepted":           {err: client.AcceptedError{Err: context.Canceled}, says: "interrupted; it was accepted, and goes on; see burnish show d1"},
		"never sent":         {err: context.Canceled, says: "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			ctrlC := func() {}
			i := interruption{dialed: func(c func()) {
				if ctrlC = c; tt.dialed != nil {
					tt.dialed(c)
				}
			}}
			i.l = &fakeClient{onUpdate: func(context.Context, string, string, any) (contract.Result, error) {
				ctrlC()
				return contract.Result{}, tt.err
			}}
			require.Equal(t, ran{exitInterrupted, "", "burnish: abort d1: " + tt.says + "\n"}, i.burnish(t, "abort", "d1"))
		})
	}
}

// Those devices that an interrupted command has not come to are counted, and not asked.
func TestInterruptedBulk(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("d%02d", i))
	}
	var ctrlC func()
	var l *fakeClient
	l = &fakeClient{onUpdate: func(_ context.Context, name, _ string, _ any) (contract.Result, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.sent) > 20 {
			ctrlC()
		}
		return contract.Result{Device: in(name, device.Manageable)}, nil
	}}
	got := interruption{l: l, dialed: func(c func()) { ctrlC = c }}.burnish(t,
		append([]string{"manage", "--yes"}, names...)...)
	require.Equal(t, exitInterrupted, got.code, got.errors)
	asked := len(l.sent)
	require.Less(t, asked, len(names))
	require.Equal(t, asked, strings.Count(got.out, "\n"))
	require.Equal(t, fmt.Sprintf("burnish: manage: interrupted; %d of 40 devices are done, %d were not asked\n", asked,
		40-asked), got.errors)
}

// Ctrl-C at the question is an answer of its own: nothing was sent.
func TestInterruptedQuestion(t *testing.T) {
	var names []string
	for i := range confirmThreshold + 1 {
		names = append(names, fmt.Sprintf("d%02d", i))
	}
	stdin, _ := io.Pipe() // nobody answers
	l := &fakeClient{onList: func(string) ([]client.Execution, error) { return nil, nil }}
	got := interruption{l: l, stdin: stdin, asked: func(text string, ctrlC func()) {
		if strings.HasSuffix(text, "y/N ") {
			ctrlC()
		}
	}}.burnish(t, append([]string{"abort"}, names...)...)
	require.Equal(t, exitInterrupted, got.code, got.errors)
	require.True(t, strings.HasSuffix(got.errors, "\nburnish: abort: interrupted; nothing was sent\n"), got.errors)
}

// A file that never ends, and a terminal on which nobody types, end with the first Ctrl-C.
func TestInterruptedRead(t *testing.T) {
	stdin, _ := io.Pipe()
	fifo := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, args := range [][]string{
		{"enroll", "-f", "-"}, {"enroll", "-f", fifo}, {"plan", "--identify", "-"}, {"instance", "bind", someInstance, "-f", "-"},
	} {
		t.Run(strings.Join(args[:2], " ")+" "+filepath.Base(args[len(args)-1]), func(t *testing.T) {
			got := burnishWith(t, nil, func(a *app, ctrlC func()) {
				a.stdin = &first{Reader: stdin, read: ctrlC}
				if args[len(args)-1] == fifo {
					time.AfterFunc(time.Millisecond, ctrlC)
				}
			}, args...)
			require.Equal(t, exitInterrupted, got.code)
			require.Contains(t, got.errors, ": interrupted; nothing was sent\n")
			require.Empty(t, got.out)
		})
	}
}

// first calls read when it is read.
type first struct {
	io.Reader
	read func()
}

func (f *first) Read(p []byte) (int, error) {
	f.read()
	return f.Reader.Read(p)
}

// A program that cannot write does not come to an end by itself. The second Ctrl-C ends it at
// once, as any other program.
func TestTheSecondInterruptEndsAtOnce(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer reader.Close()
	size, err := unix.FcntlInt(writer.Fd(), unix.F_SETPIPE_SZ, 4096)
	require.NoError(t, err)
	cmd := &exec.Cmd{Path: self, Args: []string{"burnish", "states", "-o", "json"}, Stdout: writer}
	require.NoError(t, cmd.Start())
	require.NoError(t, writer.Close())
	require.Eventually(t, func() bool {
		full, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCINQ)
		return err == nil && full == size
	}, time.Minute, 10*time.Millisecond, "it writes more than the pipe takes")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // ProcessState says how it ended
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		select {
		case <-tick.C:
			_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		case <-limit:
			require.NoError(t, cmd.Process.Kill())
			t.Fatal("many interrupts did not end it")
		case <-ended:
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, status.Signaled(), "%v", cmd.ProcessState)
			require.Equal(t, syscall.SIGINT, status.Signal())
			return
		}
	}
}
