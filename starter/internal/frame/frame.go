// Package frame draws what `burnish watch` shows on a terminal: a pure function of the
// devices, the terminal's size and the time.
package frame

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/starter/internal/terminal"
)

// Group is the part of the picture that a device is in.
type Group int

// The groups, from the top to the bottom.
const (
	Running Group = iota
	Queued
	Failed
	groups
)

var titles = [groups]string{"RUNNING", "QUEUED", "FAILED"}

// Device is one device of the picture.
type Device struct {
	Name, Host, Step string
	Group            Group
	// Percent is how far the running step is, Doing what it does if that is not known;
	// Total is 0 for a step that counts no bytes.
	Percent     float64
	Done, Total int64
	Doing       string
	Attempt     int32
	Rate        int64 // bytes a second, 0 if unknown
	// Left is the time that the step still needs.
	Left      time.Duration
	LeftKnown bool
	// ProgressAt is when the step last made progress, BudgetEnds when its budget ends.
	ProgressAt, BudgetEnds time.Time
	// Since is when the device last changed its state. Place is its place in a queue.
	Since time.Time
	Place int
	// Fault is the name of what is wrong; Text says what a queued device waits for, and what
	// to do about a failed one.
	Fault, Text string
}

// Picture is everything that is shown.
type Picture struct {
	Devices []Device
	// Ended are the cleans that ended lately, the newest last.
	Ended []string
	// Note is a remark, as on a server that does not answer.
	Note string
}

// Bounds of a bar, and of the cleans that ended.
const (
	leastBar = 8
	mostBar  = 40
	mostEnd  = 5
	// leastRows is what each group gets before one of them gets more.
	leastRows = 3
)

// Draw gives at most height lines of at most width columns each, and the names of the running
// devices among them.
func (p Picture) Draw(width, height int, now time.Time, paint terminal.Palette) (lines, shown []string) {
	width, height = max(width, 1), max(height, 1)
	byGroup := p.sorted()
	lines = append(lines, p.header(byGroup, width, now, paint))
	if p.Note != "" && height > 1 {
		lines = append(lines, paint.Paint(terminal.Warn, terminal.Cut(terminal.Line(p.Note), width)))
	}
	rows, ended := share(byGroup, len(p.Ended), height-len(lines))
	room := height - len(lines) - ended
	for _, n := range rows {
		room -= n
		if n > 0 {
			room-- // the title
		}
	}
	for g := range groups {
		n := rows[g]
		if n == 0 {
			continue
		}
		all := byGroup[g]
		kept := all
		if n < len(all) {
			kept = all[:n-1]
		}
		if room > 0 { // the groups stand apart where that costs no row
			lines, room = append(lines, ""), room-1
		}
		lines = append(lines, table(g, kept, len(all), now).Lines(width, paint)...)
		if rest := len(all) - len(kept); rest > 0 {
			lines = append(lines,
				paint.Paint(terminal.Faint, terminal.Cut(fmt.Sprintf("… %d more %s", rest, strings.ToLower(titles[g])), width)))
		}
		if g == Running {
			for _, d := range kept {
				shown = append(shown, d.Name)
			}
		}
	}
	if ended > 0 && room > 0 {
		lines = append(lines, "")
	}
	for _, text := range p.Ended[len(p.Ended)-ended:] {
		lines = append(lines, terminal.Cut(terminal.Line(text), width))
	}
	return lines, shown
}

// Text is the whole picture, for a screen that scrolls.
func (p Picture) Text(width int, now time.Time, paint terminal.Palette) string {
	lines, _ := p.Draw(width, len(p.Devices)+len(p.Ended)+10, now, paint)
	return strings.Join(lines, "\n") + "\n"
}

// sorted gives each group in its order: what ends next, what is next in line, what failed last.
func (p Picture) sorted() (byGroup [groups][]Device) {
	for _, d := range p.Devices {
		byGroup[d.Group] = append(byGroup[d.Group], d)
	}
	known := func(d Device) int {
		if d.LeftKnown {
			return 0
		}
		return 1
	}
	slices.SortFunc(byGroup[Running], func(a, b Device) int {
		return cmp.Or(known(a)-known(b), cmp.Compare(a.Left, b.Left), a.Since.Compare(b.Since),
			strings.Compare(a.Name, b.Name))
	})
	place := func(d Device) int {
		if d.Place > 0 {
			return d.Place
		}
		return int(^uint(0) >> 1)
	}
	slices.SortFunc(byGroup[Queued], func(a, b Device) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(byGroup[Failed], func(a, b Device) int {
		return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.Name, b.Name))
	})
	return byGroup
}

// header is the totals.
func (p Picture) header(byGroup [groups][]Device, width int, now time.Time, paint terminal.Palette) string {
	text := "no clean is running"
	if len(p.Devices) > 0 {
		text = fmt.Sprintf("%d running, %d queued, %d failed", len(byGroup[Running]), len(byGroup[Queued]),
			len(byGroup[Failed]))
	}
	var rate int64
	for _, d := range byGroup[Running] {
		rate += d.Rate
	}
	if sum := ", " + terminal.Bytes(rate) + "/s"; rate > 0 && len(text)+len(sum) <= width {
		text += sum
	}
	text = terminal.Cut(text, width)
	clock := now.Local().Format("15:04:05")
	if room := width - terminal.Width(text) - len(clock); room >= 2 {
		return paint.Paint(terminal.Title, text) + strings.Repeat(" ", room) + clock
	}
	return paint.Paint(terminal.Title, text)
}

// share divides lines among the groups, of which each needs one more for its title, and the
// cleans that ended. What runs comes first, then what failed, then what waits.
func share(byGroup [groups][]Device, ended, lines int) (rows [groups]int, ends int) {
	order := []Group{Running, Failed, Queued}
	give := func(g Group) {
		more := 1
		if rows[g] == 0 { // a lone row would only say how many there are, which the totals do
			more = 2
		}
		more = min(more, len(byGroup[g])-rows[g])
		cost := more
		if rows[g] == 0 {
			cost++
		}
		if more > 0 && cost <= lines {
			rows[g] += more
			lines -= cost
		}
	}
	for range leastRows - 1 {
		for _, g := range order {
			give(g)
		}
		if ends < min(ended, 1) && lines > 0 {
			ends++
			lines--
		}
	}
	for _, g := range order {
		for range byGroup[g] {
			give(g)
		}
	}
	for ends < min(ended, mostEnd) && lines > 0 {
		ends++
		lines--
	}
	return rows, ends
}
