package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// verifying is the scheduling that follows a zero.
func verifying(in contract.StepInput) contract.StepInput {
	in.Step, in.Seq = "verify", in.Seq+1
	return in
}

// F19
func TestOneDirtyByteFailsTheVerify(t *testing.T) {
	t.Parallel()
	inBubble(t, "a byte that the device does not erase", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.dirtyByte = diskSize - mib - 1
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		_, err = s.run(first(t), verifying(s.input("zero")))
		refusal := requireFault(t, err, device.CodeVerifyFailed, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
		require.NotEmpty(t, refusal.Fault.Remedy)
		require.False(t, s.entry().Done)
	})
	inBubble(t, "what was never wiped", func(t *testing.T) {
		s := newTestHost(t)
		_, err := s.run(first(t), s.input("verify"))
		requireFault(t, err, device.CodeVerifyFailed, false)
	})
}

// F11
func TestIdentityThatChangesBetweenStepsStopsTheClean(t *testing.T) {
	t.Parallel()
	inBubble(t, "before zero goes on", func(t *testing.T) {
		s := newTestHost(t)
		stopAtOffset(t, s, first(t), s.input("zero"), 0)
		calls, in := s.disk.history(), s.input("zero")
		s.disk.identity.Serial = "S9" // another drive in the same slot
		_, err := s.run(again(t, 2), in)
		requireFault(t, err, device.CodeIdentityChanged, false)
		require.Equal(t, []string{"open"}, s.disk.history()[len(calls):])
	})
	inBubble(t, "while zero runs", func(t *testing.T) {
		s := newTestHost(t)
		in := s.input("zero")
		s.disk.intercept(func(call string, offset int64, _ context.Context) error {
			if call == "zero" && offset > 0 {
				s.disk.identity.Serial = "S9"
			}
			return nil
		})
		_, err := s.run(first(t), in)
		requireFault(t, err, device.CodeIdentityChanged, false)
		require.False(t, s.entry().Done)
	})
}
