package steps

import (
	"context"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Zero overwrites every byte that a tenant can address with zeroes, once (S2.24, S2.58), in
// chunks; each is flushed before it is recorded, and recorded while the next one is written.
// With the operation write_zeroes the device writes them itself; if it cannot, the step fails
// (S2.27). A second run continues from the last resume point, or writes the same zeroes again.
func Zero() Step {
	return Step{
		Step: clean.Step{
			Name: "zero", Interface: "deploy", Phase: clean.Erase, Priority: 70, Version: 1, Abortable: true,
			Applies: func(s clean.Subject) bool { return s.Operation.Overwrites() }, Timeout: bySize,
		},
		Writes: true,
		Run:    runZero,
	}
}

func runZero(ctx context.Context, w *Work) (Outcome, error) {
	if err := requireNoSanitize(ctx, w); err != nil {
		return Outcome{}, err
	}
	if err := requireWholeDevice(ctx, w); err != nil {
		return Outcome{}, err
	}
	size, err := sizeOf(w)
	if err != nil {
		return Outcome{}, err
	}
	write := w.Device.ZeroAt
	if w.Operation == device.WriteZeroes {
		drive, ok := w.Device.(hardware.ZeroWriter)
		if !ok {
			return Outcome{}, unsupported(w, "write zeroes by itself")
		}
		write = drive.WriteZeroesAt
	}
	if err := recordBehind(ctx, w, func(ctx context.Context, checkpoint func(int64) error) error {
		return zeroChunks(ctx, w, write, size, checkpoint)
	}); err != nil {
		return Outcome{}, err
	}
	// After the last write: the zeroed range is still the whole device, and it is still
	// the same device (F11, F17).
	if err := requireWholeDevice(ctx, w); err != nil {
		return Outcome{}, err
	}
	if err := w.Device.Check(ctx); err != nil {
		return Outcome{}, err
	}
	return Outcome{Bytes: size, Method: w.Device.Method()}, nil
}

// zeroChunks writes zeroes from the resume point to the end, and flushes each chunk before its
// checkpoint.
func zeroChunks(ctx context.Context, w *Work, write func(ctx context.Context, offset, n int64) error, size int64,
	checkpoint func(int64) error) error {
	for offset := w.Resume; offset < size; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(Chunk, size-offset)
		if err := write(ctx, offset, n); err != nil {
			return err
		}
		if err := w.Device.Flush(ctx); err != nil {
			return err
		}
		offset += n
		if err := checkpoint(offset); err != nil {
			return err
		}
	}
	return nil
}
