package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
)

const (
	states       = "<!-- states:begin -->\nan older table\n<!-- states:end -->\n"
	observations = "<!-- observations:begin -->\nan older table\n<!-- observations:end -->\n"
	due          = "<!-- due:begin -->\nan older table\n<!-- due:end -->\n"
	stale        = "# Title\n\nBefore.\n\n" + states + "\nBetween.\n\n" + observations + "\nThen.\n\n" + due + "\nAfter.\n"
)

func TestThePageShowsEachTable(t *testing.T) {
	got, err := statesPage(stale)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(got, "# Title\n\nBefore.\n\n<!-- states:begin -->\n"), got)
	require.True(t, strings.HasSuffix(got, "<!-- due:end -->\n\nAfter.\n"), got)
	require.NotContains(t, got, "an older table")
	require.Contains(t, got, "\n\n"+device.Markdown()+"\n")
	require.Contains(t, got, "<!-- states:end -->\n\nBetween.\n\n<!-- observations:begin -->\n\n"+
		device.ObservationMarkdown()+"\n")
	require.Contains(t, got, "<!-- observations:end -->\n\nThen.\n\n<!-- due:begin -->\n\n"+lifecycle.Markdown()+"\n")
	require.Contains(t, got, "\n```mermaid\n"+device.Mermaid()+"```\n")
	again, err := statesPage(got)
	require.NoError(t, err)
	require.Equal(t, got, again, "a second run changes nothing")
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct{ page, says string }{
		"no markers":   {"text\n", "want one line <!-- states:begin -->"},
		"no end":       {"<!-- states:begin -->\n", "want one line <!-- states:begin -->"},
		"one table":    {states, "want one line <!-- observations:begin -->"},
		"two sections": {stale + stale, "want one line <!-- states:begin -->"},
		"end first":    {"<!-- states:end -->\n<!-- states:begin -->\n", "stands before"},
	} {
		_, err := statesPage(tt.page)
		require.ErrorContains(t, err, tt.says, name)
	}
}
