package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"burnish/internal/clean/steps"
	"burnish/internal/host"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
)

// rounds is how often a wipe is started at most until one is caught: on a fast disk every
// file may be wiped before the demo reads its journal.
const rounds = 10

// crashWorker has the tenants leave, kills the worker in mid-wipe and starts another.
func (d *demo) crashWorker(ctx context.Context) error {
	caught, err := d.killInMidWipe(ctx, d.files, func(round int) error {
		if round > 0 {
			if err := d.bindAll(ctx); err != nil {
				return err
			}
		}
		// The files come last: theirs are the wipes that must not end unseen.
		names := []string{"nic1", "nvme1"}
		for _, f := range d.files {
			names = append(names, f.Name)
		}
		for _, name := range names {
			if err := d.unbind(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}, d.worker.Process)
	if err != nil {
		return err
	}
	if err := d.burnish(ctx, "list", "--state", "cleaning"); err != nil {
		return err
	}
	took, err := d.resume(ctx, caught)
	if err != nil {
		return err
	}
	fmt.Printf("  a new worker: every wipe went on %.1f s after its start, by itself\n", took.Seconds())
	if err := d.settle(ctx, repairable); err != nil {
		return err
	}
	for _, f := range d.files {
		if err := d.requireClean(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// crashAll kills server and worker while a large file is wiped, and starts both again.
func (d *demo) crashAll(ctx context.Context) error {
	big := d.FileDevice("big", bigSize)
	if err := big.Stamp(nonce); err != nil {
		return err
	}
	caught, err := d.killInMidWipe(ctx, []site.Device{big}, func(round int) error {
		if round == 0 {
			return d.enroll(ctx, big)
		}
		if err := d.bind(ctx, big); err != nil {
			return err
		}
		return d.unbind(ctx, big.Name)
	}, d.Server.Process, d.worker.Process)
	if err != nil {
		return err
	}
	if err := d.Server.Start(ctx); err != nil {
		return err
	}
	took, err := d.resume(ctx, caught)
	if err != nil {
		return err
	}
	fmt.Printf("  server and worker again: the wipe went on %.1f s after the worker's start\n", took.Seconds())
	if err := d.settle(ctx, repairable); err != nil {
		return err
	}
	return d.requireClean(ctx, big)
}

// killInMidWipe starts a wipe of the files, waits until one is under way, and kills
// processes with kill -9. It returns the files whose wipe was interrupted, each within one
// chunk of its journal. Where each wipe ended before it was seen, start is called again,
// with the number of the round.
func (d *demo) killInMidWipe(ctx context.Context, files []site.Device, start func(round int) error,
	victims ...*proc.Process) (caught []site.Device, err error) {
	for round := 0; len(caught) == 0; round++ {
		if round == rounds {
			return nil, errors.New("every wipe ended before the kill: use larger files")
		}
		if round > 0 {
			fmt.Println("  every wipe ended before the kill: once more")
			if err := d.settle(ctx, repairable); err != nil {
				return nil, err
			}
		}
		before, err := d.journals(files)
		if err != nil {
			return nil, err
		}
		if err := start(round); err != nil {
			return nil, err
		}
		if caught, err = d.freezeInMidWipe(ctx, files, before, victims); err != nil {
			return nil, err
		}
	}
	for _, p := range victims { // all before any is waited for
		err = errors.Join(err, p.Signal(syscall.SIGKILL))
	}
	for _, p := range victims {
		err = errors.Join(err, p.Kill())
	}
	if err != nil {
		return nil, err
	}
	journals, err := d.journals(caught)
	if err != nil {
		return nil, err
	}
	for _, f := range caught {
		offset := journals[f.Name].Offset
		behind, err := zeroesFrom(f, offset)
		if err != nil {
			return nil, err
		}
		if behind > steps.MaxRepeated {
			return nil, fmt.Errorf("%s: %d bytes behind the resume point are wiped already, more than two chunks",
				f.Name, behind)
		}
		fmt.Printf("  kill -9: %s was wiped up to %d MiB by its journal; %.1f MiB behind that will be wiped twice (at "+
			"most %d)\n",
			f.Name, offset>>20, float64(behind)/(1<<20), steps.MaxRepeated>>20)
	}
	return caught, nil
}

// journals reads the resume points of the files that have one.
func (d *demo) journals(files []site.Device) (map[string]host.Entry, error) {
	all := map[string]host.Entry{}
	for _, f := range files {
		e, found, err := d.Journal(f.Name)
		if err != nil {
			return nil, err
		}
		if found {
			all[f.Name] = e
		}
	}
	return all, nil
}

// freezeInMidWipe freezes the processes once a wipe of the files is under way, and returns
// those files. It returns none, and freezes nothing, where each file was wiped before that,
// by a step after the one in before.
func (d *demo) freezeInMidWipe(ctx context.Context, files []site.Device, before map[string]host.Entry,
	victims []*proc.Process) ([]site.Device, error) {
	inMidWipe := func() (wiped []site.Device, finished bool, err error) {
		now, err := d.journals(files)
		finished = true
		for _, f := range files {
			e := now[f.Name]
			if e.Step == "zero" && !e.Done && e.Offset > 0 && e.Offset < f.Size {
				wiped = append(wiped, f)
			}
			finished = finished && e.Step == "verify" && e.Seq > before[f.Name].Seq
		}
		return wiped, finished, err
	}
	finished := false
	// Almost no pause: a wipe may last milliseconds.
	err := proc.Await(ctx, time.Minute, 100*time.Microsecond, "a wipe to be under way", func() (bool, string) {
		wiped, all, err := inMidWipe()
		finished = all
		return finished || len(wiped) > 0, fmt.Sprint(err)
	})
	if err != nil || finished {
		return nil, err
	}
	for _, p := range victims {
		if err := p.Freeze(); err != nil {
			return nil, err
		}
	}
	wiped, _, err := inMidWipe()
	if err != nil || len(wiped) > 0 {
		return wiped, err
	}
	for _, p := range victims {
		err = errors.Join(err, p.Thaw())
	}
	return nil, err
}

// resume starts a worker, waits until each interrupted wipe has its next attempt, and
// returns how long that took.
func (d *demo) resume(ctx context.Context, interrupted []site.Device) (time.Duration, error) {
	if err := d.worker.Start(ctx); err != nil {
		return 0, err
	}
	err := proc.Await(ctx, 2*time.Minute, proc.PollEvery, "the wipes to go on", func() (bool, string) {
		journals, err := d.journals(interrupted)
		for _, f := range interrupted {
			if e, found := journals[f.Name]; !found || e.Attempt < 2 && e.Step == "zero" {
				return false, fmt.Sprintf("%s: %+v %v", f.Name, e, err)
			}
		}
		return true, ""
	})
	return time.Since(d.worker.Started), err
}

// zeroesFrom counts the bytes that are zero from an offset on, up to the first that is
// not: what was wiped and not yet journalled.
func zeroesFrom(f site.Device, offset int64) (total int64, err error) {
	in, err := os.Open(f.Path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	p := make([]byte, 1<<20)
	for at := offset; at < f.Size; {
		n, err := in.ReadAt(p, at)
		other := bytes.TrimLeft(p[:n], "\x00")
		total += int64(n - len(other))
		if len(other) > 0 {
			return total, nil
		}
		if at += int64(n); err != nil && at < f.Size {
			return total, err
		}
	}
	return total, nil
}
