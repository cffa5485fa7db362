package activities_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware/fake"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

const nonce = 7

// simulated enrolls d1 as a fake device of 8 MiB that a tenant has filled.
func simulated(t *testing.T, s *testHost, settings ...string) (contract.StepInput, hardwaretest.File) {
	t.Helper()
	s.hardware.Drivers["fake"] = fake.New(s.host.Dir(), s.host.Rules().AllowFake)
	in := s.input("zero")
	in.Enrollment.Driver = "fake"
	in.Enrollment.Settings = map[string]string{"size": "8MiB"}
	for i := 0; i < len(settings); i += 2 {
		in.Enrollment.Settings[settings[i]] = settings[i+1]
	}
	facts, err := s.discover(t, contract.DiscoverInput{Enrollment: in.Enrollment, UUID: contract.DeviceUUID("d1")})
	require.NoError(t, err)
	in.Identity = facts.Identity
	contents := hardwaretest.File(filepath.Join(s.host.Dir(), "fake", "d1", "contents"))
	require.NoError(t, hardwaretest.Stamp(contents, facts.Identity.Size, nonce))
	return in, contents
}

const blocks = 8 << 20 / hardwaretest.Block

// verifying is the scheduling that follows a zero.
func verifying(in contract.StepInput) contract.StepInput {
	in.Step, in.Seq = "verify", in.Seq+1
	return in
}

// F8, F13
func TestStepsEraseAFakeDevice(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero, then verify", func(t *testing.T) {
		s := newTestHost(t)
		in, contents := simulated(t, s)
		result, err := s.run(first(t), in)
		require.NoError(t, err)
		require.EqualValues(t, 8<<20, result.Bytes)
		require.Equal(t, "fake", result.Method)
		hardwaretest.RequireCount(t, contents, nonce, 0, blocks, 0)
		_, err = s.run(first(t), verifying(in))
		require.NoError(t, err)
	})
	inBubble(t, "a fault that passes", func(t *testing.T) {
		s := newTestHost(t)
		in, contents := simulated(t, s, "fault", "transient:zero@40%x2")
		for _, attempt := range []int32{1, 2} {
			_, err := s.run(again(t, attempt), in)
			requireFault(t, err, device.CodeIO, true)
		}
		_, err := s.run(again(t, 3), in)
		require.NoError(t, err)
		hardwaretest.RequireCount(t, contents, nonce, 0, blocks, 0)
	})
	inBubble(t, "a fault that stays", func(t *testing.T) {
		s := newTestHost(t)
		in, _ := simulated(t, s, "fault", "fail:zero@40%")
		_, err := s.run(first(t), in)
		requireFault(t, err, device.CodeStepFailed, false)
		require.False(t, s.entry().Done)
		refusal, _ := contract.RefusalOf(err)
		require.EqualValues(t, 1, refusal.Attempt, "the history says in which attempt, and how far it was")
		require.EqualValues(t, 8<<20, refusal.Progress.Size)
		require.Equal(t, s.entry().Offset, refusal.Progress.Offset)
	})
	inBubble(t, "a hang that obeys its context ends with the budget", func(t *testing.T) {
		s := newTestHost(t)
		in, _ := simulated(t, s, "fault", "hang:zero@40%")
		in.Budget = time.Minute
		r := s.start(first(t), in)
		_, err := r.wait(t)
		requireFault(t, err, device.CodeTimeout, false)
		require.Equal(t, in.Budget, r.took)
	})
	inBubble(t, "what the host does not allow", func(t *testing.T) {
		s := newTestHost(t)
		in, contents := simulated(t, s)
		s.hardware.Drivers["fake"] = fake.New(s.host.Dir(), nil)
		_, err := s.run(first(t), in)
		requireFault(t, err, device.CodeNotAllowed, false)
		hardwaretest.RequireCount(t, contents, nonce, blocks, 0, 0)
	})
}

// F19
func TestOneDirtyByteFailsTheVerify(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int64{"the first": 0, "one in the middle": 5<<20 + 17, "the last": 8<<20 - 1} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			in, contents := simulated(t, s)
			_, err := s.run(first(t), in)
			require.NoError(t, err)
			_, err = contents.WriteAt([]byte{1}, at)
			require.NoError(t, err)
			_, err = s.run(first(t), verifying(in))
			refusal := requireFault(t, err, device.CodeVerifyFailed, false)
			require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
			require.NotEmpty(t, refusal.Fault.Remedy)
			require.False(t, s.entry().Done)
		})
	}
	inBubble(t, "a byte that the device does not erase", func(t *testing.T) {
		s := newTestHost(t)
		s.disk.dirtyByte = diskSize - mib - 1
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		_, err = s.run(first(t), verifying(s.input("zero")))
		requireFault(t, err, device.CodeVerifyFailed, false)
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
	inBubble(t, "before verify", func(t *testing.T) {
		s := newTestHost(t)
		in, contents := simulated(t, s)
		_, err := s.run(first(t), in)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(string(contents), 16<<20))
		_, err = s.run(first(t), verifying(in))
		refusal := requireFault(t, err, device.CodeIdentityChanged, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
	})
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
