package redfish

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

//go:generate go test . -count=1 -run TestThePageSaysWhatIsCovered -update

var updatePage = flag.Bool("update", false, "write the table of what is covered into its page")

// The page says of each item what the steps do with it on the BMCs of each vendor.
func TestThePageSaysWhatIsCovered(t *testing.T) {
	const page, begin, end = "../../../docs/redfish.md", "<!-- covered:begin -->\n", "<!-- covered:end -->"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	fresh := before + begin + "\n" + coveredTable(t) + "\n" + end + after
	if *updatePage {
		require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, fresh, string(text), "make docs writes it")
}

func coveredTable(t *testing.T) string {
	t.Helper()
	head, rule := "| item | step |", "|---|---|"
	cells := map[string][]string{}
	for _, p := range redfishsim.Personalities {
		head, rule = head+" "+string(p)+" |", rule+"---|"
		s := newStepper(t, p)
		h := s.open()
		state, way, err := h.readTPMState(t.Context())
		require.NoError(t, err)
		for _, item := range setupItems() {
			r, err := item.read(h, t.Context())
			require.NoError(t, err)
			says := "not covered"
			switch {
			case item.name == device.SetupTPM && way != nil:
				require.NotNil(t, state)
				says = "cleared"
			case r.is != nil && r.ways != nil:
				says = "restored"
			case r.is != nil:
				says = "compared"
			}
			cells[item.name] = append(cells[item.name], says)
		}
		require.NoError(t, h.Close())
	}
	table := head + "\n" + rule + "\n"
	for _, item := range setupItems() {
		table += fmt.Sprintf("| `%s` | `%s` | %s |\n", item.name, item.step, strings.Join(cells[item.name], " | "))
	}
	return table
}
