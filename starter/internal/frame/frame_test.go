package frame

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/starter/internal/terminal"
)

var update = flag.Bool("update", false, "write the golden files again")

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600))

func TestMain(m *testing.M) {
	time.Local = now.Location()
	os.Exit(m.Run())
}

const mib = 1 << 20

// fleet is a picture with so many devices in each group, with each thing that a device may show.
func fleet(running, queued, failed int) Picture {
	p := Picture{Ended: []string{"d7: available", "d8: error: verify_failed"}}
	for i := range running {
		d := Device{
			Name: fmt.Sprintf("h%d_0000:%02x:00.0", i%3, i), Host: fmt.Sprintf("h%d", i%3), Step: "zero", Group: Running,
			Percent: float64(i*7%100) + 0.5, Done: int64(i*7%100) * 4 * mib, Total: 400 * mib, Rate: int64(25+i) * mib,
			Left: time.Duration(3600-i*40) * time.Second, LeftKnown: true, Since: now.Add(-time.Hour),
			ProgressAt: now.Add(-4 * time.Second), BudgetEnds: now.Add(50 * time.Minute),
		}
		switch i % 7 {
		case 1:
			d.Step, d.Total, d.Percent, d.Doing, d.Rate, d.LeftKnown = "sanitize", 0, 0, "crypto erase, polled every 5 s", 0,
				false
		case 3:
			d.Attempt, d.BudgetEnds = 3, now.Add(-time.Second)
		case 5:
			d.Percent = 100
		case 6:
			d = Device{Name: d.Name, Host: d.Host, Group: Running, Since: now.Add(-time.Minute)}
		}
		p.Devices = append(p.Devices, d)
	}
	for i := range queued {
		p.Devices = append(p.Devices, Device{
			Name: fmt.Sprintf("q%03d", i), Host: "h1", Group: Queued, Since: now.Add(-time.Duration(i) * time.Minute),
			Place: queued - i,
			Text:  fmt.Sprintf("queued for a slot (%dth in line)", queued-i),
		})
	}
	for i := range failed {
		p.Devices = append(p.Devices, Device{
			Name: fmt.Sprintf("f%03d", i), Host: "h2\x1b[31m", Group: Failed, Since: now.Add(-time.Duration(i) * time.Hour),
			Fault: "io_error",
			Text:  "write failed at 4 MiB\nof the device; clean it again, or retire it \u202e gnp.exe 電源",
		})
	}
	return p
}

func TestWatchPictures(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		for name, tt := range map[string]struct {
			Picture
			height int
		}{
			"a few":   {fleet(8, 3, 2), 24},
			"many":    {fleet(60, 300, 240), 24},
			"nothing": {Picture{Note: "Temporal does not answer: closing; start it, or set TEMPORAL_ADDRESS; trying again"}, 24},
			"low":     {fleet(5, 5, 5), 6},
		} {
			file := fmt.Sprintf("%s-%d.txt", strings.ReplaceAll(name, " ", "-"), width)
			t.Run(file, func(t *testing.T) {
				lines, _ := tt.Draw(width, tt.height, now, false)
				got := strings.Join(lines, "\n") + "\n"
				path := filepath.Join("testdata", file)
				if *update {
					require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
				}
				want, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, string(want), got)
			})
		}
	}
}

// Whatever the terminal's size, nothing leaves it, nothing is hidden without being counted,
// and what runs ends first at the top.
func TestWatchFitsEveryTerminal(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for width := 1; width <= 200; width++ {
		for range 5 {
			p := fleet(chance.IntN(30), chance.IntN(30), chance.IntN(30))
			height := 1 + chance.IntN(60)
			plain, shown := p.Draw(width, height, now, false)
			require.LessOrEqual(t, len(plain), height)
			for _, line := range plain {
				require.LessOrEqual(t, terminal.Width(line), width, "%d × %d: %q", width, height, line)
				require.False(t, strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == '\u202e' }), "%q", line)
			}
			colored, _ := p.Draw(width, height, now, true)
			require.Equal(t, plain, uncolored(colored))
			if width < 40 {
				continue
			}
			byGroup := p.sorted()
			require.True(t,
				strings.HasPrefix(plain[0], fmt.Sprintf("%d running, %d queued, %d failed", len(byGroup[Running]),
					len(byGroup[Queued]), len(byGroup[Failed]))) || len(p.Devices) == 0)
			for i, name := range shown {
				require.Equal(t, byGroup[Running][i].Name, name)
			}
			// Each group is whole, or says how many more there are.
			for g := range groups {
				all := len(byGroup[g])
				title := slices.IndexFunc(plain,
					func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("%s %d", titles[g], all)) })
				if title < 0 {
					require.True(t, all == 0 || height < 16, "%s is missing in %d lines", titles[g], height)
					continue
				}
				rows, rest := 0, 0
				for _, line := range plain[title+1:] {
					if n, err := fmt.Sscanf(line, "… %d more", &rest); n == 1 && err == nil || rows == all {
						break
					}
					rows++
				}
				require.Equal(t, all, rows+rest)
			}
			if len(p.Devices)+12 <= height {
				require.Len(t, shown, len(byGroup[Running]))
			}
		}
	}
}

// uncolored gives lines without the sequences of colors.
func uncolored(lines []string) []string {
	plain := make([]string, len(lines))
	for i, line := range lines {
		for {
			before, rest, found := strings.Cut(line, "\x1b[")
			plain[i] += before
			if !found {
				break
			}
			_, line, _ = strings.Cut(rest, "m")
		}
		plain[i] = strings.TrimRight(plain[i], " ")
	}
	return plain
}

func TestRunningDevicesAreSortedByWhatIsLeft(t *testing.T) {
	p := Picture{Devices: []Device{
		{Name: "new", Since: now}, {Name: "old", Since: now.Add(-time.Hour)},
		{Name: "long", Left: time.Hour, LeftKnown: true}, {Name: "ending", LeftKnown: true},
	}}
	_, shown := p.Draw(80, 24, now, false)
	require.Equal(t, []string{"ending", "long", "old", "new"}, shown)
}

// The whole picture, when the watch ends.
func TestTextLeavesNothingOut(t *testing.T) {
	text := fleet(60, 300, 240).Text(80, now, false)
	require.NotContains(t, text, " more ")
	require.Equal(t, 240, strings.Count(text, "io_error"))
}
