package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// versionInfo is this program for programs.
type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "show this program's version",
		Long:    "It needs no server.",
		Example: "  burnish version -o json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.emit(versionInfo{Version: version, Go: runtime.Version()}, versionText)
		},
	}
}

// versionText is this program for people.
func versionText() string { return fmt.Sprintf("burnish %s (%s)\n", version, runtime.Version()) }
