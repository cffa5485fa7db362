package device

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requirement is one line of testdata/requirements.txt.
type requirement struct {
	number, from, event, to string
}

// TestRequirements compares the table with each line of testdata/requirements.txt.
func TestRequirements(t *testing.T) {
	for _, g := range requirements(t) {
		t.Run(g.event+" on "+g.from, func(t *testing.T) { require.NoError(t, g.holds(table)) })
	}
}

// requirements reads the lines; two lines with the same device and event are an error.
func requirements(t *testing.T) []requirement {
	t.Helper()
	file, err := os.Open("testdata/requirements.txt")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	var all []requirement
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		require.Len(t, cells, 4, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		g := requirement{cells[0], cells[1], cells[2], cells[3]}
		require.Regexp(t, `^(S\d+\.\d+|D\d+|F\d+)$`, g.number)
		require.False(t, seen[g.from+"|"+g.event], "duplicate: %s", line)
		seen[g.from+"|"+g.event] = true
		all = append(all, g)
	}
	require.NoError(t, lines.Err())
	return all
}

func (g requirement) holds(m machine) error {
	from, err := read(g.from)
	if err != nil {
		return err
	}
	event, err := readEvent(g.event)
	if err != nil {
		return err
	}
	got, err := m.next(from, event)
	var illegal *IllegalError
	switch {
	case errors.As(err, &illegal):
		if g.to != "refused" {
			return fmt.Errorf("%s: %s on %s: want %s, but %w", g.number, g.event, g.from, g.to, err)
		}
		return nil
	case err != nil:
		return err
	case g.to == "refused":
		return fmt.Errorf("%s: %s on %s: want it refused, got %s", g.number, g.event, g.from, describe(got))
	}
	want, err := read(g.to)
	if err != nil {
		return err
	}
	if describe(got) != describe(want) {
		return fmt.Errorf("%s: %s on %s: want %s, got %s", g.number, g.event, g.from, describe(want), describe(got))
	}
	unit := 1
	if event.Kind == Replace {
		unit = 2
	}
	if got.State != Absent && got.Unit.Number != unit {
		return fmt.Errorf("%s: %s on %s: the unit is %d", g.number, g.event, g.from, got.Unit.Number)
	}
	return nil
}
