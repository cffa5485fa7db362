//go:build race

package script

// slowStart: a program with the race detector takes ten times as long to start.
const slowStart = true
