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
	p := NewPage(things, []Column[thing]{
		{Column: terminal.Column{Title: "NAME", Keep: 100, Least: 6}, Text: func(t thing) string { return t.name }},
		{Column: terminal.Column{Title: "HOST", Keep: 10}, Text: func(t thing) string { return t.host }},
		{
			Column: terminal.Column{Title: "N", Keep: 50, Right: true},
			Text:   func(t thing) string { return strings.TrimSuffix(fmt.Sprint(t.n), "0") },
			Order:  func(a, b thing) int { return cmp.Compare(a.n, b.n) },
		},
	}, func(t thing) string { return t.name }, func(t thing) string { return t.name })
	p.Time, p.Head = time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC), fmt.Sprintf("%d things", len(things))
	return p
}

var some = []thing{{"b", "h1", 9}, {"a\x1b]0;owned\x07", "h2", 11}, {"c", "h1", 0}}

// told gives a model what happened: messages, and keys by their names.
func told(m Model, all ...any) (Model, tea.Cmd) {
	var cmd tea.Cmd
	names := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "backspace": {Code: tea.KeyBackspace}, "down": {Code: tea.KeyDown},
		"end": {Code: tea.KeyEnd}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
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

// shows gives the picture without its footer and empty lines.
func shows(m Model) string {
	all := strings.Split(m.View().Content, "\n")
	return strings.TrimRight(strings.Join(all[:len(all)-1], "\n"), "\n")
}

func TestRowsAreFilteredAndSorted(t *testing.T) {
	m, _ := told(Model{}, size(40, 12), page(some...))
	require.Equal(t, strings.Join([]string{
		"3 things                        12:00:00", "  NAME         HOST   N", "> b            h1     9",
		"  a?]0;owned?  h2    11", "  c            h1     -",
	}, "\n"), shows(m))
	for _, tt := range []struct {
		want string
		keys []any
	}{
		{"b a c", nil}, {"c a b", []any{"r"}}, {"a b c", []any{"s"}}, {"c b a", []any{"s", "r"}}, {"b c a", []any{"s", "s"}},
		{"b a c", []any{"S"}}, {"a b c", []any{"S", "r"}}, // what has no number stays last
		{"b c", []any{"/", "H", "1"}}, {"c", []any{"/", "h", "1", " ", "c", "enter"}},
		{"b c", []any{"/", "h", "1", "x", "backspace", "enter"}}, {"b a c", []any{"/", "x", "esc"}},
		{"b a c", []any{"/", "enter", "s", "S"}}, {"b c", []any{"/", tea.PasteMsg{Content: "h1"}}},
	} {
		sorted, _ := told(m, tt.keys...)
		var names strings.Builder
		for _, name := range sorted.Seen() {
			names.WriteString(" " + name[:1])
		}
		require.Equal(t, " "+tt.want, names.String(), tt.keys)
	}
	typing, _ := told(m, "/", "q", "s")
	require.Contains(t, typing.View().Content, "/qs_  0 of 3")
}

// The cursor stays on its row, wherever that goes, and comes back with it.
func TestTheCursorStaysWithItsRow(t *testing.T) {
	m, _ := told(Model{}, size(40, 12), page(some...), "down", "down")
	require.Contains(t, shows(m), "> c")
	m, _ = told(m, page(some[2], some[0], thing{"new", "h3", 1}))
	require.Contains(t, shows(m), "> c")
	m, _ = told(m, page(some[0], thing{"new", "h3", 1}))
	require.NotContains(t, shows(m), "  c")
	m, _ = told(m, page(some...))
	require.Contains(t, shows(m), "> c")

	tail := page(some...)
	tail.Tail = true
	m, _ = told(Model{}, size(40, 12), tail)
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
	m := Model{Open: func(what string) (string, error) {
		asked++
		return what + "\nremedy\x20x\n" + strings.Repeat("act\n", 30), fails
	}}
	m, cmd := told(m, size(40, 10), page(some...), "enter")
	answer := cmd()
	m, cmd = told(m, page(some...))
	require.Nil(t, cmd, "it was not answered yet")
	m, _ = told(m, answer)
	require.Equal(t, []string{"b"}, m.Seen())
	require.Contains(t, shows(m), "b\nremedy x\nact")
	m, _ = told(m, "end")
	require.NotContains(t, shows(m), "remedy")
	m, _ = told(m, "home")
	fails = errors.New("away\x1b[2J")
	m, cmd = told(m, page(some...))
	m, _ = told(m, cmd())
	require.Contains(t, shows(m), "away?[2J\nb\nremedy x")
	m, _ = told(m, "esc")
	require.Len(t, m.Seen(), 3)
	_, cmd = told(m, page(some...))
	require.Nil(t, cmd)
	require.Equal(t, 2, asked)
	m, _ = told(m, "?")
	require.Contains(t, shows(m), "scroll")
}

func TestTheEndAndNotes(t *testing.T) {
	m, _ := told(Model{}, size(60, 12), page(some...), Note("no answer\x1b[2J"))
	require.Contains(t, shows(m), "not updated since 12:00:00: no answer?[2J\n  NAME")
	require.Contains(t, shows(m), "> b", "the last known rows stay")
	m, _ = told(m, page(some...))
	require.NotContains(t, shows(m), "not updated")
	for _, key := range []string{"q", "ctrl+c"} {
		_, cmd := told(m, key)
		require.Equal(t, tea.QuitMsg{}, cmd())
	}
	_, cmd := told(m, "/", "ctrl+c")
	require.Equal(t, tea.QuitMsg{}, cmd())
	m.page.Foot = []string{"d: available"}
	require.Equal(t, "3 things        12:00:00\nNAME         HOST   N\n… 3 more\nd: available", strings.Join(m.last(24, 4), "\n"))
}

// Whatever the size, nothing leaves the terminal, and the cursor is in view.
func TestEverySize(t *testing.T) {
	var many []thing
	for i := range 50 {
		many = append(many, thing{fmt.Sprintf("h%d_0000:%02x:00.0\x1b[31m電源", i%7, i), "host", i})
	}
	m, _ := told(Model{}, page(many...))
	for width := 1; width < 100; width++ {
		for height := 1; height < 12; height++ {
			m, _ = told(m, size(width, height), "pgdown", "down")
			lines := strings.Split(m.View().Content, "\n")
			require.LessOrEqual(t, len(lines), height)
			for _, line := range lines {
				require.LessOrEqual(t, terminal.Width(line), max(width, 3), "%d × %d: %q", width, height, line)
				require.NotContains(t, line, "\x1b")
			}
			require.True(t, height < 4 || strings.Contains(m.View().Content, "> "))
			require.LessOrEqual(t, len(m.last(width, height)), max(height, 3))
		}
	}
}

// Of ten thousand rows only those in view are drawn.
func TestManyRows(t *testing.T) {
	many := make([]thing, 10_000)
	for i := range many {
		many[i] = thing{fmt.Sprintf("h%d_0000:%02x:00.0", i%7, i), "host", i}
	}
	drawn := 0
	p := page(many...)
	p.Table.Columns[0].Color = func(int, string) terminal.Color { drawn++; return terminal.Plain }
	m, _ := told(Model{}, size(100, 30), p, "end", "s", "/", "h", "1")
	drawn = 0
	require.Contains(t, m.View().Content, "/h1_  1429 of 10000")
	require.Equal(t, 27, drawn)
	require.Len(t, m.Seen(), 27)
}
