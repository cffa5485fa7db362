package contract

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"burnish/internal/device"
)

// Hardware is what is known of a device before its host has discovered it.
type Hardware struct {
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// HardwareOf is that of a device which its host knows.
func HardwareOf(id device.Identity) Hardware { return Hardware{Model: id.Model, Serial: id.Serial} }

// maxHardwareWord bounds each value of a summary: it comes from a device, or from its operator,
// and the server accepts summaries of 400 bytes.
const maxHardwareWord = 64

// Summary is the one line that Temporal's Web UI shows of a device's workflow, and Details the
// Markdown below it. Both are set at the start of a run and never change: what a discovery finds
// later is in the current details.
func Summary(e Enrollment, h Hardware) (summary, details string) {
	known := Hardware{Model: hardwareWord(h.Model), Serial: hardwareWord(cmp.Or(h.Serial, e.Settings["serial"]))}
	var words []string
	add := func(form, value string) {
		if value = hardwareWord(value); value != "" {
			words = append(words, fmt.Sprintf(form, value))
		}
	}
	add("%s", cmp.Or(known.Model, e.Type))
	add("serial %s", known.Serial)
	add("host %s", e.Host)
	add("driver %s", e.Driver)

	var b strings.Builder
	for _, line := range []struct{ what, value string }{
		{"model", known.Model}, {"serial", known.Serial}, {"host", hardwareWord(e.Host)}, {"driver", hardwareWord(e.Driver)},
	} {
		text := "not known at the start; see the current details"
		if line.value != "" {
			text = Markdown(line.value)
		}
		fmt.Fprintf(&b, "- %s: %s\n", line.what, text)
	}
	return strings.Join(words, ", "), b.String()
}

// hardwareWord is a value as a line can show it: without control characters, and not too long.
func hardwareWord(text string) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if len(text) > maxHardwareWord {
		text = strings.ToValidUTF8(text[:maxHardwareWord], "") + "…"
	}
	return text
}

// markdown escapes what Markdown would take for markup. An underscore or a hyphen within a word
// is none, so that fault codes stay as they are.
var markdown = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "[", `\[`, "]", `\]`, "<", `\<`, ">", `\>`, "~",
	`\~`, "|", `\|`, "&", `\&`)

// Markdown is text of a device, an operator or a tenant as the Markdown of a workflow's details
// shows it: in one line, and without becoming a link, a picture or a heading of its own.
func Markdown(text string) string { return markdown.Replace(strings.Join(strings.Fields(text), " ")) }
