package contract_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func TestSummary(t *testing.T) {
	fake := contract.Enrollment{Name: "d1", Host: "h1", Driver: "fake", Type: "NVME",
		Settings: map[string]string{"serial": "S9"}}
	const unknown = "not known at the start; see the current details"
	for name, tt := range map[string]struct {
		enrollment       contract.Enrollment
		hardware         contract.Hardware
		summary, details string
	}{
		"known": {
			contract.Enrollment{Host: "h1", Driver: "nvme", Type: "NVME"},
			contract.HardwareOf(device.Identity{Model: "Acme X1", Serial: "S1"}),
			"Acme X1, serial S1, host h1, driver nvme", "- model: Acme X1\n- serial: S1\n- host: h1\n- driver: nvme\n",
		},
		"the serial is a setting": {fake, contract.Hardware{}, "NVME, serial S9, host h1, driver fake", "- model: " + unknown + "\n- serial: S9\n- host: h1\n- driver: fake\n"},
		"the hardware's own serial counts": {
			fake, contract.Hardware{Serial: "S1"},
			"NVME, serial S1, host h1, driver fake", "- model: " + unknown + "\n- serial: S1\n- host: h1\n- driver: fake\n",
		},
		"nothing but a name": {contract.Enrollment{Name: "d1"}, contract.Hardware{}, "", strings.NewReplacer("?", unknown).Replace("- model: ?\n- serial: ?\n- host: ?\n- driver: ?\n")},
		"markup and control characters": {
			contract.Enrollment{Host: "h1", Driver: "nvme"}, contract.Hardware{Model: "X\x1b[2J\n# a", Serial: "![p](http://x) <b>"},
			"X [2J # a, serial ![p](http://x) <b>, host h1, driver nvme",
			"- model: X \\[2J # a\n- serial: !\\[p\\](http://x) \\<b\\>\n- host: h1\n- driver: nvme\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			summary, details := contract.Summary(tt.enrollment, tt.hardware)
			require.Equal(t, tt.summary, summary)
			require.Equal(t, tt.details, details)
		})
	}
}

// The server accepts summaries of 400 bytes.
func TestASummaryIsBounded(t *testing.T) {
	long := strings.Repeat("x", 2000)
	summary, details := contract.Summary(contract.Enrollment{Host: long, Driver: long},
		contract.Hardware{Model: long, Serial: long})
	require.Less(t, len(summary), 400)
	require.Less(t, len(details), 400)
	require.Contains(t, summary, "xxx…, serial xxx")
	summary, _ = contract.Summary(contract.Enrollment{}, contract.Hardware{Model: strings.Repeat("x", 63) + "é"})
	require.Equal(t, strings.Repeat("x", 63)+"…", summary)
}

// What a device or a tenant says is shown as it is, in one line.
func TestMarkdownOfForeignText(t *testing.T) {
	require.Equal(t, "host_unreachable: no worker of h1", contract.Markdown("host_unreachable:\nno worker of h1"))
	require.Equal(t, "\\*\\*a\\*\\* \\`b\\` \\[c\\](d) \\<e\\> \\\\ \\~ \\| \\&amp;",
		contract.Markdown("**a** `b` [c](d) <e> \\ ~ | &amp;"))
}
