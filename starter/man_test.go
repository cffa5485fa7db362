package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each command has a page that shows what --help says. cobra gives its own command help none.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man", "man1")
	got := burnish(t, nil, "", "man", dir)
	require.Equal(t, exitOK, got.code, got.errors)
	require.Contains(t, got.out, "pages written to")
	pages := map[string]*cobra.Command{}
	eachCommand(newTree(), func(cmd *cobra.Command) {
		if cmd.Name() != "help" {
			pages[filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")] = cmd
		}
	})
	written, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.ElementsMatch(t, slices.Collect(maps.Keys(pages)), written)

	t.Run("mandoc", func(t *testing.T) {
		program, err := exec.LookPath("mandoc")
		if err != nil {
			t.Skip("mandoc is not installed")
		}
		render := func(page string, more ...string) string {
			args := append([]string{"-K", "utf-8", "-T", "utf8", "-W", "error"}, append(more, page)...)
			output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
			require.NoError(t, err, "%s", output)
			return overstruck.ReplaceAllString(string(output), "")
		}
		oneSpace := func(text string) string { return strings.Join(strings.Fields(text), " ") }
		for page, cmd := range pages {
			shown := oneSpace(render(page, "-O", "width=1000"))
			said := []string{cmd.Short, cmd.UseLine(), cmd.Long, cmd.Example}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				said = append(said, "--"+f.Name, strings.ReplaceAll(f.Usage, "`", ""))
			})
			for _, text := range said {
				assert.Contains(t, shown, oneSpace(text), page)
			}
		}
		// What stands in lines of its own stays so.
		require.Contains(t, render(filepath.Join(dir, "burnish-instance-bind.1")), `
       devices:
         - name: h1_0000:01:00.0
           tag: database
`)
	})
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, exitFailed, burnish(t, nil, "", "man", file).code)
}

// overstruck is a character that the next one is printed over, which makes it bold.
var overstruck = regexp.MustCompile(`.\x08`)
