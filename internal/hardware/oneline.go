package hardware

import (
	"regexp"
	"strings"
	"unicode"
)

// longestLine is how many characters of foreign text a message takes over.
const longestLine = 300

// escapes are a terminal's sequences: colors and the like, titles, and those of one character.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])`)

// OneLine makes what a program, a BMC or an appliance says fit for a message and a terminal: one
// line of valid, printable characters, not too long.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r) || unicode.IsSpace(r):
			return r
		case unicode.IsControl(r):
			return -1
		}
		return unicode.ReplacementChar
	}, escapes.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), ""))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longestLine {
		return string(runes[:longestLine]) + "…"
	}
	return text
}
