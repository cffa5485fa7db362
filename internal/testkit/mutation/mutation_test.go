package mutation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutation removes one promise from the product: old, which occurs in file exactly once,
// becomes new, and one of the tests that run names must fail.
type mutation struct {
	rule string // the number of the rule, if one states the promise
	name string // the promise

	file, old, new string

	pkg string
	run string // names of tests, "TestA TestB/sub"; or "cites F1": each test whose comment cites F1
}

var mutations = slices.Concat(lifecycleMutations, hostMutations, inventoryMutations, journalMutations, stepsMutations, blockMutations, nvmeMutations, scriptMutations, lostMutations)

// root is the repository's root, relative to this package.
const root = "../../.."

// atOnce bounds how many mutations are compiled and run at once.
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
			_, _, err = tests[m.pkg].resolve(m.run)
			require.NoError(t, err, "in %s", m.pkg)
		})
	}
}

// TestEveryMutationIsNoticed runs the tests of each mutation without it, where they must
// pass, and with it, where one must fail. A panic or a time-out is an error of the table.
func TestEveryMutationIsNoticed(t *testing.T) {
	packages := map[string]*pkg{}
	for _, m := range mutations {
		if packages[m.pkg] == nil {
			tests, err := parseTests(filepath.Join(root, m.pkg))
			require.NoError(t, err)
			packages[m.pkg] = newPackage(t.Context(), m.pkg, filepath.Join(t.TempDir(), "test"), tests)
		}
		names, sub, err := packages[m.pkg].tests.resolve(m.run)
		require.NoError(t, err)
		if sub == "" {
			packages[m.pkg].wanted = append(packages[m.pkg].wanted, names...)
		}
	}
	slots := make(chan struct{}, atOnce)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			require.NoError(t, packages[m.pkg].check(t.Context(), t.TempDir(), m))
		})
	}
}

// green is the tests that passed without a mutation, and the time of all together.
type green struct {
	passed map[string]bool
	took   time.Duration
}

// pkg is the tests of one package.
type pkg struct {
	tests  testsOf
	wanted []string // all that mutations name, without subtests

	// binary is the path of the tests without a mutation, compiled once.
	binary func() (string, error)
	// green is run of all wanted tests, once.
	green func() (green, error)
}

func newPackage(ctx context.Context, path, binary string, tests testsOf) *pkg {
	p := &pkg{tests: tests}
	p.binary = sync.OnceValues(func() (string, error) { return binary, compile(ctx, binary, path) })
	p.green = sync.OnceValues(func() (green, error) { return p.run(ctx, path, pattern(p.wanted, "")) })
	return p
}

// run runs tests without a mutation. A test that was skipped, or of which a subtest was,
// has not passed.
func (p *pkg) run(ctx context.Context, path, pattern string) (green, error) {
	binary, err := p.binary()
	if err != nil {
		return green{}, err
	}
	start := time.Now()
	out, err := runTests(ctx, binary, path, pattern, 10*time.Minute)
	g := green{map[string]bool{}, time.Since(start)}
	for _, found := range regexp.MustCompile(`(?m)^--- PASS: (\S+)`).FindAllStringSubmatch(out, -1) {
		g.passed[found[1]] = true
	}
	for _, found := range regexp.MustCompile(`--- SKIP: ([^/ ]+)`).FindAllStringSubmatch(out, -1) {
		delete(g.passed, found[1])
	}
	if len(g.passed) == 0 {
		return g, fmt.Errorf("no test passes without a mutation: %w\n%s", err, out)
	}
	return g, nil
}

func (p *pkg) check(ctx context.Context, dir string, m mutation) error {
	names, sub, err := p.tests.resolve(m.run)
	if err != nil {
		return err
	}
	before := p.green
	if sub != "" {
		before = func() (green, error) { return p.run(ctx, m.pkg, pattern(names, sub)) }
	}
	g, err := before()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !g.passed[name] {
			return fmt.Errorf("%s does not pass without the mutation, or is skipped", name)
		}
	}
	binary, err := compileMutant(ctx, dir, m)
	if err != nil {
		return err
	}
	out, err := runTests(ctx, binary, m.pkg, pattern(names, sub), 2*time.Minute+2*g.took, "-test.failfast")
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

func runTests(ctx context.Context, binary, pkg, pattern string, limit time.Duration, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, append(flags, "-test.v", "-test.run", pattern, "-test.timeout", limit.String())...)
	cmd.Dir = filepath.Join(root, pkg)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// hasLine says whether a line of out starts so. A panic that a test only logs is indented.
func hasLine(out, start string) bool {
	return strings.HasPrefix(out, start) || strings.Contains(out, "\n"+start)
}

// TestEveryMarkedRuleHasAMutation reads the rules that docs/safety.md marks with (M).
func TestEveryMarkedRuleHasAMutation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	rules := map[string]bool{}
	for _, m := range mutations {
		rules[m.rule] = true
	}
	marked := regexp.MustCompile(`(?m)^\| (F\d+) \(M\) \|(.*)$`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, marked)
	for _, rule := range marked {
		planned := strings.Contains(rule[2], "*Planned.*")
		require.Equal(t, !planned, rules[rule[1]], "rule %s has a mutation, planned: %v", rule[1], planned)
	}
}
