package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"burnish/starter/internal/terminal"
)

// format is the output format; a flag's value.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

var formats = []format{formatTable, formatJSON, formatYAML}

// colorMode is the value of --color: when the output is colored.
type colorMode string

// The modes. colorAuto colors what goes to a terminal that knows colors, unless NO_COLOR is set.
const (
	colorAuto   colorMode = "auto"
	colorAlways colorMode = "always"
	colorNever  colorMode = "never"
)

var colorModes = []colorMode{colorAuto, colorAlways, colorNever}

// formatOf finds -o in a command line that could not be parsed.
func formatOf(args []string, found format) format {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	text := flags.StringP("output", "o", "", "")
	_ = flags.Parse(args)             // as far as it can be read
	_ = oneOf(&found, *text, formats) // what is none changes nothing
	return found
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

// palette says whether the output is colored.
func (a *app) palette() terminal.Palette {
	switch a.color {
	case colorAlways:
		return true
	case colorNever:
		return false
	}
	return terminal.Palette(a.window != nil && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb")
}

// width is the width of the terminal that the output goes to; 0 if it goes elsewhere, or the
// width is not known.
func (a *app) width() int {
	if a.window == nil {
		return 0
	}
	return a.window()
}

// columns aligns rows of cells, the titles first; an empty cell becomes a dash. On a terminal
// the cells wrap, and where that is not enough each row becomes a block of lines.
func (a *app) columns(rows [][]string) string {
	return terminal.Sheet(rows, a.width(), a.palette())
}

// pairs aligns keys and values.
func (a *app) pairs(rows [][]string) string {
	return terminal.Pairs(rows, a.width(), a.palette())
}

// toYAML writes JSON, which is YAML too, as block YAML, keys in the same order.
func toYAML(data []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	unstyled(&document)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// ofYAML11 is text that readers of YAML 1.1 take for a boolean or a number to the base 60.
var ofYAML11 = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

// unstyled takes from a node and those below it how they were written, the quotes of such text apart.
func unstyled(n *yaml.Node) {
	if !ofYAML11.MatchString(n.Value) {
		n.Style = 0
	}
	for _, child := range n.Content {
		unstyled(child)
	}
}
