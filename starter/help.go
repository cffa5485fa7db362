package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"burnish/starter/internal/terminal"
)

// The groups in which the help lists the commands.
const (
	groupDevices     = "devices"
	groupTenants     = "tenants"
	groupOperators   = "operators"
	groupInformation = "information"
)

const (
	helpWidth  = 88 // characters of a line of help
	flagColumn = 28 // where the text of a flag begins
	formsKey   = "burnish_forms"
)

// forms are further forms of a command's usage line, without the program's name.
func forms(lines ...string) map[string]string {
	return map[string]string{formsKey: strings.Join(lines, "\n")}
}

// usageLines are the forms of a command line, the first from Use.
func usageLines(cmd *cobra.Command) []string {
	lines := []string{cmd.UseLine()}
	if more := cmd.Annotations[formsKey]; more != "" {
		for line := range strings.SplitSeq(more, "\n") {
			lines = append(lines, cmd.Root().Name()+" "+line+" [flags]")
		}
	}
	return lines
}

// helpText is the help of one command, all of it from the command tree.
func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", cmd.CommandPath(), cmd.Short)
	for i, line := range usageLines(cmd) {
		label := "usage: "
		if i > 0 {
			label = "       "
		}
		b.WriteString(label + line + "\n")
	}
	// What holds for all commands stands behind their list.
	if cmd.HasParent() && cmd.Long != "" {
		b.WriteString("\n" + cmd.Long + "\n")
	}
	b.WriteString(commandLists(cmd))
	if own := cmd.NonInheritedFlags(); own.HasAvailableFlags() {
		b.WriteString("\nflags\n" + flagTexts(own))
	}
	if inherited := cmd.InheritedFlags(); inherited.HasAvailableFlags() {
		inherited.SortFlags = false
		b.WriteString("\nglobal flags\n" + flagTexts(inherited))
	}
	if !cmd.HasParent() {
		b.WriteString("\n" + cmd.Long + "\n")
	}
	if cmd.Example != "" {
		b.WriteString("\nexample:\n" + cmd.Example + "\n")
	}
	return b.String()
}

// commandLists are the commands below cmd, by group.
func commandLists(cmd *cobra.Command) string {
	var b strings.Builder
	width := 0
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			width = max(width, len(c.Name()))
		}
	}
	list := func(title, group string) {
		for _, c := range cmd.Commands() {
			if c.GroupID != group || !c.IsAvailableCommand() {
				continue
			}
			if title != "" {
				b.WriteString("\n" + title + "\n")
				title = ""
			}
			fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name(), c.Short)
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
	}
	list("commands", "")
	return b.String()
}

// flagTexts describes flags, one paragraph each, in the order in which they were defined.
func flagTexts(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		head, text := flagHead(f)
		line := "  " + head
		if width := utf8.RuneCountInString(line); width+2 > flagColumn {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", flagColumn)
		} else {
			line += strings.Repeat(" ", flagColumn-width)
		}
		for _, words := range terminal.Wrap(text, helpWidth-flagColumn) {
			b.WriteString(line + words + "\n")
			line = strings.Repeat(" ", flagColumn)
		}
	})
	return b.String()
}

// flagHead gives a flag with its value's name, and its text with the default. A usage text of
// the form "`VALUE`: text" names the value once.
func flagHead(f *pflag.Flag) (head, text string) {
	value, text := pflag.UnquoteUsage(f)
	text = strings.TrimPrefix(text, value+": ")
	head = "    --" + f.Name
	if f.Shorthand != "" {
		head = "-" + f.Shorthand + ", --" + f.Name
	}
	if value != "" {
		head += " " + value
	}
	switch f.DefValue {
	case "", "false", "0", "[]":
	default:
		text += " (default " + f.DefValue + ")"
	}
	return head, text
}

// helpCommand is `burnish help COMMAND`.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "show the help of a command",
		Long:    "The same as burnish COMMAND --help. Without a COMMAND: the list of all commands.",
		Example: "  burnish help instance bind",
		GroupID: groupInformation,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("unknown command %q", strings.Join(args, " "))
			}
			return a.print(helpText(found))
		},
	}
}

// parent makes cmd a command that only has others below it.
func parent(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.AddCommand(below...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		all := strings.Join(names, ", ")
		if len(args) == 0 {
			return usagef("a command is needed: %s", all)
		}
		if len(names) > 1 {
			all = "one of " + all
		}
		return usagef("unknown command %q: must be %s", args[0], all)
	}
	return cmd
}
