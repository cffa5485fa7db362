package live

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"burnish/starter/internal/terminal"
)

func TestMain(m *testing.M) {
	time.Local = time.FixedZone("CET", 3600)
	os.Exit(m.Run())
}

type thing struct {
	name, host string
	n          int
}

func page(things ...thing) Page {
	p := Page{Time: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC), Head: fmt.Sprintf("%d things", len(things))}
	p.Table = terminal.NewTable(things, []terminal.Column[thing]{
		{Title: "NAME", Keep: 100, Least: 6, Text: func(t thing) string { return t.name }},
		{Title: "HOST", Keep: 10, Text: func(t thing) string { return t.host }},
		{Title: "N", Keep: 50, Right: true, Text: func(t thing) string { return strings.TrimSuffix(fmt.Sprint(t.n), "0") },
			Order: func(a, b thing) int { return cmp.Compare(a.n, b.n) }},
	})
	for _, t := range things {
		p.Keys = append(p.Keys, t.name)
	}
	return p
}

var some = []thing{{"b", "h1", 9}, {"a\x1b]0;owned\x07", "h2", 11}, {"c", "h1", 0}}

// told gives a model what happened: messages, and keys by their names.
func told(m Model, all ...any) (Model, tea.Cmd) {
	var cmd tea.Cmd
	names := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "backspace": {Code: tea.KeyBackspace},
		"down": {Code: tea.KeyDown},
		"end":  {Code: tea.KeyEnd}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome},
		"ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, msg := range all {
		if text, ok := msg.(string); ok {
			k, named := names[text]
			if !named {
				k = tea.Key{Code: []rune(text)[0], Text: text}
			}
			msg = tea.KeyPressMsg(k)
		}
		var next tea.Model
		next, cmd = m.Update(msg)
		m = next.(Model)
	}
	return m, cmd
}

func size(width, height int) tea.WindowSizeMsg {
	return tea.WindowSizeMsg{Width: width, Height: height}
}

