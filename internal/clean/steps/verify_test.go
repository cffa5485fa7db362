package steps_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/mock/gomock"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

//go:generate go tool mockgen -destination=mock_test.go -package=steps_test -write_package_comment=false burnish/internal/hardware Handle

func verify(ctx context.Context, w *steps.Work) (steps.Outcome, error) {
	return steps.Verify().Run(ctx, w)
}

// allZeroes is a device whose bytes are all zero.
func allZeroes(size int64) *journal {
	m := newMemory(size, zeroed)
	m.readOnly = true
	return &journal{memory: m}
}

// reads gives the ranges that were read, in order.
func reads(t *testing.T, calls []string) (ranges [][2]int64) {
	t.Helper()
	for _, call := range calls {
		if strings.HasPrefix(call, "read ") {
			var at, n int64
			_, err := fmt.Sscanf(call, "read %d+%d", &at, &n)
			require.NoError(t, err)
			ranges = append(ranges, [2]int64{at, at + n})
		}
	}
	return ranges
}

// A full verify reads every byte once, for any size, and writes nothing.
//
// F19
func TestFullVerifyReadsEveryByteOnce(t *testing.T) {
	for _, size := range sizes() {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			j := allZeroes(size)
			out, err := verify(t.Context(), j.work())
			require.NoError(t, err)
			require.Equal(t, size, out.Bytes)
			require.Equal(t, "full", out.Method)
			require.Equal(t, size, out.Held)
			require.Equal(t, fmt.Sprintf("%d bytes read under one hold", size), out.Note)
			at := int64(0)
			for _, r := range reads(t, j.calls) {
				require.Equal(t, at, r[0])
				at = r[1]
			}
			require.Equal(t, size, at)
			require.Equal(t, size, j.offset)
			require.Equal(t, "check", j.calls[len(j.calls)-1], "the identity is checked again at the end")
			for _, call := range j.calls {
				require.False(t, strings.HasPrefix(call, "zero") || call == "flush" || call == "close", call)
			}
		})
	}
}

// A dirty byte is found at any offset, and the fault names the offset.
//
// F19
func TestOneDirtyByteIsFound(t *testing.T) {
	const size = steps.Chunk + 5<<20 + 777
	places := []int64{0, 1, blockSize - 1, blockSize, mib - 1, mib, steps.Chunk - 1, steps.Chunk, steps.Chunk + 1,
		size - 778, size - 777, size - 1}
	for range 20 {
		places = append(places, rand.Int64N(size))
	}
	for _, at := range places {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			j := allZeroes(size)
			j.stray[at] = 1
			_, err := verify(t.Context(), j.work())
			fault, ok := device.AsFault(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, device.CodeVerifyFailed, fault.Code)
			require.Equal(t, device.NeedsOperator, fault.Class)
			require.Equal(t, fmt.Sprintf("verify failed at byte %d: a byte is not zero", at), fault.Message)
			require.NotEmpty(t, fault.Remedy)
			require.LessOrEqual(t, j.offset, at, "no resume point is behind the dirty byte")
			require.NotContains(t, j.calls, "check", "nothing more is read")
		})
	}
}

// What an earlier attempt has read may have been written to since.
//
// F37
func TestAVerifyNeverResumes(t *testing.T) {
	const size = 2*steps.Chunk + 777
	for _, setting := range []string{"full", "sample:16"} {
		j := allZeroes(size)
		j.offset = steps.Chunk
		w := j.work()
		w.Settings.Verify = setting
		out, err := verify(t.Context(), w)
		require.NoError(t, err)
		require.Zero(t, reads(t, j.calls)[0][0])
		read := int64(0)
		for _, r := range reads(t, j.calls) {
			read += r[1] - r[0]
		}
		require.Equal(t, read, out.Held)
		require.Equal(t, []int64{steps.Chunk, 2 * steps.Chunk, size}, checkpoints(t, j.calls))

		j = allZeroes(size)
		j.stray[0], j.offset = 1, steps.Chunk
		w = j.work()
		w.Settings.Verify = setting
		_, err = verify(t.Context(), w)
		require.ErrorContains(t, err, "verify failed at byte 0:")
	}
}

func checkpoints(t *testing.T, calls []string) (offsets []int64) {
	t.Helper()
	for _, call := range calls {
		if strings.HasPrefix(call, "checkpoint ") {
			var at int64
			_, err := fmt.Sscanf(call, "checkpoint %d", &at)
			require.NoError(t, err)
			offsets = append(offsets, at)
		}
	}
	return offsets
}

