// Package logs is what every line of a worker's log has in common: the form, the level, the
// names of the keys, and the messages that are a trail of what became of each device. It
// knows neither Temporal nor a driver.
package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Format is the form of a line.
type Format string

// The forms: key=value, or one JSON object a line.
const (
	Text Format = "text"
	JSON Format = "json"
)

// UnmarshalText reads a Format.
func (f *Format) UnmarshalText(text []byte) error {
	if *f = Format(text); *f != Text && *f != JSON {
		return fmt.Errorf("%q is neither text nor json", text)
	}
	return nil
}

// Level is the least level of the lines that are written.
type Level string

// UnmarshalText reads a Level.
func (l *Level) UnmarshalText(text []byte) error {
	switch *l = Level(text); *l {
	case "debug", "info", "warn", "error":
		return nil
	}
	return fmt.Errorf("%q is not one of debug, info, warn, error", text)
}

// Level is the level for slog; "" is info.
func (l Level) Level() (level slog.Level) {
	if level.UnmarshalText([]byte(l)) != nil {
		return slog.LevelInfo
	}
	return level
}

// Options say how a log is written.
type Options struct {
	Format Format
	Level  slog.Level
	// ErrorLevel is the level of the line that the Temporal SDK writes about an activity's
	// error at the given attempt, which it takes for an error whatever it is; nil keeps it.
	ErrorLevel func(err error, attempt int32) slog.Level
}

// New writes lines to out. Nothing that a line has of a device, a tenant or an operator
// reaches out unescaped: control characters, line ends and what changes the direction of
// the text are quoted, in both forms.
func New(out io.Writer, o Options) *slog.Logger {
	// The SDK's lines are at level error until relevel has seen them.
	options := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: rename}
	var h slog.Handler
	if o.Format == JSON {
		h = slog.NewJSONHandler(escaper{out}, options)
	} else {
		h = slog.NewTextHandler(escaper{out}, options)
	}
	if o.ErrorLevel != nil {
		h = relevel{h, o.ErrorLevel}
	}
	return slog.New(h)
}

// sdkKeys are the keys of the Temporal SDK by their names here; "" leaves a key out, because
// every line of a worker would have the same value, or another key says the same.
var sdkKeys = map[string]string{
	"Namespace": "", "WorkerID": "", "WorkflowType": "", "ActivityID": "",
	"UpdateName": "", "UpdateID": Update, "TaskQueue": Queue, "WorkflowID": Workflow, "RunID": Run,
	"ActivityType": Activity, "Attempt": Attempt, "Error": Error,
}

// rename gives the SDK's keys the names of this log.
func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	if name, ok := sdkKeys[a.Key]; ok {
		if name == "" {
			return slog.Attr{}
		}
		a.Key = name
	}
	return a
}

// activityError begins the SDK's line about an activity that returned an error.
const activityError = "Activity error."

// relevel gives the SDK's lines about activities' errors their levels.
type relevel struct {
	slog.Handler
	level func(error, int32) slog.Level
}

// Handle writes the record at its level, or leaves it out.
func (h relevel) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != activityError {
		return h.Handler.Handle(ctx, r)
	}
	var err error
	var attempt int32
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Any().(type) {
		case error:
			err = v
		case int64: // slog's form of every whole number
			if a.Key == "Attempt" {
				attempt = int32(v)
			}
		}
		return true
	})
	if r.Level = h.level(err, attempt); !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the levels.
func (h relevel) WithAttrs(attrs []slog.Attr) slog.Handler {
	return relevel{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup keeps the levels.
func (h relevel) WithGroup(name string) slog.Handler {
	return relevel{h.Handler.WithGroup(name), h.level}
}
