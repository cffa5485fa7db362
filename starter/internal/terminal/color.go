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

// State is the color of a device's state.
func State(state string) Color {
	switch state {
	case "available":
		return Good
	case "cleaning", "pending_cleaning":
		return Busy
	case "error":
		return Bad
	case "unknown":
		return Warn
	case "retired", "absent":
		return Faint
	}
	return Plain
}

// Fault is the color of a fault's name; a dash is none.
func Fault(code string) Color {
	if code == "" || code == "-" {
		return Plain
	}
	return Bad
}

// Attention is the color of an answer that calls for somebody: yes.
func Attention(answer string) Color {
	if strings.HasPrefix(answer, "yes") {
		return Warn
	}
	return Plain
}

// Verdict is the color of what a check found.
func Verdict(found string) Color {
	switch found {
	case "OK":
		return Good
	case "WARN":
		return Warn
	case "FAIL":
		return Bad
	}
	return Plain
}
