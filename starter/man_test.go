package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Each command has a page that says what --help says, and in which mandoc finds no fault.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man", "man1")
	got := burnish(t, nil, "", "man", dir)
	require.Equal(t, exitOK, got.code, got.errors)
	var pages []string
	eachCommand(newTree(), func(cmd *cobra.Command) {
		page := filepath.Join(dir, manName(cmd)+".1")
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		text := strings.NewReplacer(`\-`, "-", `\(aq`, "'").Replace(string(data))
		require.Contains(t, text, cmd.Short)
		require.Contains(t, text, cmd.UseLine())
		pages = append(pages, page)
	})
	require.Contains(t, got.out, "pages written to")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(pages))

	t.Run("mandoc", func(t *testing.T) {
		program, err := exec.LookPath("mandoc")
		if err != nil {
			t.Skip("mandoc is not installed")
		}
		output, _ := exec.CommandContext(t.Context(), program, append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput()
		require.Empty(t, string(output))
		shown, err := exec.CommandContext(t.Context(), program, filepath.Join(dir, "burnish-instance-bind.1")).Output()
		require.NoError(t, err)
		plain := string(overstruck(shown))
		for _, text := range []string{"burnish-instance-bind", "--guest bus=B[,address=A]", `guest: [{bus: pci, address: "0000:00:05.0"}]`, "FILE: libvirt's domain"} {
			text = strings.TrimPrefix(text, "FILE: ")
			require.Contains(t, strings.Join(strings.Fields(plain), " "), text)
		}
	})
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, exitFailed, burnish(t, nil, "", "man", file).code)
}

// overstruck removes what makes text bold on a printing terminal.
func overstruck(text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\b')
		if i < 1 {
			return text
		}
		text = append(text[:i-1:i-1], text[i+1:]...)
	}
}
