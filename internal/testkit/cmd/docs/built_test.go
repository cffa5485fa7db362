package main

import (
	"go/build"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file whose name or build line names another system is never compiled, and its tests
// count as evidence all the same: `windows_test.go` at the end of a name is enough.
func TestEveryTestFileIsBuilt(t *testing.T) {
	plain, race := build.Default, build.Default
	plain.GOOS, plain.GOARCH = "linux", "amd64"
	race.GOOS, race.GOARCH, race.BuildTags = "linux", "amd64", []string{"race"}
	files := 0
	require.NoError(t, filepath.WalkDir("../../../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		built, err := plain.MatchFile(filepath.Split(path))
		if err == nil && !built {
			built, err = race.MatchFile(filepath.Split(path))
		}
		require.True(t, built, "%s is in no build on Linux", path)
		return err
	}))
	require.Greater(t, files, 100)
}
