package steps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Verify proves the erase by the method that fits it (F19). On an overwritten device it
// reads every byte, or a sample where the operator has configured that, and every byte read
// must be zero. On a sanitized device, the evidence must prove that this clean's sanitize
// was done, and no sampled block may read as before. A device that the operator's program
// or a server's controllers erased is verified by its driver. The outcome says which method was used. A second run
// begins again: what was read before this attempt held the device proves nothing now (F37).
func Verify() Step {
	return Step{
		Step: clean.Step{
			Name: "verify", Interface: "deploy", Phase: clean.Verify, Priority: 60, Version: 1, Abortable: true,
			Applies: func(s clean.Subject) bool { return s.Operation != "" }, Timeout: verifyBudget,
		},
		Run: runVerify,
	}
}

const (
	// A full verify reads readSize at once; a sample consists of blocks of sampleSize.
	readSize   = 2 << 20
	sampleSize = 1 << 20
)

// verifyBudget goes by the device's size, or by the program's own estimate where a program
// verifies.
func verifyBudget(s clean.Subject) time.Duration {
	if s.Operation == device.Script || s.Operation == device.SecureErase {
		return twiceTheEstimate(s)
	}
	return bySize(s)
}

func runVerify(ctx context.Context, w *Work) (Outcome, error) {
	if drive, ok := w.Device.(hardware.Resetter); ok {
		// Reads must come from the media, not from the drive's cache.
		if err := w.Checkpoint(0); err != nil {
			return Outcome{}, err
		}
		if err := drive.Reset(ctx); err != nil {
			return Outcome{}, err
		}
	}
	switch {
	case w.Operation == device.Script, w.Operation == device.SecureErase:
		return runOnDriver(ctx, w, "verify")
	case w.Operation.Sanitizes():
		return verifySanitize(ctx, w)
	}
	return verifyZeroes(ctx, w)
}

// verifySanitize checks the evidence of this clean's sanitize (F18) and the samples.
func verifySanitize(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.Sanitizer)
	if !ok {
		return Outcome{}, unsupported(w, "be sanitized")
	}
	var own sanitizeIntent
	recorded, err := w.LoadEvidence(intentName, &own)
	if err != nil {
		return Outcome{}, err
	}
	if !recorded || !own.Proven || !own.Planted.complete() {
		return Outcome{}, notProven("this host has no record that this clean's sanitize was done")
	}
	if err := own.requireLast(ctx, drive); err != nil {
		return Outcome{}, err
	}
	if err := requireWholeDevice(ctx, w); err != nil {
		return Outcome{}, err
	}
	note, read := own.Checked, int64(0)
	if w.Device.Size() == own.Planted.Size { // the namespaces have not changed since
		if note, read, err = own.compare(ctx, w.Device); err != nil {
			return Outcome{}, err
		}
	}
	// Once more: what was written meanwhile, the reads may have missed (F37).
	if err := own.requireLast(ctx, drive); err != nil {
		return Outcome{}, err
	}
	if err := w.Checkpoint(w.Enrolled.Size); err != nil {
		return Outcome{}, err
	}
	return Outcome{Bytes: w.Enrolled.Size, Held: read, Method: "provenance", Seed: own.Planted.Seed,
		Note: fmt.Sprintf("%s; %s", note, underOneHold(read))}, w.Device.Check(ctx)
}

// requireLast fails unless the drive's last sanitize is this clean's, and nothing was written since.
func (i sanitizeIntent) requireLast(ctx context.Context, drive hardware.Sanitizer) error {
	now, err := drive.Sanitize(ctx)
	switch {
	case err != nil:
		return err
	case now.State != hardware.SanitizeDone || now.Command != i.Command:
		return notProven("the drive's last sanitize is %s with command 0x%x: it is not this clean's", now.State, now.Command)
	case !now.GlobalErased:
		return notProven("the drive reports that it was written to since its sanitize")
	}
	return nil
}

