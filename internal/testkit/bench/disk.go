package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Bounds of docs/bench.md. The first two are ratios of speeds to dd's.
const (
	zeroAtLeast      = 0.95
	verifyAtLeast    = 0.9
	wipeMemoryAtMost = 100 // MiB above idle
)

// disks is how much is measured of real writing and reading.
type disks struct {
	size    int64 // of the one file
	rounds  int
	several int   // files that are wiped at once for the memory
	each    int64 // their size
}

// disks measures the steps zero and verify on a regular file as an operator has them
// done, by the real worker with its journal and heartbeats, against dd on a file of the
// same size on the same file system, in turn; and the worker's memory while it wipes
// several at once.
func (b *bench) disk(ctx context.Context) (err error) {
	w, err := b.wiper("disk")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	say(b.began, "disk: filling two files of %d MiB", b.disks.size>>20)
	plain := filepath.Join(w.files, "dd")
	if err := errors.Join(fill(ctx, plain, b.disks.size), fill(ctx, w.path("d0"), b.disks.size)); err != nil {
		return err
	}
	if err := w.enroll(ctx, "d0"); err != nil {
		return err
	}
	var zero, verify, written, read []float64
	for round := range b.disks.rounds {
		say(b.began, "disk: round %d of %d", round+1, b.disks.rounds)
		took, err := w.turnover(ctx, "d0")
		if err != nil {
			return err
		}
		zero, verify = append(zero, took["zero"].Seconds()), append(verify, took["verify"].Seconds())
		for _, run := range []struct {
			into *[]float64
			args []string
		}{
			{&written, []string{"if=/dev/zero", "of=" + plain, "oflag=direct", "conv=fsync,notrunc"}},
			{&read, []string{"if=" + plain, "of=/dev/null", "iflag=direct"}},
		} {
			began := time.Now()
			if err := dd(ctx, b.disks.size, run.args...); err != nil {
				return err
			}
			*run.into = append(*run.into, time.Since(began).Seconds())
		}
	}
	rate := func(times []float64) float64 { return float64(b.disks.size) / (1 << 20) / median(times) }
	b.note("disk: a file of %d MiB, %d rounds; zero against dd bs=4M oflag=direct conv=fsync, verify against dd bs=4M iflag=direct", b.disks.size>>20, b.disks.rounds)
	b.add(timed("rate of zero, a file (baseline: dd)", "MiB/s", rate(zero), rate(written), ratioOfRounds(written, zero)).ratioAtLeast(zeroAtLeast))
	b.add(timed("rate of verify, a file (baseline: dd)", "MiB/s", rate(verify), rate(read), ratioOfRounds(read, verify)).ratioAtLeast(verifyAtLeast))
	return b.wipeMemory(ctx, w)
}

// wipeMemory measures how much memory several wipes at once take.
func (b *bench) wipeMemory(ctx context.Context, w *wiper) error {
	say(b.began, "disk: %d wipes at once", b.disks.several)
	var names []string
	for n := range b.disks.several {
		name := fmt.Sprintf("m%d", n)
		names = append(names, name)
		if err := fill(ctx, w.path(name), b.disks.each); err != nil {
			return err
		}
		if err := w.enroll(ctx, name); err != nil {
			return err
		}
	}
	idle, err := w.worker.peak()
	if err != nil {
		return err
	}
	if err := together(len(names), func(i int) error {
		_, err := w.turnover(ctx, names[i])
		return err
	}); err != nil {
		return err
	}
	busy, err := w.worker.peak()
	if err != nil {
		return err
	}
	b.add(counted(fmt.Sprintf("worker's memory in %d wipes at once, above idle", len(names)), "MiB",
		float64(busy-idle)/(1<<20), float64(idle)/(1<<20)).atMost(wipeMemoryAtMost))
	b.note("memory of wipes: resident, its peak from here on; the baseline is the same worker at rest")
	return nil
}

// peak is the most memory that the process has had resident since it was last asked,
// in bytes.
func (p *process) peak() (int64, error) {
	dir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	text, err := os.ReadFile(dir + "status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%sstatus: %w", dir, err)
			}
			return kib << 10, os.WriteFile(dir+"clear_refs", []byte("5"), 0)
		}
	}
	return 0, fmt.Errorf("%sstatus has no VmHWM", dir)
}

