package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func newTree() *cobra.Command {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
		getenv: func(string) string { return "" }}
	return a.root()
}

// Every command says what it does, at length too, and shows an example that its own flags and
// arguments accept; every flag says what it is for.
func TestHelpIsComplete(t *testing.T) {
	eachCommand(newTree(), func(cmd *cobra.Command) {
		t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "_"), func(t *testing.T) {
			require.NotEmpty(t, cmd.Short)
			require.NotEmpty(t, cmd.Long)
			require.NotContains(t, cmd.Short, "\n")
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				_, text := flagHead(f)
				require.NotEmpty(t, text, "--%s", f.Name)
			})
			examples := commandLines(t, cmd.Example)
			require.NotEmpty(t, examples)
			own := false
			for _, args := range examples {
				root := newTree()
				found, rest, err := root.Find(args)
				require.NoError(t, err, args)
				own = own || strings.HasPrefix(found.CommandPath(), cmd.CommandPath())
				require.NoError(t, found.ParseFlags(rest), args)
				require.NoError(t, found.ValidateArgs(found.Flags().Args()), args)
			}
			require.True(t, own, "an example shows another command")

			help := helpText(cmd)
			require.Contains(t, help, "\nusage: burnish")
			for line := range strings.Lines(help) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 120, line)
			}
			cmd.Flags().VisitAll(func(f *pflag.Flag) { require.Contains(t, help, "--"+f.Name) })
			for _, below := range cmd.Commands() {
				if below.IsAvailableCommand() {
					require.Contains(t, help, "\n  "+below.Name()+" ")
				}
			}
		})
	})
}

// commandLines gives the arguments of each call of burnish in an example of a shell.
func commandLines(t *testing.T, example string) [][]string {
	var found [][]string
	for line := range strings.SplitSeq(strings.ReplaceAll(example, "\\\n", " "), "\n") {
		var call []string
		take := false
		for _, word := range shellWords(t, line) {
			switch {
			case !take:
				take = word == "burnish"
			case slices.Contains([]string{"|", "&&", ">", "<"}, word):
				found = append(found, call)
				take, call = false, nil
			default:
				call = append(call, word)
			}
		}
		if take {
			found = append(found, call)
		}
	}
	return found
}

// shellWords splits a line as a shell does, as far as the examples need it.
func shellWords(t *testing.T, line string) []string {
	var (
		words []string
		word  strings.Builder
		quote rune
		open  bool
	)
	for _, r := range line + " " {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case r == quote:
			quote = 0
		case quote == 0 && r == ' ':
			if open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	require.Zero(t, quote, "a quote is not closed: %s", line)
	return words
}

// The list of all commands names each of them once, under a heading.
func TestCommandsHaveGroups(t *testing.T) {
	root := newTree()
	list := commandLists(root)
	for _, group := range []string{groupDevices, groupTenants, groupOperators, groupInformation} {
		require.True(t, root.ContainsGroup(group))
		require.Contains(t, list, "\n"+group+"\n")
	}
	require.NotContains(t, list, "\ncommands\n", "a command without a group")
	for _, cmd := range root.Commands() {
		require.True(t, root.ContainsGroup(cmd.GroupID), "%s", cmd.Name())
		if cmd.IsAvailableCommand() {
			require.Equal(t, 1, strings.Count(list, "\n  "+cmd.Name()+" "), cmd.Name())
		}
	}
}

// A value's name stands once, long names push their text to the next line, and a default is
// shown where it says something.
func TestFlagTexts(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringP("file", "f", "", "`FILE`: many devices")
	flags.Bool("yes", false, "do not ask")
	flags.String("action", "auto", "an `ACTION` "+strings.Repeat("word ", 14)+"end")
	flags.String("request", "", "`type=T[,count=N][,trait=HW_X]`: free devices")
	require.Equal(t, `  -f, --file FILE           many devices
      --yes                 do not ask
      --action ACTION       an ACTION word word word word word word word word word word
                            word word word word end (default auto)
      --request type=T[,count=N][,trait=HW_X]
                            free devices
`, flagTexts(flags))
}
