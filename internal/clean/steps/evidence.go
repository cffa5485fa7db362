package steps

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

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

// samples are hashes of a device's blocks before it was sanitized (F19): afterwards none may
// read the same. They need not read zeroes: after a crypto erase, reads are random.
type samples struct {
	Seed uint64 `json:"seed"`
	Size int64  `json:"size"`
	// Constant and Unreadable count the blocks that were left out: they prove nothing.
	Constant   int      `json:"constant,omitempty"`
	Unreadable int      `json:"unreadable,omitempty"`
	Blocks     []sample `json:"blocks,omitempty"`
}

// sampleOffsets gives the offsets of the samples: one block in each of sampleCount equal
// parts, chosen by the seed; the first block in the first part, the last one in the last.
func sampleOffsets(size int64, seed uint64) []int64 {
	blocks := size / evidenceBlock
	if blocks == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, uint64(size)))
	parts := min(blocks, sampleCount)
	at := make([]int64, 0, parts)
	for part := range parts {
		first, next := blocks*part/parts, blocks*(part+1)/parts
		block := first + random.Int64N(next-first)
		switch part {
		case 0:
			block = 0
		case parts - 1:
			block = blocks - 1
		}
		at = append(at, block*evidenceBlock)
	}
	return at
}

// takeSamples hashes the samples. A block that cannot be read is only counted: a drive
// whose last sanitize failed reads nothing.
func takeSamples(ctx context.Context, from hardware.Handle) (samples, error) {
	taken := samples{Seed: rand.Uint64(), Size: from.Size()}
	buffer := hardware.AlignedBuffer(evidenceBlock)
	for _, at := range sampleOffsets(taken.Size, taken.Seed) {
		if err := context.Cause(ctx); err != nil {
			return samples{}, err
		}
		n, err := from.ReadAt(buffer, at)
		switch {
		case n < len(buffer) || err != nil && !errors.Is(err, io.EOF):
			taken.Unreadable++
		case constant(buffer):
			taken.Constant++
		default:
			taken.Blocks = append(taken.Blocks, sample{At: at, Hash: digest(buffer)})
		}
	}
	return taken, nil
}

// changed reads the samples again; it fails where one reads as before.
func (s samples) changed(ctx context.Context, from hardware.Handle) (note string, err error) {
	if from.Size() != s.Size {
		return "", notProven("the device has %d bytes and had %d before its sanitize", from.Size(), s.Size)
	}
	unreadable := 0
	buffer := hardware.AlignedBuffer(evidenceBlock)
	for _, block := range s.Blocks {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		n, err := from.ReadAt(buffer, block.At)
		switch {
		case n < len(buffer) || err != nil && !errors.Is(err, io.EOF):
			unreadable++
		case string(digest(buffer)) == string(block.Hash):
			return "", notProven("the block at byte %d reads the same as before the sanitize", block.At)
		}
	}
	return fmt.Sprintf("%d of %d sampled blocks read differently than before, %d could not be read; %d left out as constant, %d as unreadable; seed %d",
		len(s.Blocks)-unreadable, len(s.Blocks), unreadable, s.Constant, s.Unreadable, s.Seed), nil
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
