package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSummary(t *testing.T) {
	const (
		good    = `{"Action":"start","Package":"p"}{"Action":"run","Package":"p","Test":"A"}{"Action":"pass","Package":"p","Test":"A"}`
		bad     = `{"Action":"fail","Package":"p","Test":"B/sub"}{"Action":"fail","Package":"p","Test":"B"}`
		better  = `{"Action":"pass","Package":"p","Test":"B/sub"}{"Action":"pass","Package":"p","Test":"B"}`
		skipped = `{"Action":"skip","Package":"p","Test":"C"}{"Action":"skip","Package":"without-tests"}`
		passed  = `{"Action":"pass","Package":"p"}`
		failed  = `{"Action":"fail","Package":"p"}`
	)
	for name, c := range map[string]struct {
		events  string
		status  int
		noSkips bool
		want    string
		ok      bool
	}{
		"all good":                      {good + passed, 0, true, "1 passed, 0 failed, 0 skipped", true},
		"a skip is allowed":             {good + skipped + passed, 0, false, "1 passed, 0 failed, 1 skipped", true},
		"a skip is a failure":           {good + skipped + passed, 0, true, "1 passed, 0 failed, 1 skipped", false},
		"a test failed":                 {good + bad + failed, 1, false, "1 passed, 2 failed, 0 skipped", false},
		"it passed when it ran again":   {good + bad + failed + better + passed, 0, false, "3 passed, 0 failed, 0 skipped", true},
		"it did not run again":          {good + bad + failed + passed, 0, false, "1 passed, 2 failed, 0 skipped", false},
		"the package alone failed":      {good + failed, 0, false, "1 passed, 1 failed, 0 skipped", false},
		"and none of it ran again":      {good + failed + passed, 0, false, "1 passed, 1 failed, 0 skipped", false},
		"go test died without an event": {good + passed, 2, false, "1 passed, 1 failed, 0 skipped", false},
		"nothing ran":                   {"", 0, false, "0 passed, 1 failed, 0 skipped", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "events")
			require.NoError(t, os.WriteFile(file, []byte(c.events), 0o600))
			line, ok, err := summarize(file, c.status, c.noSkips)
			require.NoError(t, err)
			require.Equal(t, c.want, line)
			require.Equal(t, c.ok, ok)
		})
	}
	cut := filepath.Join(t.TempDir(), "cut")
	require.NoError(t, os.WriteFile(cut, []byte(good+`{"Action":"pa`), 0o600))
	_, _, err := summarize(cut, 0, false)
	require.Error(t, err)
}
