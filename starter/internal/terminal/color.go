package terminal

import "strings"

// Color says what a text means; a Palette makes it visible.
type Color string

// The meanings, as the sequences that select their colors. Each text says the same without.
const (
	Plain Color = ""
	Good  Color = "32"
	Busy  Color = "36"
	Warn  Color = "33"
	Bad   Color = "31"
	Title Color = "1"
	Faint Color = "2"
)

// Palette says whether texts are colored.
type Palette bool

// Paint gives text in a color.
func (p Palette) Paint(c Color, text string) string {
	if !bool(p) || c == Plain || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// meanings are the colors of words.
var meanings = map[string]Color{
	"available": Good, "cleaning": Busy, "pending_cleaning": Busy, "running": Busy, "error": Bad, "failed": Bad,
	"unknown": Warn, "retired": Faint, "absent": Faint, "OK": Good, "WARN": Warn, "FAIL": Bad,
}

// Verdict is the color of what a check found.
func Verdict(found string) Color { return meanings[found] }

// ByTitle is the color of a cell under a title, or beside a key; a title has no title.
func ByTitle(title, cell string) Color {
	switch strings.ToUpper(title) {
	case "":
		return Title
	case "STATE":
		return meanings[cell]
	case "FAULT", "LAST ERROR", "FAILED":
		if cell != "" && cell != "-" && cell != "0" {
			return Bad
		}
	case "NEEDS-OPERATOR", "NEEDS OPERATOR":
		if strings.HasPrefix(cell, "yes") {
			return Warn
		}
	}
	return Plain
}
