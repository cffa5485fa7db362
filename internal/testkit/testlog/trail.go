package testlog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"burnish/internal/logs"
)

// Line is one line of a log in JSON.
type Line map[string]any

// Text is the value of a key, as text.
func (l Line) Text(key string) string { return fmt.Sprint(l[key]) }

// Number is the value of a key that is a whole number; 0 if it has none.
func (l Line) Number(key string) int64 {
	n, ok := l[key].(json.Number)
	if !ok {
		return 0
	}
	value, err := n.Int64()
	if err != nil {
		return 0
	}
	return value
}

// Is says that the line has this message.
func (l Line) Is(message string) bool { return l["msg"] == message }

// Lines reads a log in JSON. What a program writes beside its log, such as why it ends, and a
// line that a kill has cut off are left out.
func Lines(text string) ([]Line, error) {
	var all []Line
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}") {
			continue
		}
		from := json.NewDecoder(strings.NewReader(line))
		from.UseNumber()
		one := Line{}
		if err := from.Decode(&one); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// Message is a message of the trail, as docs/logs.md promises it.
type Message struct {
	Text, Level, Worker string
	// Keys are those that each such line has, More those that it may have.
	Keys, More []string
}

// Documented are the messages of the trail and the keys of all lines, by docs/logs.md. A key or a
// message that stands there twice, or without its meaning, is an error.
func Documented() (trail []Message, keys []string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) { // a test runs in its package
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "docs", "logs.md"))
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		row := strings.Split(strings.TrimSpace(line), " | ")
		name, isRow := strings.CutPrefix(row[0], "| `")
		name, meaning := strings.Trim(name, "`"), strings.Trim(row[len(row)-1], "| ")
		id := fmt.Sprint(len(row), name)
		switch {
		case !isRow:
			continue
		case meaning == "" || seen[id]:
			return nil, nil, fmt.Errorf("docs/logs.md: %s has no meaning, or stands there twice", name)
		case len(row) == 2:
			keys = append(keys, name)
		default:
			have, more, _ := strings.Cut(row[3], ", perhaps ")
			trail = append(trail, Message{name, row[1], row[2], strings.Fields(strings.ReplaceAll(have, "`", "")),
				strings.Fields(strings.ReplaceAll(more, "`", ""))})
		}
		seen[id] = true
	}
	return trail, keys, nil
}

// Trail gives those lines of a log in JSON that are of the trail, each of which has its level
// and its keys, and no other one.
func Trail(text string) ([]Line, error) {
	all, err := Lines(text)
	if err != nil {
		return nil, err
	}
	messages, _, err := Documented()
	if err != nil {
		return nil, err
	}
	var trail []Line
	for _, line := range all {
		i := slices.IndexFunc(messages, func(m Message) bool { return line.Is(m.Text) })
		if i < 0 {
			continue
		}
		if err := check(messages[i], line); err != nil {
			return nil, err
		}
		trail = append(trail, line)
	}
	return trail, nil
}

// ofEachLine are the keys of slog, of the worker, and of the SDK.
var ofEachLine = []string{"time", "level", "msg", logs.Role, logs.Worker, logs.Queue, logs.Workflow, logs.Run,
	logs.Update, logs.Attempt}

func check(m Message, line Line) error {
	if line["level"] != m.Level {
		return fmt.Errorf("%q is at level %v, not %s", m.Text, line["level"], m.Level)
	}
	for _, key := range m.Keys {
		if _, ok := line[key]; !ok {
			return fmt.Errorf("%q has no %s: %v", m.Text, key, line)
		}
	}
	for key := range line {
		if strings.HasPrefix(key, "BURNISH_") && m.Text == logs.Settings {
			continue
		}
		if !slices.Contains(m.Keys, key) && !slices.Contains(m.More, key) && !slices.Contains(ofEachLine, key) {
			return fmt.Errorf("%q has %s: %v", m.Text, key, line)
		}
	}
	return nil
}
