package live

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"burnish/starter/internal/terminal"
)

// keys are what the operator may press, as the help shows them.
var keys = [][]string{
	{"KEY", "WHAT IT DOES"},
	{"↑ ↓ k j", "select the row above, below; scroll"},
	{"PgUp PgDn", "a page up, down"},
	{"Home End g G", "the first row, the last one"},
	{"Enter", "open the row: a device's fields, its remedy and its log of acts"},
	{"/", "show only rows with these words; Enter keeps them, Esc shows all"},
	{"s S", "sort by the next column, the one before"},
	{"r", "turn the order round"},
	{"Esc", "back"},
	{"Ctrl-Z", "to the shell; fg comes back"},
	{"q Ctrl-C", "end"},
}

const (
	rowsFooter = "↑↓ select  Enter open  / filter  s sort  r turn  ? keys  q end"
	textFooter = "↑↓ scroll  Esc back  q end"
)

// Note says why there is no new page.
type Note string

// opened is the answer of Model.Open.
type opened struct {
	what, text string
	err        error
}

// Model is what is shown, and how.
type Model struct {
	// Open gives what is known of that which a row opens, in lines. It is asked again with each page as
	// long as it is shown.
	Open  func(what string) (string, error)
	Paint terminal.Palette

	width, height int
	page          Page
	note          Note
	fitted        terminal.Fitted
	rows          []int // those of the page that are shown, in their order
	cursor, top   int   // among rows
	key           string
	filter        string
	typing        bool
	sorted        int // column + 1; 0: as the page has them
	down          bool

	help   bool
	what   string // is open
	asking bool
	text   []string
	failed string // why the text is not new
	scroll int
}

// Init asks for nothing: pages come by themselves.
func (m Model) Init() tea.Cmd { return nil }

// Update takes what happened.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.fit()
		return m, m.ask()
	case Page:
		m.take(msg)
		return m, m.ask()
	case Note:
		m.note = msg
	case opened:
		m.asking = false
		if msg.what != m.what { // it was closed, or another one opened, meanwhile
			return m, m.ask()
		}
		m.failed = ""
		if msg.err != nil {
			m.failed = msg.err.Error()
		} else {
			m.text = strings.Split(strings.TrimSuffix(msg.text, "\n"), "\n")
		}
		m.move(0)
	case tea.PasteMsg:
		m.typed(msg.Content)
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	return m, nil
}

// take shows a new page, with the cursor where it was.
func (m *Model) take(p Page) {
	if p.Tail && m.cursor >= len(m.rows)-1 {
		m.cursor, m.key = len(p.keys), ""
	}
	m.page, m.note = p, ""
	m.fit()
}

// fit arranges the page in the present size, filter and order.
func (m *Model) fit() {
	table := m.page.Table
	m.rows = m.page.matching(m.filter)
	if at := m.sorted - 1; at >= 0 && at < len(table.Columns) {
		m.page.sort(m.rows, at, m.down)
		table.Columns = slices.Clone(table.Columns)
		table.Columns[at].Title += map[bool]string{false: "↑", true: "↓"}[m.down]
	} else if m.down {
		slices.Reverse(m.rows)
	}
	m.fitted = table.Fit(max(m.width-len(selected), 1), m.Paint)
	if at := slices.IndexFunc(m.rows, func(row int) bool { return m.page.keys[row] == m.key }); at >= 0 {
		m.cursor = at
	}
	m.move(0)
}

// ask asks for what is open, once at a time.
func (m *Model) ask() tea.Cmd {
	if m.what == "" || m.asking {
		return nil
	}
	m.asking = true
	open, what := m.Open, m.what
	return func() tea.Msg {
		text, err := open(what)
		return opened{what, text, err}
	}
}

// press does what a key is for.
func (m *Model) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	switch key {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Exec(stop{}, nil)
	}
	if m.typing {
		switch runes := []rune(m.filter); key {
		case "enter":
			m.typing = false
		case "esc":
			m.escape()
		case "backspace":
			m.filter = string(runes[:max(len(runes)-1, 0)])
			m.fit()
		default:
			m.typed(k.Text)
		}
		return nil
	}
	switch key {
	case "q":
		return tea.Quit
	case "?":
		m.help, m.what, m.failed, m.scroll = true, "", "", 0
	case "esc":
		m.escape()
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.room())
	case "pgdown", "space":
		m.move(m.room())
	case "home", "g":
		m.jump(0)
	case "end", "G":
		m.jump(len(m.rows) - 1)
	}
	if m.isText() {
		return nil
	}
	switch key {
	case "/":
		m.typing = true
	case "s":
		m.sortBy(1)
	case "S":
		m.sortBy(-1)
	case "r":
		m.down = !m.down
		m.fit()
	case "enter":
		if len(m.rows) > 0 {
			m.what, m.text, m.failed, m.scroll = m.page.opens[m.rows[m.cursor]], nil, "", 0
		}
		return m.ask()
	}
	return nil
}

// escape goes one step back.
func (m *Model) escape() {
	switch {
	case m.help:
		m.help = false
	case m.what != "":
		m.what = ""
	default:
		m.typing, m.filter = false, ""
	}
	m.fit()
}

// sortBy sorts by another of the columns that are shown, or as the page has the rows.
func (m *Model) sortBy(next int) {
	choices := []int{0}
	for _, at := range m.fitted.Shown() {
		choices = append(choices, at+1)
	}
	at := slices.Index(choices, m.sorted) + next + len(choices)
	m.sorted, m.down = choices[at%len(choices)], false
	m.fit()
}

