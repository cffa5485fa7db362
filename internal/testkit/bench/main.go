// Command bench measures what a turnover (bind, unbind, clean, available) costs as a
// DeviceLifecycle, against a bare entity workflow of one file (baseline.go) on the
// same real server and disk, and fails when a bound of docs/bench.md is broken. The
// devices are simulated and so small that erasing them takes no time: what is left
// is the orchestration. It needs bin/burnish-devserver; its workers are child
// processes of its own, the same for product and baseline. Beside that it measures what
// wiping costs, files against dd, NVMe drives against nvme-cli and blkdiscard, and what a
// real Placement and Nova's notifications cost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"burnish/internal/testkit/nvmesim"
)

// workerCommand is the first argument of a child that is a worker process.
const workerCommand = "worker"

func main() {
	if code, ok := nvmesim.RunIfEmulated(); ok {
		os.Exit(code)
	}
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	quick                      bool
	output, bin, dir, profiles string
	only                       string
}

func run(args []string) error {
	if len(args) > 0 && args[0] == workerCommand {
		return workerMain(args[1:], os.Stdin, os.Stdout)
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "a short run: it shows that everything works; its figures are rough")
	flags.StringVar(&o.only, "only", "", "one of "+strings.Join(parts, ", ")+"; all without it")
	flags.StringVar(&o.output, "o", "table", "table or json")
	flags.StringVar(&o.bin, "bin", "bin", "the folder with burnish-devserver")
	flags.StringVar(&o.dir, "dir", "run", "the folder to work in; its disk is part of what is measured")
	flags.StringVar(&o.profiles, "profiles", "", "write profiles of the workers into this folder")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.output != "table" && o.output != "json" || o.only != "" && !slices.Contains(parts, o.only) {
		return fmt.Errorf("%q is not known; see -help", strings.Join(args, " "))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, failed := o.bench(ctx)
	if failed != nil && len(r.Measures) == 0 {
		return failed
	}
	write := r.writeTable
	if o.output == "json" {
		write = r.writeJSON
	}
	// What was measured before something failed is told too.
	if err := errors.Join(failed, write(os.Stdout)); err != nil {
		return err
	}
	if broken := r.broken(); len(broken) > 0 {
		return fmt.Errorf("out of bounds: %s", strings.Join(broken, "; "))
	}
	return nil
}

// bench measures in a folder of its own, which it removes.
func (o options) bench(ctx context.Context) (r result, err error) {
	for _, dir := range []string{o.dir, o.profiles} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return r, err
		}
	}
	dir, err := os.MkdirTemp(o.dir, "bench-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return r, err
	}
	b := newBench(o, dir)
	defer func() { err = errors.Join(err, b.stop()) }()
	err = b.measure(ctx)
	return b.result, err
}

// say tells a person who waits how far it is.
func say(began time.Time, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}
