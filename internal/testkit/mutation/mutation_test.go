package mutation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutation takes one promise out of the product: old, which stands in file exactly once,
// becomes new, and one of the tests that run names must fail.
type mutation struct {
	rule string // the number of the rule, if one states the promise
	name string // the promise

	file, old, new string

	pkg string
	run string // names of tests, "TestA TestB/sub"; or "cites F1": each test whose comment cites F1
}

var mutations = slices.Concat(lifecycleMutations, hostMutations, stepsMutations, blockMutations, nvmeMutations, scriptMutations)

// root is the repository's, seen from here.
const root = "../../.."

// atOnce bounds how many mutations are compiled and run beside each other.
const atOnce = 2

func TestEveryMutationHasItsPlace(t *testing.T) {
	tests := map[string]testsOf{}
	seen := map[string]bool{}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			require.False(t, seen[m.name], "two mutations have this name")
			seen[m.name] = true
			require.NotEqual(t, m.old, m.new)
			text, err := os.ReadFile(filepath.Join(root, m.file))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), m.old), "occurrences in %s of\n%s", m.file, m.old)
			if tests[m.pkg] == nil {
				tests[m.pkg], err = parseTests(filepath.Join(root, m.pkg))
				require.NoError(t, err)
			}
			_, err = tests[m.pkg].pattern(m.run)
			require.NoError(t, err, "in %s", m.pkg)
		})
	}
}

// TestEveryMutationIsNoticed runs the tests of each mutation without it, where they must
// pass, and with it, where one must fail. A panic or a time-out is an error of the table.
func TestEveryMutationIsNoticed(t *testing.T) {
	r := &runner{dir: t.TempDir(), once: map[string]func() (string, error){}, green: map[string]func() (time.Duration, error){}}
	slots := make(chan struct{}, atOnce)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			require.NoError(t, r.check(t.Context(), t.TempDir(), m))
		})
	}
}

// runner compiles each package without mutations once, and runs each set of its tests once.
type runner struct {
	dir string

	mu    sync.Mutex
	once  map[string]func() (binary string, err error)      // by package
	green map[string]func() (took time.Duration, err error) // by package and pattern
}

func (r *runner) check(ctx context.Context, dir string, m mutation) error {
	tests, err := parseTests(filepath.Join(root, m.pkg))
	if err != nil {
		return err
	}
	pattern, err := tests.pattern(m.run)
	if err != nil {
		return err
	}
	took, err := r.unchanged(ctx, m.pkg, pattern)
	if err != nil {
		return fmt.Errorf("without the mutation: %w", err)
	}
	binary, err := compileMutant(ctx, dir, m)
	if err != nil {
		return err
	}
	out, err := runTests(ctx, binary, m.pkg, pattern, 30*time.Second+10*took)
	switch {
	case err == nil:
		return fmt.Errorf("every test passed with the mutation:\n%s", out)
	case hasLine(out, "panic: "), hasLine(out, "fatal error: "):
		return fmt.Errorf("no test failed: the run panicked or timed out: %w\n%s", err, out)
	case !hasLine(out, "--- FAIL: "):
		return fmt.Errorf("no test failed: %w\n%s", err, out)
	}
	return nil
}

// unchanged says how long the tests take without a mutation. All must run and pass.
func (r *runner) unchanged(ctx context.Context, pkg, pattern string) (time.Duration, error) {
	r.mu.Lock()
	if r.once[pkg] == nil {
		binary := filepath.Join(r.dir, strings.ReplaceAll(pkg, "/", "_"))
		r.once[pkg] = sync.OnceValues(func() (string, error) { return binary, compile(ctx, binary, pkg) })
	}
	binary := r.once[pkg]
	key := pkg + " " + pattern
	if r.green[key] == nil {
		r.green[key] = sync.OnceValues(func() (time.Duration, error) {
			binary, err := binary()
			if err != nil {
				return 0, err
			}
			start := time.Now()
			out, err := runTests(ctx, binary, pkg, pattern, 5*time.Minute)
			switch {
			case err != nil:
				return 0, fmt.Errorf("%w\n%s", err, out)
			case strings.Contains(out, "--- SKIP: "): // or one of its subtests
				return 0, fmt.Errorf("a test was skipped:\n%s", out)
			case !hasLine(out, "--- PASS: "):
				return 0, fmt.Errorf("no test ran:\n%s", out)
			}
			return time.Since(start), nil
		})
	}
	green := r.green[key]
	r.mu.Unlock()
	return green()
}

// compileMutant compiles the tests with the mutation by an overlay: the tree is not touched.
func compileMutant(ctx context.Context, dir string, m mutation) (string, error) {
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
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "test")
	return binary, compile(ctx, binary, m.pkg, "-overlay", overlayFile)
}

// compile leaves debugging information out, as `go test` does: linking takes half as long.
func compile(ctx context.Context, binary, pkg string, flags ...string) error {
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func runTests(ctx context.Context, binary, pkg, pattern string, limit time.Duration) (string, error) {
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.run", pattern, "-test.timeout", limit.String())
	cmd.Dir = filepath.Join(root, pkg)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// hasLine says whether a line of out starts so. A panic that a test only logs is indented.
func hasLine(out, start string) bool {
	return strings.HasPrefix(out, start) || strings.Contains(out, "\n"+start)
}
