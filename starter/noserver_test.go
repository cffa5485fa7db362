package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// withoutServer are the commands that ask no server, or do not need one.
var withoutServer = []string{"states", "version", "completion", "man", "help", "doctor", "spec", "udev-rules",
	"codec-server", "instance schema"}

// askingServer are the first examples of all commands that ask a server.
func askingServer(t *testing.T) (examples [][]string) {
	t.Helper()
	eachCommand(newTree(), func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "burnish ")
		isLocal := func(l string) bool { return name == l || strings.HasPrefix(name, l+" ") }
		if !cmd.Runnable() || cmd.Parent() == nil || slices.ContainsFunc(withoutServer, isLocal) {
			return
		}
		for _, args := range commandLines(t, cmd.Example) {
			if needsFile := slices.ContainsFunc(args, func(a string) bool {
				return strings.Contains(a, ".yaml") || strings.Contains(a, ".xml") || strings.Contains(a, ".json") || a == "-"
			}); needsFile || slices.Contains(args, "__complete") {
				continue
			}
			found, _, err := newTree().Find(args)
			if err != nil || found.CommandPath() != cmd.CommandPath() || slices.Contains(args, "--identify") ||
				slices.Contains(args, "--api") {
				continue
			}
			examples = append(examples, args)
			return
		}
	})
	require.Greater(t, len(examples), 25, "the commands are found")
	return examples
}

// withoutProfile keeps the developer's own profile of Temporal's command line away.
func withoutProfile(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("TEMPORAL_CONFIG_FILE", file)
}

// askWith runs a command with a connection that connect makes.
func askWith(t *testing.T, connect func(*app, context.Context) (deviceClient, error), args []string) ran {
	t.Helper()
	return burnishWith(t, nil, func(a *app, _ func()) {
		a.stdin, a.terminal = strings.NewReader("y\n"), func() bool { return true }
		a.getenv, a.now, a.pause = func(string) string { return "" }, time.Now, pause
		a.dial = func(ctx context.Context) (deviceClient, error) { return connect(a, ctx) }
	}, args...)
}

// Without a server, or without an API, each command ends with exit code 5 and one line, which names the address and
// does not say that something was sent.
func TestEveryCommandWithoutAServer(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
	withoutProfile(t)
	for server, more := range map[string][]string{"Temporal at 127.0.0.1:1": nil,
		"the API at http://127.0.0.1:1": {"--api", "http://127.0.0.1:1"}} {
		for _, args := range askingServer(t) {
			t.Run(server+"/"+strings.Join(args, " "), func(t *testing.T) {
				got := askWith(t, (*app).connect, append(slices.Clone(args), more...))
				require.Equal(t, exitUnreachable, got.code, "%s: %+v", args, got)
				require.Contains(t, got.errors, server+" does not answer: ")
				require.Contains(t, got.errors, "start it, or set ")
				require.NotContains(t, got.errors, "may still be carried out")
				require.Equal(t, 1, strings.Count(got.errors, "\n"), got.errors)
			})
		}
	}
}
