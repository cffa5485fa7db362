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
	beats     []contract.Progress // the newest last
	sampledAt time.Time
}

// add takes a heartbeat that was received at now. One that is behind the last starts a new
// measurement: it is of another step, or of the same one after a crash.
func (m *rateEstimator) add(next contract.Progress, now time.Time) {
	if n := len(m.beats); n > 0 {
		last := m.beats[n-1]
		if last.Step == next.Step && last.Offset == next.Offset && last.RunTime == next.RunTime && last.Size == next.Size {
			return
		}
		if last.Step != next.Step || next.Offset < last.Offset || next.RunTime < last.RunTime {
			m.beats = nil
		}
	}
	m.beats, m.sampledAt = append(m.beats, next), now
	for len(m.beats) > 2 && next.RunTime-m.beats[1].RunTime >= rateWindow {
		m.beats = m.beats[1:]
	}
}

// rate gives bytes a second; 0 while it is unknown.
func (m *rateEstimator) rate() int64 {
	if len(m.beats) == 0 {
		return 0
	}
	var first contract.Progress
	last := m.beats[len(m.beats)-1]
	if len(m.beats) > 1 {
		first = m.beats[0]
	}
	if last.RunTime <= first.RunTime {
		return 0
	}
	return int64(float64(last.Offset-first.Offset) / (last.RunTime - first.RunTime).Seconds())
}

// ends gives when the step ends at its present rate; zero while the rate is unknown.
func (m *rateEstimator) ends() time.Time {
	rate := m.rate()
	if rate <= 0 {
		return time.Time{}
	}
	last := m.beats[len(m.beats)-1]
	return m.sampledAt.Add(time.Duration(float64(last.Size-last.Offset) / float64(rate) * float64(time.Second)))
}
