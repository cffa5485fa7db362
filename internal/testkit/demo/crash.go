package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"burnish/internal/clean/steps"
	"burnish/internal/host"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
)

// rounds is how often a wipe is started at most until one is caught: on a fast disk every
// file may be wiped before the demo reads its journal.
const rounds = 10

// crashWorker has the tenants leave, kills the worker in mid-wipe and starts another.
func (d *demo) crashWorker(ctx context.Context) {
	caught := d.killInMidWipe(ctx, d.files, func(round int) {
		if round > 0 {
			d.bindAll(ctx)
		}
		// The files come last: theirs are the wipes that must not end unseen.
		d.unbind(ctx, "nic1")
		d.unbind(ctx, "nvme1")
		for _, f := range d.files {
			d.unbind(ctx, f.Name)
		}
	}, d.worker.Process)
	d.burnish(ctx, "list", "--state", "cleaning")
	took := d.resume(ctx, caught)
	fmt.Printf("  a new worker: every wipe went on %.1f s after its start, by itself\n", took.Seconds())
	d.settle(ctx, repairable)
	for _, f := range d.files {
		d.requireClean(ctx, f)
	}
}

// crashAll kills server and worker while a large file is wiped, and starts both again.
func (d *demo) crashAll(ctx context.Context) {
	big := d.FileDevice("big", bigSize)
	must.Do(big.Stamp(nonce))
	caught := d.killInMidWipe(ctx, []site.Device{big}, func(round int) {
		if round == 0 {
			d.enroll(ctx, big)
			return
		}
		d.bind(ctx, big)
		d.unbind(ctx, big.Name)
	}, d.Server.Process, d.worker.Process)
	must.Do(d.Server.Start(ctx))
	took := d.resume(ctx, caught)
	fmt.Printf("  server and worker again: the wipe went on %.1f s after the worker's start\n", took.Seconds())
	d.settle(ctx, repairable)
	d.requireClean(ctx, big)
}

// killInMidWipe starts a wipe of the files, waits until one is under way, and kills
// processes with kill -9. It returns the files whose wipe was interrupted, each within one
// chunk of its journal. Where each wipe ended before it was seen, start is called again,
// with the number of the round.
func (d *demo) killInMidWipe(ctx context.Context, files []site.Device, start func(round int),
	victims ...*proc.Process) (caught []site.Device) {
	for round := 0; len(caught) == 0; round++ {
		must.Be(round < rounds, "every wipe ended before the kill: use larger files")
		if round > 0 {
			fmt.Println("  every wipe ended before the kill: once more")
			d.settle(ctx, repairable)
		}
		before := d.journals(files)
		start(round)
		caught = d.freezeInMidWipe(ctx, files, before, victims)
	}
	for _, p := range victims { // all before any is waited for
		must.Do(p.Signal(syscall.SIGKILL))
	}
	for _, p := range victims {
		must.Do(p.Kill())
	}
	journals := d.journals(caught)
	for _, f := range caught {
		offset := journals[f.Name].Offset
		behind := zeroesFrom(f, offset)
		must.Be(behind <= steps.MaxRepeated, "%s: %d bytes behind the resume point are wiped already, more than two chunks",
			f.Name, behind)
		fmt.Printf("  kill -9: %s was wiped up to %d MiB by its journal; %.1f MiB behind that will be wiped twice (at "+
			"most %d)\n",
			f.Name, offset>>20, float64(behind)/(1<<20), steps.MaxRepeated>>20)
	}
	return caught
}

// journals reads the resume points of the files that have one.
func (d *demo) journals(files []site.Device) map[string]host.Entry {
	all := map[string]host.Entry{}
	for _, f := range files {
		e, found, err := d.Journal(f.Name)
		must.Do(err)
		if found {
			all[f.Name] = e
		}
	}
	return all
}

// freezeInMidWipe freezes the processes once a wipe of the files is under way, and returns
// those files. It returns none, and freezes nothing, where each file was wiped before that,
// by a step after the one in before.
func (d *demo) freezeInMidWipe(ctx context.Context, files []site.Device, before map[string]host.Entry,
	victims []*proc.Process) (wiped []site.Device) {
	inMidWipe := func() (wiped []site.Device, finished bool) {
		now := d.journals(files)
		finished = true
		for _, f := range files {
			e := now[f.Name]
			if e.Step == "zero" && !e.Done && e.Offset > 0 && e.Offset < f.Size {
				wiped = append(wiped, f)
			}
			finished = finished && e.Step == "verify" && e.Seq > before[f.Name].Seq
		}
		return wiped, finished
	}
	finished := false
	// Almost no pause: a wipe may last milliseconds.
	must.Do(proc.Await(ctx, time.Minute, 100*time.Microsecond, "a wipe to be under way", func() (bool, string) {
		wiped, finished = inMidWipe()
		return finished || len(wiped) > 0, ""
	}))
	if finished {
		return nil
	}
	for _, p := range victims {
		must.Do(p.Freeze())
	}
	if wiped, _ = inMidWipe(); len(wiped) == 0 {
		for _, p := range victims {
			must.Do(p.Thaw())
		}
	}
	return wiped
}

// resume starts a worker, waits until each interrupted wipe has its next attempt, and
// returns how long that took.
func (d *demo) resume(ctx context.Context, interrupted []site.Device) time.Duration {
	must.Do(d.worker.Start(ctx))
	must.Do(proc.Await(ctx, 2*time.Minute, proc.PollEvery, "the wipes to go on", func() (bool, string) {
		journals := d.journals(interrupted)
		for _, f := range interrupted {
			if e, found := journals[f.Name]; !found || e.Attempt < 2 && e.Step == "zero" {
				return false, fmt.Sprintf("%s: %+v", f.Name, e)
			}
		}
		return true, ""
	}))
	return time.Since(d.worker.Started)
}

// zeroesFrom counts the bytes that are zero from an offset on, up to the first that is
// not: what was wiped and not yet journalled.
func zeroesFrom(f site.Device, offset int64) (total int64) {
	in := must.Get(os.Open(f.Path))
	defer in.Close()
	p := make([]byte, 1<<20)
	for at := offset; at < f.Size; {
		n, err := in.ReadAt(p, at)
		other := bytes.TrimLeft(p[:n], "\x00")
		total += int64(n - len(other))
		if len(other) > 0 {
			break
		}
		at += int64(n)
		must.Be(err == nil || at >= f.Size, "read %s: %w", f.Path, err)
	}
	return total
}
