package main

import (
	"time"

	"burnish/workflows/contract"
)

// meterSpan is the running time over which a rate is taken: long enough to smooth
// one heartbeat, short enough to follow a disk that becomes slower towards its end.
const meterSpan = 30 * time.Second

// meter measures one device's running step by its heartbeats. It counts the step's
// own running time, so that a wait for a slot or for a host slows nothing down.
type meter struct {
	step  string
	marks []mark // the newest last
	seen  time.Time
}

// mark is one heartbeat.
type mark struct {
	done, total int64
	ran         time.Duration
}

// add takes a heartbeat that was seen at now. One that is not ahead of the last
// begins anew: another step, or the same one after a crash.
func (m *meter) add(beat contract.Progress, now time.Time) {
	next := mark{beat.Offset, beat.Size, beat.Ran}
	if n := len(m.marks); n > 0 {
		last := m.marks[n-1]
		if m.step == beat.Step && last == next {
			return
		}
		if m.step != beat.Step || next.done < last.done || next.ran < last.ran {
			m.marks = nil
		}
	}
	m.step, m.seen = beat.Step, now
	m.marks = append(m.marks, next)
	for len(m.marks) > 2 && next.ran-m.marks[1].ran >= meterSpan {
		m.marks = m.marks[1:]
	}
}

// rate gives bytes a second; 0 where it is not known yet.
func (m *meter) rate() int64 {
	if len(m.marks) == 0 {
		return 0
	}
	first, last := mark{}, m.marks[len(m.marks)-1]
	if len(m.marks) > 1 {
		first = m.marks[0]
	}
	if last.ran <= first.ran {
		return 0
	}
	return int64(float64(last.done-first.done) / (last.ran - first.ran).Seconds())
}

// left gives the time that the step will still take at its present rate; ok is false
// where nobody can know.
func (m *meter) left(now time.Time) (d time.Duration, ok bool) {
	rate := m.rate()
	if rate <= 0 {
		return 0, false
	}
	last := m.marks[len(m.marks)-1]
	d = time.Duration(float64(last.total-last.done) / float64(rate) * float64(time.Second))
	return max(d-now.Sub(m.seen), 0), true
}
