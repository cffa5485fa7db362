package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"burnish/internal/testkit/site"
)

const (
	maxEnrollFile = 30 // seconds, on an idle machine
	// idleFrom is the part of its processors that is free on an idle machine.
	idleFrom = 0.9
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
	free, err := freeProcessors(ctx)
	if err != nil {
		return err
	}
	b.progress("commands: enrolling %d devices", commandFleet)
	enrolled, err := timedCommand(ctx, s, commandFleet, "enroll", "-f", file)
	if err != nil {
		return err
	}
	after, err := freeProcessors(ctx)
	if err != nil {
		return err
	}
	free = min(free, after)
	b.note("commands: %.0f %% of the processors were free before and after the enrollment", 100*free)
	provided, err := timedCommand(ctx, s, commandProvided, "provide", "--label", "provided=true", "--yes")
	if err != nil {
		return err
	}
	b.add(
		single(fmt.Sprintf("`burnish enroll -f` of %d devices", commandFleet), "s", enrolled).
			bounded(fmt.Sprintf("≤ %d s on an idle machine", maxEnrollFile), enrolled > maxEnrollFile, free > idleFrom),
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

// freeProcessors is the part of the processors' time that was not used in two seconds.
func freeProcessors(ctx context.Context) (float64, error) {
	idle, all, err := processorTime()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(2 * time.Second):
	}
	idleAfter, allAfter, err := processorTime()
	return (idleAfter - idle) / (allAfter - all), err
}

// processorTime is the time of all processors since the machine's start, in ticks.
func processorTime() (idle, all float64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, err
		}
		if all += ticks; i == 3 || i == 4 { // idle, and waiting for a disk
			idle += ticks
		}
	}
	return idle, all, nil
}
