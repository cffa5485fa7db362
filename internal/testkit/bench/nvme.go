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
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/nvmesim"
)

const maxDiscovery = 1000 // milliseconds that the driver adds to nvme-cli

// nvme measures the driver nvme: what it adds to nvme-cli in the discovery of a host full of
// drives, and, in a guest, how fast it zeroes. A note names what cannot be measured here.
func (b *bench) nvme(ctx context.Context) {
	err := must.Try(func() { b.discovery(ctx) })
	if errors.Is(err, nvmesim.ErrUnavailable) {
		b.note("nvme: discovery is skipped: %v", err)
	} else {
		must.Do(err)
	}
	b.guestDrives(ctx)
}

// discovery measures Find and a first Discover of each of many emulated controllers,
// compared with the same calls of nvme-cli alone, one after the other.
func (b *bench) discovery(ctx context.Context) {
	count, rounds := scale(b, 64, 8), scale(b, 9, 2)
	var controllers []nvmesim.Controller
	for i := range count {
		controllers = append(controllers, nvmesim.Drive(fmt.Sprintf("BENCH%03d", i)))
	}
	emulation := must.Get(nvmesim.Create(controllers...))
	b.atEnd(func() error { return errors.Join(emulation.Close(), nvmesim.RemoveTool()) })
	calls := recordDiscovery(ctx, emulation, count)
	b.progress("nvme: discovery of %d emulated controllers, %d rounds", count, rounds)
	got := must.Get(interleave(ctx, rounds,
		timed(func(ctx context.Context) { discover(ctx, emulation, emulation.Tool(), count) }),
		timed(func(ctx context.Context) { repeat(ctx, emulation.Tool(), calls) })))
	b.note("nvme: discovery is %d calls of nvme-cli under ptrace, which vary by more than the driver adds", len(calls))
	b.add(beyond(fmt.Sprintf("what the driver adds to nvme-cli, discovery of %d drives, median", count), got[0][took],
		got[1][took], maxDiscovery))
}

// discover is what a worker does on a new host: it finds all drives and looks at each.
func discover(ctx context.Context, emulation *nvmesim.Emulation, tool string, count int) {
	specs := must.Get(pci.ParseSpecs([]byte(`{"vendor_id": "1b36", "product_id": "0010"}`)))
	driver := nvme.New(nvme.Host{
		Allow:  func(pci.Device) error { return nil },
		Specs:  func() (pci.Specs, error) { return specs, nil },
		Tool:   tool,
		Kernel: block.Kernel{Proc: "/proc", Sys: emulation.Sys, Dev: emulation.Dev},
	})
	found := must.Get(driver.Find(ctx))
	must.Be(len(found) == count, "%d of %d controllers were found", len(found), count)
	for _, one := range found {
		must.Get(driver.Discover(ctx, hardware.Target{Name: "bench", Driver: driver.Name(), Address: one.Address},
			device.Identity{}))
	}
}

// recordDiscovery returns the arguments of each call of nvme-cli in a discovery, in order.
func recordDiscovery(ctx context.Context, emulation *nvmesim.Emulation, count int) (calls [][]string) {
	log, tool := filepath.Join(emulation.Dir, "calls"), filepath.Join(emulation.Dir, "recorder")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>'%s'\nexec '%s' \"$@\"\n", log, emulation.Tool())
	must.Do(os.WriteFile(tool, []byte(script), 0o755))
	discover(ctx, emulation, tool, count)
	for line := range strings.Lines(string(must.Get(os.ReadFile(log)))) {
		calls = append(calls, strings.Fields(line))
	}
	return calls
}

// repeat makes the calls and takes their output as the driver does.
func repeat(ctx context.Context, tool string, calls [][]string) {
	for _, args := range calls {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.WaitDelay = time.Minute // a child of the tool may have its output open
		// An error status of the drive is an answer that the driver received too.
		_, err := cmd.CombinedOutput()
		must.Be(err == nil || errors.As(err, new(*exec.ExitError)), "nvme %s: %w", strings.Join(args, " "), err)
	}
}
