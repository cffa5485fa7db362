// Package live shows rows that change on a whole terminal, where they can be searched, sorted and
// opened. Model is a pure function of what arrives; Screen runs it.
package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/viewport"
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

	// The mark of the row under the cursor, and that of the others.
	selected, other = "> ", "  "

	toTheEnd = 1 << 30
)

// Page is what one look at the fleet gives.
type Page struct {
	Table terminal.Table
	// Keys stay the same for a row as long as the operator would say so. Opens are what the rows can be
	// opened for; nil: their keys.
	Keys, Opens []string
	Time        time.Time
	Head        string   // the totals
	Foot        []string // remarks, the newest last
	Tail        bool     // what is new comes last, and is shown
}

type (
	// note says why there is no new page.
	note string
	// opened is the answer of Model's open.
	opened struct {
		what, text string
		err        error
	}
	// over ends the program, with its last picture left on the terminal.
	over struct{}
)

// Model is what is shown, and how.
type Model struct {
	// open gives what is known of that which a row opens, in lines. It is asked again with each page as
	// long as it is shown.
	open  func(what string) (string, error)
	paint terminal.Palette

	width, height int
	page          Page
	note          note
	view          viewport.Model // the rows, or a text in their place
	titles        string
	rows          []int // those of the page that are shown, in their order
	cursor        int   // among rows
	key           string
	filter        string
	typing        bool
	sorted        int // column + 1; 0: as the page has them
	down          bool

	help   bool
	what   string // is open
	asking bool
	text   string
	failed string // why the text is not new
	over   bool
}

// NewModel is a model without a page. open is as in Model.
func NewModel(open func(what string) (string, error), paint terminal.Palette) Model {
	return Model{open: open, paint: paint, view: viewport.New()}
}

// Init asks for nothing: pages come by themselves.
func (m Model) Init() tea.Cmd { return nil }

// Update takes what happened.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	before, ask := m.what, false
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case Page:
		m.take(msg)
		ask = true
	case note:
		m.note = msg
	case opened:
		switch m.asking = false; {
		case msg.what != m.what: // it was closed, or another one opened, meanwhile
			ask = true
		case msg.err != nil:
			m.failed = terminal.Line(msg.err.Error())
		default:
			m.text, m.failed = msg.text, ""
		}
	case over:
		m.over, m.help, m.what = true, false, ""
		cmd = tea.Quit
	case tea.PasteMsg:
		m.typed(msg.Content)
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	}
	if what := m.what; what != "" && !m.asking && (ask || what != before) {
		m.asking = true
		cmd = func() tea.Msg {
			text, err := m.open(what)
			return opened{what, text, err}
		}
	}
	return m.fitted(), cmd
}

// take shows a new page, with the cursor where it was.
func (m *Model) take(p Page) {
	if p.Tail && m.cursor >= len(m.rows)-1 {
		m.cursor, m.key = len(p.Keys), ""
	}
	m.page, m.note = p, ""
}

// fitted is the model with its page, or its text, in the present size, filter and order.
func (m Model) fitted() Model {
	m.rows = m.page.Table.Rows(m.filter, m.sorted-1, m.down)
	if at := slices.IndexFunc(m.rows, func(row int) bool { return m.page.Keys[row] == m.key }); at >= 0 {
		m.cursor = at
	}
	lines := m.page.Table.Lines(m.rows, max(m.width-len(selected), 1), m.paint)
	m.titles = other + lines[0]
	above, below := m.frame()
	m.view.SetWidth(m.width)
	height := max(m.height-len(above)-len(below), 1)
	if m.over {
		height = max(min(height-1, len(m.rows)), 1)
	}
	m.view.SetHeight(height)
	switch {
	case m.help:
		m.view.SetContent(strings.TrimSpace(terminal.Sheet(keys, m.width, m.paint)))
	case m.what != "":
		m.view.SetContent(strings.TrimSuffix(m.text, "\n"))
	default:
		m.view.SetContentLines(lines[1:])
		m.move(0)
	}
	return m
}

