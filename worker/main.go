// Command burnish-worker is the Temporal worker: in role control it runs the devices'
// workflows and calls the inventory, in role host it carries out the steps on one host, in
// role all both. Its settings come from the environment; --help lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/worker"
	"golang.org/x/sys/unix"

	"burnish/activities"
	"burnish/internal/config"
	"burnish/internal/hardware/drivers"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/hardware/script"
	"burnish/internal/host"
	"burnish/internal/logs"
	"burnish/internal/proof"
	"burnish/internal/telemetry"
	"burnish/workflows/client"
)

// version is set when the program is built.
var version = "dev"

func main() {
	// What is in a worker's memory (passwords, keys, tokens) is in no core dump. Not 0: a program that
	// the kernel pipes core dumps to would get them all the same.
	err := unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
	if err == nil {
		err = run(os.Args[1:])
	}
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
		case privileged.Subcommand:
			return runNVMeHelper(args[1:])
		case script.Subcommand:
			return script.RunSupervisor()
		case "key":
			return printHostKey()
		case "--version", "version":
			fmt.Fprintln(os.Stdout, "burnish-worker", version)
			return nil
		}
		return usageError{
			fmt.Errorf("unknown argument %q: burnish-worker takes its settings from the environment, see --help", args[0])}
	}
	settings, err := config.LoadWorker()
	if err != nil {
		return usageError{err}
	}
	if err := validate(settings); err != nil {
		return usageError{err}
	}
	config.SetDefaultGOGC()
	logger := logs.New(os.Stderr,
		logs.Options{Format: settings.LogFormat, Level: settings.Least(), ErrorLevel: activities.ErrorLevel}).
		With(logs.Role, string(settings.Role), logs.Worker, settings.Host)
	logSettings(logger, settings)

	// The first signal stops the worker gracefully, the second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	identity, err := host.NewIdentity("burnish-worker " + string(settings.Role) + " " + settings.Host)
	if err != nil {
		return err
	}
	figures, err := telemetry.New(version, string(settings.Role), logger)
	if err != nil {
		return err
	}
	notify := newNotices(logger)
	server := connection{log: logger, status: notify.status, dial: func(ctx context.Context) (*config.Connection, error) {
		return config.Dial(ctx, logger, identity.String(), figures.Options, config.ForWorkers)
	}}
	temporal, err := server.await(ctx)
	if ctx.Err() != nil { // a signal ended the wait
		notify.stopping()
		return nil
	}
	if err != nil {
		return err
	}
	defer temporal.Close()
	return serve(ctx, settings, temporal, identity, figures, logger,
		surroundings{newDrivers: drivers.New, watch: activities.WatchInterval, notify: notify})
}

// surroundings are what tests replace: how drivers are made, how often devices are watched, and who
// learns that the worker polls.
type surroundings struct {
	newDrivers newDrivers
	watch      time.Duration
	notify     notices
}

func serve(ctx context.Context, settings config.Worker, temporal *config.Connection, identity host.Identity,
	figures *telemetry.Telemetry, logger *slog.Logger, by surroundings) (err error) {
	var stops []func() error
	defer func() {
		for i := len(stops) - 1; i >= 0; i-- {
			err = errors.Join(err, stops[i]())
		}
	}()
	use := func(stop func() error, err error) error {
		if stop != nil {
			stops = append(stops, stop)
		}
		return err
	}
	failed := make(chan error, 2)
	fatal := func(err error) {
		select {
		case failed <- err:
		default: // one reason to stop is enough
		}
	}
	base := worker.Options{
		WorkerStopTimeout:           settings.GracefulStop,
		DisableRegistrationAliasing: true,
		OnFatalError:                fatal,
	}
	server, err := newServerGuard(ctx, settings, temporal.Client, temporal.Namespace, fatal)
	if err != nil {
		return err
	}
	stops = append(stops, runTasks(ctx, logger, task{"checking the Temporal cluster", nil, server.watch}))
	if err := use(serveFigures(ctx, settings, figures, logger, fatal)); err != nil {
		return err
	}
	devices := client.New(temporal)
	recovery := &activities.Recovery{Client: devices, Namespace: temporal.Namespace, Identity: identity, Log: logger}
	if settings.Role.Hosts() {
		h, err := startHost(settings, server, figures, base, logger, by.newDrivers)
		if err := use(h.stop, err); err != nil {
			return err
		}
		var tasks []task
		for _, t := range hostTasks(recovery, h, by.watch, settings.SweepInterval) {
			tasks = append(tasks, server.before(t))
		}
		stops = append(stops, runTasks(ctx, logger, tasks...))
	}
	if settings.Role.Controls() {
		pools, closePools, err := openPools(settings, logger)
		if err := use(closePools, err); err != nil {
			return err
		}
		if err := use(figures.ShowFleet(fleetOf(settings, devices, pools, logger))); err != nil {
			return err
		}
		if err := use(startControl(settings, server, pools, base, logger)); err != nil {
			return err
		}
		tasks := append(cloudTasks(settings, devices, logger), limitsTask(settings, devices),
			task{"ending orphaned inventory calls", orphanCheckDelays, recovery.EndControlOrphans})
		tasks = append(tasks, pollTasks(settings, pools, devices, poolFileInterval)...)
		if settings.Versioned {
			tasks = append(tasks, task{"making the first version current", nil, func(ctx context.Context) error {
				return devices.BeginVersions(ctx, version)
			}})
		}
		stops = append(stops, runTasks(ctx, logger, tasks...))
		connected := client.Connected{Client: devices,
			At: client.Server{Address: temporal.Address, Namespace: temporal.Namespace}}
		if err := use(serveAPI(ctx, settings, connected, figures, logger, fatal)); err != nil {
			return err
		}
		if err := use(serveMetadata(ctx, settings, devices, logger, fatal)); err != nil {
			return err
		}
	}
	polls := func(ctx context.Context, q telemetry.Queue) (bool, error) {
		return devices.Polls(ctx, identity.String(), q.Name, q.Workflows)
	}
	figures.Started(telemetry.Server{Check: server.check, Polls: polls}, queues(settings)...)
	logger.Info("worker started", "version", version, "state_dir", settings.StateDir)
	by.notify.ready()
	defer by.notify.stopping()
	defer figures.Stopping()
	select {
	case <-ctx.Done():
		logger.Info("worker is stopping: running steps finish their chunk", "timeout", settings.GracefulStop)
		return nil
	case err := <-failed:
		return err
	}
}

