package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// show has a NIC's MAC and the mark of a live-migratable device, and nothing where there is none.
func TestShowHasMACAndLiveMigratableMark(t *testing.T) {
	v := in("d1", device.Available)
	shown := func(args ...string) string {
		l := &fakeClient{shown: &v}
		return burnish(t, l, "", append([]string{"show", "d1"}, args...)...).out
	}
	for _, text := range []string{shown(), shown("-o", "json")} {
		require.NotContains(t, text, "mac")
		require.NotContains(t, text, "migratable")
	}
	v.MAC, v.LiveMigratable = "52:54:00:00:00:01", true
	require.Regexp(t, `(?m)^mac +52:54:00:00:00:01$`, shown())
	require.Regexp(t, `(?m)^live-migratable +yes$`, shown())
	require.Contains(t, shown("-o", "json"), `"mac": "52:54:00:00:00:01"`)
	require.Contains(t, shown("-o", "json"), `"live_migratable": true`)
}
