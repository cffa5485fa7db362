package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

const (
	states       = "<!-- states:begin -->\nan older table\n<!-- states:end -->\n"
	observations = "<!-- observations:begin -->\nan older table\n<!-- observations:end -->\n"
	stale        = "# Title\n\nBefore.\n\n" + states + "\nBetween.\n\n" + observations + "\nAfter.\n"
)

func docs(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var problems bytes.Buffer
	code := run(args, &problems)
	return code, problems.String()
}

func page(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o640))
	return name
}

func TestThePageShowsBothTables(t *testing.T) {
	name := page(t, stale)
	code, problems := docs(t, name)
	require.Zero(t, code, problems)
	require.Empty(t, problems)

	text, err := os.ReadFile(name)
	require.NoError(t, err)
	got := string(text)
	require.True(t, strings.HasPrefix(got, "# Title\n\nBefore.\n\n<!-- states:begin -->\n"), got)
	require.True(t, strings.HasSuffix(got, "<!-- observations:end -->\n\nAfter.\n"), got)
	require.NotContains(t, got, "an older table")
	require.Contains(t, got, "\n\n"+device.Markdown()+"\n")
	require.Contains(t, got, "<!-- states:end -->\n\nBetween.\n\n<!-- observations:begin -->\n\n"+
		device.ObservationMarkdown()+"\n")
	require.Contains(t, got, "\n```mermaid\n"+device.Mermaid()+"```\n")
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())

	code, problems = docs(t, name)
	require.Zero(t, code, problems)
	again, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, got, string(again), "a second run changes nothing")
}

func TestCheck(t *testing.T) {
	name := page(t, stale)
	code, problems := docs(t, "-check", name)
	require.Equal(t, 1, code)
	require.Equal(t, "docs: "+name+": the tables are stale: run `make docs`\n", problems)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, stale, string(text), "a check changes nothing")

	code, _ = docs(t, name)
	require.Zero(t, code)
	code, problems = docs(t, "-check", name)
	require.Zero(t, code)
	require.Empty(t, problems)
}

func TestRefusals(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.md")
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no page":        {nil, 2, "usage: docs [-check] PAGE"},
		"two pages":      {[]string{"a", "b"}, 2, "usage: docs [-check] PAGE"},
		"a wrong flag":   {[]string{"-x"}, 2, "flag provided but not defined"},
		"a missing page": {[]string{missing}, 1, missing},
		"no markers":     {[]string{page(t, "text\n")}, 1, "want one line <!-- states:begin -->"},
		"no end":         {[]string{page(t, "<!-- states:begin -->\n")}, 1, "want one line <!-- states:begin -->"},
		"one table":      {[]string{page(t, states)}, 1, "want one line <!-- observations:begin -->"},
		"two sections":   {[]string{page(t, stale+stale)}, 1, "want one line <!-- states:begin -->"},
		"end first":      {[]string{page(t, "<!-- states:end -->\n<!-- states:begin -->\n")}, 1, "stands before"},
	} {
		t.Run(name, func(t *testing.T) {
			code, problems := docs(t, tt.args...)
			require.Equal(t, tt.code, code)
			require.Contains(t, problems, tt.says)
		})
	}
}
