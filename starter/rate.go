package main

import (
	"time"

	"burnish/workflows/contract"
)

// rateWindow is the running time over which a rate is taken: long enough to smooth
// one heartbeat, short enough to follow a disk that becomes slower towards its end.
const rateWindow = 30 * time.Second

// rateEstimator measures one device's running step by its heartbeats. It counts the step's
// own running time, so that a wait for a slot or for a host slows nothing down.
type rateEstimator struct {
	step      string
	samples   []sample // the newest last
	sampledAt time.Time
}

// sample is one heartbeat.
type sample struct {
	done, total int64
	runTime     time.Duration
}

// add takes a heartbeat that was received at now. One that is behind the last starts a new
// measurement: it is of another step, or of the same one after a crash.
func (m *rateEstimator) add(beat contract.Progress, now time.Time) {
	next := sample{beat.Offset, beat.Size, beat.RunTime}
	if n := len(m.samples); n > 0 {
		last := m.samples[n-1]
		if m.step == beat.Step && last == next {
			return
		}
		if m.step != beat.Step || next.done < last.done || next.runTime < last.runTime {
			m.samples = nil
		}
	}
	m.step, m.sampledAt = beat.Step, now
	m.samples = append(m.samples, next)
	for len(m.samples) > 2 && next.runTime-m.samples[1].runTime >= rateWindow {
		m.samples = m.samples[1:]
	}
}

// rate gives bytes a second; 0 while it is unknown.
func (m *rateEstimator) rate() int64 {
	if len(m.samples) == 0 {
		return 0
	}
	first, last := sample{}, m.samples[len(m.samples)-1]
	if len(m.samples) > 1 {
		first = m.samples[0]
	}
	if last.runTime <= first.runTime {
		return 0
	}
	return int64(float64(last.done-first.done) / (last.runTime - first.runTime).Seconds())
}

// remaining gives the time that the step still needs at its present rate; ok is false while
// the rate is unknown.
func (m *rateEstimator) remaining(now time.Time) (d time.Duration, ok bool) {
	rate := m.rate()
	if rate <= 0 {
		return 0, false
	}
	last := m.samples[len(m.samples)-1]
	d = time.Duration(float64(last.total-last.done) / float64(rate) * float64(time.Second))
	return max(d-now.Sub(m.sampledAt), 0), true
}
