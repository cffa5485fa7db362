package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
)

// How long a reserved device may look available (D9).
const (
	// margin is what a device may take to follow its own write, or the sweep that saw it,
	// on a busy machine.
	margin = 10 * time.Second
	// retryDelay is how long after an outage a call may wait for its next attempt: the
	// longest pause between two attempts, and the time-out of one whose worker is gone.
	retryDelay = 10 * time.Second
	// longestExcuse bounds what an outage excuses beyond its end: a request that is never
	// made again, a sweep that is never tried again.
	longestExcuse = time.Minute
	// answersWithin is how fast Placement answers where no test delays it.
	answersWithin = time.Second
)

// timeline is the history of one device and its provider in a test: the writes that the
// Recorder saw, and what the server's histories keep of the device's workflow and of the
// sweeps. It is read when the test is over: nothing is polled, and no moment is missed.
//
// A window is a time in which the device is available, not in maintenance, and reserved. It
// may last for one sweep interval, or until the next sweep that is asked for. What Burnish
// reserved itself needs no sweep, so that only the margin is allowed: a bind, whose device is
// available and claimed until its reservation is read back, and a device that becomes
// available with the reservation that Burnish itself raised.
//
// These times have a margin for a busy machine, which is many short intervals. So the first
// sweep that both began and came to its end in a window that Nova's write began must also have
// asked the device to read its reservation: a second sweep is never needed.
//
// While the control worker, the server or Placement is down Burnish can notice nothing: the
// time of an outage does not count. It counts again, with what was left, once whatever the
// outage interrupted must have been tried again. The end of a test is the end of its
// worker: a window that may still be open then is not a violation.
type timeline struct {
	sweepInterval time.Duration // 0: only sweeps that are asked for
	writes        []openstack.Change
	statuses      []status
	sweeps        []span      // of the device's host, each from when it was asked for
	completed     []span      // those that came to their end
	hints         []time.Time // when the device was asked to read its reservation
	outages       []span
	end           time.Time
}

// status is what the device's workflow publishes, from a moment on.
type status struct {
	At          time.Time
	State       device.State
	Maintenance bool
}

func (s status) available() bool { return s.State == device.Available && !s.Maintenance }

// span is the time from one moment to another.
type span struct{ From, To time.Time }

// window is a span in which a reserved device looks available.
type window struct {
	span
	start     openstack.Change // the write that stands when it begins
	ownWrites []time.Time      // of Burnish itself, in the window
}

