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
	cleans := map[string]*busy{
		"a": {from: at(0), to: at(10)}, "b": {from: at(1), to: at(9)},
		"c": {from: at(9.5), to: at(20)}, "d": {from: at(10.1), to: at(21)}, "e": {from: at(21), to: at(30)},
	}
	require.InDelta(t, 18.5/20, busyShare(cleans, 2, at(0)), 1e-9, "b's slot was free for half a second, and from 20 on")
	require.InDelta(t, 0.9, busyShare(cleans, 2, at(11)), 1e-9)
	require.Zero(t, busyShare(cleans, 9, at(0)))
}
