package hardware

import (
	"strings"
	"unicode"
)

// longestLine is how many characters of foreign text a message takes over.
const longestLine = 300

// OneLine makes what a program, a BMC or an appliance says fit for a message and a terminal: one
// line of valid, printable characters, not too long.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longestLine {
		return string(runes[:longestLine]) + "…"
	}
	return text
}