// verifyZeroes reads the device, which must hold only zeroes.
func verifyZeroes(ctx context.Context, w *Work) (Outcome, error) {
	if err := requireWholeDevice(ctx, w); err != nil {
		return Outcome{}, err
	}
	size, err := sizeOf(w)
	if err != nil {
		return Outcome{}, err
	}
	every, err := w.Settings.SampleInterval()
	if err != nil {
		return Outcome{}, err
	}
	seed := rand.Uint64()
	read := int64(0)
	if err := recordBehind(ctx, w, func(ctx context.Context, checkpoint func(int64) error) error {
		read, err = allZero(ctx, w, size, extentsToRead(size, every, seed), checkpoint)
		return err
	}); err != nil {
		return Outcome{}, err
	}
	if err := w.Device.Check(ctx); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Bytes: size, Held: read, Method: "full", Note: underOneHold(read)}
	if every > 1 {
		out.Method, out.Seed = w.Settings.Verify, seed
		out.Note += fmt.Sprintf(", sampled with seed %d", seed)
	}
	return out, nil
}

func underOneHold(read int64) string { return fmt.Sprintf("%d bytes read under one hold", read) }

// extent is a range of a device's bytes.
type extent struct{ at, n int64 }

// extentsToRead lists the extents of a device to read: all of them, or, for a sample, the
// device's first and last block and one in each group of `every` blocks. Which one differs
// from group to group and from attempt to attempt, so that data with a fixed pattern cannot
// stay between the samples.
func extentsToRead(size, every int64, seed uint64) iter.Seq[extent] {
	return func(yield func(extent) bool) {
		step := int64(readSize)
		if every > 1 {
			step = sampleSize
		}
		for at := int64(0); at < size; at += step {
			block := at / step
			if every > 1 && block != sampledBlock(seed, block/every, every) && at != 0 && at+step < size {
				continue
			}
			if !yield(extent{at, min(step, size-at)}) {
				return
			}
		}
	}
}

// allZero reads extents, which must hold only zeroes, and gives the number of bytes. The
// next extents are read while one is compared and recorded.
func allZero(ctx context.Context, w *Work, size int64, list iter.Seq[extent],
	checkpoint func(int64) error) (int64, error) {
	zeroes, err := hardware.Zeroes()
	if err != nil {
		return 0, err
	}
	blocks, stop := readAhead(ctx, w.Device, list)
	defer stop()
	read, recorded := int64(0), int64(0)
	for b := range blocks {
		if done := b.at / Chunk * Chunk; done > recorded {
			recorded = done
			if err := checkpoint(done); err != nil {
				return read, err
			}
		}
		switch got := int64(b.got); {
		case context.Cause(ctx) != nil:
			return read, context.Cause(ctx)
		case got < b.n && b.err != nil && !errors.Is(b.err, io.EOF):
			return read, b.err
		case got < b.n:
			return read, verifyFailedAt(b.at+got, "the device ends early")
		case !bytes.Equal(b.data(), zeroes[:b.n]):
			return read, verifyFailedAt(b.at+firstNonZero(b.data()), "a byte is not zero")
		}
		read += b.n
	}
	if recorded < size {
		return read, checkpoint(size)
	}
	return read, nil
}

// sampledBlock gives the block to read of a group of `every` blocks. With a recorded seed it
// gives the blocks that the attempt read, besides the first and the last one.
func sampledBlock(seed uint64, group, every int64) int64 {
	return group*every + rand.New(rand.NewPCG(seed, uint64(group))).Int64N(every)
}

func firstNonZero(p []byte) int64 {
	for i, b := range p {
		if b != 0 {
			return int64(i)
		}
	}
	return 0
}

func verifyFailedAt(offset int64, what string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeVerifyFailed,
		Message: fmt.Sprintf("verify failed at byte %d: %s", offset, what),
		Remedy:  "clean the device again; if it fails again, retire it"}
}
