// Command burnish-devserver is a complete Temporal server in one process: the
// four Temporal services over one SQLite database, with the Web UI beside
// them and Burnish's search attributes registered.
//
// It serves a laptop, a test and a small site on one machine. It has no
// authentication, so it listens on loopback by default. A larger
// site runs Temporal's own production server instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// version is set by the build.
var version = "dev"

// Exit codes; README documents them for every Burnish program.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	stdout := os.Stdout
	// The Web UI's HTTP library logs to os.Stdout, which belongs to the ready line.
	os.Stdout = os.Stderr
	if os.Getenv("GOGC") == "" {
		// One machine has the memory: garbage is collected when the heap has grown fourfold.
		debug.SetGCPercent(300)
	}
	os.Exit(run(os.Args[1:], stdout, os.Stderr))
}

// run is the whole program but for the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printed(fmt.Fprint(stdout, usage))
	case err != nil:
		complain(stderr, fmt.Errorf("%w (burnish-devserver --help lists the flags)", err))
		return exitUsage
	case opts.version:
		return printed(fmt.Fprintf(stdout, "burnish-devserver %s\n", version))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	// While it stops, the services warn that they no longer reach each other.
	context.AfterFunc(ctx, func() { level.Set(slog.LevelError) })
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: &level}))
	fatal := func(message string) {
		complain(stderr, errors.New(message))
		os.Exit(exitFailed)
	}
	if err := serve(ctx, opts, logger, stdout, fatal); err != nil {
		complain(stderr, err)
		return exitFailed
	}
	return exitOK
}

// serve runs the server until ctx ends and stops it in order. It returns nil
// after a stop that was asked for, also one asked for during the start; fatal
// ends the process where Temporal cannot go on.
func serve(ctx context.Context, opts options, logger *slog.Logger, stdout io.Writer, fatal func(string)) (err error) {
	db, err := openDatabase(opts.db, opts.unsafeFast)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.unlock()) }()

	net, err := planNetwork(opts)
	if err != nil {
		return err
	}
	if !net.ip.IsLoopback() {
		logger.Warn("anyone who reaches this address may do everything: there is no authentication", "ip", net.ip.String())
	}
	if err := db.prepare(opts.namespace); err != nil {
		return err
	}
	srv, err := startServer(db, net, logger, fatal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop(), db.checkpoint()) }()

	err = srv.awaitReady(ctx, opts.namespace)
	if err == nil && net.ui != 0 {
		err = srv.startUI(ctx, opts.namespace)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it was ready
		}
		return err
	}
	if _, err := fmt.Fprintln(stdout, readyLine(net, db)); err != nil {
		return fmt.Errorf("write the ready line: %w", err)
	}
	<-ctx.Done()
	return nil
}

// readyLine is what scripts wait for: it is printed once, and requests are
// answered from then on.
func readyLine(net network, db *database) string {
	ui := "web ui off"
	if net.ui != 0 {
		ui = "web ui http://" + net.uiAddress()
	}
	return fmt.Sprintf("burnish-devserver ready: temporal %s, %s, database %s", net.frontendAddress(), ui, db)
}

// complain prints the program's one line of error; nothing is left to do
// where stderr itself is gone.
func complain(stderr io.Writer, err error) {
	_, _ = fmt.Fprintf(stderr, "burnish-devserver: %v\n", err)
}

// printed turns the outcome of a print into an exit code.
func printed(_ int, err error) int {
	if err != nil {
		return exitFailed
	}
	return exitOK
}
