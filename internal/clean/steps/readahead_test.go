package steps_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// readSize is what a full verify reads at once.
const readSize = 2 * mib

// wide is a device that several reads at once may use. Each takes its time, so that they end in
// any order. It needs a bubble.
type wide struct {
	*journal
	atOnce int
	// takes is the time of the read at an offset, fails its error.
	takes func(offset int64) time.Duration
	fails func(offset int64) error

	state      sync.Mutex
	now, most  int
	begun, end []int64 // offsets, in the order in which the reads began and ended
}

var _ hardware.ConcurrentReader = (*wide)(nil)

func newWide(size int64, atOnce int) *wide {
	return &wide{
		journal: allZeroes(size), atOnce: atOnce,
		takes: func(int64) time.Duration { return time.Duration(1+rand.IntN(9)) * time.Second },
		fails: func(int64) error { return nil },
	}
}

func (d *wide) ReadsAtOnce() int { return d.atOnce }

func (d *wide) ReadAt(p []byte, offset int64) (int, error) {
	d.state.Lock()
	d.now++
	d.most, d.begun = max(d.most, d.now), append(d.begun, offset)
	d.state.Unlock()
	time.Sleep(d.takes(offset)) //nolint:forbidigo // it takes its time, on the test's own clock
	d.state.Lock()
	defer d.state.Unlock()
	d.now, d.end = d.now-1, append(d.end, offset)
	if err := d.fails(offset); err != nil {
		return 0, err
	}
	return d.memory.ReadAt(p, offset)
}

func (d *wide) work() *steps.Work {
	return &steps.Work{Device: d, Operation: device.Shred, Resume: d.offset, Record: d.checkpoint}
}

// Several reads are under way at once, and no more than the device allows and there are
// buffers for; every byte is read once, and resume points follow the order of the device, also
// where reads end in another one.
//
// F2, F19
func TestSeveralReadsAtOnce(t *testing.T) {
	const size = 3*steps.Chunk + 777
	for atOnce, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 3, 100: 3} {
		t.Run(fmt.Sprint(atOnce), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newWide(size, atOnce)
				_, err := verify(t.Context(), d.work())
				require.NoError(t, err)
				require.Equal(t, want, d.most)
				require.Equal(t, atOnce < 2, slices.IsSorted(d.end), "the order in which reads ended")
				at := int64(0)
				slices.Sort(d.begun)
				for _, began := range d.begun {
					require.Equal(t, at, began)
					at += readSize
				}
				require.GreaterOrEqual(t, at, int64(size))
				require.Equal(t, []int64{steps.Chunk, 2 * steps.Chunk, 3 * steps.Chunk, size}, checkpoints(t, d.calls))
			})
		})
	}
}

// A resume point never names bytes that were not compared, whichever read is slow.
//
// F2
func TestAResumePointWaitsForTheSlowestRead(t *testing.T) {
	const size = 2 * steps.Chunk
	for slow := int64(0); slow < size; slow += 7 * readSize {
		synctest.Test(t, func(t *testing.T) {
			d := newWide(size, 3)
			d.takes = func(offset int64) time.Duration {
				if offset == slow {
					return time.Hour
				}
				return time.Millisecond
			}
			w := d.work()
			w.Record = func(offset int64) error {
				d.state.Lock()
				defer d.state.Unlock()
				require.True(t, offset <= slow || slices.Contains(d.end, slow), "%d is recorded and %d not read", offset, slow)
				return d.checkpoint(offset)
			}
			_, err := verify(t.Context(), w)
			require.NoError(t, err)
		})
	}
}

// A dirty byte is found at any place and is the first one, whatever is read before it.
//
// F19
func TestTheFirstDirtyByteIsFoundWhateverIsReadFirst(t *testing.T) {
	const size = steps.Chunk + 5*readSize + 777
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			d := newWide(size, 1+rand.IntN(3))
			at := rand.Int64N(size)
			d.stray[at] = 1
			if behind := at + rand.Int64N(size-at); behind > at {
				d.stray[behind] = 1
			}
			_, err := verify(t.Context(), d.work())
			require.ErrorContains(t, err, fmt.Sprintf("verify failed at byte %d: a byte is not zero", at))
			require.LessOrEqual(t, d.offset, at)
			require.Zero(t, d.now, "a read is under way after the step has ended")
		})
	}
}

// Each read fails once, at any depth: the step ends with its error, records nothing behind it,
// begins no read behind it once it has failed, and leaves none under way. A dirty byte before
// it counts first, one behind it does not.
//
// F2, F19
func TestAReadThatFailsAmongOthers(t *testing.T) {
	const size = steps.Chunk + 6*readSize
	broken := &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: "medium error"}
	for bad := int64(0); bad < size; bad += readSize {
		for _, dirty := range []int64{-1, bad - 1, bad + readSize} {
			if dirty < -1 || dirty >= size || dirty == -1 && bad == 0 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				d := newWide(size, 3)
				if dirty >= 0 {
					d.stray[dirty] = 1
				}
				behind := 0
				d.fails = func(offset int64) error {
					if offset == bad {
						behind = len(d.begun)
						return broken
					}
					return nil
				}
				_, err := verify(t.Context(), d.work())
				if dirty >= 0 && dirty < bad {
					require.ErrorContains(t, err, fmt.Sprintf("verify failed at byte %d", dirty))
				} else {
					require.Same(t, broken, err)
				}
				require.Zero(t, d.now)
				require.LessOrEqual(t, d.offset, bad)
				if behind > 0 {
					for _, began := range d.begun[behind:] {
						require.Less(t, began, bad, "it read on behind the failed read")
					}
				}
				require.NotContains(t, d.calls, "check")
			})
		}
	}
}

// Where the step must end, reads that are under way end first, and no other begins.
//
// F1
func TestReadsEndWithTheirStep(t *testing.T) {
	stop := errors.New("the worker stops")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := newWide(4*steps.Chunk, 3)
		d.takes = func(int64) time.Duration { return 10 * time.Second }
		time.AfterFunc(25*time.Second, func() { cancel(stop) })
		_, err := verify(ctx, d.work())
		require.ErrorIs(t, err, stop)
		require.Zero(t, d.now)
		require.Len(t, d.begun, 9, "three at a time, for 30 seconds")
	})
}

// A device is kept busy while blocks are compared and recorded: the time is that of its reads.
func TestADeviceIsReadWhileResumePointsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newWide(4*steps.Chunk, 2)
		d.takes = func(int64) time.Duration { return time.Second }
		w := d.work()
		w.Record = func(offset int64) error {
			time.Sleep(10 * time.Second) //nolint:forbidigo // on the test's own clock
			return d.checkpoint(offset)
		}
		began := time.Now()
		_, err := verify(t.Context(), w)
		require.NoError(t, err)
		reads := 4 * steps.Chunk / readSize / 2
		require.Equal(t, time.Duration(reads+10)*time.Second, time.Since(began),
			"all reads, two at a time, and the last record")
	})
}
