package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/host"
	"burnish/workflows/contract"
)

// A clean keeps the host's slot between its steps, while another waits; its last step and a
// failure give it back.
//
// S2.65, S3.38
func TestACleanKeepsItsSlotOnTheHost(t *testing.T) {
	inBubble(t, "between steps", func(t *testing.T) {
		s := newTestHost(t)
		s.add("d2", "S2")
		s.hardware.Slots = host.NewFairSemaphore(1)
		step := func(name string, seq int64, more bool) contract.StepInput {
			in := s.input(name)
			in.Seq, in.More = seq, more
			return in
		}
		_, err := s.run(first(t), step("zero", 1, true))
		require.NoError(t, err)
		other := s.start(first(t), s.inputFor("d2", "zero"))
		other.waitUntilWaiting(t, "queued for a slot (1st in line)")
		_, err = s.run(first(t), step("verify", 2, false))
		require.NoError(t, err)
		_, err = other.wait(t)
		require.NoError(t, err)
	})
	inBubble(t, "after a failure", func(t *testing.T) {
		s := newTestHost(t)
		s.add("d2", "S2")
		s.hardware.Slots = host.NewFairSemaphore(1)
		in := s.input("zero")
		in.More, in.Identity.Serial = true, "ANOTHER"
		_, err := s.run(first(t), in)
		require.Error(t, err)
		_, err = s.run(first(t), s.inputFor("d2", "zero"))
		require.NoError(t, err)
	})
}
