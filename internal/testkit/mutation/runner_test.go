package mutation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limit is what the test of a mutation may take.
const limit = 2 * time.Minute

// TestEveryMutationIsNoticed takes one mutation of each package of tests; all of them with
// BURNISH_MUTATIONS=all, as in `make soak`; or those whose name, file or test holds that text.
func TestEveryMutationIsNoticed(t *testing.T) {
	wanted := os.Getenv("BURNISH_MUTATIONS")
	of := map[string]bool{}
	for _, m := range mutations {
		chosen := wanted == "all" || strings.Contains(m.name+"\n"+m.file+"\n"+m.test, wanted)
		if chosen && (wanted != "" || !of[m.pkg]) {
			of[m.pkg] = true
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				require.NoError(t, m.check(t.Context(), t.TempDir(), limit))
			})
		}
	}
	require.NotEmpty(t, of, "no mutation has %q in its name, file or test", wanted)
}

// check fails unless the mutation's test passes without it, and fails with it. After a panic, a
// time-out or an exit of the process it is not known whether the test would have noticed.
func (m mutation) check(ctx context.Context, dir string, limit time.Duration) error {
	overlay, err := m.overlay(dir)
	if err != nil {
		return err
	}
	switch passed, out, err := m.runTest(ctx, limit); {
	case err != nil:
		return fmt.Errorf("without the mutation: %w\n%s", err, out)
	case !passed:
		return fmt.Errorf("%s fails without the mutation:\n%s", m.test, out)
	}
	switch passed, out, err := m.runTest(ctx, limit, "-failfast", "-overlay", overlay); {
	case err != nil:
		return fmt.Errorf("with the mutation: %w\n%s", err, out)
	case passed:
		return fmt.Errorf("%s passes with the mutation:\n%s", m.test, out)
	}
	return nil
}

// overlay writes what the compiler reads in place of the mutation's file: the tree is not touched.
func (m mutation) overlay(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s holds the old text %d times", m.file, n)
	}
	mutant := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(mutant, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutant}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, overlay, 0o600)
}

var (
	passLine = regexp.MustCompile(`(?m)^--- PASS: `)
	failLine = regexp.MustCompile(`(?m)^--- FAIL: `)
	skipLine = regexp.MustCompile(`(?m)^ *--- SKIP: `)
	// brokenLine is of a run that ended early. The indented ones are a panic, or a workflow
	// that is stuck, which a test suite reports as a failure.
	brokenLine = regexp.MustCompile(`(?m)^(panic: |fatal error: )|^\s.*\b(test panicked: |test timeout: )`)
)

// runTest says whether the test passed, with its output; that it neither passed nor failed is an error.
func (m mutation) runTest(ctx context.Context, limit time.Duration, flags ...string) (bool, string, error) {
	name, sub, _ := strings.Cut(m.test, "/")
	pattern := strings.TrimSuffix("^"+name+"$/"+sub, "/")
	args := append([]string{"test", "-vet=off", "-count=1", "-v", "-timeout", limit.String(), "-run", pattern}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, m.pkg)...)
	cmd.Dir = root
	text, err := cmd.CombinedOutput()
	out := string(text)
	switch {
	case brokenLine.MatchString(out):
		return false, out, fmt.Errorf("the run panicked or timed out: %w", err)
	case skipLine.MatchString(out):
		return false, out, fmt.Errorf("%s is skipped", m.test)
	case err == nil && passLine.MatchString(out):
		return true, out, nil
	case err != nil && failLine.MatchString(out):
		return false, out, nil
	case err != nil:
		return false, out, fmt.Errorf("no test failed, and yet: %w", err)
	}
	return false, out, fmt.Errorf("there is no %s", m.test)
}
