package main

import (
	"fmt"
	"log/slog"
	"strings"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLogger writes Temporal's log lines with slog.
type serverLogger struct {
	to *slog.Logger
	// fatal ends the process: Temporal goes on with a nil listener otherwise.
	fatal func(message string)
}

var (
	_ log.Logger     = serverLogger{}
	_ log.WithLogger = serverLogger{}
)

func (l serverLogger) Debug(msg string, tags ...tag.Tag) { l.to.Debug(msg, attributes(tags)...) }
func (l serverLogger) Info(msg string, tags ...tag.Tag)  { l.to.Info(msg, attributes(tags)...) }
func (l serverLogger) Error(msg string, tags ...tag.Tag) { l.to.Error(msg, attributes(tags)...) }

// Warn leaves out the one warning that stands for a decision of ours: there is
// no HTTP API, and with it no Nexus.
func (l serverLogger) Warn(msg string, tags ...tag.Tag) {
	if !strings.HasPrefix(msg, "HTTP API port has not been set") {
		l.to.Warn(msg, attributes(tags)...)
	}
}

// DPanic reports a mistake of Temporal's that its own production server only logs.
func (l serverLogger) DPanic(msg string, tags ...tag.Tag) { l.Error(msg, tags...) }

func (l serverLogger) Panic(msg string, tags ...tag.Tag) {
	l.Error(msg, tags...)
	panic(msg) //nolint:forbidigo // what the interface promises
}

func (l serverLogger) Fatal(msg string, tags ...tag.Tag) {
	for _, t := range tags {
		msg += fmt.Sprintf(" %s=%v", t.Key(), t.Value())
	}
	l.fatal(msg)
}

// With returns a logger that adds tags to each line.
func (l serverLogger) With(tags ...tag.Tag) log.Logger {
	l.to = l.to.With(attributes(tags)...)
	return l
}

// attributes turns tags into slog's arguments.
func attributes(tags []tag.Tag) []any {
	attrs := make([]any, 0, len(tags))
	for _, t := range tags {
		attrs = append(attrs, slog.Any(t.Key(), t.Value()))
	}
	return attrs
}
