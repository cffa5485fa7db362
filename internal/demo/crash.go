package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"burnish/internal/clean/steps"
)

func crash(ctx context.Context, s *site, files []file) error {
	for _, name := range append(names(files), "nic1", "nvme1") {
		if _, err := s.burnish("unbind", name, "--instance", instance(name)); err != nil {
			return err
		}
	}
	caught, err := s.killInMidWipe(ctx, files, s.worker)
	if err != nil {
		return err
	}
	if _, err := s.burnish("list", "--state", "cleaning"); err != nil {
		return err
	}
	took, err := s.takeUp(ctx, caught)
	if err != nil {
		return err
	}
	fmt.Printf("  a new worker: every wipe went on %.1f s after its start, without anybody's help\n", took.Seconds())
	if err := s.settle(ctx, repairable); err != nil {
		return err
	}
	for _, f := range files {
		if err := s.clean(f); err != nil {
			return err
		}
	}
	return nil
}

// killInMidWipe waits until a wipe of one of the files is under way, and kills
// processes with kill -9. It names the files whose wipe was cut short, each within one
// chunk of its journal.
func (s *site) killInMidWipe(ctx context.Context, files []file, victims ...*exec.Cmd) (caught []string, err error) {
	inMidWipe := func() []string {
		var wiped []string
		for _, f := range files {
			if e, ok := s.journal(f.name); ok && e.Step == "zero" && !e.Done && e.Offset > 0 && e.Offset < f.size {
				wiped = append(wiped, f.name)
			}
		}
		return wiped
	}
	if err := awaitQuickly(ctx, 30*time.Second, func() bool { return len(inMidWipe()) > 0 }); err != nil {
		return nil, err
	}
	if err := kill(victims...); err != nil {
		return nil, err
	}
	if caught = inMidWipe(); len(caught) == 0 {
		return nil, fmt.Errorf("every wipe ended before the kill: use larger files")
	}
	for _, f := range files {
		if !slices.Contains(caught, f.name) {
			continue
		}
		e, ok := s.journal(f.name)
		if !ok {
			return nil, fmt.Errorf("%s: its journal is gone", f.name)
		}
		again, err := f.zeroesFrom(e.Offset)
		if err != nil {
			return nil, err
		}
		if again > steps.Chunk {
			return nil, fmt.Errorf("%s: %d bytes behind the resume point are wiped already, more than one chunk", f.name, again)
		}
		fmt.Printf("  kill -9: %s was wiped up to %d MiB by its journal; %.1f MiB behind that will be wiped twice (at most 64)\n",
			f.name, e.Offset>>20, float64(again)/(1<<20))
	}
	return caught, nil
}

// takeUp starts a worker, waits until each wipe that was cut short has its next attempt,
// and says how long that took.
func (s *site) takeUp(ctx context.Context, caught []string) (time.Duration, error) {
	began := time.Now()
	if err := s.startWorker(); err != nil {
		return 0, err
	}
	err := await(ctx, 30*time.Second, "the wipes to go on", func() (bool, error) {
		for _, name := range caught {
			if e, ok := s.journal(name); !ok || (e.Attempt < 2 && e.Step == "zero") {
				return false, nil
			}
		}
		return true, nil
	})
	return time.Since(began), err
}

// crashAll kills server and worker, and starts both again.
func crashAll(ctx context.Context, s *site, big file) error {
	if err := big.fill(true); err != nil {
		return err
	}
	if err := s.enroll(big); err != nil {
		return err
	}
	caught, err := s.killInMidWipe(ctx, []file{big}, s.server, s.worker)
	if err != nil {
		return err
	}
	if err := s.startServer(); err != nil {
		return err
	}
	took, err := s.takeUp(ctx, caught)
	if err != nil {
		return err
	}
	fmt.Printf("  server and worker again: the wipe went on %.1f s after the worker's start\n", took.Seconds())
	if err := s.settle(ctx, repairable); err != nil {
		return err
	}
	return s.clean(big)
}
