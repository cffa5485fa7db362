package mutation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRunner tries the runner on tests that behave badly: only an assertion that holds without
// the mutation, and fails with it, notices it.
func TestRunner(t *testing.T) {
	const fixture = "./internal/testkit/mutation/testdata/fixture"
	for _, c := range []struct{ name, test, old, new, err string }{
		{"the test fails", "TestGood", "n * 2", "n * 3", ""},
		{"a subtest fails", "TestSubtests/two", "n * 2", "n * 3", ""},
		{"the test passes", "TestOther", "n * 2", "n * 3", "TestOther passes with the mutation"},
		{"the subtest passes", "TestSubtests/zero", "n * 2", "n * 3", "TestSubtests/zero passes with the mutation"},
		{"no test of this name", "TestNone", "n * 2", "n * 3", "there is no TestNone"},
		{"red before", "TestRedBefore", "n * 2", "n * 3", "TestRedBefore fails without the mutation"},
		{"skipped", "TestSkipped", "n * 2", "n * 3", "without the mutation: TestSkipped is skipped"},
		{"hangs", "TestHangs", "n * 2", "n * 3", "with the mutation: the run panicked or timed out"},
		{"panics, which a suite reports as a failure", "TestCaughtPanic", "n * 2", "n * 3", "the run panicked or timed out"},
		{"does not compile", "TestGood", "n * 2", "m", "with the mutation: no test failed, and yet"},
		{"the old text is not there", "TestGood", "n * 4", "m", "holds the old text 0 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := mutation{file: fixture + "/fixture.go", old: c.old, new: c.new, pkg: fixture, test: c.test}
			err := m.check(t.Context(), t.TempDir(), 2*time.Second)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}
