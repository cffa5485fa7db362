package terminal

import (
	"cmp"
	"slices"
	"strings"
)

// gap stands between two columns.
const gap = 2

// Column is a column of a table whose rows are made of T.
type Column[T any] struct {
	Title string
	// Keep: where the terminal is too narrow for all columns, the one with the lowest falls away first.
	Keep int
	// Least is the width down to which cells may be cut; 0: they are not.
	Least int
	// Right aligns to the right.
	Right bool
	Text  func(T) string
	// Order compares two rows that have something there; nil compares the texts.
	Order func(a, b T) int
}

// Compare orders two rows by the column. Those with nothing there come last in both directions.
func (c Column[T]) Compare(a, b T, down bool) int {
	textA, textB := c.Text(a), c.Text(b)
	var way int
	switch {
	case textA == "" || textB == "":
		return cmp.Compare(min(len(textB), 1), min(len(textA), 1))
	case c.Order != nil:
		way = c.Order(a, b)
	default:
		way = strings.Compare(textA, textB)
	}
	if down {
		return -way
	}
	return way
}

// Table is rows under the titles of columns.
type Table struct {
	Titles  []string
	Cells   [][]string // one line each; empty where there is nothing
	columns []Column[int]
}

// NewTable makes the table of rows.
func NewTable[T any](rows []T, columns []Column[T]) Table {
	t := Table{Cells: make([][]string, len(rows))}
	for _, c := range columns {
		t.Titles = append(t.Titles, c.Title)
		of := Column[int]{Keep: c.Keep, Least: c.Least, Right: c.Right}
		of.Text = func(row int) string { return c.Text(rows[row]) }
		if c.Order != nil {
			of.Order = func(a, b int) int { return c.Order(rows[a], rows[b]) }
		}
		t.columns = append(t.columns, of)
		for i, row := range rows {
			t.Cells[i] = append(t.Cells[i], Line(c.Text(row)))
		}
	}
	return t
}

// Rows gives the rows in which each word of a filter stands, sorted by a column; -1: in their order.
func (t Table) Rows(filter string, column int, down bool) []int {
	words := strings.Fields(strings.ToLower(filter))
	var rows []int
	for i, cells := range t.Cells {
		text := strings.ToLower(strings.Join(cells, "\n"))
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			rows = append(rows, i)
		}
	}
	if column >= 0 && column < len(t.columns) {
		slices.SortStableFunc(rows, func(a, b int) int { return t.columns[column].Compare(a, b, down) })
	} else if down {
		slices.Reverse(rows)
	}
	return rows
}

// Text gives the table in lines of at most width columns. Columns fall away, and cells are cut, until
// it fits; width 0 is no limit.
func (t Table) Text(width int, paint Palette) string {
	return strings.Join(t.Lines(t.Rows("", -1, false), width, paint), "\n") + "\n"
}

// Lines are the titles and some of the rows, as in Text.
func (t Table) Lines(rows []int, width int, paint Palette) []string {
	shown, widths := t.fit(width)
	line := func(cell func(at int) (text string, color Color)) string {
		var b strings.Builder
		for i, at := range shown {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			text, color := cell(at)
			text = Cut(text, widths[at])
			// The spaces have no color: a line that ends in them is shortened.
			fill := strings.Repeat(" ", max(widths[at]-Width(text), 0))
			if t.columns[at].Right {
				b.WriteString(fill + paint.Paint(color, text))
			} else {
				b.WriteString(paint.Paint(color, text) + fill)
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	lines := []string{line(func(at int) (string, Color) { return t.Titles[at], Title })}
	for _, row := range rows {
		lines = append(lines, line(func(at int) (string, Color) {
			text := cmp.Or(t.Cells[row][at], "-")
			return text, ByTitle(t.Titles[at], text)
		}))
	}
	return lines
}

// fit chooses the columns that are shown, and the widths of all.
func (t Table) fit(width int) (shown, widths []int) {
	least := make([]int, len(t.columns))
	for at, c := range t.columns {
		w := Width(t.Titles[at])
		for _, row := range t.Cells {
			w = max(w, Width(row[at]))
		}
		shown, widths = append(shown, at), append(widths, w)
		if least[at] = w; c.Least > 0 {
			least[at] = min(w, c.Least)
		}
	}
	if width <= 0 {
		return shown, widths
	}
	sum := func(of []int) int {
		total := gap * (len(shown) - 1)
		for _, at := range shown {
			total += of[at]
		}
		return total
	}
	for len(shown) > 1 && sum(least) > width {
		last := slices.MinFunc(shown, func(a, b int) int { return t.columns[a].Keep - t.columns[b].Keep })
		shown = slices.DeleteFunc(shown, func(at int) bool { return at == last })
	}
	// Cells are cut where most of them is left.
	for excess := sum(widths) - width; excess > 0; excess-- {
		widest := slices.MaxFunc(shown, func(a, b int) int { return widths[a] - least[a] - widths[b] + least[b] })
		if widths[widest] == 1 {
			break
		}
		widths[widest]--
	}
	return shown, widths
}
