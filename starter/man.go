package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
			pages := manPages(cmd.Root(), a.now().UTC().Format(time.DateOnly))
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return &failure{exit: exitFailed, code: device.CodeIO, message: err.Error()}
			}
			for _, p := range pages {
				if err := os.WriteFile(filepath.Join(args[0], p.name), []byte(p.text), 0o644); err != nil { //nolint:gosec // everybody reads man pages
					return &failure{exit: exitFailed, code: device.CodeIO, message: err.Error()}
				}
			}
			return a.print(fmt.Sprintf("%d pages written to %s\n", len(pages), oneLine(args[0])))
		},
	}
}

// manPage is one man page with the name of its file.
type manPage struct{ name, text string }

// manPages are the pages of cmd and of all commands below it.
func manPages(root *cobra.Command, date string) []manPage {
	var pages []manPage
	eachCommand(root, func(cmd *cobra.Command) {
		pages = append(pages, manPage{manName(cmd) + ".1", manText(cmd, date)})
	})
	return pages
}

// manName is a command's name as man has it.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manText is a command's page, in the macros of man(7).
func manText(cmd *cobra.Command, date string) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH %s 1 %s \"burnish %s\" Burnish\n", roff(strings.ToUpper(manName(cmd))), date, roff(version))
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	section("SYNOPSIS")
	for i, line := range usageLines(cmd) {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, ".B %s\n", roff(line))
	}
	section("DESCRIPTION")
	b.WriteString(verbatimParagraphs(cmd.Long))
	if list := commandLists(cmd); list != "" {
		section("COMMANDS")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(c.Name()), roff(c.Short))
			}
		}
	}
	options := func(title string, flags *pflag.FlagSet) {
		if !flags.HasAvailableFlags() {
			return
		}
		section(title)
		flags.SortFlags = false
		flags.VisitAll(func(f *pflag.Flag) {
			head, text := flagHead(f)
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(head)), roff(text))
		})
	}
	options("OPTIONS", cmd.NonInheritedFlags())
	options("GLOBAL OPTIONS", cmd.InheritedFlags())
	section("EXAMPLES")
	fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(unindented(cmd.Example)))
	var others []string
	if cmd.HasParent() {
		others = append(others, ".BR "+roff(manName(cmd.Parent()))+" (1)")
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			others = append(others, ".BR "+roff(manName(c))+" (1)")
		}
	}
	if len(others) > 0 {
		section("SEE ALSO")
		b.WriteString(strings.Join(others, " ,\n") + "\n")
	}
	return b.String()
}

// verbatimParagraphs are the paragraphs of a command's Long: those with an indented line keep
// their lines.
func verbatimParagraphs(long string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(long, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, "  ") || strings.Contains(paragraph, "\n  ") {
			fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(paragraph))
			continue
		}
		b.WriteString(roff(paragraph) + "\n")
	}
	return b.String()
}

// unindented is an example without the two spaces before each line.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}

// roff writes text so that roff takes none of it as a request or an escape, and a hyphen can be
// copied as one.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
