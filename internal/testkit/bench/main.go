// Command bench measures what Burnish costs, part by part, each beside a baseline that is measured
// in the same run: docs/bench.md says which. It fails when a bound is broken. It needs the programs
// of `make build`.
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

	"burnish/internal/config"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/site"
)

// part is a value of -only. Its first error ends it.
type part struct {
	name    string
	measure func(*bench, context.Context)
}

// parts are all, in their order. The first one needs a machine that has nothing else to do.
var parts = []part{
	{"commands", (*bench).commands}, {"turnover", (*bench).turnover}, {"disk", (*bench).disk},
	{"nvme", (*bench).nvme}, {"placement", (*bench).placement}, {"redfish", (*bench).redfish},
	{"limits", (*bench).limits}, {"oneview", (*bench).oneview}, {"api", (*bench).api},
	{"instances", (*bench).instances}, {"peers", (*bench).peers}, {"fleet", (*bench).fleet},
	{"cluster", (*bench).cluster},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "a short run: it shows that everything works; its figures are rough")
	only := flags.String("only", "", "one of "+strings.Join(names, ", ")+"; all without it")
	output := flags.String("o", "table", "table or json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *output != "table" && *output != "json" || *only != "" && !slices.Contains(names, *only) {
		return fmt.Errorf("%q is not known; see -help", strings.Join(args, " "))
	}
	config.SetDefaultGOGC() // as burnish-worker does
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := measure(ctx, *quick, *only)
	write := r.writeTable
	if *output == "json" {
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

// measure works in a folder of its own below run, which it removes.
func measure(ctx context.Context, quick bool, only string) (r result, err error) {
	b := &bench{quick: quick, began: time.Now()}
	err = must.Try(func() {
		b.programs = must.Get(site.Built("bin"))
		below := must.Get(filepath.Abs("run"))
		must.Do(os.MkdirAll(below, 0o700))
		b.dir = must.Get(os.MkdirTemp(below, "bench-"))
		b.run(ctx, only)
	})
	return b.result, errors.Join(err, os.RemoveAll(b.dir))
}
