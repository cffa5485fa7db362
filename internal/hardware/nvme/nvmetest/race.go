//go:build race

package nvmetest

// slowStart: a program with the race detector takes ten times as long to start.
const slowStart = true
