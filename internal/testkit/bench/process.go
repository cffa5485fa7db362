package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"burnish/internal/testkit/must"
)

// running is a process that is measured.
type running interface{ PID() int }

// groupTime is the processor time that a process's children, and the processes of its group, have used so far.
func groupTime(p running) (sum time.Duration, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, err
	}
	found := false
	for _, one := range all {
		stat, err := one.Stat()
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH): // it ended meanwhile
		case err != nil:
			return 0, err
		case stat.PGRP == p.PID(), stat.PPID == p.PID():
			sum, found = sum+time.Duration(stat.CPUTime()*float64(time.Second)), true
		}
	}
	if !found {
		return 0, fmt.Errorf("process %d has ended", p.PID())
	}
	return sum, nil
}

// peakMemory is the most resident memory of a process since the last call, in MiB.
func peakMemory(p running) (mib float64) {
	status := must.Get(must.Get(procfs.NewProc(p.PID())).NewStatus())
	must.Do(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0))
	return float64(status.VmHWM) / (1 << 20)
}

// memoryAbove is how many MiB of resident memory a process takes for something, above the most that it had
// before: the median of so many rounds, as what was not collected yet differs from one to the next.
func memoryAbove(p running, rounds int, do func()) float64 {
	before := peakMemory(p)
	peaks := make([]float64, rounds)
	for i := range peaks {
		do()
		peaks[i] = peakMemory(p)
	}
	return median(peaks) - before
}

// loadAverage is the machine's load over the last minute, which says how noisy the figures are. It is
// infinite where it is not known.
func loadAverage() float64 {
	load := &procfs.LoadAvg{}
	err := must.Try(func() { load = must.Get(must.Get(procfs.NewDefaultFS()).LoadAvg()) })
	if err != nil {
		return math.Inf(1)
	}
	return load.Load1
}
