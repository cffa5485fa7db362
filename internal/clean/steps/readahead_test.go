package steps_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

// readSize is what a full verify reads at once.
const readSize = 2 * mib

// slow is a device whose reads take their time, one after the other. It needs a bubble.
type slow struct {
	*journal
	takes func(offset int64) time.Duration
	fails func(offset int64) error
	begun []int64 // offsets, in the order in which the reads began
	reads bool    // a read is under way
}

func newSlow(size int64) *slow {
	return &slow{
		journal: allZeroes(size),
		takes:   func(int64) time.Duration { return time.Duration(1+rand.IntN(9)) * time.Second },
		fails:   func(int64) error { return nil },
	}
}

func (d *slow) ReadAt(p []byte, offset int64) (int, error) {
	if d.reads {
		return 0, errors.New("another read is under way")
	}
	d.reads, d.begun = true, append(d.begun, offset)
	defer func() { d.reads = false }()
	time.Sleep(d.takes(offset)) //nolint:forbidigo // it takes its time, on the test's own clock
	if err := d.fails(offset); err != nil {
		return 0, err
	}
	return d.memory.ReadAt(p, offset)
}

func (d *slow) work() *steps.Work {
	return &steps.Work{Device: d, Operation: device.Shred, Resume: d.offset, Record: d.checkpoint}
}

// Each byte is read once, and resume points follow the reads.
//
// F2, F19
func TestReadsAheadInOrder(t *testing.T) {
	const size = 3*steps.Chunk + 777
	synctest.Test(t, func(t *testing.T) {
		d := newSlow(size)
		_, err := verify(t.Context(), d.work())
		require.NoError(t, err)
		at := int64(0)
		for _, began := range d.begun {
			require.Equal(t, at, began)
			at += readSize
		}
		require.GreaterOrEqual(t, at, int64(size))
		require.Equal(t, []int64{steps.Chunk, 2 * steps.Chunk, 3 * steps.Chunk, size}, checkpoints(t, d.calls))
	})
}

// A dirty byte is found at any place, whatever was read ahead of it, and is the first one.
//
// F19
func TestTheFirstDirtyByteIsFound(t *testing.T) {
	const size = steps.Chunk + 5*readSize + 777
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			d := newSlow(size)
			at := rand.Int64N(size)
			d.stray[at] = 1
			if behind := at + rand.Int64N(size-at); behind > at {
				d.stray[behind] = 1
			}
			_, err := verify(t.Context(), d.work())
			require.ErrorContains(t, err, fmt.Sprintf("verify failed at byte %d: a byte is not zero", at))
			require.LessOrEqual(t, d.offset, at)
			require.False(t, d.reads, "a read is under way after the step has ended")
		})
	}
}

// Each read fails once: the step ends with its error, records and reads nothing behind it, and
// leaves no read under way. A dirty byte before it counts first.
//
// F2, F19
func TestAnyReadMayFail(t *testing.T) {
	const size = steps.Chunk + 6*readSize
	broken := &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: "medium error"}
	for bad := int64(0); bad < size; bad += readSize {
		for _, dirty := range []int64{-1, bad - 1} {
			if dirty == -1 && bad == 0 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				d := newSlow(size)
				if dirty >= 0 {
					d.stray[dirty] = 1
				}
				d.fails = func(offset int64) error {
					if offset == bad {
						return broken
					}
					return nil
				}
				_, err := verify(t.Context(), d.work())
				if dirty >= 0 {
					require.ErrorContains(t, err, fmt.Sprintf("verify failed at byte %d", dirty))
				} else {
					require.Same(t, broken, err)
				}
				require.False(t, d.reads)
				require.LessOrEqual(t, d.offset, bad)
				require.LessOrEqual(t, d.begun[len(d.begun)-1], bad, "it read on behind the failed read")
				require.NotContains(t, d.calls, "check")
			})
		}
	}
}

// Where the step must end, the read that is under way ends first, and no other begins.
//
// F1
func TestAReadEndsWithItsStep(t *testing.T) {
	stop := errors.New("the worker stops")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := newSlow(4 * steps.Chunk)
		d.takes = func(int64) time.Duration { return 10 * time.Second }
		time.AfterFunc(25*time.Second, func() { cancel(stop) })
		_, err := verify(ctx, d.work())
		require.ErrorIs(t, err, stop)
		require.False(t, d.reads)
		require.Len(t, d.begun, 3)
	})
}

// A device is read while blocks are compared and recorded: the time is that of its reads.
func TestADeviceIsReadWhileResumePointsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSlow(4 * steps.Chunk)
		d.takes = func(int64) time.Duration { return time.Second }
		w := d.work()
		w.Record = func(offset int64) error {
			time.Sleep(10 * time.Second) //nolint:forbidigo // on the test's own clock
			return d.checkpoint(offset)
		}
		began := time.Now()
		_, err := verify(t.Context(), w)
		require.NoError(t, err)
		reads := 4 * steps.Chunk / readSize
		require.Equal(t, time.Duration(reads+10)*time.Second, time.Since(began), "all reads, and the last record")
	})
}
