package main

import (
	"github.com/spf13/cobra"

	"burnish/internal/device"
)

func (a *app) statesCommand() *cobra.Command {
	var mermaid bool
	cmd := &cobra.Command{
		Use:   "states",
		Short: "show the state tables",
		Long: `It needs no server. Each row of the first table is one transition: a device in state
"from" goes to state "to" when the event happens and every condition in "when" is true;
"then" lists what else changes. Each row of the second table says what an observation
of the inventory or the host means: the event, if any, what follows, and why.`,
		Example: "  burnish states --mermaid > states.mmd",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if !mermaid {
				return a.emit(bothTables{device.Rows(), device.ObservationRows()}, func() string {
					return device.Markdown() + "\n" + device.ObservationMarkdown()
				})
			}
			if a.format != formatTable {
				return usagef("--mermaid and --output %s exclude each other", a.format)
			}
			return a.print(device.Mermaid())
		},
	}
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "print a Mermaid state diagram")
	return cmd
}

// bothTables is what `burnish states` shows to programs.
type bothTables struct {
	States       []device.RowDoc         `json:"states"`
	Observations []device.ObservationDoc `json:"observations"`
}
