package steps_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

// timed is a device and its journal whose calls take time, so that a test can look at both
// at any moment in between. It needs a bubble.
type timed struct {
	*journal
	state                    sync.Mutex
	writes, flushes, saves   time.Duration
	begun                    int64 // where the last write that has begun ends
	recording, mostRecording int
	// record and write, if set, give a call's error, after its time.
	record func(offset int64) error
	write  func(offset int64) error
}

// newTimed gives a device that has settled before the bubble ends, also where its test fails.
func newTimed(t *testing.T, size int64, writes, flushes, saves time.Duration) *timed {
	t.Cleanup(func() { time.Sleep(time.Hour) }) //nolint:forbidigo // on the test's own clock: everything settles
	return &timed{journal: &journal{memory: newMemory(size, tenants)}, writes: writes, flushes: flushes, saves: saves}
}

// ZeroAt writes half of the bytes in half of its time; the end of its context ends it.
func (d *timed) ZeroAt(ctx context.Context, offset, n int64) error {
	d.state.Lock()
	d.begun = offset + n
	d.state.Unlock()
	half := n / 2 / blockSize * blockSize
	for _, part := range [][2]int64{{offset, half}, {offset + half, n - half}} {
		select {
		case <-time.After(d.writes / 2):
		case <-ctx.Done():
			return fmt.Errorf("zero, stopped at %d: %w", part[0], context.Cause(ctx))
		}
		if part[1] == 0 {
			continue
		}
		d.state.Lock()
		err := d.memory.ZeroAt(ctx, part[0], part[1])
		d.state.Unlock()
		if err != nil {
			return err
		}
	}
	if d.write != nil {
		return d.write(offset)
	}
	return nil
}

func (d *timed) Flush(ctx context.Context) error {
	time.Sleep(d.flushes) //nolint:forbidigo // it takes its time, on the test's own clock
	d.state.Lock()
	defer d.state.Unlock()
	return d.memory.Flush(ctx)
}

// save is on stable storage after half of its time.
func (d *timed) save(offset int64) error {
	d.state.Lock()
	d.recording++
	d.mostRecording = max(d.mostRecording, d.recording)
	d.state.Unlock()
	time.Sleep(d.saves / 2) //nolint:forbidigo // it takes its time, on the test's own clock
	var err error
	d.state.Lock()
	if d.record != nil {
		err = d.record(offset)
	}
	if err == nil {
		err = d.checkpoint(offset)
	}
	d.state.Unlock()
	time.Sleep(d.saves - d.saves/2) //nolint:forbidigo // it takes its time, on the test's own clock
	d.state.Lock()
	d.recording--
	d.state.Unlock()
	return err
}

func (d *timed) work() *steps.Work {
	return &steps.Work{Device: d, Operation: device.Shred, Resume: d.offset, Record: d.save}
}

// The power may fail at any moment: while a chunk is written, flushed or recorded, with the
// next one begun. Before the resume point on stable storage every byte is zero on stable
// storage, at most two chunks behind it were begun, and the next attempt leaves no byte.
//
// F2, S2.97
func TestZeroSurvivesACrashAtAnyMoment(t *testing.T) {
	const size = 4*steps.Chunk + 3*blockSize + 777
	for _, saves := range []time.Duration{2, 6, 40} { // a chunk takes 14
		t.Run(fmt.Sprintf("a record takes %d of 14", saves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newTimed(t, size, 8*time.Millisecond, 6*time.Millisecond, saves*time.Millisecond)
				ended := make(chan error, 1)
				go func() {
					_, err := zero(t.Context(), d.work())
					ended <- err
				}()
				overlapped := 0
				for moment := 0; ; moment++ {
					select {
					case err := <-ended:
						require.NoError(t, err)
						require.Equal(t, -1, d.left())
						require.Equal(t, 1, d.mostRecording, "one record at a time")
						require.Positive(t, overlapped, "no moment had two chunks in flight")
						return
					case <-time.After(time.Millisecond):
					}
					d.state.Lock()
					after := &journal{memory: newMemory(size, tenants), offset: d.offset}
					after.blocks = slices.Clone(d.blocks)
					ahead := d.begun - d.offset
					d.state.Unlock()
					if ahead > steps.Chunk {
						overlapped++
					}
					require.LessOrEqual(t, ahead, int64(steps.MaxRepeated), "moment %d", moment)

					after.crash()
					require.Equal(t, -1,
						slices.IndexFunc(after.blocks[:after.offset/blockSize], func(c content) bool { return c != zeroed }),
						"moment %d: a byte before the resume point %d may be a tenant's", moment, after.offset)
					_, err := zero(t.Context(), after.work())
					require.NoError(t, err)
					require.Equal(t, -1, after.left(), "moment %d", moment)
				}
			})
		})
	}
}

