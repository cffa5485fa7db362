package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
)

// discoveryAtMost is how many seconds the driver may add to what nvme-cli itself takes
// to look at all drives of a host.
const discoveryAtMost = 1

// drives is how much is measured of NVMe drives.
type drives struct {
	controllers, rounds int // looked at, and how often
	guest               guestScale
}

// nvme measures the driver nvme: what it adds to nvme-cli when it looks at a host full of
// drives, and, in a guest, how fast it zeroes. What cannot be measured here is said.
func (b *bench) nvme(ctx context.Context) error {
	skipped, err := emulated(func(t testing.TB) error { return b.discovery(ctx, t) })
	if err != nil {
		return err
	}
	if skipped != "" {
		b.note("nvme: discovery is skipped: %s", skipped)
	}
	return b.guestDrives(ctx)
}

// discovery measures Find and a first Discover of each of many emulated controllers
// against the very same calls of the very same nvme-cli, one after the other, in turn.
func (b *bench) discovery(ctx context.Context, t testing.TB) error {
	n := b.drives.controllers
	say(b.began, "nvme: %d emulated controllers", n)
	var all []nvmesim.Controller
	for i := range n {
		all = append(all, nvmesim.Drive(fmt.Sprintf("BENCH%03d", i)))
	}
	site := nvmesim.New(t, all...)
	calls, err := record(ctx, site)
	if err != nil {
		return err
	}
	var whole, tool, extra []float64
	for round := range b.drives.rounds {
		say(b.began, "nvme: discovery, round %d of %d", round+1, b.drives.rounds)
		began := time.Now()
		if err := look(ctx, site, site.Tool(), n); err != nil {
			return err
		}
		looked := time.Since(began)
		began = time.Now()
		if err := replay(ctx, site.Tool(), calls); err != nil {
			return err
		}
		called := time.Since(began)
		whole, tool, extra = append(whole, looked.Seconds()), append(tool, called.Seconds()), append(extra, (looked-called).Seconds())
	}
	b.note("nvme: discovery is a first look at each of %d emulated controllers, %d calls of nvme-cli under ptrace; the baseline is those calls alone; %d rounds",
		n, len(calls), b.drives.rounds)
	b.note("nvme: what the driver added to nvme-cli, by round: %.2f s", extra)
	b.add(timed(fmt.Sprintf("discovery of %d NVMe drives (baseline: nvme-cli)", n), "s", median(whole), median(tool), ratioOfRounds(whole, tool)))
	added := counted("  added by the driver (baseline: nvme-cli)", "s", median(extra), median(tool))
	b.add(added.atMost(discoveryAtMost))
	return nil
}

// look is what a worker does with a host that it does not know: it finds all drives, and
// looks at each.
func look(ctx context.Context, site *nvmesim.Host, tool string, want int) error {
	specs, err := pci.ParseSpecs([]byte(`{"vendor_id": "1b36", "product_id": "0010"}`))
	if err != nil {
		return err
	}
	driver := nvme.New(nvme.Host{
		Allow:  func(pci.Device) error { return nil },
		Specs:  func() (pci.Specs, error) { return specs, nil },
		Tool:   tool,
		Kernel: block.Kernel{Proc: "/proc", Sys: site.Sys, Dev: site.Dev},
	})
	found, err := driver.Find(ctx)
	if err != nil {
		return err
	}
	if len(found) != want {
		return fmt.Errorf("%d of %d controllers were found", len(found), want)
	}
	for _, one := range found {
		if _, err := driver.Discover(ctx, hardware.Target{Name: "bench", Driver: driver.Name(), Address: one.Address}, device.Identity{}); err != nil {
			return fmt.Errorf("look at %s: %w", one.Address, err)
		}
	}
	return nil
}

// record gives the arguments of each call that a look makes of nvme-cli, in order.
func record(ctx context.Context, site *nvmesim.Host) ([][]string, error) {
	log, tool := filepath.Join(site.Dir, "calls"), filepath.Join(site.Dir, "recorder")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>'%s'\nexec '%s' \"$@\"\n", log, site.Tool())
	if err := os.WriteFile(tool, []byte(script), 0o755); err != nil {
		return nil, err
	}
	if err := look(ctx, site, tool, len(controllersOf(site))); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var calls [][]string
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.Fields(line))
	}
	return calls, nil
}

// controllersOf are the names of a site's controllers.
func controllersOf(site *nvmesim.Host) []string {
	all, _ := filepath.Glob(filepath.Join(site.Sys, "class/nvme/nvme*")) // the pattern is right
	return all
}

// replay makes the calls, and takes their output as the driver does.
func replay(ctx context.Context, tool string, calls [][]string) error {
	for _, args := range calls {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		// A status of the drive is an answer too: the driver got the same.
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			return fmt.Errorf("nvme %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// emulated runs do with what packages for tests ask of one. A site that cannot be made here is
// skipped, with its reason; what do made is gone afterwards.
func emulated(do func(t testing.TB) error) (skipped string, err error) {
	o := &outside{}
	var end context.CancelFunc
	o.ctx, end = context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer o.cleanUp()
		defer end()
		if err := do(o); err != nil {
			o.failed = errors.Join(o.failed, err)
		}
	}()
	<-ended
	return o.skipped, o.failed
}

// outside stands for a test where there is none.
type outside struct {
	testing.TB                 // not there: only what is below is called
	ctx        context.Context //nolint:containedctx // testing.TB has it
	skipped    string
	failed     error
	cleanups   []func()
}

// Helper is testing.TB's.
func (o *outside) Helper() {}

// Errorf is testing.TB's.
func (o *outside) Errorf(format string, args ...any) {
	o.failed = errors.Join(o.failed, fmt.Errorf(format, args...))
}

// Fatalf is testing.TB's: it ends the goroutine.
func (o *outside) Fatalf(format string, args ...any) {
	o.Errorf(format, args...)
	runtime.Goexit()
}

// FailNow is testing.TB's: it ends the goroutine.
func (o *outside) FailNow() { runtime.Goexit() }

// Failed is testing.TB's.
func (o *outside) Failed() bool { return o.failed != nil }

// Logf is testing.TB's. What a failure needs to be understood is said with it.
func (o *outside) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// Skip is testing.TB's: it ends the goroutine.
func (o *outside) Skip(args ...any) { o.Skipf("%s", fmt.Sprint(args...)) }

// Skipf is testing.TB's: it ends the goroutine.
func (o *outside) Skipf(format string, args ...any) {
	o.skipped = strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	runtime.Goexit()
}

// Context is testing.TB's: it ends before what was made is cleaned up.
func (o *outside) Context() context.Context { return o.ctx }

// TempDir is testing.TB's.
func (o *outside) TempDir() string {
	dir, err := os.MkdirTemp("", "burnish-bench-")
	if err != nil {
		o.Fatalf("%v", err)
	}
	o.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			o.Errorf("%v", err)
		}
	})
	return dir
}

// Cleanup is testing.TB's.
func (o *outside) Cleanup(do func()) { o.cleanups = append(o.cleanups, do) }

func (o *outside) cleanUp() {
	for i := len(o.cleanups) - 1; i >= 0; i-- {
		o.cleanups[i]()
	}
}
