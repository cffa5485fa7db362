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
)

//go:generate go test . -count=1 -run TestWhatIsCoveredIsDocumented -update

var update = flag.Bool("update", false, "write the table of what is covered into its page")

const page = "../../../docs/pci.md"

// The page shows the plan of each kind of device, as the driver discovers it.
func TestWhatIsCoveredIsDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| device | `memory` | its full clean |\n|---|---|---|\n")
	for _, kind := range []struct{ what, class string }{
		{"NIC", "020000"}, {"GPU", "030200"}, {"accelerator", "120000"}, {"any other function", "050000"},
	} {
		for _, memory := range []struct {
			text  string
			model device.Memory
		}{{"bar N size S", device.Memory{BAR: 2, Size: 64 << 10}}, {"script NAME", device.Memory{Script: "gpu"}}, {"none", device.Memory{None: true}}} {
			h := newFakeHost(t)
			h.host.Models = []device.Model{{ID: "1af4:1110", Memory: memory.model}}
			h.images = "{}"
			h.add(address, "1af4:1110", kind.class, "", 7)
			found := h.enroll()
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
			fmt.Fprintf(&b, "| %s, type `%s` | `%s` | %s |\n", kind.what, found.Type, memory.text, strings.Join(names, " "))
		}
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
