//go:build race

package nvmesim

// slowStart: a program with the race detector takes ten times as long to start.
const slowStart = true
