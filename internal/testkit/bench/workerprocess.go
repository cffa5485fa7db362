package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
)

// workerProcess is this same program as a child that runs workers for a task.
type workerProcess struct {
	*proc.Process
	in     io.WriteCloser
	memory chan memory
	ready  chan error

	mu       sync.Mutex
	releases map[string]chan struct{} // by workflow ID
}

// startWorkerProcess returns when the worker polls. Its log goes into the folder logs. program is
// the build of this program to run; "" means this one.
func startWorkerProcess(ctx context.Context, name, program, logs string, t task) (*workerProcess, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(program, workerCommand, "-task", string(text))
	w := &workerProcess{memory: make(chan memory, 1), ready: make(chan error, 1), releases: map[string]chan struct{}{}}
	// Not cmd.StdoutPipe, which is closed at the process's end with reports in it.
	out, reports, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = reports
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if w.Process, err = proc.Start("worker-"+name, filepath.Join(logs, "worker-"+name+".log"), cmd); err != nil {
		return nil, err
	}
	if err := reports.Close(); err != nil {
		return nil, err
	}
	go w.read(out)
	select {
	case err = <-w.ready:
	case <-w.Done():
		err = errors.New("it ended")
	case <-time.After(site.StartWithin):
		err = fmt.Errorf("not ready within %s", site.StartWithin)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", w.Name, errors.Join(err, w.Kill()), w.Tail())
	}
	return w, nil
}

// read takes the worker's reports until it ends.
func (w *workerProcess) read(out io.ReadCloser) {
	defer out.Close()
	for reports := json.NewDecoder(out); ; {
		var r report
		if err := reports.Decode(&r); err != nil {
			return // the end of the process, which Done reports
		}
		switch {
		case r.Error != "":
			w.ready <- errors.New(r.Error)
		case r.Ready:
			w.ready <- nil
		case r.Memory != nil:
			w.memory <- *r.Memory
		default:
			select {
			case w.released(r.Released) <- struct{}{}:
			default: // nothing waits for an enrollment
			}
		}
	}
}

// released is the channel that reports a device's next release.
func (w *workerProcess) released(id string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.releases[id] == nil {
		w.releases[id] = make(chan struct{}, 1)
	}
	return w.releases[id]
}

// usedMemory asks the worker for its memory, after garbage collection where gc is true.
func (w *workerProcess) usedMemory(ctx context.Context, gc bool) (memory, error) {
	if _, err := fmt.Fprintln(w.in, gc); err != nil {
		return memory{}, fmt.Errorf("%s: %w: %s", w.Name, err, w.Tail())
	}
	select {
	case m := <-w.memory:
		return m, nil
	case <-w.Done():
		return memory{}, fmt.Errorf("%s ended: %s", w.Name, w.Tail())
	case <-ctx.Done():
		return memory{}, ctx.Err()
	}
}

// stop closes the worker's stdin, which ends it in order.
func (w *workerProcess) stop() error {
	if err := w.in.Close(); err != nil {
		return err
	}
	code, err := w.Wait(site.StartWithin)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s ended with exit code %d: %s", w.Name, code, w.Tail())
	}
	return err
}

// cpuTime is the processor time that a process has used so far.
func cpuTime(p cpuMeter) (time.Duration, error) {
	stat, err := readStat(p.PID())
	return stat.used, err
}

// groupTime is the processor time that the processes of a process's group have used so far.
func groupTime(p cpuMeter) (time.Duration, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	found := false
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := readStat(pid)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH): // it ended meanwhile
		case err != nil:
			return 0, err
		case stat.group == p.PID():
			sum, found = sum+stat.used, true
		}
	}
	if !found {
		return 0, fmt.Errorf("process %d has ended", p.PID())
	}
	return sum, nil
}

// processStat is what the kernel says about a process.
type processStat struct {
	group int // its process group
	used  time.Duration
}

func readStat(pid int) (processStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	s, err := parseStat(string(text))
	if err != nil {
		err = fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return s, err
}

func parseStat(text string) (processStat, error) {
	// The second field is the program's name, in parentheses.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const group, user, system, tick = 2, 11, 12, time.Second / 100
	if len(fields) <= system {
		return processStat{}, fmt.Errorf("it has %d fields", len(fields))
	}
	g, err := strconv.Atoi(fields[group])
	u, err2 := strconv.Atoi(fields[user])
	s, err3 := strconv.Atoi(fields[system])
	return processStat{group: g, used: time.Duration(u+s) * tick}, errors.Join(err, err2, err3)
}

// peakMemory is the most resident memory of a process since the last call, in bytes.
func peakMemory(p cpuMeter) (int64, error) {
	dir := fmt.Sprintf("/proc/%d/", p.PID())
	text, err := os.ReadFile(dir + "status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("VmHWM of %sstatus: %w", dir, err)
	}
	return kib << 10, os.WriteFile(dir+"clear_refs", []byte("5"), 0)
}
