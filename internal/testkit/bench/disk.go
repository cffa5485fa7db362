package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

const (
	minDiskRatio  = 1.0 // of the rate of zero and verify, to dd's
	maxWipeMemory = 100 // MiB above idle
	wipes         = 8   // at once, for the memory
)

// disk measures the steps zero and verify on a file, by the real worker with its journal and
// heartbeats, compared with dd on a file of the same size on the same file system; and the
// worker's memory in several wipes at once.
func (b *bench) disk(ctx context.Context) {
	p := must.Get(b.installation(ctx, "disk", fmt.Sprintf("BURNISH_MAX_CLEANS_PER_HOST=%d", wipes)))
	p.pollEvery = 200 * time.Millisecond // rarely, so that the cleans are not disturbed
	size := scale[int64](b, 8<<30, 512<<20)
	plain := filepath.Join(p.Files, "dd")
	allocate(ctx, plain, size)
	id := p.enrollFile(ctx, "d0", size)
	rounds := scale(b, 9, 2)
	b.progress("disk: %d rounds", rounds)
	got := must.Get(interleave(ctx, rounds, p.rates(id, size), func(ctx context.Context) (values, error) {
		began := time.Now()
		dd(ctx, size, "if=/dev/zero", "of="+plain, "oflag=direct", "conv=fsync,notrunc")
		written := time.Now()
		dd(ctx, size, "if="+plain, "of=/dev/null", "iflag=direct")
		return ratesOf(size, written.Sub(began), time.Since(written)), nil
	}))
	b.note("disk: a file of %d MiB, %d rounds; dd bs=4M, oflag=direct conv=fsync and iflag=direct", size>>20, rounds)
	// A disk that is limited to so many bytes a second gives a read more of them after a slower write:
	// both steps together are free of that.
	for _, what := range []string{"zero", "verify", "zero and verify"} {
		b.add(compared("rate of "+what+", a file (baseline: dd)", "MiB/s", got[0][what],
			got[1][what]).ratioAtLeast(minDiskRatio))
	}
	b.wipeMemory(ctx, p, scale[int64](b, 1<<30, 64<<20))
}

// rates measures the rates of the steps of a clean, by their own run time.
func (p *place) rates(id string, size int64) measurement {
	return func(ctx context.Context) (values, error) {
		clean := p.cleaned(ctx, id)
		return ratesOf(size, runTime(clean, "zero"), runTime(clean, "verify")), nil
	}
}

// ratesOf are MiB a second.
func ratesOf(size int64, zero, verify time.Duration) values {
	mib := float64(size >> 20)
	return values{"zero": mib / zero.Seconds(), "verify": mib / verify.Seconds(),
		"zero and verify": 2 * mib / (zero + verify).Seconds()}
}

// wipeMemory measures how much memory several wipes at once take.
func (b *bench) wipeMemory(ctx context.Context, p *place, size int64) {
	b.progress("disk: %d wipes at once", wipes)
	ids := collect(1, wipes, func(n int) string { return p.enrollFile(ctx, fmt.Sprintf("m%d", n), size) })
	used := memoryAbove(p.worker, 1, func() {
		collect(wipes, wipes, func(n int) contract.CleanSummary { return p.cleaned(ctx, ids[n]) })
	})
	b.add(single(fmt.Sprintf("worker's memory in %d wipes at once, above idle", wipes), "MiB", used).atMost(maxWipeMemory))
}

// enrollFile enrolls a file of this size, all of whose blocks are allocated.
func (p *place) enrollFile(ctx context.Context, name string, size int64) (id string) {
	d := p.FileDevice(name, size)
	allocate(ctx, d.Path, size)
	return must.Get(p.enroll(ctx, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
		Name: name, Host: p.Host, Driver: d.Driver, Type: "DISK", Owner: device.OwnerSelf,
		Settings: map[string]string{"path": d.Path},
	}}))
}

// allocate writes a file whose blocks are all allocated.
func allocate(ctx context.Context, path string, size int64) {
	dd(ctx, size, "if=/dev/zero", "of="+path, "oflag=direct", "conv=fsync")
}

func dd(ctx context.Context, size int64, args ...string) {
	const block = 4 << 20
	args = append(args, "bs=4M", fmt.Sprintf("count=%d", size/block), "status=none")
	must.Do(must.Get(proc.Run(exec.CommandContext(ctx, "dd", args...))).Err())
}
