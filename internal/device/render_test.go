package device

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// markdownRows counts the rows of a table by their cells. An empty first cell is that of the row above.
func markdownRows(t *testing.T, text string, columns int) (rows int, printed map[string]int) {
	t.Helper()
	head, printed := "", map[string]int{}
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| from") || strings.HasPrefix(line, "| asked") ||
			strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, columns, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] != "" {
			head = strings.Trim(cells[0], "*")
		}
		rows++
		printed[strings.Join(append([]string{head}, cells[1:]...), "|")]++
	}
	return rows, printed
}

func TestMarkdownHasEveryRowOnce(t *testing.T) {
	text := Markdown()
	rows, printed := markdownRows(t, text, 5)
	require.Equal(t, len(table), rows)
	for i, r := range Rows() {
		from := strings.Join(r.From, ", ")
		if table[i].From == nil {
			from = "any but retired"
		}
		want := strings.Join([]string{from, r.Event, strings.Join(r.When, ", "), r.To, strings.Join(r.Then, ", ")}, "|")
		require.Equal(t, 1, printed[want], "%s in\n%s", want, text)
	}
}

// TestMarkdownKeepsStatesTogether: a state that has rows of its own heads one group.
func TestMarkdownKeepsStatesTogether(t *testing.T) {
	text, at := Markdown(), 0
	for _, s := range append([]State{Absent}, States()...) {
		head := "\n| **" + s.String() + "** |"
		require.Equal(t, 1, strings.Count(text, head), s)
		require.Greater(t, strings.Index(text, head), at, "%s is out of order", s)
		at = strings.Index(text, head)
	}
}

func TestMermaidHasEveryChangeOfState(t *testing.T) {
	text := Mermaid()
	point := func(s State) string {
		if s == Absent {
			return "[*]"
		}
		return string(s)
	}
	arrows := map[string]string{}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n")[1:] {
		arrow, label, found := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, found, line)
		require.NotContains(t, arrows, arrow, "one arrow for two states")
		arrows[arrow] = " · " + label + " · "
	}
	count := 0
	for _, r := range table {
		if r.From == nil || r.To == noChange {
			continue
		}
		for _, from := range r.From {
			arrow := point(from) + " --> " + point(r.To)
			require.Equal(t, 1, strings.Count(arrows[arrow], " · "+string(r.On)+" · "), "%s: %s in\n%s", arrow, r.On, text)
			count++
		}
	}
	require.NotZero(t, count)
	for arrow := range arrows {
		from, to, _ := strings.Cut(arrow, " --> ")
		require.NotEqual(t, from, to)
	}
	require.Equal(t, Mermaid(), text, "the same each time")
}

func TestObservationMarkdownHasEveryRowOnce(t *testing.T) {
	text := ObservationMarkdown()
	rows, printed := markdownRows(t, text, 6)
	require.Equal(t, len(observations), rows)
	for _, r := range ObservationRows() {
		want := strings.Join([]string{strings.Join(r.Questions, ", "), statesText(r.From), strings.Join(r.When, ", "),
			r.Event, strings.Join(r.Then, ", "), r.Reason}, "|")
		require.Equal(t, 1, printed[want], "%s in\n%s", want, text)
		require.NotContains(t, r.When, "", "each condition has a name")
	}
}
