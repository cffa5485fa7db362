package main

import (
	"errors"
	"slices"
	"strings"

	"burnish/starter/internal/terminal"
)

// colorMode is the value of --color: when the output is colored.
type colorMode string

// The modes. colorAuto colors what goes to a terminal that knows colors, unless NO_COLOR is set.
const (
	colorAuto   colorMode = "auto"
	colorAlways colorMode = "always"
	colorNever  colorMode = "never"
)

var colorModes = []colorMode{colorAuto, colorAlways, colorNever}

// String gives the mode's name.
func (m *colorMode) String() string { return string(*m) }

// Type names the flag's value.
func (m *colorMode) Type() string { return "when" }

// Set takes one of the names.
func (m *colorMode) Set(s string) error {
	if !slices.Contains(colorModes, colorMode(s)) {
		return errors.New("must be one of " + join(colorModes))
	}
	*m = colorMode(s)
	return nil
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
	return terminal.Sheet(rows, a.width(), a.painted)
}

// pairs aligns keys and values.
func (a *app) pairs(rows [][]string) string {
	return terminal.Pairs(rows, a.width(), a.painted)
}

// fold wraps lines that are longer than the terminal is wide.
func (a *app) fold(text string) string { return terminal.Fold(text, a.width()) }

// painted colors a text of a table by the cell that it belongs to.
func (a *app) painted(title, cell, text string) string {
	return a.palette().Paint(colorOf(title, cell), text)
}

// colorOf is the color of a cell under a title, or beside a key; a title has no title.
func colorOf(title, cell string) terminal.Color {
	switch strings.ToUpper(title) {
	case "":
		return terminal.Title
	case "STATE":
		return terminal.State(cell)
	case "FAULT", "LAST ERROR":
		return terminal.Fault(cell)
	case "NEEDS-OPERATOR", "NEEDS OPERATOR":
		return terminal.Attention(cell)
	}
	return terminal.Plain
}
