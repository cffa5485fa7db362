// Package testlog has the log buffer that tests read while other goroutines write to it.
package testlog

import (
	"bytes"
	"sync"
)

// Log may be written and read by several goroutines at once. Its zero value is empty and ready.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String gives everything that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
