package terminal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a terminal would obey never comes through, and the rest does.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                      "plain",
		"  two\n words\t":            "two words",
		"\x1b[31mred\x1b]0;x\x07":    "?[31mred?]0;x?",
		"a\u202eb\u200bc\u009bd\x7f": "a?b?c?d?",
		"電源 \xff":                    "電源 \uFFFD",
	} {
		require.Equal(t, want, Line(text), "%q", text)
	}
}

func TestCutAndWrap(t *testing.T) {
	require.Equal(t, 4, Width("電源"))
	require.Equal(t, "電…", Cut("電源電源", 4))
	require.Equal(t, "abc", Cut("abc", 3))
	require.Equal(t, "ab…", Cut("abcd", 3))
	require.Empty(t, Cut("abc", 0))
	require.Equal(t, []string{"one two", "three"}, Wrap("one two three", 8))
	require.Equal(t, []string{"abcd", "ef g"}, Wrap("abcdef g", 4))
	require.Equal(t, []string{"電", "源"}, Wrap("電源", 3))
}

// A sheet leaves no word out: cells wrap, and where even that is too wide each row is a block.
func TestSheet(t *testing.T) {
	rows := [][]string{{"TIME", "ACT", "REASON"}, {"2026-03-01", "enroll", "a new fan\nand a new disk"},
		{"2026-03-02", "", "x"}}
	require.Equal(t, "TIME        ACT     REASON\n2026-03-01  enroll  a new fan and a new disk\n2026-03-02  -       x\n",
		Sheet(rows, 0, false))
	require.Equal(t, "TIME        ACT     REASON\n2026-03-01  enroll  a new fan and\n                    a new "+
		"disk\n2026-03-02  -       x\n", Sheet(rows, 34, false))
	require.Equal(t, "TIME    2026-03-01\nACT     enroll\nREASON  a new fan\n        and a new\n        disk\n\nTIME   "+
		" 2026-03-02\nACT     -\nREASON  x\n", Sheet(rows, 18, false))
}

func TestTables(t *testing.T) {
	cell := func(at int) func([]string) string { return func(row []string) string { return row[at] } }
	table := NewTable([][]string{{"long-name", "h1", "5"}, {"d", "", "10"}, {"c", "h1", ""}}, []Column[[]string]{
		{Title: "NAME", Keep: 3, Least: 4, Text: cell(0)}, {Title: "HOST", Keep: 1, Text: cell(1)},
		{Title: "N", Keep: 2, Right: true, Text: cell(2), Order: func(a, b []string) int { return len(a[2]) - len(b[2]) }},
	})
	require.Equal(t, "NAME       HOST   N\nlong-name  h1     5\nd          -     10\nc          h1     -\n",
		table.Text(0, false))
	require.Equal(t, "NAME     HOST   N\nlong-n…  h1     5\nd        -     10\nc        h1     -\n", table.Text(17, false))
	require.Equal(t, "NAME   N\nlon…   5\nd     10\nc      -\n", table.Text(8, false))
	require.Equal(t, "NA…\nlo…\nd\nc\n", table.Text(3, false))
	require.Equal(t, []int{2, 1, 0}, table.Rows("", 0, false))
	require.Equal(t, []int{1, 0, 2}, table.Rows("", 2, true), "what has nothing there stays last")
	require.Equal(t, []int{0, 2}, table.Rows(" H1", -1, false))
	require.Equal(t, []int{0}, table.Rows("h1 LONG", -1, false))
}

func TestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 90 * time.Second: "1m30s", 61 * time.Minute: "1h01m",
		50 * time.Hour: "2d02h",
	} {
		require.Equal(t, want, Duration(d))
	}
}

func TestPaint(t *testing.T) {
	require.Equal(t, "\x1b[31mx\x1b[0m", Palette(true).Paint(Bad, "x"))
	require.Equal(t, "x", Palette(false).Paint(Bad, "x"))
	require.Equal(t, "x", Palette(true).Paint(Plain, "x"))
	for _, tt := range []struct {
		title, cell string
		want        Color
	}{
		{"", "NAME", Title}, {"STATE", "available", Good}, {"state", "error", Bad}, {"STATE", "cleaning", Busy},
		{"STATE", "unknown", Warn}, {"STATE", "retired", Faint}, {"STATE", "allocated", Plain}, {"FAULT", "io_error", Bad},
		{"FAULT", "-", Plain}, {"FAILED", "0", Plain}, {"FAILED", "3", Bad}, {"NEEDS-OPERATOR", "yes", Warn},
		{"NAME", "error", Plain},
	} {
		require.Equal(t, tt.want, ByTitle(tt.title, tt.cell), "%s %s", tt.title, tt.cell)
	}
	for found, want := range map[string]Color{"OK": Good, "WARN": Warn, "FAIL": Bad, "": Plain} {
		require.Equal(t, want, Verdict(found))
	}
}
