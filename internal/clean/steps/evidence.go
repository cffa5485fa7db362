package steps

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Before a sanitize, sampleCount blocks of evidenceBlock bytes are hashed.
const (
	sampleCount   = 128
	evidenceBlock = 4096
)

// sample is the hash of one block before the sanitize.
type sample struct {
	At   int64  `json:"at"`
	Hash []byte `json:"hash"`
}

// samples are hashes of what a tenant left on a device before it was sanitized (F19):
// afterwards no block may read the same. They need not read zeroes: after a crypto erase,
// reads are random. Sparse or constant data proves nothing, so data is planted too.
type samples struct {
	Seed uint64 `json:"seed"`
	Size int64  `json:"size"`
	// Constant and Unreadable count the blocks that were left out: they prove nothing.
	Constant   int      `json:"constant,omitempty"`
	Unreadable int      `json:"unreadable,omitempty"`
	Blocks     []sample `json:"blocks,omitempty"`
}

// sampleOffsets gives the offsets of up to count samples: one block in each of as many equal
// parts, chosen by the seed; the first block in the first part, the last one in the last.
func sampleOffsets(size int64, count int64, seed uint64) []int64 {
	blocks := size / evidenceBlock
	if blocks == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, uint64(size)))
	parts := min(blocks, count)
	at := make([]int64, 0, parts)
	for part := range parts {
		first, next := blocks*part/parts, blocks*(part+1)/parts
		block := first + random.Int64N(next-first)
		switch part {
		case 0:
			block = 0
		case parts - 1:
			at = append(at, size-evidenceBlock) // the size need not be whole blocks
			if last := len(at) - 1; last > 0 && at[last-1]+evidenceBlock > at[last] {
				at = slices.Delete(at, last-1, last)
			}
			continue
		}
		at = append(at, block*evidenceBlock)
	}
	return at
}

// takeSamples hashes the samples. A block that cannot be read is only counted: a drive
// whose last sanitize failed reads nothing.
func takeSamples(ctx context.Context, from hardware.Handle) (samples, error) {
	taken := samples{Seed: rand.Uint64(), Size: from.Size()}
	for _, at := range sampleOffsets(taken.Size, sampleCount, taken.Seed) {
		block, err := readEvidence(ctx, from, at)
		switch {
		case err != nil:
			return samples{}, err
		case block == nil:
			taken.Unreadable++
		case constant(block):
			taken.Constant++
		default:
			taken.Blocks = append(taken.Blocks, sample{At: at, Hash: digest(block)})
		}
	}
	return taken, nil
}

// changed reads the samples again; it fails where one reads as before. Samples that were taken
// before the worker was restarted can only refuse: another writer may have changed a block since.
// What proves a sanitize is what was planted just before it (F33). read is how many bytes it read.
func (s samples) changed(ctx context.Context, from hardware.Handle) (note string, read int64, err error) {
	if from.Size() != s.Size {
		return "", 0, notProven("the device has %d bytes and had %d before its sanitize", from.Size(), s.Size)
	}
	unreadable := 0
	for _, block := range s.Blocks {
		now, err := readEvidence(ctx, from, block.At)
		switch {
		case err != nil:
			return "", 0, err
		case now == nil:
			unreadable++
		case string(digest(now)) == string(block.Hash):
			return "", 0, notProven("the block at byte %d reads the same as before the sanitize", block.At)
		}
	}
	changed := len(s.Blocks) - unreadable
	return fmt.Sprintf("%d of %d sampled blocks of the tenant changed, %d unreadable; left out: %d constant, %d "+
		"unreadable",
		changed, len(s.Blocks), unreadable, s.Constant, s.Unreadable), int64(changed) * evidenceBlock, nil
}

// readEvidence reads one block, or gives nil where it cannot be read. The error is the end of
// ctx.
func readEvidence(ctx context.Context, from hardware.Handle, at int64) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	buffer := hardware.AlignedBuffer(evidenceBlock)
	if n, err := from.ReadAt(buffer, at); n < len(buffer) || err != nil && !errors.Is(err, io.EOF) {
		return nil, context.Cause(ctx)
	}
	return buffer, nil
}

func notProven(format string, args ...any) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeVerifyFailed, Message: fmt.Sprintf(format, args...),
		Remedy: "the drive did not do what it says: clean it again, or retire it"}
}

func digest(block []byte) []byte {
	sum := sha256.Sum256(block)
	return sum[:16]
}

func constant(block []byte) bool {
	for _, b := range block {
		if b != block[0] {
			return false
		}
	}
	return true
}
