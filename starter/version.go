package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"burnish/internal/device"
)

const machineUsage = `burnish machine: the states of a device, and what leads from one to the next

usage: burnish machine [flags]

      --mermaid             as a Mermaid state diagram
  -o, --output table|json|yaml

It needs no server. One row: in one of the states from, when event happens and all
of when holds, the device goes to the state to, and then is what changes beside it.

example:
  burnish machine --mermaid > machine.mmd
`

const versionUsage = `burnish version: this program's version

usage: burnish version [flags]

  -o, --output table|json|yaml

It needs no server.

example:
  burnish version -o json
`

func (a *app) machineCommand() *cobra.Command {
	var mermaid bool
	cmd := &cobra.Command{
		Use:  "machine",
		Long: machineUsage,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if !mermaid {
				return a.emit(device.Rows(), device.Markdown)
			}
			if a.format != formatTable {
				return usagef("--mermaid and --output %s exclude each other", a.format)
			}
			return a.print(device.Mermaid())
		},
	}
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "")
	return cmd
}

// about is this program for programs.
type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "version",
		Long: versionUsage,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: version, Go: runtime.Version()}
			return a.emit(v, func() string { return fmt.Sprintf("burnish %s (%s)\n", v.Version, v.Go) })
		},
	}
}
