package main

import (
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"burnish/internal/device"
)

// manCommand writes the man pages.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "write the man pages of all commands into a folder",
		Long: `Each command has a page of section 1: burnish.1, burnish-list.1, … They are made from the
same help as --help shows. DIR is created if it does not exist.`,
		Example: "  burnish man /usr/local/share/man/man1",
		Args:    oneName("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.Root().DisableAutoGenTag = true // no date of this run
			eachCommand(cmd.Root(), func(c *cobra.Command) { c.Long = ownLines.ReplaceAllString(c.Long, "    ") })
			header := &doc.GenManHeader{Section: "1", Source: "burnish " + version, Manual: "Burnish"}
			err := os.MkdirAll(args[0], 0o755)
			if err == nil {
				err = doc.GenManTree(cmd.Root(), header, args[0])
			}
			if err != nil {
				return failf(device.CodeIO, "", "%s", err)
			}
			pages := 0
			eachCommand(cmd.Root(), func(c *cobra.Command) {
				if c.IsAvailableCommand() {
					pages++
				}
			})
			return a.print(fmt.Sprintf("%d pages written to %s\n", pages, oneLine(args[0])))
		},
	}
}

// ownLines finds the lines that stand for themselves, which Markdown, from which cobra makes its
// pages, has four spaces farther in.
var ownLines = regexp.MustCompile(`(?m)^  `)
