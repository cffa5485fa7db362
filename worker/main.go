// Command burnish-worker does Burnish's work: in role control it runs the devices'
// workflows and talks to the inventory, in role host it carries out the steps on one
// host, in role all both. Its settings come from the environment; --help lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"burnish/activities"
	"burnish/internal/config"
	"burnish/internal/host"
)

// version is set when the program is built.
var version = "dev"

func main() {
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(os.Stderr, "burnish-worker:", line)
	}
	if errors.As(err, new(usageError)) {
		os.Exit(2)
	}
	os.Exit(1)
}

// usageError is a wrong argument or setting.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "-h", "--help", "help":
			return help()
		case "--version", "version":
			fmt.Fprintln(os.Stdout, "burnish-worker", version)
			return nil
		}
		return usageError{fmt.Errorf("%q is not known; burnish-worker takes its settings from the environment, see --help", args[0])}
	}
	settings, err := config.LoadWorker()
	if err != nil {
		return usageError{err}
	}
	level := slog.LevelInfo
	if settings.Debug {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("role", settings.Role, "host", settings.Host)

	// The first signal stops in order, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	temporal, err := config.Dial(ctx, logger)
	if err != nil {
		return err
	}
	defer temporal.Close()
	return serve(ctx, settings, temporal, logger)
}

func serve(ctx context.Context, settings config.Worker, temporal client.Client, logger *slog.Logger) (err error) {
	var stops []func() error
	defer func() {
		for i := len(stops) - 1; i >= 0; i-- {
			err = errors.Join(err, stops[i]())
		}
	}()
	failed := make(chan error, 2)
	fatal := func(err error) {
		select {
		case failed <- err:
		default: // one reason to stop is enough
		}
	}
	attempts, err := host.OpenAttempts(attemptsDir(settings))
	if err != nil {
		return err
	}
	stops = append(stops, attempts.Close)
	base := worker.Options{
		WorkerStopTimeout:           settings.GracefulStop,
		DisableRegistrationAliasing: true,
		OnFatalError:                fatal,
		Interceptors:                []interceptor.WorkerInterceptor{&activities.InHand{Attempts: attempts, Log: logger}},
	}
	recovery := &activities.Recovery{Client: temporal, Log: logger}
	if settings.Role.Hosts() {
		this, stop, err := startHost(settings, temporal, base, logger)
		stops = append(stops, stop)
		if err != nil {
			return err
		}
		recovery.Host = this
	}
	if settings.Role.Controls() {
		stop, err := startControl(settings, temporal, base, logger)
		stops = append(stops, stop)
		if err != nil {
			return err
		}
	}
	stops = append(stops, recovering(ctx, settings, recovery, logger))
	logger.Info("worker started", "version", version, "state_dir", settings.StateDir)
	select {
	case <-ctx.Done():
		logger.Info("worker stops: running steps finish their chunk", "timeout", settings.GracefulStop)
		return nil
	case err := <-failed:
		return err
	}
}

// recovering starts what follows a killed worker, and returns its end.
func recovering(ctx context.Context, settings config.Worker, r *activities.Recovery, logger *slog.Logger) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		again(ctx, logger, "ending orphaned attempts", func(ctx context.Context) error { return r.Orphans(ctx, attemptsDir(settings)) })
	})
	if r.Host != nil {
		done.Go(func() { again(ctx, logger, "telling the devices that the host started", r.Devices) })
	}
	return func() error {
		cancel()
		done.Wait()
		return nil
	}
}

// again repeats what failed until it works or ctx ends: a server that is away while
// a worker starts must not leave its devices behind.
func again(ctx context.Context, logger *slog.Logger, what string, do func(context.Context) error) {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		logger.Warn(what+" failed and is tried again", "error", err, "in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func attemptsDir(settings config.Worker) string { return filepath.Join(settings.StateDir, "attempts") }

func inventoryDir(settings config.Worker) string {
	return filepath.Join(settings.StateDir, "inventory")
}

func help() error {
	text, err := config.WorkerHelp()
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stdout, `burnish-worker does Burnish's work. It takes its settings from the environment:

` + text + `
Temporal is found by TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_…,
TEMPORAL_API_KEY, as by the command temporal.

Example:
  TEMPORAL_ADDRESS=127.0.0.1:7233 BURNISH_ROLE=host BURNISH_HOST=h1 \
    BURNISH_HOST_FILE=/etc/burnish/host.yaml burnish-worker
`)
	return nil
}