// hostTasks recover what a killed worker of this host has left, and then watch for devices
// if there is a scanner: the first scan comes after the first round of recovery (S2.5). At
// each reconcile interval they bring back devices without a workflow, and compare those that are
// offered; 0 is never.
func hostTasks(recovery *activities.Recovery, h hostWorker, every, reconcile time.Duration) []task {
	reported := make(chan struct{})
	var once sync.Once
	onHost := func(do func(context.Context, *host.Host) error) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, h.host) }
	}
	tasks := []task{
		{"reporting the host's start to its devices", nil, func(ctx context.Context) error {
			defer once.Do(func() { close(reported) })
			return recovery.ReportHostStart(ctx, h.host)
		}},
		{"ending orphaned steps", orphanCheckDelays, onHost(recovery.EndHostOrphans)},
		{"receiving the kernel's events", nil, h.offered.Watch},
	}
	if reconcile > 0 {
		tasks = append(tasks, task{"bringing back devices without a workflow", nil, func(ctx context.Context) error {
			select {
			case <-reported:
			case <-ctx.Done():
			}
			return repeat(ctx, reconcile, onHost(recovery.RecoverLost))
		}}, task{"comparing offered devices", nil, func(ctx context.Context) error {
			return repeat(ctx, reconcile, h.offered.Compare)
		}})
	}
	if h.scanner == nil {
		return tasks
	}
	return append(tasks, task{"ending an orphaned scan", orphanCheckDelays, onHost(recovery.EndOrphanedScan)},
		task{"watching for devices", nil, func(ctx context.Context) error {
			select {
			case <-reported:
				h.scanner.Watch(ctx, every)
			case <-ctx.Done():
			}
			return ctx.Err()
		}})
}

// task is what a worker does when it starts, and once more after each pause.
type task struct {
	what   string
	pauses []time.Duration
	do     func(context.Context) error
}

// orphanCheckDelays are the pauses between checks for orphans: the server may dispatch a
// task over a connection that is about to break, which a check at the start would miss.
var orphanCheckDelays = []time.Duration{time.Second, 2 * time.Second, 8 * time.Second}

// runTasks starts tasks; stop ends them and waits for their end.
func runTasks(ctx context.Context, logger *slog.Logger, tasks ...task) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	for _, t := range tasks {
		done.Go(func() {
			for _, pause := range append([]time.Duration{0}, t.pauses...) {
				if !wait(ctx, pause) || !retryUntilDone(ctx, logger, t) {
					return
				}
			}
		})
	}
	return func() error {
		cancel()
		done.Wait()
		return nil
	}
}

// retryUntilDone repeats a task that fails until it succeeds or ctx ends: the devices must be
// recovered also if the server is unreachable while the worker starts.
func retryUntilDone(ctx context.Context, logger *slog.Logger, t task) bool {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := t.do(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		logger.Warn(t.what+" failed and is retried", "error", err, "in", pause)
		if !wait(ctx, pause) {
			return false
		}
	}
}

// repeat does something after each pause, until it fails or ctx ends.
func repeat(ctx context.Context, pause time.Duration, do func(context.Context) error) error {
	for wait(ctx, pause) {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// wait waits for the pause, and says whether ctx is still alive.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// printHostKey prints the entry of this host for the file of BURNISH_HOST_KEYS. It makes no key: without the worker's
// environment that would be another one.
func printHostKey() error {
	settings, err := config.LoadWorker()
	if err != nil {
		return usageError{err}
	}
	key, err := proof.ReadHostKey(settings.HostKeyFile())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; the host's worker makes it at its first start: run this with its environment", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "- name: %s\n  key: %s\n", settings.Host, key.Public())
	return nil
}

func help() error {
	text, err := config.WorkerHelp()
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stdout, `burnish-worker runs Burnish's workflows and steps. It takes its settings from the
environment; an empty variable counts as not set:

`+text+`
Temporal is found by TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_…,
TEMPORAL_API_KEY, as by the command temporal.

burnish-worker key prints this host's entry for the file of BURNISH_HOST_KEYS.

Example:
  TEMPORAL_ADDRESS=127.0.0.1:7233 BURNISH_ROLE=host BURNISH_HOST=h1 \
    BURNISH_HOST_FILE=/etc/burnish/host.yaml burnish-worker
`)
	return nil
}
