package recent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type source struct {
	asked  int
	answer []string
	err    error
}

func (s *source) ask() ([]string, error) {
	s.asked++
	return s.answer, s.err
}

func newCache(t *testing.T) (Cache, *time.Time) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return Cache{Dir: filepath.Join(t.TempDir(), "burnish"), Now: func() time.Time { return now }}, &now
}

func TestAnAnswerCountsForSeconds(t *testing.T) {
	c, now := newCache(t)
	s := &source{answer: []string{"d1"}}
	require.Equal(t, []string{"d1"}, Get(c, []string{"a", "b"}, s.ask))
	s.answer = []string{"d1", "d2"}
	*now = now.Add(fresh - 1)
	require.Equal(t, []string{"d1"}, Get(c, []string{"a", "b"}, s.ask))
	require.Equal(t, 1, s.asked)
	*now = now.Add(1)
	require.Equal(t, []string{"d1", "d2"}, Get(c, []string{"a", "b"}, s.ask))
	require.Equal(t, 2, s.asked)
	// Another server, or another namespace, has its own answers.
	require.Equal(t, []string{"d1", "d2"}, Get(c, []string{"ab", ""}, s.ask))
	require.Equal(t, 3, s.asked)
	// A clock that was put back makes no answer last.
	*now = now.Add(-time.Hour)
	Get(c, []string{"a", "b"}, s.ask)
	require.Equal(t, 4, s.asked)
}

func TestAServerThatFailsIsLeftAlone(t *testing.T) {
	c, now := newCache(t)
	s := &source{answer: []string{"d1"}}
	Get(c, nil, s.ask)
	s.err = errors.New("down")
	*now = now.Add(fresh)
	require.Equal(t, []string{"d1"}, Get(c, nil, s.ask), "the older answer")
	require.Equal(t, 2, s.asked)
	require.Equal(t, []string{"d1"}, Get(c, nil, s.ask))
	require.Equal(t, 2, s.asked, "it was asked a moment ago")
	*now = now.Add(fresh)
	Get(c, nil, s.ask)
	require.Equal(t, 3, s.asked)
	*now = now.Add(usable)
	require.Empty(t, Get(c, nil, s.ask), "too old")
}

// The files are the user's own. What others left there, or a full disk, does no harm.
func TestFilesOfTheCache(t *testing.T) {
	c, now := newCache(t)
	s := &source{answer: []string{"d1"}}
	Get(c, []string{"secret token"}, s.ask)
	files, err := filepath.Glob(c.Dir + "/*")
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NotContains(t, files[0], "secret")
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	folder, err := os.Stat(c.Dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folder.Mode().Perm())

	for _, content := range []string{"", "{", `{"answered":"` + now.Format(time.RFC3339) + `","answer":{"no":"list"}}`} {
		require.NoError(t, os.WriteFile(files[0], []byte(content), 0o600))
		require.Equal(t, []string{"d1"}, Get(c, []string{"secret token"}, s.ask), content)
	}
	c.Dir = files[0] // a file is no folder
	require.Equal(t, []string{"d1"}, Get(c, nil, s.ask))
	c.Dir = ""
	require.Equal(t, []string{"d1"}, Get(c, nil, s.ask))
}