// An error of any call ends verify there, and a later attempt begins again.
//
// F11, F37, S3.36
func TestVerifyBeginsAgainAfterAnErrorOfAnyCall(t *testing.T) {
	const size = steps.Chunk + 3<<20 + 777
	whole := allZeroes(size)
	_, err := verify(t.Context(), whole.work())
	require.NoError(t, err)
	for i := 0; i < len(whole.calls); i++ {
		j := allZeroes(size)
		j.failAt = i + 1
		_, err := verify(t.Context(), j.work())
		require.ErrorIs(t, err, errInjected, whole.calls[i])
		failed := reads(t, j.calls[i:i+1])
		if len(failed) == 1 {
			require.LessOrEqual(t, len(reads(t, j.calls[i+1:])), 1, "it reads on after an error")
		}
		for _, recorded := range checkpoints(t, j.calls[i+1:]) {
			require.Len(t, failed, 1, "nothing is recorded after an error")
			require.LessOrEqual(t, recorded, failed[0][0], "the resume point is not behind the failed read")
		}
		require.NotContains(t, j.calls[i+1:], "check")
		j.crash()
		_, err = verify(t.Context(), j.work())
		require.NoError(t, err)
		require.Equal(t, reads(t, whole.calls), reads(t, j.calls))
	}
}

// F19
func TestADeviceThatEndsEarlyIsNotClean(t *testing.T) {
	for _, ends := range []int64{0, 1, mib - 1, mib, 2*mib + 5, 3*mib - 1} {
		t.Run(fmt.Sprint(ends), func(t *testing.T) {
			j := allZeroes(3 * mib)
			j.ends = ends
			_, err := verify(t.Context(), j.work())
			fault, ok := device.AsFault(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, device.CodeVerifyFailed, fault.Code)
			require.Equal(t, fmt.Sprintf("verify failed at byte %d: the device ends early", ends), fault.Message)
		})
	}
}

// Results of a read that the port allows and no fake gives.
//
// F19
func TestResultsOfReads(t *testing.T) {
	broken := &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "read error"}
	fill := func(n int, err error) func([]byte, int64) (int, error) {
		return func(p []byte, _ int64) (int, error) {
			clear(p[:n])
			return n, err
		}
	}
	for name, tt := range map[string]struct {
		read func([]byte, int64) (int, error)
		want string // "" is success
	}{
		"all, with the end":            {fill(4096, io.EOF), ""},
		"all":                          {fill(4096, nil), ""},
		"short, without an error":      {fill(4095, nil), "verify failed at byte 4095: the device ends early"},
		"short, with the end":          {fill(100, io.EOF), "verify failed at byte 100: the device ends early"},
		"short, with a wrapped end":    {fill(100, fmt.Errorf("read: %w", io.EOF)), "verify failed at byte 100: the device ends early"},
		"short, with a read error":     {fill(100, broken), "read error"},
		"nothing, with a read error":   {fill(0, broken), "read error"},
		"nothing, without an error":    {fill(0, nil), "verify failed at byte 0: the device ends early"},
		"an unread buffer's own bytes": {func([]byte, int64) (int, error) { return 0, io.EOF }, "verify failed at byte 0"},
	} {
		t.Run(name, func(t *testing.T) {
			handle := NewMockHandle(gomock.NewController(t))
			handle.EXPECT().Size().Return(int64(4096)).AnyTimes()
			handle.EXPECT().ReadAt(gomock.Len(4096), int64(0)).DoAndReturn(tt.read)
			counted := []int64{}
			w := &steps.Work{Device: handle, Record: func(offset int64) error {
				counted = append(counted, offset)
				return nil
			}}
			if tt.want == "" {
				handle.EXPECT().Check(gomock.Any()).Return(nil)
				_, err := verify(t.Context(), w)
				require.NoError(t, err)
				require.Equal(t, []int64{4096}, counted)
				return
			}
			_, err := verify(t.Context(), w)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, counted)
		})
	}
}

// A sample reads one block of every group of N, and always the device's first and last.
//
// F19
func TestASampleReadsFirstLastAndOneOfEach(t *testing.T) {
	for _, tt := range []struct{ size, every int64 }{
		{200*mib + 777, 8},
		{200 * mib, 7},
		{200 * mib, 1000},
		{2 * mib, 8},
		{777, 8},
		{64*mib + 1, 64},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			j := allZeroes(tt.size)
			w := j.work()
			w.Settings.Verify = fmt.Sprintf("sample:%d", tt.every)
			out, err := verify(t.Context(), w)
			require.NoError(t, err)
			require.Equal(t, tt.size, out.Bytes)
			require.Equal(t, w.Settings.Verify, out.Method, "the record says that it was a sample")
			ranges := reads(t, j.calls)
			sum, inGroup, seen := int64(0), map[int64]int{}, map[int64]bool{}
			last := (tt.size - 1) / mib
			for _, r := range ranges {
				sum += r[1] - r[0]
				b := r[0] / mib
				seen[b] = true
				if b != 0 && b != last {
					inGroup[b/tt.every]++
				}
			}
			says := fmt.Sprintf("%d bytes read under one hold, sampled with seed ", sum)
			require.True(t, strings.HasPrefix(out.Note, says), out.Note)
			require.True(t, seen[last] && seen[0], "first and last are always read")
			require.Equal(t, tt.size, ranges[len(ranges)-1][1])
			for group := int64(0); (group+1)*tt.every <= last; group++ {
				if group == 0 {
					// The first block may be the sampled one of its group, or be read in addition.
					require.LessOrEqual(t, inGroup[group], 1)
					continue
				}
				require.Equal(t, 1, inGroup[group], "group %d", group)
			}
		})
	}
}

