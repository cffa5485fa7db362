package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"burnish/internal/testkit/must"
	"burnish/internal/testkit/site"
)

// bench is one run of the program.
type bench struct {
	quick    bool
	programs site.Programs
	dir      string
	began    time.Time
	result   result
	stops    []func() error
}

// scale is how much is measured: in full, or with -quick.
func scale[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}

// run measures one part, or all where only is "".
func (b *bench) run(ctx context.Context, only string) {
	b.note("%d processors, load %.2f at the start", runtime.NumCPU(), loadAverage())
	defer func() { b.note("load %.2f at the end; %.0f s in all", loadAverage(), time.Since(b.began).Seconds()) }()
	for _, p := range parts {
		if only != "" && only != p.name {
			continue
		}
		b.progress("%s", p.name)
		err := errors.Join(must.Try(func() { p.measure(b, ctx) }), b.stop())
		must.Be(err == nil, "%s: %w", p.name, err)
	}
}

// atEnd has stop called at the end of the part.
func (b *bench) atEnd(stop func() error) { b.stops = append(b.stops, stop) }

// stop ends everything that was started, the latest first.
func (b *bench) stop() (err error) {
	for _, stop := range slices.Backward(b.stops) {
		err = errors.Join(err, stop())
	}
	b.stops = nil
	return err
}

// folder creates a folder for one purpose.
func (b *bench) folder(name ...string) (string, error) {
	dir := filepath.Join(append([]string{b.dir}, name...)...)
	return dir, os.MkdirAll(dir, 0o700)
}

func (b *bench) add(figures ...figure) { b.result.Figures = append(b.result.Figures, figures...) }

func (b *bench) note(format string, args ...any) {
	b.result.Notes = append(b.result.Notes, fmt.Sprintf(format, args...))
}

// progress says what is being measured.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}
