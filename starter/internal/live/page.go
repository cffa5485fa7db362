// Package live shows rows that change on a whole terminal, where they can be searched, sorted and
// opened. Model is a pure function of what arrives; Screen runs it.
package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"burnish/starter/internal/terminal"
)

// Column is a column of rows that are made of T.
type Column[T any] struct {
	terminal.Column
	Text func(T) string
	// Order compares two rows that have something there; nil compares the texts.
	Order func(a, b T) int
}

// Page is what one look at the fleet gives, in the order of its rows.
type Page struct {
	Table terminal.Table
	Time  time.Time
	Head  string   // the totals
	Foot  []string // remarks, the newest last
	Tail  bool     // what is new comes last, and is shown
	// Opens gives what a row can be opened for; "" for nothing.
	opens, keys []string
	orders      []func(a, b int) int
}

// NewPage makes a page. key stays the same for a row as long as the operator would say so.
func NewPage[T any](rows []T, columns []Column[T], key, opens func(T) string) Page {
	var p Page
	for _, c := range columns {
		p.Table.Columns = append(p.Table.Columns, c.Column)
		var order func(a, b int) int
		if c.Order != nil {
			order = func(a, b int) int { return c.Order(rows[a], rows[b]) }
		}
		p.orders = append(p.orders, order)
	}
	for _, row := range rows {
		cells := make([]string, len(columns))
		for at, c := range columns {
			cells[at] = c.Text(row)
		}
		p.Table.Rows = append(p.Table.Rows, cells)
		p.keys, p.opens = append(p.keys, key(row)), append(p.opens, opens(row))
	}
	return p
}

// matching gives the rows in which each word of a filter stands.
func (p Page) matching(filter string) []int {
	words := strings.Fields(strings.ToLower(filter))
	var rows []int
	for i, cells := range p.Table.Rows {
		text := ""
		if len(words) > 0 {
			text = strings.ToLower(strings.Join(cells, "\n"))
		}
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			rows = append(rows, i)
		}
	}
	return rows
}

// sort orders rows by a column. Those with nothing there come last in both directions.
func (p Page) sort(rows []int, column int, down bool) {
	cell := func(row int) string { return p.Table.Rows[row][column] }
	slices.SortStableFunc(rows, func(a, b int) int {
		var way int
		switch order := p.orders[column]; {
		case cell(a) == "" || cell(b) == "":
			return cmp.Compare(len(cell(b)), len(cell(a)))
		case order != nil:
			way = order(a, b)
		default:
			way = strings.Compare(cell(a), cell(b))
		}
		if down {
			return -way
		}
		return way
	})
}