// press does what a key is for.
func (m *Model) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	switch {
	case key == "ctrl+z":
		return tea.Exec(stop{}, nil)
	case key == "ctrl+c", key == "q" && !m.typing:
		return func() tea.Msg { return over{} }
	case m.typing:
		switch key {
		case "enter":
			m.typing = false
		case "esc":
			m.typing, m.filter = false, ""
		case "backspace":
			runes := []rune(m.filter)
			m.filter = string(runes[:max(len(runes)-1, 0)])
		default:
			m.typed(k.Text)
		}
		return nil
	}
	page := m.view.Height()
	switch key {
	case "?":
		m.help, m.what = true, ""
		m.view.GotoTop()
	case "esc":
		if !m.isText() {
			m.filter = ""
		}
		m.help, m.what = false, ""
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-page)
	case "pgdown", "space":
		m.move(page)
	case "home", "g":
		m.move(-toTheEnd)
	case "end", "G":
		m.move(toTheEnd)
	}
	if m.isText() {
		return nil
	}
	columns := len(m.page.Table.Titles) + 1
	switch key {
	case "/":
		m.typing = true
	case "s":
		m.sorted, m.down = (m.sorted+1)%columns, false
	case "S":
		m.sorted, m.down = (m.sorted+columns-1)%columns, false
	case "r":
		m.down = !m.down
	case "enter":
		if len(m.rows) > 0 {
			opens := m.page.Opens
			if opens == nil {
				opens = m.page.Keys
			}
			m.what, m.text, m.failed = opens[m.rows[m.cursor]], "", ""
			m.view.GotoTop()
		}
	}
	return nil
}

// typed adds to the filter.
func (m *Model) typed(text string) {
	if m.typing {
		m.filter += text
	}
}

// isText says whether there is a text in the place of the rows.
func (m Model) isText() bool { return m.help || m.what != "" }

// move moves the cursor, or scrolls a text.
func (m *Model) move(by int) {
	if m.isText() {
		m.view.SetYOffset(m.view.YOffset() + by)
		return
	}
	m.cursor = max(min(m.cursor+by, len(m.rows)-1), 0)
	if by != 0 && len(m.rows) > 0 {
		m.key = m.page.Keys[m.rows[m.cursor]]
	}
	m.view.EnsureVisible(m.cursor, 0, 0)
}

// View is the whole picture. The last one stays on the terminal.
func (m Model) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = !m.over
	if m.width == 0 {
		return v
	}
	m.view.LeftGutterFunc = func(line viewport.GutterContext) string {
		switch {
		case m.isText():
			return ""
		case line.Index == m.cursor:
			return selected
		}
		return other
	}
	above, below := m.frame()
	lines := slices.Concat(above, strings.Split(m.view.View(), "\n"), below)
	if m.over {
		lines = append(lines[:min(len(lines), max(m.height-1, 0))], "") // the program erases the line where it ends
	}
	v.SetContent(strings.Join(lines[:min(len(lines), m.height)], "\n"))
	return v
}

// frame are the lines above and below the rows, or the text.
func (m Model) frame() (above, below []string) {
	line := func(color terminal.Color, text string) string {
		return m.paint.Paint(color, terminal.Cut(terminal.Harmless(text), m.width))
	}
	at := m.page.Time.Local().Format("15:04:05")
	head := line(terminal.Title, m.page.Head)
	if room := m.width - terminal.Width(m.page.Head) - len(at); room >= 2 {
		head += strings.Repeat(" ", room) + at
	}
	above = []string{head}
	if m.note != "" {
		above = append(above, line(terminal.Warn, "not updated since "+at+": "+string(m.note)))
	}
	if m.isText() {
		if m.failed != "" && !m.help {
			above = append(above, line(terminal.Warn, m.failed))
		}
		return above, []string{line(terminal.Faint, textFooter)}
	}
	for _, text := range m.page.Foot {
		below = append(below, line(terminal.Plain, text))
	}
	if !m.over {
		below = append(below, line(terminal.Faint, m.footer()))
	}
	return append(above, m.titles), below
}

// footer says what is shown, and what can be pressed.
func (m Model) footer() string {
	text := rowsFooter
	if m.sorted > 0 {
		text = "by " + m.page.Table.Titles[m.sorted-1] + map[bool]string{false: "↑  ", true: "↓  "}[m.down] + text
	}
	found := fmt.Sprintf("%d of %d", len(m.rows), len(m.page.Keys))
	switch {
	case m.typing:
		return "/" + m.filter + "_  " + found + "  Enter keep  Esc all"
	case m.filter != "":
		return "/" + m.filter + "  " + found + "  Esc all  " + text
	}
	return text
}
