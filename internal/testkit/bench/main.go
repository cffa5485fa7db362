// Command bench measures what a turnover (bind, unbind, clean, available) costs as a
// DeviceLifecycle, compared with a bare entity workflow of one file (baseline.go) on the
// same real server and disk. It fails when a bound of docs/bench.md is broken. The devices
// are simulated and so small that erasing them takes no time: what is left is the
// orchestration. It needs the programs of `make build`. Product and baseline each run in a
// worker process, which is this program again.
//
// Beside that it measures what wiping costs, files compared with dd and NVMe drives with
// nvme-cli and blkdiscard, what a real Placement and Nova's notifications cost, what the
// driver redfish adds to its requests, what the polls of a large OneView appliance cost, and
// what the HTTP API adds to Temporal's own answers, how long the bind of several devices to an
// instance takes, a turnover beside that of Ironic, and how one control worker serves a large
// fleet.
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
)

// workerCommand is the first argument of a child that is a worker process.
const workerCommand = "worker"

// parts are the values of -only.
var parts = []string{"turnover", "disk", "nvme", "placement", "redfish", "limits", "oneview", "api", "instances", "peers", "fleet", "commands"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	quick                            bool
	only, output, bin, dir, profiles string
	against                          string
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
	flags.StringVar(&o.bin, "bin", "bin", "the folder with the programs of make build")
	flags.StringVar(&o.dir, "dir", "run", "the folder to work in; its disk is part of what is measured")
	flags.StringVar(&o.profiles, "profiles", "", "write profiles of the workers into this folder")
	flags.StringVar(&o.against, "against", "", "another build of this program, whose worker takes part in the turnovers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.output != "table" && o.output != "json" || o.only != "" && !slices.Contains(parts, o.only) {
		return fmt.Errorf("%q is not known; see -help", strings.Join(args, " "))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := o.measure(ctx)
	if err != nil && len(r.Figures) == 0 {
		return err
	}
	write := r.writeTable
	if o.output == "json" {
		write = r.writeJSON
	}
	// After a failure the figures so far are written too.
	if err := errors.Join(err, write(os.Stdout)); err != nil {
		return err
	}
	if broken := r.broken(); len(broken) > 0 {
		return fmt.Errorf("out of bounds: %s", strings.Join(broken, "; "))
	}
	return nil
}

// measure works in a folder of its own, which it removes.
func (o options) measure(ctx context.Context) (r result, err error) {
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
	b, err := newBench(o, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	err = b.run(ctx, o.only)
	return b.result, err
}
