// Package terminal makes text for people: on one line, without what a terminal would obey,
// fitted to its width, and colored where it can be.
package terminal

import (
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// cells measures text in the columns of a terminal. What is ambiguous is narrow, wherever the
// program runs.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// more stands where text was cut off.
const more = "…"

// Line gives text on one line, without what a terminal would obey: control characters, and
// those that reverse or hide text.
func Line(text string) string {
	if plain(text) && !strings.HasPrefix(text, " ") && !strings.HasSuffix(text, " ") && !strings.Contains(text, "  ") {
		return text
	}
	return Harmless(strings.Join(strings.Fields(text), " "))
}

// Harmless gives text without what a terminal would obey.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '?'
		}
		return r
	}, text)
}

// plain says that text is made of ASCII's printable characters, as nearly all is.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Width is how many columns a line takes.
func Width(line string) int {
	if plain(line) {
		return len(line)
	}
	return cells.StringWidth(line)
}

// Cut gives a line in at most width columns, and shows that something is missing.
func Cut(line string, width int) string {
	if Width(line) <= width {
		return line
	}
	if width <= 0 {
		return ""
	}
	return cells.Truncate(line, width, more)
}

// Wrap breaks a line into lines of at most width columns, between words where it can.
func Wrap(line string, width int) []string {
	if width <= 0 || Width(line) <= width {
		return []string{line}
	}
	var lines []string
	rest := ""
	for _, word := range strings.Fields(line) {
		switch {
		case rest == "":
			rest = word
		case Width(rest)+1+Width(word) <= width:
			rest += " " + word
		default:
			lines, rest = append(lines, rest), word
		}
		for Width(rest) > width {
			head := cells.Truncate(rest, width, "")
			if head == "" { // not even one character fits
				return append(lines, "")
			}
			lines, rest = append(lines, head), strings.TrimPrefix(rest, head)
		}
	}
	return append(lines, rest)
}
