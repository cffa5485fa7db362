package steps

import (
	"context"

	"burnish/internal/clean"
)

// Zero writes zeroes over every byte that a tenant can address, once (S2.24, S2.58),
// chunk by chunk: each is flushed before it counts. A second run goes on from the
// last resume point, or writes again what was written before.
func Zero() Step {
	return Step{
		Step:   clean.Describe(clean.StepZero),
		Writes: true,
		Run:    runZero,
	}
}

func runZero(ctx context.Context, w *Work) (Outcome, error) {
	size, err := sizeOf(w)
	if err != nil {
		return Outcome{}, err
	}
	for offset := w.Resume; offset < size; {
		if err := context.Cause(ctx); err != nil {
			return Outcome{}, err
		}
		n := min(Chunk, size-offset)
		if err := w.Device.ZeroAt(ctx, offset, n); err != nil {
			return Outcome{}, err
		}
		if err := w.Device.Flush(ctx); err != nil {
			return Outcome{}, err
		}
		offset += n
		if err := w.Checkpoint(offset); err != nil {
			return Outcome{}, err
		}
	}
	// Identity and interlocks once more, after the last write (SAFETY F11).
	if err := w.Device.Check(ctx); err != nil {
		return Outcome{}, err
	}
	return Outcome{Bytes: size, Method: w.Device.Method()}, nil
}
