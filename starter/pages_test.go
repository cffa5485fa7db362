package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// namesCommand checks that words begin with a command that there is, whose flags there are.
// Whole lines are parsed with their arguments.
func namesCommand(t *testing.T, where string, words []string, whole bool) {
	t.Helper()
	root := newTree()
	cmd, rest, err := root.Find(words)
	if !assert.NoError(t, err, "%s: burnish %s", where, strings.Join(words, " ")) {
		return
	}
	if words[0] == "COMMAND" || words[0] == "…" {
		return
	}
	if cmd == root {
		assert.True(t, strings.HasPrefix(words[0], "-"), "%s: burnish %s names no command", where, strings.Join(words, " "))
	}
	if cmd.HasSubCommands() && !cmd.Runnable() && len(rest) > 0 {
		assert.Failf(t, "no such command", "%s: burnish %s", where, strings.Join(words, " "))
	}
	if whole {
		assert.NoError(t, cmd.ParseFlags(rest), "%s: burnish %s", where, strings.Join(words, " "))
		assert.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), "%s: burnish %s", where, strings.Join(words, " "))
		return
	}
	for _, word := range rest {
		if found := flagWord.FindStringSubmatch(word); found != nil {
			assert.True(t, hasFlag(cmd, found[1]), "%s: burnish %s has no --%s", where, cmd.CommandPath(), found[1])
		}
	}
}

var flagWord = regexp.MustCompile(`^\[?--([a-z][a-z-]*)`)

func hasFlag(cmd *cobra.Command, name string) bool {
	return name == "help" || name == "version" || cmd.Flags().Lookup(name) != nil ||
		cmd.InheritedFlags().Lookup(name) != nil
}

// The pages name commands and flags that there are, in the text and in the sessions.
func TestPagesNameCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	pages = append(pages, "../README.md", "../CONTRIBUTING.md")
	inText := regexp.MustCompile("`burnish ([^`\n]+)`")
	inSession := regexp.MustCompile(`(?m)^\$ burnish (.+)$`)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range inText.FindAllStringSubmatch(string(text), -1) {
			found++
			namesCommand(t, page, strings.Fields(m[1]), false)
		}
		for _, m := range inSession.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			found++
			if strings.ContainsAny(m[1], "…[$") {
				namesCommand(t, page, strings.Fields(m[1]), false)
				continue
			}
			line, _, _ := strings.Cut(m[1], " #")
			for _, args := range commandLines(t, "burnish "+line) {
				namesCommand(t, page, args, true)
			}
		}
	}
	require.Greater(t, found, 100, "the commands of the pages are found")
}

// Each command that a device's refusal names, in whatever state, is one that an operator can type.
func TestRemediesNameCommandsThatExist(t *testing.T) {
	text, err := os.ReadFile("../internal/lifecycle/testdata/remedies.txt")
	require.NoError(t, err)
	named := regexp.MustCompile(`\b([a-z-]+) d1((?: (?:--?[a-z]+|[A-Z]+|i\d|on|off|reset)\b)*)`)
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(line, " | ", 3)
		require.Len(t, parts, 3)
		_, remedy, ok := strings.Cut(parts[2], "; ")
		require.True(t, ok, line)
		for _, m := range named.FindAllStringSubmatch(remedy, -1) {
			// An instance is a UUID, and one of the tests' is not.
			call := strings.ReplaceAll(m[1]+" d1"+m[2], " i1", " "+someInstance)
			if !seen[call] {
				seen[call] = true
				namesCommand(t, strings.TrimSpace(line), strings.Fields(call), true)
			}
		}
	}
	require.Greater(t, len(seen), 10)
	require.True(t, seen["maintain d1 --off"])
}

// foreign are flags of other programs that messages name.
var foreign = []string{"reflink", "task-queue", "reload", "subsystem-match", "incremental", "read-only", "setrw",
	"query", "name", "workflow-id"}

// The messages of the program, of the workers and of the drivers name commands and flags that
// there are.
func TestMessagesNameCommandsThatExist(t *testing.T) {
	flags := map[string]bool{"help": true, "version": true}
	eachCommand(newTree(), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	})
	command := regexp.MustCompile(`\bburnish ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)`)
	flag := regexp.MustCompile(`(?:^|[ (\x60])--([a-z][a-z-]+)`)
	commands := 0
	literals(t, []string{".", "../activities", "../workflows", "../worker", "../internal"}, func(where, text string) {
		if strings.Contains(text, "\n") {
			return // help, and files for other programs: see TestHelpIsComplete
		}
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			root := newTree()
			cmd, _, err := root.Find(strings.Fields(m[1]))
			commands++
			assert.True(t, err == nil && cmd != root, "%s: %q names no command", where, text)
		}
		if !strings.Contains(text, " ") {
			return // an argument of another program
		}
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			known := flags[m[1]] || slices.Contains(foreign, m[1])
			assert.True(t, known, "%s: %q names --%s, which no command has", where, text, m[1])
		}
	})
	require.Greater(t, commands, 10)
}

// literals calls do for each string of the program's sources.
func literals(t *testing.T, roots []string, do func(where, text string)) {
	t.Helper()
	for _, root := range roots {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testkit" || entry.Name() == "testdata"):
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					text, err := strconv.Unquote(l.Value)
					require.NoError(t, err)
					do(set.Position(l.Pos()).String(), text)
				}
				return true
			})
			return nil
		}))
	}
}
