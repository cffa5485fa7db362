package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/testkit/site"
)

const (
	maxEnrollFile = 30 // seconds, on an idle machine
	// commandFleet is how many devices one file enrolls, commandProvided how many of them one
	// command provides.
	commandFleet    = 500
	commandProvided = 166
)

// commands measures commands over many devices with a real worker: a file that enrolls 500, and
// the provide of 166 of them, each of which is answered.
func (b *bench) commands(ctx context.Context) error {
	dir, err := b.folder("commands")
	if err != nil {
		return err
	}
	server, err := b.server(ctx, dir)
	if err != nil {
		return err
	}
	s, err := site.New(b.programs, server, site.DefaultNamespace, "h1", dir)
	if err != nil {
		return err
	}
	w := s.Worker("all")
	if err := w.Start(ctx); err != nil {
		return err
	}
	b.atEnd(func() error { return w.Process.Stop() })
	var fleet strings.Builder
	fleet.WriteString("devices:\n")
	for i := range commandFleet {
		fmt.Fprintf(&fleet, "  - {name: d%d, host: h1, driver: fake, set: {size: 64KiB}, labels: {provided: \"%t\"}}\n", i, i < commandProvided)
	}
	file := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(file, []byte(fleet.String()), 0o600); err != nil {
		return err
	}
	b.progress("commands: enrolling %d devices", commandFleet)
	enrolled, err := timedCommand(ctx, s, commandFleet, "enroll", "-f", file)
	if err != nil {
		return err
	}
	provided, err := timedCommand(ctx, s, commandProvided, "provide", "--label", "provided=true", "--yes")
	if err != nil {
		return err
	}
	b.add(
		single(fmt.Sprintf("`burnish enroll -f` of %d devices", commandFleet), "s", enrolled).atMost(maxEnrollFile),
		single(fmt.Sprintf("`burnish provide` of %d devices, each answered", commandProvided), "s", provided),
	)
	return nil
}

// timedCommand runs a command that succeeds, and prints a line for each device.
func timedCommand(ctx context.Context, s *site.Site, devices int, args ...string) (seconds float64, err error) {
	began := time.Now()
	out, err := s.Must(ctx, args...)
	seconds = time.Since(began).Seconds()
	if lines := strings.Count(out, "\n"); err == nil && lines != devices {
		err = fmt.Errorf("%s printed %d lines, not one for each of %d devices", args[0], lines, devices)
	}
	return seconds, err
}