// A drive waits for its journal only where a record takes longer than a chunk.
func TestADriveIsNotHeldBackByItsJournal(t *testing.T) {
	const chunks = 8
	for saves, want := range map[time.Duration]time.Duration{
		0:                chunks * 10 * time.Second,
		10 * time.Second: chunks*10*time.Second + 10*time.Second, // the last one
		25 * time.Second: 10*time.Second + chunks*25*time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newTimed(t, chunks*steps.Chunk, 7*time.Second, 3*time.Second, saves)
			began := time.Now()
			_, err := zero(t.Context(), d.work())
			require.NoError(t, err)
			require.Equal(t, want, time.Since(began), "a record takes %s", saves)
		})
	}
}

// A record that fails ends the step at once, in the middle of the next chunk, with its own
// fault; nothing more is recorded.
//
// F2
func TestARecordThatFailsEndsTheStepAtOnce(t *testing.T) {
	full := &device.Fault{Class: device.Transient, Code: device.CodeStateDirError, Message: "no space left"}
	synctest.Test(t, func(t *testing.T) {
		d := newTimed(t, 5*steps.Chunk, 10*time.Second, 0, 2*time.Second)
		d.record = func(offset int64) error {
			if offset == 2*steps.Chunk {
				return full
			}
			return nil
		}
		began := time.Now()
		_, err := zero(t.Context(), d.work())
		fault, ok := device.AsFault(err)
		require.True(t, ok, "%v", err)
		require.Same(t, full, fault)
		require.Equal(t, 22*time.Second, time.Since(began), "two chunks and the record of the second")
		require.EqualValues(t, steps.Chunk, d.offset)
		require.EqualValues(t, 3*steps.Chunk, d.begun)
	})
	t.Run("verify", func(t *testing.T) {
		j := allZeroes(4 * steps.Chunk)
		j.failOn, j.failNumber, j.err = fmt.Sprintf("checkpoint %d", 2*steps.Chunk), 1, full
		_, err := verify(t.Context(), j.work())
		require.Same(t, full, err)
		require.EqualValues(t, steps.Chunk, j.offset)
		require.NotContains(t, j.calls, "check")
	})
	t.Run("the last record", func(t *testing.T) {
		j := &journal{memory: newMemory(2*steps.Chunk, tenants)}
		j.failOn, j.failNumber, j.err = fmt.Sprintf("checkpoint %d", 2*steps.Chunk), 1, full
		_, err := zero(t.Context(), j.work())
		require.Same(t, full, err)
		require.NotContains(t, j.calls, "check", "it was not done")
	})
}

// The step's end waits for the record that is under way, whatever ends it: its caller
// journals the end.
//
// F2
func TestNoRecordOutlivesItsStep(t *testing.T) {
	broken := &device.Fault{Class: device.NeedsOperator, Code: device.CodeIO, Message: "medium error"}
	stop := errors.New("canceled")
	for name, tt := range map[string]struct {
		end  func(d *timed, cancel context.CancelCauseFunc)
		want error
	}{
		"a write that fails": {func(d *timed, _ context.CancelCauseFunc) {
			d.write = func(offset int64) error {
				if offset == steps.Chunk {
					return broken
				}
				return nil
			}
		}, broken},
		"a write that fails, and the record too": {func(d *timed, _ context.CancelCauseFunc) {
			d.write = func(offset int64) error {
				if offset == steps.Chunk {
					d.state.Lock()
					defer d.state.Unlock()
					d.record = func(int64) error { return errInjected }
					return broken
				}
				return nil
			}
		}, broken},
		"a cancellation": {func(_ *timed, cancel context.CancelCauseFunc) {
			time.AfterFunc(15*time.Second, func() { cancel(stop) })
		}, stop},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				d := newTimed(t, 4*steps.Chunk, 10*time.Second, 0, time.Minute)
				tt.end(d, cancel)
				began := time.Now()
				_, err := zero(ctx, d.work())
				require.ErrorIs(t, err, tt.want)
				require.Zero(t, d.recording, "a record is still being written")
				require.Equal(t, 70*time.Second, time.Since(began))
				require.EqualValues(t, 2*steps.Chunk, d.begun, "it wrote on")
			})
		})
	}
	t.Run("a panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newTimed(t, 4*steps.Chunk, 10*time.Second, 0, time.Minute)
			d.write = func(offset int64) error {
				if offset == steps.Chunk {
					panic("a mistake in a driver")
				}
				return nil
			}
			require.PanicsWithValue(t, "a mistake in a driver", func() { _, _ = zero(t.Context(), d.work()) })
			require.Zero(t, d.recording)
		})
	})
}

// A panic in a record is the step's error: it is in a goroutine of its own, and would end the
// worker.
func TestAPanicInARecordIsTheStepsError(t *testing.T) {
	j := &journal{memory: newMemory(3*steps.Chunk, tenants)}
	w := j.work()
	w.Record = func(int64) error { panic("a mistake in the journal") }
	_, err := zero(t.Context(), w)
	require.ErrorContains(t, err, "a mistake in the journal")
	require.ErrorContains(t, err, "67108864")
}
