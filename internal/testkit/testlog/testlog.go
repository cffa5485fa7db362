// Package testlog has the log that tests give to what runs beside them.
package testlog

import (
	"bytes"
	"sync"
)

// Log may be written by many while it is read. Its zero value is empty and ready.
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

// String gives all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