// wiper is a server and the real worker, with a folder of files that may be wiped.
type wiper struct {
	server     *server
	worker     *process
	bin, files string
	every      time.Duration // between two looks at a device
}

// wiper starts both in a folder of this name, the worker with this environment besides.
func (b *bench) wiper(folder string, env ...string) (*wiper, error) {
	dir := filepath.Join(b.dir, folder)
	w := &wiper{bin: b.bin, files: filepath.Join(dir, "files"), every: 200 * time.Millisecond}
	for _, sub := range []string{w.files, filepath.Join(dir, "state")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, err
		}
	}
	rules := filepath.Join(dir, "host.yaml")
	if err := os.WriteFile(rules, fmt.Appendf(nil, "allow:\n  paths: [%q]\n", w.files+"/*"), 0o600); err != nil {
		return nil, err
	}
	var err error
	if w.server, err = startServer(b.program(), dir, dir); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(b.bin, "burnish-worker"))
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+w.server.address, "BURNISH_ROLE=all", fmt.Sprintf("BURNISH_HOST=bench-%d", os.Getpid()),
		"BURNISH_STATE_DIR="+filepath.Join(dir, "state"), "BURNISH_HOST_FILE="+rules, fmt.Sprintf("BURNISH_MAX_CLEANS_PER_HOST=%d", b.disks.several))
	cmd.Env = append(cmd.Env, env...)
	if w.worker, err = launch("burnish-worker", dir, cmd); err != nil {
		return nil, errors.Join(err, w.server.end())
	}
	return w, nil
}

func (w *wiper) stop() error { return errors.Join(w.worker.end(), w.server.end()) }

func (w *wiper) path(name string) string { return filepath.Join(w.files, name) }

func (w *wiper) burnish(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "burnish"), args...)
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+w.server.address)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("burnish %s: %s", strings.Join(args, " "), strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

// enroll enrols a file and waits for its first clean.
func (w *wiper) enroll(ctx context.Context, name string) error {
	return w.take(ctx, name, fmt.Sprintf("bench-%d", os.Getpid()), "--driver", "block", "--set", "path="+w.path(name))
}

// take enrols a device of a host and waits for its first clean.
func (w *wiper) take(ctx context.Context, name, host string, flags ...string) error {
	if _, err := w.burnish(ctx, append([]string{"enroll", name, "--host", host, "--provide"}, flags...)...); err != nil {
		return err
	}
	_, err := w.cleaned(ctx, name)
	return err
}

// turnover has the device bound, unbound and cleaned, and gives each step's running time.
func (w *wiper) turnover(ctx context.Context, name string) (map[string]time.Duration, error) {
	instance := uuid.NewString()
	for _, verb := range []string{"bind", "unbind"} {
		if _, err := w.burnish(ctx, verb, name, "--instance", instance); err != nil {
			return nil, err
		}
	}
	return w.cleaned(ctx, name)
}

// show is what `burnish show` tells of a device.
func (w *wiper) show(ctx context.Context, name string) (v contract.DeviceStatus, err error) {
	text, err := w.burnish(ctx, "show", name, "-o", "json")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(text, &v)
}

// cleaned waits until the device is available and gives the running time of each step
// of its last clean.
func (w *wiper) cleaned(ctx context.Context, name string) (map[string]time.Duration, error) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		v, err := w.show(ctx, name)
		if err != nil {
			return nil, err
		}
		switch v.DeviceState {
		case device.Available:
			took := map[string]time.Duration{}
			for _, step := range v.Cleans[len(v.Cleans)-1].Steps {
				took[step.Step] = step.RunTime
			}
			return took, nil
		case device.Error:
			return nil, fmt.Errorf("%s: %s", name, v.LastError)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// fill writes a file whose blocks are all allocated.
func fill(ctx context.Context, path string, size int64) error {
	return dd(ctx, size, "if=/dev/zero", "of="+path, "oflag=direct", "conv=fsync")
}

func dd(ctx context.Context, size int64, args ...string) error {
	const block = 4 << 20
	args = append(args, "bs=4M", fmt.Sprintf("count=%d", size/block), "status=none")
	if out, err := exec.CommandContext(ctx, "dd", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("dd %s: %s (%w)", strings.Join(args, " "), strings.TrimSpace(string(out)), err)
	}
	return nil
}
