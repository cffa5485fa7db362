package main

import (
	"bytes"
	"flag"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseOptions(t *testing.T) {
	opts, err := parseOptions(nil)
	require.NoError(t, err)
	require.Equal(t, options{ip: net.ParseIP("127.0.0.1"), port: 7233, uiPort: uiPortUnset, namespace: "default"}, opts)

	opts, err = parseOptions([]string{"--ip", "::1", "--port", "7300", "--ui-port=0", "--db", "x.db", "--namespace",
		"site", "--unsafe-fast"})
	require.NoError(t, err)
	require.Equal(t, options{ip: net.ParseIP("::1"), port: 7300, db: "x.db", namespace: "site", unsafeFast: true}, opts)

	_, err = parseOptions([]string{"--help"})
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestParseOptionsRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"not defined":            {"--bogus"},
		"unexpected argument":    {"serve"},
		"not an IP address":      {"--ip", "localhost"},
		"--port 70000":           {"--port", "70000"},
		"--ui-port -7":           {"--ui-port", "-7"},
		"leaves no room":         {"--port", "65000"},
		"same as --port":         {"--port", "7300", "--ui-port", "7300"},
		"--namespace is empty":   {"--namespace", " "},
		"invalid value \"x\" fo": {"--port", "x"},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := parseOptions(args)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestUsageErrorsExitWithTwo(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, run([]string{"--bogus"}, &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Equal(t, "burnish-devserver: flag provided but not defined: -bogus (burnish-devserver --help lists the "+
		"flags)\n", stderr.String())

	require.Equal(t, exitOK, run([]string{"--help"}, &stdout, &stderr))
	require.Equal(t, usage, stdout.String())
}

func TestPlanNetwork(t *testing.T) {
	n, err := planNetwork(options{ip: net.ParseIP("0.0.0.0"), port: 0, uiPort: uiPortUnset})
	require.NoError(t, err)
	require.Equal(t, n.frontend+uiPortOffset, n.ui)
	ports := map[int]bool{n.frontend: true, n.ui: true, n.history: true, n.matching: true, n.worker: true}
	require.Len(t, ports, 5, "all different")
	require.Contains(t, n.dialAddress(), "127.0.0.1:")
	require.Contains(t, n.frontendAddress(), "0.0.0.0:")

	_, err = planNetwork(options{ip: net.ParseIP("203.0.113.7"), port: 0, uiPort: 0})
	require.Error(t, err)
	_, err = planNetwork(options{ip: net.ParseIP("203.0.113.7"), port: 7233, uiPort: 0})
	require.ErrorContains(t, err, "does not belong to this machine")
}
