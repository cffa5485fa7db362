package mutation

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRunner tries the runner on tests that behave badly: only a test that passes without
// the mutation and fails with it, each time, notices it.
func TestRunner(t *testing.T) {
	const fixture = "./internal/testkit/mutation/testdata/fixture"
	t.Setenv("FIXTURE_DIR", t.TempDir())
	broken := mutation{file: fixture + "/fixture.go", old: "n * 2", new: "n * 3", pkg: fixture}
	same := broken
	same.new = "n + n"
	binary := filepath.Join(t.TempDir(), "test")
	for _, c := range []struct {
		name string
		mutation
		run     string
		by, err string
	}{
		{"a test fails with the mutation", broken, "TestOther TestGood", "TestGood", ""},
		{"a subtest fails with the mutation", broken, "TestSubtests/two", "TestSubtests", ""},
		{"any subtest fails with the mutation", broken, "TestSubtests", "TestSubtests", ""},
		{"a subtest fails that cannot run alone", broken, "TestNeedsItsOthers", "TestNeedsItsOthers", ""},
		{"no test fails with the mutation", broken, "TestOther", "", "every test passed with the mutation"},
		{"no subtest fails with the mutation", broken, "TestSubtests/zero", "", "every test passed with the mutation"},
		{"the mutation changes nothing", same, "TestGood", "", "every test passed with the mutation"},
		{"red before", broken, "TestGood TestRedBefore", "", "TestRedBefore does not pass without the mutation"},
		{"skipped", broken, "TestGood TestSkipped", "", "TestSkipped does not pass without the mutation"},
		{"no subtest of this name", broken, "TestSubtests/three", "", "every test passed with the mutation"},
		{"hangs with the mutation", broken, "TestHangs", "", "the run panicked or timed out"},
		{"fails and hangs with the mutation", broken, "TestHangsBesideAFailure", "", "the run panicked or timed out"},
		{"panics with the mutation", broken, "TestPanics", "", "the run panicked or timed out"},
		{"panics with the mutation, which a suite reports as a failure", broken, "TestCaughtPanic", "", "the run panicked or timed out"},
		{"exits with the mutation", broken, "TestExits", "", "no test failed, and yet"},
		{"fails only the second time", same, "TestFlakyOnce", "", "failed with the mutation only once: it is flaky"},
		{"fails each time but the first", same, "TestFlakyOften", "", "failed without the mutation the second time: it is flaky"},
		{"does not compile", mutation{file: broken.file, old: "n * 2", new: "m", pkg: fixture}, "TestGood", "", "compile "},
		{"the old text is not there", mutation{file: broken.file, old: "n * 4", new: "m", pkg: fixture}, "TestGood", "", "holds the old text 0 times"},
		{"the old text is there twice", mutation{file: broken.file, old: "return", new: "m", pkg: fixture}, "TestGood", "", "holds the old text 2 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := newPackage(t.Context(), fixture, binary)
			require.NoError(t, err)
			p.leastLimit = 2 * time.Second
			c.mutation.run = c.run
			require.NoError(t, p.want(c.mutation))
			by, err := p.check(t.Context(), t.TempDir(), c.mutation)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.by, by)
		})
	}
	t.Run("hangs without the mutation", func(t *testing.T) {
		p, err := newPackage(t.Context(), fixture, binary)
		require.NoError(t, err)
		_, err = p.run(t.Context(), "^(TestGood|TestHangsAlways)$", time.Second)
		require.ErrorContains(t, err, "the run panicked or timed out", "although TestGood passed")
	})
}
