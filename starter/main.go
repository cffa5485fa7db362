// Command burnish is the operator's command line: it enrolls devices, binds them to
// instances, requests cleans, and shows the state of each device. It connects to Temporal, by
// the TEMPORAL_* variables, or to the HTTP API that --api names. The device's workflow
// decides what is allowed, never this program.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"google.golang.org/grpc/grpclog"

	"burnish/internal/config"
)

// version is set by the build.
var version = "dev"

// Exit codes, the same for every command.
const (
	exitOK          = 0
	exitFailed      = 1 // refused, or failed
	exitUsage       = 2
	exitPartly      = 3 // some of many failed
	exitTimeout     = 4 // --wait or --timeout expired
	exitUnreachable = 5 // the server cannot be reached: what was sent may still be carried out
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	// gRPC would write to stderr beside our one line.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	a := newApp()
	a.dial = a.connect
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// newApp is an invocation from a shell, without its connection.
func newApp() *app {
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		api:      os.Getenv(config.VarAPI),
		getenv:   os.Getenv,
		terminal: func() bool { return term.IsTerminal(os.Stdin.Fd()) },
		now:      time.Now,
		pause:    pause,
	}
	if term.IsTerminal(os.Stdout.Fd()) {
		a.window = func() int {
			width, _, _ := term.GetSize(os.Stdout.Fd()) // 0: not known
			return width
		}
		if os.Getenv("TERM") != "dumb" {
			a.screen = os.Stdout
		}
	}
	return a
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
