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
	written := p.enrollFile(ctx, "d0", size)
	p.enrollFile(ctx, "d1", size)
	must.Get(p.burnish.Do(ctx, "d1", contract.VerbManage, contract.TenantInput{}))
	rounds := scale(b, 9, 2)
	b.progress("disk: %d rounds", rounds)
	// Each by itself, in turns: a disk that is limited to so many bytes a second gives a read more of them after a
	// slower write.
	got := must.Get(interleave(ctx, rounds,
		rateOf(size, func(ctx context.Context) time.Duration { return runTime(p.cleaned(ctx, written), "zero") }),
		rateOf(size, func(ctx context.Context) time.Duration {
			return dd(ctx, size, "if=/dev/zero", "of="+plain, "oflag=direct", "conv=fsync,notrunc")
		}),
		rateOf(size, func(ctx context.Context) time.Duration { return p.verified(ctx, "d1") }),
		rateOf(size, func(ctx context.Context) time.Duration {
			return dd(ctx, size, "if="+plain, "of=/dev/null", "iflag=direct")
		})))
	b.note("disk: a file of %d MiB, %d rounds; dd bs=4M, oflag=direct conv=fsync and iflag=direct", size>>20, rounds)
	for i, what := range []string{"zero", "verify"} {
		b.add(compared("rate of "+what+", a file (baseline: dd)", "MiB/s", got[2*i]["rate"],
			got[2*i+1]["rate"]).ratioAtLeast(minDiskRatio))
	}
	b.wipeMemory(ctx, p, scale[int64](b, 1<<30, 64<<20))
}

// rateOf measures how many MiB of size are done in a second.
func rateOf(size int64, do func(ctx context.Context) time.Duration) measurement {
	return func(ctx context.Context) (values, error) {
		return values{"rate": float64(size>>20) / do(ctx).Seconds()}, nil
	}
}

// verified has a manageable device verified, and gives the step's own run time.
func (p *place) verified(ctx context.Context, name string) time.Duration {
	last := func() (c contract.CleanSummary) {
		if all := must.Get(p.burnish.Query(ctx, name)).Cleans; len(all) > 0 {
			c = all[len(all)-1]
		}
		return c
	}
	before := last().Number
	must.Get(p.burnish.Do(ctx, name, contract.VerbClean, contract.CleanInput{Steps: []string{"verify"}}))
	must.Do(awaitNoError(ctx, p.pollEvery, name+" to be verified", func() (bool, string, error) {
		now := last()
		return now.Number > before, now.Outcome, nil
	}))
	return runTime(last(), "verify")
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

func dd(ctx context.Context, size int64, args ...string) time.Duration {
	const block = 4 << 20
	args = append(args, "bs=4M", fmt.Sprintf("count=%d", size/block), "status=none")
	began := time.Now()
	must.Do(must.Get(proc.Run(exec.CommandContext(ctx, "dd", args...))).Err())
	return time.Since(began)
}
