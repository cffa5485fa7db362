package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A slot counts as busy from the start of a clean to its end, while others wait.
func TestBusyShareOfTheSlots(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	r := &slotRun{slots: 2, cleans: map[string]*busy{
		"a": {from: at(0), to: at(10)}, "b": {from: at(1), to: at(9)},
		"c": {from: at(9.5), to: at(20)}, "d": {from: at(10.1), to: at(21)}, "e": {from: at(21), to: at(30)},
	}}
	share, handOver := r.busyShare()
	require.InDelta(t, 18.5/20, share, 1e-9, "b's slot was free for half a second, and from 20 on")
	require.Equal(t, []time.Duration{500 * time.Millisecond, 100 * time.Millisecond, time.Second}, handOver)
	r.enrolled = at(11)
	share, handOver = r.busyShare()
	require.InDelta(t, 0.9, share, 1e-9)
	require.Equal(t, []time.Duration{time.Second}, handOver)
	r.slots = 9
	share, _ = r.busyShare()
	require.Zero(t, share)
}
