package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"burnish/starter/internal/terminal"
)

// format is the output format; a flag's value.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

// String gives the format's name.
func (f *format) String() string { return string(*f) }

// Type names the flag's value.
func (f *format) Type() string { return "format" }

// Set takes one of the three names.
func (f *format) Set(s string) error {
	switch g := format(s); g {
	case formatTable, formatJSON, formatYAML:
		*f = g
		return nil
	}
	return fmt.Errorf("must be one of table, json, yaml")
}

// formatOf finds -o in a command line that could not be parsed.
func formatOf(args []string, found format) format {
	for i, arg := range args {
		value := ""
		switch {
		case arg == "--":
			return found
		case arg == "-o" || arg == "--output":
			if i+1 < len(args) {
				value = args[i+1]
			}
		case strings.HasPrefix(arg, "--output="):
			value = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o"):
			value = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
		var f format
		if value != "" && f.Set(value) == nil {
			found = f
		}
	}
	return found
}

// defaultTimeout is the default limit of a request.
const defaultTimeout = 30 * time.Second

// timeout is --timeout: more than zero.
type timeout struct {
	limit time.Duration
	given bool
}

// String gives the limit.
func (t *timeout) String() string { return t.limit.String() }

// Type names the flag's value.
func (t *timeout) Type() string { return "duration" }

// Set takes a duration of more than zero.
func (t *timeout) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("must be a duration such as 30s or 5m")
	}
	if d <= 0 {
		return fmt.Errorf("must be more than zero")
	}
	t.limit, t.given = d, true
	return nil
}

// encode writes v as JSON with the indent given, or as YAML by the same tags.
func encode(w io.Writer, f format, indent string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	out := b.Bytes()
	if f == formatYAML {
		var err error
		if out, err = toYAML(out); err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
	}
	if _, err := w.Write(out); err != nil {
		return notWritten(err)
	}
	return nil
}

// emit writes v in the chosen format; table gives the format table.
func (a *app) emit(v any, table func() string) error {
	if a.format == formatTable {
		return a.print(table())
	}
	return encode(a.stdout, a.format, indented, v)
}

// local formats a time for tables.
func local(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// age gives how long ago t was, in its largest unit.
func age(now, t time.Time) string { return terminal.Age(now, t) }

// roundDuration rounds a duration for display.
func roundDuration(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// size gives bytes in binary units.
func size(n int64) string { return terminal.Bytes(n) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
