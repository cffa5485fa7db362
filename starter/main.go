// Command burnish is the operator's command line: it enrols devices, hands them to
// instances and takes them back, has them cleaned, and shows where each one stands.
// It talks to Temporal alone, by the TEMPORAL_* variables; what is legal is decided
// by the device's own workflow, never here.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc/grpclog"

	"burnish/internal/config"
	"burnish/workflows/client"
)

// version is set by the build.
var version = "dev"

// Exit codes, the same for every command.
const (
	exitOK      = 0
	exitFailed  = 1 // refused, or failed
	exitUsage   = 2
	exitPartly  = 3 // some of many failed
	exitTimeout = 4 // --wait or --timeout ran out
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// gRPC would write to stderr beside our one line.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		dial:     dial,
		terminal: func() bool { return isTerminal(os.Stdin) },
		live:     func() bool { return isTerminal(os.Stdout) && os.Getenv("TERM") != "dumb" },
		now:      time.Now,
		pause:    pause,
	}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// dial connects to Temporal; the SDK's log is not for the operator's eyes.
func dial(ctx context.Context) (deviceClient, error) {
	c, err := config.Dial(ctx, slog.New(slog.DiscardHandler), "")
	if err != nil {
		return nil, err
	}
	return connection{client.New(c), c}, nil
}

// pause waits for d, or as long as ctx lives.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// isTerminal says whether a person can be asked: a character device other than
// the null device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}
