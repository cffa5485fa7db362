package steps_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

// sizes are sizes with and without partial blocks and chunks at the end.
func sizes() []int64 {
	return []int64{
		1, 511, blockSize - 1, blockSize, blockSize + 1, mib, 10*mib + 777,
		steps.Chunk - 1, steps.Chunk, steps.Chunk + 1, 2 * steps.Chunk, 2*steps.Chunk + 3*blockSize + 777,
	}
}

func zero(ctx context.Context, w *steps.Work) (steps.Outcome, error) { return steps.Zero().Run(ctx, w) }

// ofDevice gives the calls without the checkpoints, which another goroutine makes.
func ofDevice(calls []string) (all []string) {
	for _, call := range calls {
		if !strings.HasPrefix(call, "checkpoint ") {
			all = append(all, call)
		}
	}
	return all
}

// Each chunk is flushed before its checkpoint, which the flush of the next chunk may overtake,
// but not the chunk after that.
//
// F2
func TestZeroFlushesEachChunkBeforeItCounts(t *testing.T) {
	for _, size := range sizes() {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			j := &journal{memory: newMemory(size, tenants)}
			out, err := zero(t.Context(), j.work())
			require.NoError(t, err)
			require.Equal(t, steps.Outcome{Bytes: size, Method: "memory"}, out)
			require.Equal(t, -1, j.left(), "every byte is zero, on stable storage")

			var want []string
			var offsets []int64
			for offset := int64(0); offset < size; offset += steps.Chunk {
				n := min(steps.Chunk, size-offset)
				want, offsets = append(want, fmt.Sprintf("zero %d+%d", offset, n), "flush"), append(offsets, offset+n)
			}
			require.Equal(t, append(want, "check"), ofDevice(j.calls), "the check comes after the last write")
			require.Equal(t, offsets, checkpoints(t, j.calls))
			for i, offset := range offsets {
				before, _, _ := strings.Cut(strings.Join(j.calls, ";"), fmt.Sprintf("checkpoint %d", offset))
				flushed := strings.Count(before, "flush")
				require.GreaterOrEqual(t, flushed, i+1, "%v", j.calls)
				require.LessOrEqual(t, flushed, i+2, "%v", j.calls)
			}
			require.Equal(t, "check", j.calls[len(j.calls)-1], "what the check follows is recorded")
		})
	}
}

// Each call fails once, with and without effect. Then the power fails, and a later attempt
// resumes from the last checkpoint. A device that changed during the last write is no success.
//
// F2, F11, S3.36
func TestZeroResumesAfterAnErrorOfAnyCall(t *testing.T) {
	const size = 3*steps.Chunk + 3*4096 + 777
	whole := &journal{memory: newMemory(size, tenants)}
	_, err := zero(t.Context(), whole.work())
	require.NoError(t, err)
	for i, call := range whole.calls {
		for _, half := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %s, done: %t", i+1, call, half), func(t *testing.T) {
				j := &journal{memory: newMemory(size, tenants)}
				j.failOn, j.failNumber, j.half = call, count(whole.calls[:i+1], call), half
				_, err := zero(t.Context(), j.work())
				require.ErrorIs(t, err, errInjected)
				if !strings.HasPrefix(call, "checkpoint") {
					device := ofDevice(j.calls)
					require.Equal(t, call, device[len(device)-1], "nothing is done to the device after an error")
				} else {
					require.Equal(t, call, lastCheckpoint(j.calls), "nothing is recorded after an error")
					require.NotContains(t, j.calls, "check")
				}

				j.crash()
				for b := range j.blocks[:j.offset/blockSize] {
					require.Equal(t, zeroed, j.blocks[b], "block %d lies before the resume point", b)
				}
				resumed := j.offset
				out, err := zero(t.Context(), j.work())
				require.NoError(t, err)
				require.Equal(t, -1, j.left())
				require.Equal(t, int64(size), out.Bytes, "the earlier attempts' bytes are counted")
				if resumed < size {
					require.Equal(t, fmt.Sprintf("zero %d+%d", resumed, min(steps.Chunk, size-resumed)), j.calls[0])
				} else {
					require.Equal(t, []string{"check"}, j.calls, "only the last check is left")
				}
			})
		}
	}
}

func lastCheckpoint(calls []string) (last string) {
	for _, call := range calls {
		if strings.HasPrefix(call, "checkpoint ") {
			last = call
		}
	}
	return last
}

// Where the step must not go on, zero writes nothing more, and returns the reason unchanged;
// what it has flushed is recorded.
//
// F1
func TestZeroStopsWhereItMustNotGoOn(t *testing.T) {
	lost := &device.Fault{Class: device.Transient, Code: device.CodeSuperseded, Message: "overtaken"}
	j := &journal{memory: newMemory(3*steps.Chunk, tenants)}
	w, asked := j.work(), 0
	w.MayGoOn = func() error {
		if asked++; asked == 2 {
			return lost
		}
		return nil
	}
	_, err := zero(t.Context(), w)
	require.Same(t, lost, err)
	require.Equal(t, []string{"zero 0+67108864", "flush", "zero 67108864+67108864", "flush"}, ofDevice(j.calls))
	require.Equal(t, int64(2*steps.Chunk), j.offset)
	require.Equal(t, tenants, j.blocks[2*steps.Chunk/blockSize], "the third chunk is untouched")
}

// F1
func TestZeroChecksItsContextBeforeEachChunk(t *testing.T) {
	stop := errors.New("the worker stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	j := &journal{memory: newMemory(2*steps.Chunk, tenants)}
	w := j.work()
	w.MayGoOn = func() error {
		cancel(stop)
		return nil
	}
	_, err := zero(ctx, w)
	require.ErrorIs(t, err, stop)
	require.Equal(t, []string{"zero 0+67108864", "flush"}, ofDevice(j.calls))
	require.Equal(t, []int64{steps.Chunk}, checkpoints(t, j.calls))
}

// F17, F19
func TestZeroOfNothingIsAFault(t *testing.T) {
	for name, tt := range map[string]struct {
		size, resume int64
		code         device.Code
	}{
		"no bytes":                      {0, 0, device.CodeStepFailed},
		"fewer than none":               {-1, 0, device.CodeStepFailed},
		"a resume point behind the end": {mib, mib + 1, device.CodeInternal},
		"a resume point before 0":       {mib, -1, device.CodeInternal},
	} {
		for step, run := range map[string]func(context.Context, *steps.Work) (steps.Outcome, error){
			"zero": zero, "verify": verify} {
			t.Run(step+" "+name, func(t *testing.T) {
				j := &journal{memory: &memory{size: tt.size}, offset: tt.resume}
				out, err := run(t.Context(), j.work())
				fault, ok := device.AsFault(err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tt.code, fault.Code)
				require.Equal(t, device.NeedsOperator, fault.Class)
				require.Zero(t, out)
				require.Empty(t, j.calls, "the device is left alone")
			})
		}
	}
}
