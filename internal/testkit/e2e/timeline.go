package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
)

// How long what is burned may look available (S0.9, D9).
const (
	// settles is the margin: what a device may take to follow its own write, or the
	// sweep that saw it, on a machine that does much else.
	margin = 10 * time.Second
	// triesAgain is how long after an outage a call may wait until it is tried again: the
	// longest pause between two attempts, and the time-out of one whose worker is gone.
	retryDelay = 10 * time.Second
	// forgiven bounds what an outage excuses beyond its end: a request that is never made
	// again, a sweep that is never tried again.
	longestExcuse = time.Minute
	// answersWithin is how fast Placement answers where nobody holds it.
	answersWithin = time.Second
)

// ledger is all that was said of one device and its provider while a test ran, each
// entry with its time: the Recorder's writes, and what the server's histories keep of the
// device's workflow and of the sweeps. It is read when the test is over: nothing is
// polled, and no moment is missed.
//
// A stretch is a time in which the device is available, not held, and burned. It lasts
// one sweep at most, by the clock and, where one is asked for, by the sweep that comes.
// What Burnish burned itself needs no sweep: there the margin alone is allowed. That is
// the bind, whose device is available and claimed until its burn is read back, and any
// device that becomes available with the reservation that Burnish itself raised.
//
// While the control worker, the server or Placement is away nothing can be noticed: the
// clock of a stretch stands still. It goes on, with what was left, once what the outage
// struck must have been tried again, so that the rest of the test counts as ever. The
// end of a test is the end of its worker: what is still allowed then is not broken.
type timeline struct {
	sweepInterval   time.Duration // between two sweeps; 0: there are those that somebody asks for
	writes  []openstack.Change
	statuses    []status
	sweeps   []span // at the device by a sweep, from when it was asked for
	outages []span
	end     time.Time
}

// told is what the device's workflow says that the device is, from a moment on.
type status struct {
	At    time.Time
	State device.State
	Held  bool
}

func (t status) available() bool { return t.State == device.Available && !t.Held }

// span is the time from one moment to another.
type span struct{ From, To time.Time }

// stretch is a span in which a burned device looks available.
type window struct {
	span
	start openstack.Change // that stands when it begins
	ownWrites   []time.Time      // Burnish's own burns in it
}

// stretches finds them all.
func (l timeline) windows() []window {
	type entry struct {
		at    time.Time
		write *openstack.Change
		told  *status
	}
	var entries []entry
	for i, w := range l.writes {
		entries = append(entries, entry{at: w.At, write: &l.writes[i]})
	}
	for i, t := range l.statuses {
		entries = append(entries, entry{at: t.At, told: &l.statuses[i]})
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
		} else if e.told.available() != state.available() {
			state = *e.told
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

// latest is when a stretch must be over, and why; zero where nothing says so yet.
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
		bound(own, margin, "Burnish burned it itself at "+clock(own))
	}
	for _, look := range l.sweeps {
		if look.From.After(s.From) && look.From.Before(s.To) {
			bound(look.From, margin, "a sweep looked at it at "+clock(look.From))
		}
	}
	return at, why
}

// counted is the moment by which so much time has passed since another, outages left out.
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

// broken tells each stretch that lasts too long, with all that was said.
func (l timeline) violations() []string {
	var all []string
	for _, s := range l.windows() {
		latest, why := l.deadline(s)
		if latest.IsZero() || !s.To.After(latest) {
			continue
		}
		all = append(all, fmt.Sprintf("available and burned from %s to %s, longer than %s allowed (%s, and a margin of %s), since reserved=%d of %d by %s %s\n%s",
			clock(s.From), clock(s.To), latest.Sub(s.From).Round(time.Millisecond), why, margin,
			s.start.Reserved, s.start.Total, s.start.By.Method, s.start.By.Path, l))
	}
	return all
}

// String is the ledger as a person reads it.
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
			text = fmt.Sprintf("no inventory any more by %s: %s %s", who, w.By.Method, w.By.Path)
		}
		lines = append(lines, line{w.At, text})
	}
	for _, t := range l.statuses {
		lines = append(lines, line{t.At, fmt.Sprintf("the device is %s, held %v", cmp.Or(string(t.State), "nobody's"), t.Held)})
	}
	for _, o := range l.outages {
		lines = append(lines, line{o.From, fmt.Sprintf("the clock stands still until %s", clock(o.To))})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, one := range lines {
		fmt.Fprintf(&b, "  %s %s\n", clock(one.at), one.text)
	}
	fmt.Fprintf(&b, "  %s the end; %d sweeps looked at it", clock(l.end), len(l.sweeps))
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

// excused puts outages in order, one after another, each with the end of the sweep that
// it struck: a lost one is missed after its heartbeat, and the pauses between attempts grow.
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

// downs are the times before the end in which none of some programs ran.
func downtimes(all []*Process, end time.Time) []span {
	var gaps []span
	for _, p := range all {
		if p.Alive() {
			continue
		}
		// What it had in hand is tried again a while later, also where another runs.
		back := end
		for _, other := range all {
			if other != p && (other.Alive() || other.gone.After(p.gone)) {
				back = earlier(back, other.Began)
			}
		}
		gaps = append(gaps, span{p.gone, later(p.gone, back).Add(retryDelay)})
	}
	return gaps
}

// silences are the times in which Placement did not answer Burnish: from a request that
// came to nothing until one about the same provider is answered, and for as long as a
// request is held. One that is never made again is not excused for long.
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
