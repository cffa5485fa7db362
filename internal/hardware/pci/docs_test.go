package pci

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

//go:generate go test . -count=1 -run TestWhatIsCoveredIsDocumented -update

var update = flag.Bool("update", false, "write the table of what is covered into its page")

const page = "../../../docs/pci.md"

// The page shows the plan of each kind of device, as the driver discovers it.
func TestWhatIsCoveredIsDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| `memory` | its operation | a full clean |\n|---|---|---|\n")
	for _, memory := range []struct {
		text  string
		model device.Memory
	}{{"bar N size S", device.Memory{BAR: 2, Size: 64 << 10}}, {"script NAME", device.Memory{Script: "gpu"}},
		{"none", device.Memory{None: true}}} {
		found := discovered(t, "020000", memory.model)
		planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{PolicyLists: clean.PolicyLists{
			Firmware: []clean.FirmwarePolicy{{FirmwareImage: clean.FirmwareImage{To: "2"}}}}})
		require.NoError(t, err)
		plan, fault := planner.Full(clean.Subject{Type: found.Type, Operation: found.Operation, Size: found.Identity.Size,
			SupportedSteps: found.SupportedSteps, Priorities: found.Priorities, HostSteps: steps.All().Versions()})
		require.Nil(t, fault)
		var names []string
		for _, step := range plan {
			names = append(names, "`"+step.Step.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", memory.text, found.Operation, strings.Join(names, " "))
	}
	b.WriteString("\n| PCI class of the first function | type |\n|---|---|\n")
	for _, class := range []string{"020000", "030200", "120000", "050000"} {
		fmt.Fprintf(&b, "| %sxxxx | `%s` |\n", class[:2], discovered(t, class, device.Memory{None: true}).Type)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), "<!-- kinds:begin -->\n")
	require.True(t, found)
	_, after, found := strings.Cut(rest, "<!-- kinds:end -->")
	require.True(t, found)
	fresh := before + "<!-- kinds:begin -->\n\n" + b.String() + "\n<!-- kinds:end -->" + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		return
	}
	require.Equal(t, fresh, string(text), "make docs writes it")
}

// discovered is a device of a class, with its memory in a place.
func discovered(t *testing.T, class string, memory device.Memory) hardware.Discovery {
	t.Helper()
	h := newFakeHost(t)
	h.host.Models = []device.Model{{ID: "1af4:1110", Memory: memory}}
	h.images = "{}"
	h.add(address, "1af4:1110", class, "", 7)
	return h.enroll()
}