// typed adds to the filter.
func (m *Model) typed(text string) {
	if m.typing && text != "" {
		m.filter += text
		m.fit()
	}
}

// isText says whether there is a text in the place of the rows.
func (m Model) isText() bool { return m.help || m.what != "" }

// room is how many rows, or lines of a text, are shown.
func (m Model) room() int {
	used := 2 // head and footer
	if m.note != "" {
		used++
	}
	if m.isText() && m.failed != "" {
		used++
	}
	if !m.isText() {
		used += 1 + len(m.page.Foot)
	}
	return max(m.height-used, 1)
}

// move moves the cursor, or scrolls a text.
func (m *Model) move(by int) {
	if m.isText() {
		m.scroll = max(min(m.scroll+by, len(m.body())-m.room()), 0)
		return
	}
	at := max(min(m.cursor+by, len(m.rows)-1), 0)
	if by != 0 && len(m.rows) > 0 {
		m.key = m.page.keys[m.rows[at]]
	}
	m.cursor = at
	m.top = max(min(m.top, m.cursor, len(m.rows)-m.room()), m.cursor-m.room()+1, 0)
}

// jump goes to a row, or to an end of a text.
func (m *Model) jump(to int) {
	if m.isText() {
		to = min(to, 1) * len(m.body())
		m.scroll = 0
		m.move(to)
		return
	}
	m.move(to - m.cursor)
}

// Seen names what is in view.
func (m Model) Seen() (keys []string) {
	if m.what != "" {
		return []string{m.what}
	}
	for _, row := range m.window() {
		keys = append(keys, m.page.keys[row])
	}
	return keys
}

// window are the rows in view.
func (m Model) window() []int { return m.rows[m.top:min(m.top+m.room(), len(m.rows))] }

// View is the whole picture.
func (m Model) View() tea.View {
	v := tea.NewView("")
	if m.width > 0 {
		lines := m.lines()
		v.SetContent(strings.Join(lines[:min(len(lines), m.height)], "\n"))
	}
	v.AltScreen = true
	return v
}

// The mark of the row under the cursor, and that of the others.
const selected, other = "> ", "  "

func (m Model) lines() []string {
	lines := m.head(m.width)
	if m.isText() {
		if m.failed != "" {
			lines = append(lines, m.Paint.Paint(terminal.Warn, terminal.Cut(terminal.Line(m.failed), m.width)))
		}
		body := m.body()
		lines = append(lines, body[min(m.scroll, len(body)):min(m.scroll+m.room(), len(body))]...)
	} else {
		lines = append(lines, other+m.fitted.Titles())
		for i, row := range m.window() {
			mark := other
			if m.top+i == m.cursor {
				mark = selected
			}
			lines = append(lines, mark+m.fitted.Row(row))
		}
	}
	for len(lines) < m.height-1-len(m.foot(m.width)) {
		lines = append(lines, "")
	}
	lines = append(lines, m.foot(m.width)...)
	lines = lines[:min(len(lines), max(m.height-1, 1))]
	return append(lines, m.Paint.Paint(terminal.Faint, terminal.Cut(m.footer(), m.width)))
}

// head is the totals, with the time of the look, and why it is not newer.
func (m Model) head(width int) []string {
	at := m.page.Time.Local().Format("15:04:05")
	text := terminal.Cut(m.page.Head, width)
	line := m.Paint.Paint(terminal.Title, text)
	if room := width - terminal.Width(text) - len(at); room >= 2 {
		line += strings.Repeat(" ", room) + at
	}
	if m.note == "" {
		return []string{line}
	}
	note := terminal.Line("not updated since " + at + ": " + string(m.note))
	return []string{line, m.Paint.Paint(terminal.Warn, terminal.Cut(note, width))}
}

// body is the text in the place of the rows.
func (m Model) body() []string {
	if m.help {
		text := terminal.Sheet(keys, m.width, func(_, _, text string) string { return text })
		return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	return m.text
}

// foot are the page's remarks.
func (m Model) foot(width int) (lines []string) {
	if m.isText() {
		return nil
	}
	for _, text := range m.page.Foot {
		lines = append(lines, terminal.Cut(terminal.Line(text), width))
	}
	return lines
}

// footer says where the cursor is, and what can be pressed.
func (m Model) footer() string {
	switch {
	case m.isText():
		return textFooter
	case m.typing:
		return fmt.Sprintf("/%s_  %d of %d  Enter keep  Esc all", terminal.Line(m.filter), len(m.rows), len(m.page.keys))
	case m.filter != "":
		return fmt.Sprintf("/%s  %d of %d  Esc all  %s", terminal.Line(m.filter), len(m.rows), len(m.page.keys), rowsFooter)
	case len(m.rows) > m.room():
		return fmt.Sprintf("%d of %d  %s", m.cursor+1, len(m.rows), rowsFooter)
	}
	return rowsFooter
}

// last is the picture that stays on the terminal: as much of it as there is room for.
func (m Model) last(width, height int) []string {
	m.width, m.height, m.help, m.what = width, height+1, false, ""
	m.fit()
	lines := append(m.head(width), m.fitted.Titles())
	for _, row := range m.window() {
		lines = append(lines, m.fitted.Row(row))
	}
	if rest := len(m.rows) - len(m.window()); rest > 0 {
		lines[len(lines)-1] = fmt.Sprintf("… %d more", rest+1)
	}
	return append(lines, m.foot(width)...)
}
