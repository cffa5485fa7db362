package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"burnish/internal/clean/steps"
	"burnish/internal/host"
)

// rounds is how often the tenants come and go at most until a wipe is caught: on a
// fast disk every file may be wiped before the demo looks.
const rounds = 10

func crash(ctx context.Context, s *site, files []file) error {
	caught, err := s.killInMidWipe(ctx, files, func(round int) error {
		if round > 0 {
			if err := bindAll(ctx, s, files); err != nil {
				return err
			}
		}
		// The files come last: theirs are the wipes that must not end unseen.
		for _, name := range append([]string{"nic1", "nvme1"}, names(files)...) {
			if _, err := s.burnish("unbind", name, "--instance", instance(name)); err != nil {
				return err
			}
		}
		return nil
	}, s.worker)
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

// resumePoints reads the journals of the files.
func (s *site) resumePoints(files []file) map[string]host.Entry {
	points := map[string]host.Entry{}
	for _, f := range files {
		if e, ok := s.journal(f.name); ok {
			points[f.name] = e
		}
	}
	return points
}

// killInMidWipe has free start a wipe of the files, waits until one is under way, and
// kills processes with kill -9. It names the files whose wipe was cut short, each within
// one chunk of its journal. Where each wipe ended before it was seen, free is called
// again, with the number of the round.
func (s *site) killInMidWipe(ctx context.Context, files []file, free func(round int) error, victims ...*exec.Cmd) (caught []string, err error) {
	for round := 0; len(caught) == 0; round++ {
		if round == rounds {
			return nil, errors.New("every wipe ended before the kill: use larger files")
		}
		if round > 0 {
			fmt.Println("  every wipe ended before the kill: once more")
			if err := s.settle(ctx, repairable); err != nil {
				return nil, err
			}
		}
		before := s.resumePoints(files)
		if err := free(round); err != nil {
			return nil, err
		}
		if caught, err = s.freezeInMidWipe(ctx, files, before, victims); err != nil {
			return nil, err
		}
	}
	if err := kill(victims...); err != nil {
		return nil, err
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

// freezeInMidWipe stops the processes where a wipe of the files is under way and says
// which are; it lets them run where each file was wiped already, by a step after the one
// in before.
func (s *site) freezeInMidWipe(ctx context.Context, files []file, before map[string]host.Entry, victims []*exec.Cmd) ([]string, error) {
	inMidWipe := func() (wiped []string, over bool) {
		now := s.resumePoints(files)
		over = true
		for _, f := range files {
			e := now[f.name]
			if e.Step == "zero" && !e.Done && e.Offset > 0 && e.Offset < f.size {
				wiped = append(wiped, f.name)
			}
			over = over && e.Step == "verify" && e.Seq > before[f.name].Seq
		}
		return wiped, over
	}
	over := false
	if err := awaitQuickly(ctx, time.Minute, func() bool {
		var wiped []string
		wiped, over = inMidWipe()
		return over || len(wiped) > 0
	}); err != nil || over {
		return nil, err
	}
	for _, p := range victims {
		if err := freeze(p); err != nil {
			return nil, err
		}
	}
	wiped, _ := inMidWipe()
	if len(wiped) > 0 {
		return wiped, nil
	}
	for _, p := range victims {
		if err := p.Process.Signal(syscall.SIGCONT); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// awaitQuickly polls without a pause: what it waits for lasts milliseconds.
func awaitQuickly(ctx context.Context, limit time.Duration, done func() bool) error {
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			return fmt.Errorf("no wipe was under way within %s", limit)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// freeze stops a process and returns when each of its threads stands.
func freeze(p *exec.Cmd) error {
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		switch _, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("freeze process %d: %w", p.Process.Pid, err)
		case !status.Stopped():
			return fmt.Errorf("process %d ended by itself", p.Process.Pid)
		default:
			return nil
		}
	}
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
	caught, err := s.killInMidWipe(ctx, []file{big}, func(round int) error {
		if round == 0 {
			return s.enroll(big)
		}
		if err := s.bind(big); err != nil {
			return err
		}
		_, err := s.burnish("unbind", big.name, "--instance", instance(big.name))
		return err
	}, s.server, s.worker)
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
