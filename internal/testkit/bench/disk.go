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
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// installation is a real server with the real worker, and the devices of its host.
type installation struct {
	devices
	*site.Site
	worker *site.Worker
	// pollEvery is the pause between two polls during a clean.
	pollEvery time.Duration
}

// cleanWithin bounds the clean of a real device.
const cleanWithin = time.Hour

// install starts server and worker in a folder of this name until the end of the part.
func (b *bench) install(ctx context.Context, name string, env ...string) (*installation, error) {
	dir, err := b.folder(name)
	if err != nil {
		return nil, err
	}
	server, err := b.server(ctx, dir)
	if err != nil {
		return nil, err
	}
	s, err := site.New(b.programs, server, site.DefaultNamespace, fmt.Sprintf("bench-%d-%s", os.Getpid(), name), dir)
	if err != nil {
		return nil, err
	}
	i := &installation{Site: s, worker: s.Worker("all", env...), pollEvery: 200 * time.Millisecond}
	b.atEnd(func() error { return i.worker.Process.Stop() })
	if err := i.worker.Start(ctx); err != nil {
		return nil, err
	}
	if i.client, err = server.Dial(site.DefaultNamespace); err != nil {
		return nil, err
	}
	b.atEnd(func() error { i.client.Close(); return nil })
	return i, nil
}

// enroll enrolls a device and waits until it is available.
func (i *installation) enroll(ctx context.Context, in contract.EnrollInput) (id string, err error) {
	id = contract.WorkflowID(in.Enrollment.Name)
	if _, err := client.New(i.client).Do(ctx, in.Enrollment.Name, contract.VerbEnroll, in); err != nil {
		return id, fmt.Errorf("enroll %s: %w", in.Enrollment.Name, err)
	}
	return id, i.await(ctx, id, device.Available, cleanWithin, i.pollEvery)
}

// enrollFile enrolls a file of this size, all of whose blocks are allocated.
func (i *installation) enrollFile(ctx context.Context, name string, size int64) (id string, err error) {
	d := i.FileDevice(name, size)
	if err := fill(ctx, d.Path, size); err != nil {
		return "", err
	}
	return i.enroll(ctx, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
		Name: name, Host: i.Host, Driver: d.Driver, Type: "DISK", Owner: device.OwnerSelf, Settings: map[string]string{"path": d.Path},
	}})
}

// turnover binds and unbinds the device and returns the clean that follows.
func (i *installation) turnover(ctx context.Context, id string) (last contract.CleanSummary, err error) {
	instance, err := i.bind(ctx, id)
	if err == nil {
		err = i.unbind(ctx, id, instance)
	}
	if err == nil {
		err = i.await(ctx, id, device.Available, cleanWithin, i.pollEvery)
	}
	if err != nil {
		return last, err
	}
	v, err := client.New(i.client).Query(ctx, strings.TrimPrefix(id, contract.WorkflowID("")))
	if err != nil {
		return last, err
	}
	return v.Cleans[len(v.Cleans)-1], nil
}

// steps is the turnover as a measurement: the running time of each step, in seconds.
func (i *installation) steps(id string) measurement {
	return func(ctx context.Context) (values, error) {
		last, err := i.turnover(ctx, id)
		return runTimes(last), err
	}
}

// runTimes is the running time of each step of a clean, in seconds.
func runTimes(clean contract.CleanSummary) values {
	took := values{}
	for _, step := range clean.Steps {
		took[step.Step] = step.RunTime.Seconds()
	}
	return took
}

// disk measures the steps zero and verify on a regular file, by the real worker with its
// journal and heartbeats, compared with dd on a file of the same size on the same file
// system; and the worker's memory in several wipes at once.
func (b *bench) disk(ctx context.Context) error {
	i, err := b.install(ctx, "disk", fmt.Sprintf("BURNISH_MAX_CLEANS_PER_HOST=%d", b.wipes))
	if err != nil {
		return err
	}
	b.progress("disk: filling two files of %d MiB", b.file>>20)
	plain := filepath.Join(i.Files, "dd")
	if err := fill(ctx, plain, b.file); err != nil {
		return err
	}
	id, err := i.enrollFile(ctx, "d0", b.file)
	if err != nil {
		return err
	}
	b.progress("disk: %d rounds", b.fileRounds)
	got, err := interleave(ctx, exactly(b.fileRounds), i.steps(id), func(ctx context.Context) (values, error) {
		began := time.Now()
		if err := dd(ctx, b.file, "if=/dev/zero", "of="+plain, "oflag=direct", "conv=fsync,notrunc"); err != nil {
			return nil, err
		}
		written := time.Now()
		err := dd(ctx, b.file, "if="+plain, "of=/dev/null", "iflag=direct")
		return values{"zero": written.Sub(began).Seconds(), "verify": time.Since(written).Seconds()}, err
	})
	if err != nil {
		return err
	}
	b.note("disk: a file of %d MiB, %d rounds; zero against dd bs=4M oflag=direct conv=fsync, verify against dd bs=4M iflag=direct", b.file>>20, b.fileRounds)
	for _, v := range got {
		for round := range v["zero"] {
			v["zero and verify"] = append(v["zero and verify"], v["zero"][round]+v["verify"][round])
		}
	}
	rate := func(what string, passes int64) figure {
		ours, dds := got[0][what], got[1][what]
		mib := float64(passes * b.file >> 20)
		f := compared("rate of "+what+", a file (baseline: dd)", "MiB/s", mib/median(ours), mib/median(dds), pairedRatio(dds, ours))
		return f.ratioAtLeast(minDiskRatio)
	}
	// A disk that is limited to so many bytes a second gives a read more of them after a slower write:
	// both steps together are free of that.
	b.add(rate("zero", 1), rate("verify", 1), rate("zero and verify", 2))
	return b.wipeMemory(ctx, i)
}

// wipeMemory measures how much memory several wipes at once take.
func (b *bench) wipeMemory(ctx context.Context, i *installation) error {
	b.progress("disk: %d wipes at once", b.wipes)
	ids := make([]string, b.wipes)
	for n := range ids {
		var err error
		if ids[n], err = i.enrollFile(ctx, fmt.Sprintf("m%d", n), b.wipeSize); err != nil {
			return err
		}
	}
	idle, err := peakMemory(i.worker)
	if err != nil {
		return err
	}
	if err := parallel(len(ids), func(n int) error {
		_, err := i.turnover(ctx, ids[n])
		return err
	}); err != nil {
		return err
	}
	busy, err := peakMemory(i.worker)
	b.add(counted(fmt.Sprintf("worker's memory in %d wipes at once, above idle", len(ids)), "MiB",
		float64(busy-idle)/(1<<20), float64(idle)/(1<<20)).atMost(maxWipeMemory))
	b.note("memory of wipes: peak resident memory; the baseline is the same worker at rest")
	return err
}

// fill writes a file whose blocks are all allocated.
func fill(ctx context.Context, path string, size int64) error {
	return dd(ctx, size, "if=/dev/zero", "of="+path, "oflag=direct", "conv=fsync")
}

func dd(ctx context.Context, size int64, args ...string) error {
	const block = 4 << 20
	args = append(args, "bs=4M", fmt.Sprintf("count=%d", size/block), "status=none")
	r, err := proc.Run(exec.CommandContext(ctx, "dd", args...))
	return errors.Join(err, r.Err())
}
