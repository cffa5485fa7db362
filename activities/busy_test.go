package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// While another process uses the device, the step waits. After the limit an operator is
// needed, and nothing was written.
//
// F12
func TestDeviceInUse(t *testing.T) {
	busyUntil := func(s *testHost, until time.Time) {
		s.disk.on = func(call string, _ int64, _ context.Context) error {
			if call == "open" && time.Now().Before(until) {
				return &device.Fault{Class: device.Transient, Code: device.CodeTargetBusy, Message: "it is mounted",
					Remedy: "end that use"}
			}
			return nil
		}
	}
	inBubble(t, "for a while", func(t *testing.T) {
		s := newTestHost(t)
		busyUntil(s, time.Now().Add(15*time.Second))
		server := first(t)
		began := time.Now()
		result, err := s.run(server, s.input("zero"))
		require.NoError(t, err)
		require.EqualValues(t, diskSize, result.Bytes)
		require.GreaterOrEqual(t, time.Since(began), 15*time.Second)
		var reported bool
		for _, p := range server.heartbeats() {
			reported = reported || p.Waiting == "waiting until the device is not in use: it is mounted"
		}
		require.True(t, reported)
	})
	inBubble(t, "for longer than the limit", func(t *testing.T) {
		s := newTestHost(t)
		busyUntil(s, time.Now().Add(time.Hour))
		_, err := s.run(first(t), s.input("zero"))
		refusal := requireFault(t, err, device.CodeTargetBusy, false)
		require.Equal(t, device.NeedsOperator, refusal.Fault.Class)
		require.Equal(t, "end that use, then clean d1", refusal.Fault.Remedy)
		for _, call := range s.disk.history() {
			require.Equal(t, "open", call)
		}
	})
}