// drawn are the lines of the picture, without the spaces at their ends.
func drawn(m Model) []string {
	lines := strings.Split(m.View().Content, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// shows gives the picture without its footer and empty lines.
func shows(m Model) string {
	all := drawn(m)
	return strings.TrimRight(strings.Join(all[:len(all)-1], "\n"), "\n")
}

// names are the first letters of the rows in view.
func names(m Model) (all string) {
	for _, line := range strings.Split(shows(m), "\n")[2:] {
		all += line[2:3]
	}
	return all
}

func TestRowsAreFilteredAndSorted(t *testing.T) {
	m, _ := told(NewModel(nil, false), size(40, 12), page(some...))
	require.Equal(t, strings.Join([]string{
		"3 things                        12:00:00", "  NAME         HOST   N", "> b            h1     9",
		"  a?]0;owned?  h2    11", "  c            h1     -",
	}, "\n"), shows(m))
	for _, tt := range []struct {
		want string
		keys []any
	}{
		{"bac", nil}, {"cab", []any{"r"}}, {"abc", []any{"s"}}, {"cba", []any{"s", "r"}}, {"bca", []any{"s", "s"}},
		{"bac", []any{"S"}}, {"abc", []any{"S", "r"}}, // what has no number stays last
		{"bc", []any{"/", "H", "1"}}, {"c", []any{"/", "h", "1", " ", "c", "enter"}},
		{"bc", []any{"/", "h", "1", "x", "backspace", "enter"}}, {"bac", []any{"/", "x", "esc"}},
		{"bac", []any{"/", "x", "enter", "esc"}}, {"bac", []any{"/", "enter", "s", "S"}},
		{"bc", []any{"/", tea.PasteMsg{Content: "h1"}}},
	} {
		sorted, _ := told(m, tt.keys...)
		require.Equal(t, tt.want, names(sorted), tt.keys)
	}
	typing, _ := told(m, "/", "q", "s")
	require.Contains(t, drawn(typing)[11], "/qs_  0 of 3")
	sorted, _ := told(m, "s", "r")
	require.Contains(t, drawn(sorted)[11], "by NAME↓")
}

// The cursor stays on its row, wherever that goes, and comes back with it.
func TestTheCursorStaysWithItsRow(t *testing.T) {
	m, _ := told(NewModel(nil, false), size(40, 12), page(some...), "down", "down")
	require.Contains(t, shows(m), "> c")
	m, _ = told(m, page(some[2], some[0], thing{"new", "h3", 1}))
	require.Contains(t, shows(m), "> c")
	m, _ = told(m, page(some[0], thing{"new", "h3", 1}))
	require.NotContains(t, shows(m), "  c")
	m, _ = told(m, page(some...))
	require.Contains(t, shows(m), "> c")

	tail := page(some...)
	tail.Tail = true
	m, _ = told(NewModel(nil, false), size(40, 12), tail)
	require.Contains(t, shows(m), "> c")
	tail = page(append(some, thing{"d", "h1", 1})...)
	tail.Tail = true
	m, _ = told(m, tail)
	require.Contains(t, shows(m), "> d")
	m, _ = told(m, "home", tail)
	require.Contains(t, shows(m), "> b")
}

// What is open is asked again with each page, once at a time. What it was stays where it cannot be read.
func TestARowIsOpened(t *testing.T) {
	asked := 0
	var fails error
	m := NewModel(func(what string) (string, error) {
		asked++
		return what + "\nremedy x\n" + strings.Repeat("act\n", 30), fails
	}, false)
	m, cmd := told(m, size(40, 10), page(some...), "enter")
	answer := cmd()
	m, cmd = told(m, page(some...))
	require.Nil(t, cmd, "it was not answered yet")
	m, _ = told(m, answer)
	require.Contains(t, shows(m), "b\nremedy x\nact")
	m, cmd = told(m, "end")
	require.Nil(t, cmd, "a key asks for nothing")
	require.NotContains(t, shows(m), "remedy")
	m, _ = told(m, "home")
	fails = errors.New("away\x1b[2J")
	m, cmd = told(m, page(some...))
	m, _ = told(m, cmd())
	require.Contains(t, shows(m), "away?[2J\nb\nremedy x")
	m, _ = told(m, "esc")
	require.Equal(t, "bac", names(m))
	_, cmd = told(m, page(some...))
	require.Nil(t, cmd)
	require.Equal(t, 2, asked)
	opens := page(some...)
	opens.Opens = []string{"x", "y", "z"}
	m, cmd = told(m, opens, "end", "enter")
	require.Equal(t, "z", cmd().(opened).what)
	m, _ = told(m, "?")
	require.Contains(t, shows(m), "scroll")
}

func TestTheEndAndNotes(t *testing.T) {
	m, _ := told(NewModel(nil, false), size(60, 12), page(some...), note("no answer\x1b[2J"))
	require.Contains(t, shows(m), "not updated since 12:00:00: no answer?[2J\n  NAME")
	require.Contains(t, shows(m), "> b", "the last known rows stay")
	m, _ = told(m, page(some...))
	require.NotContains(t, shows(m), "not updated")
	for _, keys := range [][]any{{"q"}, {"ctrl+c"}, {"/", "ctrl+c"}} {
		_, cmd := told(m, keys...)
		require.Equal(t, over{}, cmd())
	}
	foot := page(some...)
	foot.Foot = []string{"d: available"}
	m, cmd := told(m, size(24, 6), foot, over{})
	require.Equal(t, tea.QuitMsg{}, cmd())
	require.False(t, m.View().AltScreen)
	require.Equal(t, "3 things        12:00:00\n  NAME         HOST   N\n> b            h1     9\n"+
		"  a?]0;owned?  h2    11\nd: available\n", strings.Join(drawn(m), "\n"), "the last picture stays")
}

// Whatever the size, nothing leaves the terminal, and the cursor is in view.
func TestEverySize(t *testing.T) {
	var many []thing
	for i := range 50 {
		many = append(many, thing{fmt.Sprintf("h%d_0000:%02x:00.0\x1b[31m電源", i%7, i), "host", i})
	}
	m, _ := told(NewModel(nil, false), page(many...))
	for width := 1; width < 100; width++ {
		for height := 1; height < 12; height++ {
			m, _ = told(m, size(width, height), "pgdown", "down")
			lines := drawn(m)
			require.LessOrEqual(t, len(lines), height)
			for _, line := range lines {
				require.LessOrEqual(t, terminal.Width(line), max(width, 3), "%d × %d: %q", width, height, line)
				require.NotContains(t, line, "\x1b")
			}
			require.True(t, height < 4 || width < 3 || strings.Contains(m.View().Content, "> "), "%d × %d", width, height)
		}
	}
}
