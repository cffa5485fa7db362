package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"burnish/internal/testkit/must"
)

// running is a process that is measured.
type running interface{ PID() int }

// groupTime is the processor time that the processes of a process's group have used so far.
func groupTime(p running) (sum time.Duration, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	found := false
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it ended meanwhile
			continue
		}
		if err != nil {
			return 0, err
		}
		group, used, err := parseStat(string(text))
		if err != nil {
			return 0, fmt.Errorf("/proc/%s/stat: %w", entry.Name(), err)
		}
		if group == p.PID() {
			sum, found = sum+used, true
		}
	}
	if !found {
		return 0, fmt.Errorf("process %d has ended", p.PID())
	}
	return sum, nil
}

// parseStat is what the kernel says about a process: its group, and its processor time.
func parseStat(text string) (group int, used time.Duration, err error) {
	// The second field is the program's name, in parentheses.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const groupAt, userAt, systemAt, tick = 2, 11, 12, time.Second / 100
	if len(fields) <= systemAt {
		return 0, 0, fmt.Errorf("it has %d fields", len(fields))
	}
	group, err = strconv.Atoi(fields[groupAt])
	user, err2 := strconv.Atoi(fields[userAt])
	system, err3 := strconv.Atoi(fields[systemAt])
	return group, time.Duration(user+system) * tick, errors.Join(err, err2, err3)
}

// peakMemory is the most resident memory of a process since the last call, in MiB.
func peakMemory(p running) (mib float64) {
	dir := fmt.Sprintf("/proc/%d/", p.PID())
	_, rest, _ := strings.Cut(string(must.Get(os.ReadFile(dir+"status"))), "VmHWM:")
	_, err := fmt.Sscan(rest, &mib)
	must.Be(err == nil, "VmHWM of %sstatus: %w", dir, err)
	must.Do(os.WriteFile(dir+"clear_refs", []byte("5"), 0))
	return mib / 1024
}

// memoryAbove is how many MiB of resident memory a process takes for something, above what it had.
func memoryAbove(p running, do func()) float64 {
	before := peakMemory(p)
	do()
	return peakMemory(p) - before
}

// loadAverage is the machine's load over the last minute, which says how noisy the figures are. It is
// infinite where it is not known.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	load, err2 := strconv.ParseFloat(one, 64)
	if err != nil || err2 != nil {
		return math.Inf(1)
	}
	return load
}