// The record alone shows which blocks an attempt has read.
//
// F19
func TestTheRecordedSeedGivesTheBlocksRead(t *testing.T) {
	const size, every = 200*mib + 777, 9
	j := allZeroes(size)
	w := j.work()
	w.Settings.Verify = fmt.Sprintf("sample:%d", every)
	out, err := verify(t.Context(), w)
	require.NoError(t, err)
	var sum int64
	var seed uint64
	_, err = fmt.Sscanf(out.Note, "%d bytes read under one hold, sampled with seed %d", &sum, &seed)
	require.NoError(t, err, out.Note)

	last := (int64(size) - 1) / mib
	want := map[int64]bool{0: true, last: true}
	for group := int64(0); group*every <= last; group++ {
		pick := rand.New(rand.NewPCG(seed, uint64(group)))
		if b := group*every + pick.Int64N(every); b <= last {
			want[b] = true
		}
	}
	got := map[int64]bool{}
	for _, r := range reads(t, j.calls) {
		got[r[0]/mib] = true
	}
	require.Equal(t, want, got)
}

// Twenty runs do not all read the same blocks.
//
// F19
func TestSamplesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		j := allZeroes(128 * mib)
		w := j.work()
		w.Settings.Verify = "sample:16"
		_, err := verify(t.Context(), w)
		require.NoError(t, err)
		seen[fmt.Sprint(reads(t, j.calls))] = true
	}
	require.Greater(t, len(seen), 10)
}

// F19
func TestVerifySettings(t *testing.T) {
	for setting, method := range map[string]string{
		"": "full", "full": "full", "sample:1": "full", "sample:2": "sample:2", "sample:2147483647": "sample:2147483647",
	} {
		t.Run("accepts "+setting, func(t *testing.T) {
			j := allZeroes(10 * kib)
			w := j.work()
			w.Settings.Verify = setting
			out, err := verify(t.Context(), w)
			require.NoError(t, err)
			require.Equal(t, method, out.Method)
		})
	}
	for _, setting := range []string{"none", "Full", "sample", "sample:", "sample:0", "sample:-1", "sample:2.5",
		"sample:x", "sample: 2", "sample:2147483648", "2", " full"} {
		t.Run("refuses "+setting, func(t *testing.T) {
			j := allZeroes(10 * kib)
			w := j.work()
			w.Settings.Verify = setting
			_, err := verify(t.Context(), w)
			fault, ok := device.AsFault(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, device.CodeInvalidSetting, fault.Code)
			require.Contains(t, fault.Message, fmt.Sprintf("%q", setting))
			require.Contains(t, fault.Remedy, "BURNISH_VERIFY")
			require.Empty(t, j.calls, "nothing is read")
		})
	}
}

// resettable is a device that keeps its identity through a reset.
type resettable struct {
	*memory
	failure error
}

func (r *resettable) Reset(context.Context) error {
	if err := r.call("reset"); err != nil {
		return err
	}
	return r.failure
}

// What a drive's cache still holds proves nothing about its media: the verify resets it
// before its first read, and reads nothing if that fails.
//
// F19
func TestAVerifyResetsTheDriveBeforeItReads(t *testing.T) {
	j := allZeroes(1 << 20)
	drive := &resettable{memory: j.memory}
	w := j.work()
	w.Device = drive
	_, err := verify(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, []string{"checkpoint 0", "reset"}, j.calls[:2])
	require.True(t, strings.HasPrefix(j.calls[2], "read "), "%v", j.calls)

	j = allZeroes(1 << 20)
	drive = &resettable{memory: j.memory, failure: errors.New("it did not come back")}
	w = j.work()
	w.Device = drive
	_, err = verify(t.Context(), w)
	require.ErrorIs(t, err, drive.failure)
	require.Equal(t, []string{"checkpoint 0", "reset"}, j.calls)
}
