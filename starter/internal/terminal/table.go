package terminal

import (
	"cmp"
	"slices"
	"strings"
)

// gap stands between two columns.
const gap = 2

// Column is a column of a table.
type Column struct {
	Title string
	// Keep: where the terminal is too narrow for all columns, the one with the lowest falls
	// away first.
	Keep int
	// Least is the width down to which cells may be cut; 0: they are not.
	Least int
	// Right aligns to the right.
	Right bool
	// Most is the width up to which a column with Fill takes what is left of the line.
	Most int
	// Fill draws the cell of a row in exactly this width, in the place of its text.
	Fill func(row, width int) string
	// Color is the color of a cell.
	Color func(row int, cell string) Color
}

// Table is rows under the titles of columns. An empty cell becomes a dash.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Fitted is a table in the width of its terminal. Whoever shows a part of many rows asks for those alone.
type Fitted struct {
	Table
	shown, widths []int
	paint         Palette
}

// Fit makes the table at most width columns wide. Columns fall away, and cells are cut, until it
// fits; width 0 is no limit.
func (t Table) Fit(width int, paint Palette) Fitted {
	t.Rows = t.clean()
	shown, widths := t.fit(width)
	return Fitted{t, shown, widths, paint}
}

// Titles is the line of the titles.
func (f Fitted) Titles() string {
	return f.line(func(at, w int) string {
		return f.paint.Paint(Title, pad(Cut(f.Columns[at].Title, w), w, f.Columns[at].Right))
	})
}

// Row is the line of a row.
func (f Fitted) Row(row int) string {
	return f.line(func(at, w int) string {
		c := f.Columns[at]
		if c.Fill != nil {
			if drawn := c.Fill(row, w); drawn != "" {
				return pad(drawn, w, false)
			}
		}
		text := f.Rows[row][at]
		color := Plain
		if c.Color != nil {
			color = c.Color(row, text)
		}
		// The spaces have no color: a line that ends in them is shortened.
		cut := Cut(text, w)
		fill := strings.Repeat(" ", max(w-Width(cut), 0))
		if c.Right {
			return fill + f.paint.Paint(color, cut)
		}
		return f.paint.Paint(color, cut) + fill
	})
}

// Shown are the columns that did not fall away.
func (f Fitted) Shown() []int { return f.shown }

func (f Fitted) line(cell func(at, width int) string) string {
	var b strings.Builder
	for i, at := range f.shown {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		b.WriteString(cell(at, f.widths[i]))
	}
	return strings.TrimRight(b.String(), " ")
}

// Lines gives the table in lines, fitted to a width, the titles first.
func (t Table) Lines(width int, paint Palette) []string {
	f := t.Fit(width, paint)
	lines := []string{f.Titles()}
	for row := range f.Rows {
		lines = append(lines, f.Row(row))
	}
	return lines
}

// Text is Lines as one text.
func (t Table) Text(width int, paint Palette) string {
	return strings.Join(t.Lines(width, paint), "\n") + "\n"
}

// clean gives each row a cell for each column, on one line.
func (t Table) clean() [][]string {
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = make([]string, len(t.Columns))
		for at := range t.Columns {
			text := ""
			if at < len(row) {
				text = Line(row[at])
			}
			rows[i][at] = cmp.Or(text, "-")
		}
	}
	return rows
}

// natural is the width of a column that holds all its cells.
func (t Table) natural(at int) int {
	w := Width(t.Columns[at].Title)
	for _, row := range t.Rows {
		w = max(w, Width(row[at]))
	}
	if t.Columns[at].Fill != nil {
		w = max(w, t.Columns[at].Least)
	}
	return w
}

// fit chooses the columns that are shown, and their widths.
func (t Table) fit(width int) (shown, widths []int) {
	natural, least := make([]int, len(t.Columns)), make([]int, len(t.Columns))
	for at, c := range t.Columns {
		natural[at] = t.natural(at)
		least[at] = natural[at]
		if c.Least > 0 {
			least[at] = min(natural[at], c.Least)
		}
		shown = append(shown, at)
	}
	if width <= 0 {
		return shown, natural
	}
	sum := func(of []int) int {
		total := gap * (len(shown) - 1)
		for _, at := range shown {
			total += of[at]
		}
		return total
	}
	for len(shown) > 1 && sum(least) > width {
		last := slices.MinFunc(shown, func(a, b int) int { return t.Columns[a].Keep - t.Columns[b].Keep })
		shown = slices.DeleteFunc(shown, func(at int) bool { return at == last })
	}
	// Cells are cut where most of them is left.
	for excess := sum(natural) - width; excess > 0; excess-- {
		widest := slices.MaxFunc(shown, func(a, b int) int { return natural[a] - least[a] - natural[b] + least[b] })
		if natural[widest]--; natural[widest] < 1 {
			natural[widest] = 1
			break
		}
	}
	for _, at := range shown {
		w := natural[at]
		if more := t.Columns[at].Most - w; more > 0 {
			w += min(more, max(width-sum(natural), 0))
			natural[at] = w
		}
		widths = append(widths, w)
	}
	return shown, widths
}
