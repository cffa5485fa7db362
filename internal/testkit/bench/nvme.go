package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
)

const maxDiscovery = 1000 // milliseconds that the driver adds to nvme-cli

// nvme measures the driver nvme: what it adds to nvme-cli in the discovery of a host full of
// drives, and, in a guest, how fast it zeroes. A note names what cannot be measured here.
func (b *bench) nvme(ctx context.Context) error {
	if err := b.discovery(ctx); errors.Is(err, nvmesim.ErrUnavailable) {
		b.note("nvme: discovery is skipped: %v", err)
	} else if err != nil {
		return err
	}
	return b.guestDrives(ctx)
}

// discovery measures Find and a first Discover of each of many emulated controllers,
// compared with the same calls of nvme-cli alone, one after the other.
func (b *bench) discovery(ctx context.Context) error {
	count, rounds := scale(b, 64, 8), scale(b, 3, 2)
	var controllers []nvmesim.Controller
	for i := range count {
		controllers = append(controllers, nvmesim.Drive(fmt.Sprintf("BENCH%03d", i)))
	}
	emulation, err := nvmesim.Create(controllers...)
	if err != nil {
		return err
	}
	b.atEnd(func() error { return errors.Join(emulation.Close(), nvmesim.RemoveTool()) })
	calls, err := recordDiscovery(ctx, emulation, count)
	if err != nil {
		return err
	}
	b.progress("nvme: discovery of %d emulated controllers, %d rounds", count, rounds)
	got, err := interleave(ctx, rounds,
		timed(func(ctx context.Context) error { return discover(ctx, emulation, emulation.Tool(), count) }),
		timed(func(ctx context.Context) error { return repeat(ctx, emulation.Tool(), calls) }))
	if err != nil {
		return err
	}
	var added []float64
	for round := range rounds {
		added = append(added, got[0][took][round]-got[1][took][round])
	}
	b.note("nvme: discovery is %d calls of nvme-cli under ptrace; the driver added %.0f ms, by round", len(calls), added)
	b.add(single(fmt.Sprintf("what the driver adds to nvme-cli, discovery of %d drives", count), "ms",
		median(added)).atMost(maxDiscovery))
	return nil
}

// discover is what a worker does on a new host: it finds all drives and looks at each.
func discover(ctx context.Context, emulation *nvmesim.Emulation, tool string, count int) error {
	specs, err := pci.ParseSpecs([]byte(`{"vendor_id": "1b36", "product_id": "0010"}`))
	if err != nil {
		return err
	}
	driver := nvme.New(nvme.Host{
		Allow:  func(pci.Device) error { return nil },
		Specs:  func() (pci.Specs, error) { return specs, nil },
		Tool:   tool,
		Kernel: block.Kernel{Proc: "/proc", Sys: emulation.Sys, Dev: emulation.Dev},
	})
	found, err := driver.Find(ctx)
	if err == nil && len(found) != count {
		err = fmt.Errorf("%d of %d controllers were found", len(found), count)
	}
	for _, one := range found {
		if err != nil {
			break
		}
		_, err = driver.Discover(ctx, hardware.Target{Name: "bench", Driver: driver.Name(), Address: one.Address},
			device.Identity{})
	}
	return err
}

// recordDiscovery returns the arguments of each call of nvme-cli in a discovery, in order.
func recordDiscovery(ctx context.Context, emulation *nvmesim.Emulation, count int) ([][]string, error) {
	log, tool := filepath.Join(emulation.Dir, "calls"), filepath.Join(emulation.Dir, "recorder")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>'%s'\nexec '%s' \"$@\"\n", log, emulation.Tool())
	if err := os.WriteFile(tool, []byte(script), 0o755); err != nil {
		return nil, err
	}
	if err := discover(ctx, emulation, tool, count); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(log)
	var calls [][]string
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.Fields(line))
	}
	return calls, err
}

// repeat makes the calls and takes their output as the driver does.
func repeat(ctx context.Context, tool string, calls [][]string) error {
	for _, args := range calls {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.WaitDelay = time.Minute // a child of the tool may have its output open
		// An error status of the drive is an answer that the driver received too.
		if _, err := cmd.CombinedOutput(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			return fmt.Errorf("nvme %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}
