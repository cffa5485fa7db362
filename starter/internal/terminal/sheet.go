package terminal

import "strings"

// leastCell is the width down to which the cells of a sheet are wrapped.
const leastCell = 12

// Sheet gives rows of cells, the first of them the titles, in lines of at most width columns
// without leaving anything out: cells wrap, and where even that does not fit, each row becomes
// a block of lines, one for each cell. Width 0 is no limit.
func Sheet(rows [][]string, width int, paint Palette) string {
	rows = clean(rows)
	widths, least := sizes(rows)
	switch excess := total(widths) - width; {
	case width <= 0 || excess <= 0:
	case total(least) > width:
		return blocks(rows, width, paint)
	default:
		for ; excess > 0; excess-- {
			widest := 0
			for at := range widths {
				if widths[at]-least[at] > widths[widest]-least[widest] {
					widest = at
				}
			}
			widths[widest]--
		}
	}
	var b strings.Builder
	for i, row := range rows {
		writeRow(&b, row, widths, func(at int, text string) string {
			if i == 0 {
				return paint.Paint(Title, text)
			}
			return paint.Paint(ByTitle(rows[0][at], row[at]), text)
		})
	}
	return b.String()
}

// Pairs gives keys and values in two columns; the values wrap.
func Pairs(rows [][]string, width int, paint Palette) string {
	rows = clean(rows)
	widths, _ := sizes(rows)
	if width > 0 && len(widths) > 1 {
		widths[0] = min(widths[0], max(width/2-gap, 1))
		widths[1] = min(widths[1], max(width-widths[0]-gap, 1))
	}
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, row, widths, func(at int, text string) string {
			if at == 0 {
				return text
			}
			return paint.Paint(ByTitle(row[0], row[1]), text)
		})
	}
	return b.String()
}

// clean makes each cell one line; an empty one becomes a dash.
func clean(rows [][]string) [][]string {
	cleaned := make([][]string, len(rows))
	for i, row := range rows {
		for _, text := range row {
			if text = Line(text); text == "" {
				text = "-"
			}
			cleaned[i] = append(cleaned[i], text)
		}
	}
	return cleaned
}

// sizes gives each column's width, and that down to which it wraps.
func sizes(rows [][]string) (widths, least []int) {
	for i, row := range rows {
		for at, text := range row {
			if at == len(widths) {
				widths, least = append(widths, 0), append(least, 0)
			}
			widths[at] = max(widths[at], Width(text))
			if i == 0 {
				least[at] = Width(text)
			}
		}
	}
	for at := range widths {
		least[at] = max(least[at], min(widths[at], leastCell))
	}
	return widths, least
}

func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// writeRow writes one row, in as many lines as its cells need.
func writeRow(b *strings.Builder, row []string, widths []int, paint func(at int, text string) string) {
	var wrapped [][]string
	lines := 0
	for at, text := range row {
		wrapped = append(wrapped, Wrap(text, widths[at]))
		lines = max(lines, len(wrapped[at]))
	}
	for i := range lines {
		line := ""
		for at, parts := range wrapped {
			text := ""
			if i < len(parts) {
				text = parts[i]
			}
			if text != "" {
				line += paint(at, text)
			}
			if at < len(wrapped)-1 {
				line += strings.Repeat(" ", widths[at]-Width(text)+gap)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// blocks gives each row as a block of titles and cells.
func blocks(rows [][]string, width int, paint Palette) string {
	var b strings.Builder
	for i, row := range rows[1:] {
		if i > 0 {
			b.WriteByte('\n')
		}
		var pairs [][]string
		for at, text := range row {
			pairs = append(pairs, []string{rows[0][at], text})
		}
		b.WriteString(Pairs(pairs, width, paint))
	}
	return b.String()
}
