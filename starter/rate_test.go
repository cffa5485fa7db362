package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

func TestRateEstimator(t *testing.T) {
	const mib = 1 << 20
	beat := func(step string, done int64, ran time.Duration) contract.Progress {
		return contract.Progress{Step: step, Offset: done * mib, Size: 1000 * mib, RunTime: ran}
	}
	for name, tt := range map[string]struct {
		beats []contract.Progress
		rate  int64 // MiB/s
		left  time.Duration
		known bool
	}{
		"no heartbeat":                     {},
		"nothing done yet":                 {beats: []contract.Progress{beat("zero", 0, time.Second)}},
		"one: since the step began":        {beats: []contract.Progress{beat("zero", 100, 10*time.Second)}, rate: 10, left: 90 * time.Second, known: true},
		"two: from one to the other":       {beats: []contract.Progress{beat("zero", 100, 10*time.Second), beat("zero", 200, 15*time.Second)}, rate: 20, left: 40 * time.Second, known: true},
		"the same heartbeat again":         {beats: []contract.Progress{beat("zero", 100, 10*time.Second), beat("zero", 100, 10*time.Second)}, rate: 10, left: 90 * time.Second, known: true},
		"another step":                     {beats: []contract.Progress{beat("zero", 900, 10*time.Second), beat("verify", 500, time.Second)}, rate: 500, left: time.Second, known: true},
		"back after a crash":               {beats: []contract.Progress{beat("zero", 200, 10*time.Second), beat("zero", 100, 20*time.Second)}, rate: 5, left: 180 * time.Second, known: true},
		"running without progress":         {beats: []contract.Progress{beat("zero", 100, 10*time.Second), beat("zero", 100, 20*time.Second)}},
		"waited: running time counts":      {beats: []contract.Progress{beat("zero", 100, 10*time.Second), beat("zero", 110, 11*time.Second)}, rate: 10, left: 89 * time.Second, known: true},
		"old heartbeats are dropped":       {beats: []contract.Progress{beat("zero", 0, 0), beat("zero", 900, 9*time.Second), beat("zero", 910, 29*time.Second), beat("zero", 920, 49*time.Second)}, rate: 0, known: true, left: 160 * time.Second},
		"done, and the step has not ended": {beats: []contract.Progress{beat("zero", 500, 5*time.Second), beat("zero", 1000, 10*time.Second)}, rate: 100, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			var m rateEstimator
			for _, b := range tt.beats {
				m.add(b, clock)
			}
			require.Equal(t, tt.rate, m.rate()/mib)
			ends := m.ends()
			require.Equal(t, tt.known, !ends.IsZero())
			if tt.known {
				require.InDelta(t, tt.left.Seconds(), ends.Sub(clock).Seconds(), 0.01)
			}
			require.LessOrEqual(t, len(m.beats), 4)
		})
	}
}