// windows finds them all.
func (l timeline) windows() []window {
	type entry struct {
		at     time.Time
		write  *openstack.Change
		status *status
	}
	var entries []entry
	for i, w := range l.writes {
		entries = append(entries, entry{at: w.At, write: &l.writes[i]})
	}
	for i, t := range l.statuses {
		entries = append(entries, entry{at: t.At, status: &l.statuses[i]})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	var (
		all   []window
		write openstack.Change
		state status
		in    bool
	)
	for _, e := range entries {
		if e.write != nil {
			write = *e.write
		} else if e.status.available() != state.available() {
			state = *e.status
		}
		switch is := write.Burned() && state.available(); {
		case is && !in:
			all = append(all, window{span: span{From: e.at, To: l.end}, start: write})
			if !write.By.ByScheduler {
				all[len(all)-1].ownWrites = []time.Time{e.at}
			}
			in = true
		case is && e.write != nil && !write.By.ByScheduler:
			all[len(all)-1].ownWrites = append(all[len(all)-1].ownWrites, e.at)
		case !is && in:
			all[len(all)-1].To = e.at
			in = false
		}
	}
	return all
}

// deadline is when a window must be over, and why; zero where there is no bound yet.
func (l timeline) deadline(s window) (at time.Time, why string) {
	bound := func(from time.Time, length time.Duration, because string) {
		if then := l.addWithoutOutages(from, length); at.IsZero() || then.Before(at) {
			at, why = then, because
		}
	}
	if l.sweepInterval > 0 {
		bound(s.From, l.sweepInterval+margin, fmt.Sprintf("a sweep comes every %s", l.sweepInterval))
	}
	for _, own := range s.ownWrites {
		bound(own, margin, "Burnish itself reserved it at "+clock(own))
	}
	for _, sweep := range l.sweeps {
		if sweep.From.After(s.From) && sweep.From.Before(s.To) {
			bound(sweep.From, margin, "a sweep of its host was asked for at "+clock(sweep.From))
		}
	}
	return at, why
}

// addWithoutOutages is the moment at which so much time has passed since another, without
// the time of outages.
func (l timeline) addWithoutOutages(from time.Time, length time.Duration) time.Time {
	for _, o := range l.outages {
		if !o.To.After(from) {
			continue
		}
		before := max(0, o.From.Sub(from))
		if before >= length {
			break
		}
		from, length = o.To, length-before
	}
	return from.Add(length)
}

// missed is the first sweep that began and came to its end within a window which Nova's
// write began, if the device was not asked to read its reservation by then.
func (l timeline) missed(w window) (one span, missed bool) {
	if !w.start.By.ByScheduler || w.start.At.Before(w.From) {
		return span{}, false // Burnish's own, or older than the device's becoming available
	}
	for _, sweep := range l.completed {
		if sweep.From.Before(w.From) || sweep.To.After(w.To) {
			continue
		}
		asked := func(at time.Time) bool { return at.After(w.From) && at.Before(sweep.To.Add(time.Second)) }
		return sweep, !slices.ContainsFunc(l.hints, asked)
	}
	return span{}, false
}

// violations describes each window that lasts too long, with the whole timeline.
func (l timeline) violations() []string {
	var all []string
	for _, s := range l.windows() {
		if one, missed := l.missed(s); missed {
			all = append(all, fmt.Sprintf("available and reserved from %s to %s, and the sweep from %s to %s did not ask it to read its reservation\n%s",
				clock(s.From), clock(s.To), clock(one.From), clock(one.To), l))
		}
		latest, why := l.deadline(s)
		if latest.IsZero() || !s.To.After(latest) {
			continue
		}
		all = append(all, fmt.Sprintf("available and reserved from %s to %s, longer than %s allowed (%s, and a margin of %s), since reserved=%d of %d by %s %s\n%s",
			clock(s.From), clock(s.To), latest.Sub(s.From).Round(time.Millisecond), why, margin,
			s.start.Reserved, s.start.Total, s.start.By.Method, s.start.By.Path, l))
	}
	return all
}

// String is the timeline as a person reads it.
func (l timeline) String() string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, w := range l.writes {
		who := "Burnish"
		if w.By.ByScheduler {
			who = "Nova"
		}
		text := fmt.Sprintf("reserved=%d of %d by %s: %s %s", w.Reserved, w.Total, who, w.By.Method, w.By.Path)
		if !w.Exists || !w.Stocked {
			text = fmt.Sprintf("the inventory was deleted by %s: %s %s", who, w.By.Method, w.By.Path)
		}
		lines = append(lines, line{w.At, text})
	}
	for _, t := range l.statuses {
		lines = append(lines, line{t.At, fmt.Sprintf("the device is %s, maintenance %v", cmp.Or(string(t.State), "not enrolled"), t.Maintenance)})
	}
	for _, o := range l.outages {
		lines = append(lines, line{o.From, fmt.Sprintf("an outage until %s", clock(o.To))})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, one := range lines {
		fmt.Fprintf(&b, "  %s %s\n", clock(one.at), one.text)
	}
	fmt.Fprintf(&b, "  %s the end; %d sweeps of its host", clock(l.end), len(l.sweeps))
	return b.String()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// mergeOutages sorts and merges outages, each with the end of the sweep that it interrupted:
// a lost sweep is noticed after its heartbeat time-out, and the pauses between attempts grow.
func mergeOutages(outages []span, sweeps []span) []span {
	var all []span
	for _, o := range outages {
		to := o.To
		for _, s := range sweeps {
			if !s.From.After(o.To) && s.To.After(to) {
				to = s.To
			}
		}
		all = append(all, span{o.From, earlier(to, o.To.Add(longestExcuse))})
	}
	slices.SortFunc(all, func(a, b span) int { return a.From.Compare(b.From) })
	var merged []span
	for _, o := range all {
		if n := len(merged); n > 0 && !o.From.After(merged[n-1].To) {
			merged[n-1].To = later(merged[n-1].To, o.To)
			continue
		}
		merged = append(merged, o)
	}
	return merged
}

// lifetimes are the times in which processes ran; To is zero for one that still runs.
func lifetimes(all []*proc.Process) []span {
	var spans []span
	for _, p := range all {
		spans = append(spans, span{p.Started, p.Ended()})
	}
	return spans
}

// downtimes are the times before the end in which a process had ended and no other had
// taken over its work.
func downtimes(lifetimes []span, end time.Time) []span {
	var gaps []span
	for i, p := range lifetimes {
		if p.To.IsZero() {
			continue
		}
		// What it was working on is tried again a while later, also where another runs.
		back := end
		for j, other := range lifetimes {
			if i != j && (other.To.IsZero() || other.To.After(p.To)) {
				back = earlier(back, other.From)
			}
		}
		gaps = append(gaps, span{p.To, later(p.To, back).Add(retryDelay)})
	}
	return gaps
}

// unanswered are the times in which Placement did not answer Burnish: from a request that
// failed until one about the same provider is answered, and the whole time of a slow
// request. A request that is never made again is excused for longestExcuse.
func unanswered(exchanges []openstack.Exchange) []span {
	var gaps []span
	fails := func(e openstack.Exchange) bool { return e.Status == 0 || e.Status >= 500 }
	for i, e := range exchanges {
		switch {
		case e.ByScheduler:
		case fails(e):
			back := e.Ended.Add(longestExcuse)
			for _, next := range exchanges[i+1:] {
				if !next.ByScheduler && !fails(next) && next.Provider() == e.Provider() {
					back = earlier(back, next.Ended)
					break
				}
			}
			gaps = append(gaps, span{e.Began, back.Add(retryDelay)})
		case e.Ended.Sub(e.Began) > answersWithin:
			gaps = append(gaps, span{e.Began, e.Ended})
		}
	}
	return gaps
}
