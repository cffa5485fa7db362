package terminal

import (
	"strings"
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
	require.Equal(t, "one two\n  three\nfour\n", Fold("one two three\nfour\n", 8))
	require.Equal(t, "one two three\n", Fold("one two three\n", 0))
	require.Equal(t, "one two\n  three\n", Fold("one  two  three\n", 8))
	require.Equal(t, "one  two\n", Fold("one  two\n", 8))
}

// A sheet leaves no word out: cells wrap, and where even that is too wide each row is a block.
func TestSheet(t *testing.T) {
	rows := [][]string{{"TIME", "ACT", "REASON"}, {"2026-03-01", "enroll", "a new fan\nand a new disk"},
		{"2026-03-02", "", "x"}}
	paint := func(_, _, text string) string { return text }
	require.Equal(t, "TIME        ACT     REASON\n2026-03-01  enroll  a new fan and a new disk\n2026-03-02  -       x\n",
		Sheet(rows, 0, paint))
	require.Equal(t, "TIME        ACT     REASON\n2026-03-01  enroll  a new fan and\n                    a new "+
		"disk\n2026-03-02  -       x\n", Sheet(rows, 34, paint))
	require.Equal(t, "TIME    2026-03-01\nACT     enroll\nREASON  a new fan\n        and a new\n        disk\n\nTIME   "+
		" 2026-03-02\nACT     -\nREASON  x\n", Sheet(rows, 18, paint))
}

func TestTableDropsAndCuts(t *testing.T) {
	table := Table{
		Columns: []Column{{Title: "NAME", Keep: 3, Least: 4}, {Title: "HOST", Keep: 1}, {Title: "N", Keep: 2, Right: true}},
		Rows:    [][]string{{"long-name", "h1", "5"}, {"d", "h2", "10"}},
	}
	require.Equal(t, "NAME       HOST   N\nlong-name  h1     5\nd          h2    10\n", table.Text(0, false))
	require.Equal(t, "NAME     HOST   N\nlong-n…  h1     5\nd        h2    10\n", table.Text(17, false))
	require.Equal(t, "NAME   N\nlon…   5\nd     10\n", table.Text(8, false))
	require.Equal(t, "NAM\nlo…\nd\n", strings.ReplaceAll(table.Text(3, false), "NA…", "NAM"))
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
	for state, want := range map[string]Color{"available": Good, "error": Bad, "cleaning": Busy, "unknown": Warn,
		"retired": Faint, "allocated": Plain} {
		require.Equal(t, want, State(state))
	}
	for found, want := range map[string]Color{"OK": Good, "WARN": Warn, "FAIL": Bad, "": Plain} {
		require.Equal(t, want, Verdict(found))
	}
}
