package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
)

// hostile is what a device, a tenant or an operator may put into a name or a reason: line
// ends, escape sequences, and characters that change the direction of a text or are not seen.
var hostile = map[string]string{
	"a line of its own":      "x\ntime=2030 level=INFO msg=returned device=d9",
	"a carriage return":      "x\rlevel=INFO",
	"an escape sequence":     "x\x1b[2J\x1b]0;title\x07",
	"a C1 control":           "x\u009b2J",
	"a delete":               "x\x7f\x7f",
	"the other direction":    "x\u202etxt.exe\u2066",
	"a separator of lines":   "x\u2028y\u2029z",
	"what is not seen":       "x\u200b\u2060\ufeff",
	"tags beyond the plane":  "x\U000e0041\U000e007f",
	"quotes and a backslash": `x" level=ERROR msg="y\`,
	"what is not UTF-8":      "x\xff\xfe",
}

// quoted is a quoted text.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// Nothing that others chose reaches the log unescaped, in either form: a line stays one line,
// of characters that are seen as they are, and JSON gives the text back.
func TestHostileTextIsEscaped(t *testing.T) {
	for name, text := range hostile {
		for _, format := range []Format{Text, JSON} {
			t.Run(name+" as "+string(format), func(t *testing.T) {
				var out bytes.Buffer
				to := New(&out, Options{Format: format}).With(Device, text)
				to.Info(text, Reason, text, Error, errors.New(text), slog.Group("group", text, text), "list", []string{text})
				written := out.String()
				require.Equal(t, 1, strings.Count(written, "\n"))
				for _, r := range strings.TrimSuffix(written, "\n") {
					require.True(t, unicode.IsPrint(r), "%U in %q", r, written)
				}
				if format == Text {
					require.NotContains(t, quoted.ReplaceAllString(written, ""), "level=ERROR", "a line has one level")
					return
				}
				var line map[string]any
				require.NoError(t, json.Unmarshal(out.Bytes(), &line))
				for _, key := range []string{"msg", Device, Reason, Error} {
					require.Equal(t, strings.ToValidUTF8(text, "\ufffd\ufffd"), line[key], key)
				}
			})
		}
	}
}

// The lines of the Temporal SDK have the keys of all others. Its line about an activity's
// error has the level that its error deserves.
func TestTheLinesOfTheSDK(t *testing.T) {
	var out bytes.Buffer
	level := slog.LevelInfo
	sdk := log.NewStructuredLogger(
		New(&out, Options{Level: slog.LevelInfo, ErrorLevel: func(err error, attempt int32) slog.Level {
			require.EqualError(t, err, "wrong")
			require.EqualValues(t, 3, attempt)
			return level
		}}))
	sdk = log.With(sdk, "Namespace", "n", "TaskQueue", "q", "WorkerID", "w")
	say := func() string {
		out.Reset()
		sdk.Error(activityError, "WorkflowID", "device/d1", "RunID", "r", "ActivityType", "zero", "Attempt", int32(3),
			"Error", errors.New("wrong"))
		_, line, _ := strings.Cut(out.String(), "level=")
		return line
	}
	require.Equal(t, "INFO msg=\"Activity error.\" queue=q workflow=device/d1 run=r activity=zero attempt=3 error=wrong\n",
		say())
	level = slog.LevelDebug
	require.Empty(t, say())
	out.Reset()
	sdk.Error("Workflow panic", "Error", "wrong")
	require.Contains(t, out.String(), `level=ERROR msg="Workflow panic" queue=q error=wrong`)
}
