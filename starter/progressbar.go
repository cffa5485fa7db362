package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// bars is a screen on a terminal: a bar for each device, or words if it has no progress. A
// device whose clean has ended stays as a line above.
type bars struct {
	progress *mpb.Progress
	rows     map[string]*row
	leaving  []*mpb.Bar // removed, but perhaps still drawn by the library
}

// row is one device's bar; mpb draws it from a goroutine of its own.
type row struct {
	bar *mpb.Bar

	mu sync.Mutex
	s  deviceSnapshot
}

func (r *row) snapshot() deviceSnapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s
}

func newBars(out io.Writer, options ...mpb.ContainerOption) *bars {
	options = append([]mpb.ContainerOption{mpb.WithOutput(out)}, options...)
	return &bars{progress: mpb.New(options...), rows: map[string]*row{}}
}

func (b *bars) show(all []deviceSnapshot) error {
	present := map[string]bool{}
	for _, s := range all {
		present[s.Name] = true
		r := b.rows[s.Name]
		if r == nil {
			r = &row{s: s}
			r.bar = b.add(r)
			b.rows[s.Name] = r
		}
		r.mu.Lock()
		r.s = s
		r.mu.Unlock()
		if s.hasBar() {
			r.bar.SetTotal(s.Progress.Total, false)
			r.bar.SetCurrent(s.Progress.Done)
		}
	}
	for name := range b.rows {
		if !present[name] {
			b.remove(name)
		}
	}
	b.settle()
	return nil
}

// add adds a row: the name, the bar or words, and progress and rate.
func (b *bars) add(r *row) *mpb.Bar {
	name := decor.Any(func(decor.Statistics) string { return oneLine(r.snapshot().Name) }, decor.WCSyncSpaceR)
	step := decor.Any(func(decor.Statistics) string {
		if s := r.snapshot(); s.hasBar() {
			return s.CleanStep.Step
		}
		return ""
	}, decor.WCSyncSpaceR)
	far := decor.Any(func(decor.Statistics) string {
		if s := r.snapshot(); s.hasBar() {
			return strings.TrimSuffix(fmt.Sprintf("%.1f %%, %s", s.Progress.Percent, s.rateText()), ", ")
		}
		return ""
	})
	bar := mpb.BarStyle().Build()
	filler := mpb.BarFillerFunc(func(w io.Writer, stat decor.Statistics) error {
		s := r.snapshot()
		if s.hasBar() {
			return bar.Fill(w, stat)
		}
		_, text, _ := strings.Cut(s.line(), ": ")
		if runes := []rune(text); len(runes) > stat.AvailableWidth {
			text = string(runes[:max(stat.AvailableWidth, 0)])
		}
		_, err := io.WriteString(w, text)
		return err
	})
	return b.progress.MustAdd(0, filler, mpb.PrependDecorators(name, step), mpb.AppendDecorators(far))
}

func (b *bars) remove(name string) {
	if r := b.rows[name]; r != nil {
		r.bar.Abort(true)
		b.leaving = append(b.leaving, r.bar)
		delete(b.rows, name)
	}
}

// settle waits until removed rows are no longer drawn.
func (b *bars) settle() {
	for _, bar := range b.leaving {
		bar.Wait()
	}
	b.leaving = nil
}

func (b *bars) finished(s deviceSnapshot) error {
	b.remove(s.Name)
	return b.note(s.line())
}

func (b *bars) note(text string) error {
	_, err := b.progress.Write([]byte(oneLine(text) + "\n"))
	return err
}

// close leaves the last picture on the terminal.
func (b *bars) close() error {
	b.settle()
	b.progress.Shutdown()
	return nil
}
