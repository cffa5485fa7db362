package main

import (
	"bytes"
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
	b.progress("nvme: %d emulated controllers", b.controllers)
	var controllers []nvmesim.Controller
	for i := range b.controllers {
		controllers = append(controllers, nvmesim.Drive(fmt.Sprintf("BENCH%03d", i)))
	}
	emulation, err := nvmesim.Create(controllers...)
	if err != nil {
		return err
	}
	b.atEnd(func() error { return errors.Join(emulation.Close(), nvmesim.RemoveTool()) })
	calls, err := b.recordDiscovery(ctx, emulation)
	if err != nil {
		return err
	}
	b.progress("nvme: discovery, %d rounds", b.discoveries)
	seconds := func(what string, do func(context.Context) error) measurement {
		return func(ctx context.Context) (values, error) {
			began := time.Now()
			err := b.discoversWithin(ctx, what, do)
			return values{"": time.Since(began).Seconds()}, err
		}
	}
	got, err := interleave(ctx, exactly(b.discoveries),
		seconds("discovery", func(ctx context.Context) error { return b.discover(ctx, emulation, emulation.Tool()) }),
		seconds("nvme-cli", func(ctx context.Context) error { return replay(ctx, emulation.Tool(), calls) }))
	if err != nil {
		return err
	}
	driver, tool := got[0][""], got[1][""]
	var added []float64
	for round := range driver {
		added = append(added, driver[round]-tool[round])
	}
	b.note("nvme: discovery is a first look at each of %d emulated controllers, %d calls of nvme-cli under ptrace; the baseline is those calls alone; %d rounds",
		b.controllers, len(calls), b.discoveries)
	b.note("nvme: what the driver added to nvme-cli, by round: %.2f s", added)
	b.add(
		compared(fmt.Sprintf("discovery of %d NVMe drives (baseline: nvme-cli)", b.controllers), "s", median(driver), median(tool), pairedRatio(driver, tool)),
		counted("  added by the driver (baseline: nvme-cli)", "s", median(added), median(tool)).atMost(maxDiscoverySeconds),
	)
	return nil
}

// discoveryWithin bounds a discovery of all controllers, which takes 18 s for 64.
const discoveryWithin = 10 * time.Minute

// discoversWithin bounds what is done with the emulated controllers.
func (b *bench) discoversWithin(ctx context.Context, what string, do func(ctx context.Context) error) error {
	what = fmt.Sprintf("%s of %d emulated controllers", what, b.controllers)
	return within(ctx, discoveryWithin, what, func() string { return "" }, func() string { return "load " + loadAverage() }, do)
}

// discover is what a worker does on a new host: it finds all drives and looks at each.
func (b *bench) discover(ctx context.Context, emulation *nvmesim.Emulation, tool string) error {
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
	if err == nil && len(found) != b.controllers {
		err = fmt.Errorf("%d of %d controllers were found", len(found), b.controllers)
	}
	for _, one := range found {
		if err != nil {
			break
		}
		_, err = driver.Discover(ctx, hardware.Target{Name: "bench", Driver: driver.Name(), Address: one.Address}, device.Identity{})
	}
	return err
}

// recordDiscovery returns the arguments of each call of nvme-cli in a discovery, in order.
func (b *bench) recordDiscovery(ctx context.Context, emulation *nvmesim.Emulation) ([][]string, error) {
	log, tool := filepath.Join(emulation.Dir, "calls"), filepath.Join(emulation.Dir, "recorder")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>'%s'\nexec '%s' \"$@\"\n", log, emulation.Tool())
	if err := os.WriteFile(tool, []byte(script), 0o755); err != nil {
		return nil, err
	}
	if err := b.discoversWithin(ctx, "the first discovery", func(ctx context.Context) error { return b.discover(ctx, emulation, tool) }); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(log)
	var calls [][]string
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.Fields(line))
	}
	return calls, err
}

// replay makes the calls and takes their output as the driver does.
func replay(ctx context.Context, tool string, calls [][]string) error {
	for _, args := range calls {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.WaitDelay = time.Minute // a child of the tool may have its output open
		// An error status of the drive is an answer that the driver received too.
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			return fmt.Errorf("nvme %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}
