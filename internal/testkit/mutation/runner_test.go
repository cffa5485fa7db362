package mutation

import (
	"context"
	"encoding/json"
	"errors"
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

// atOnce bounds how many mutations are compiled and run at once.
const atOnce = 2

const (
	// greenLimit is what all wanted tests of a package may take without a mutation.
	greenLimit = 10 * time.Minute
	// leastLimit is what the tests of a mutation may take, besides twice their green time.
	leastLimit = 2 * time.Minute
)

// TestEveryMutationIsNoticed runs the tests of each mutation without it, where they must
// pass, and with it, where one must fail. A panic or a time-out is an error of the table. It
// takes one of each package; all of them with BURNISH_MUTATIONS=all, as in `make soak`; or
// those whose name, file or test holds that text. In both cases the test must pass again without
// the mutation and fail again with it, so that one that fails now and then does not count.
func TestEveryMutationIsNoticed(t *testing.T) {
	packages := map[string]*pkg{}
	chosen := ofEachPackage()
	if wanted := os.Getenv("BURNISH_MUTATIONS"); wanted == "all" {
		chosen = mutations
	} else if wanted != "" {
		chosen = slices.DeleteFunc(slices.Clone(mutations), func(m mutation) bool {
			return !strings.Contains(m.name+"\n"+m.file+"\n"+m.run, wanted)
		})
	}
	require.NotEmpty(t, chosen)
	t.Logf("%d of %d mutations", len(chosen), len(mutations))
	for _, m := range chosen {
		if packages[m.pkg] == nil {
			p, err := newPackage(t.Context(), m.pkg, filepath.Join(t.TempDir(), "test"))
			require.NoError(t, err)
			p.twice = os.Getenv("BURNISH_MUTATIONS") != ""
			packages[m.pkg] = p
		}
		require.NoError(t, packages[m.pkg].want(m))
	}
	slots := make(chan struct{}, atOnce)
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			start := time.Now()
			by, err := packages[m.pkg].check(t.Context(), t.TempDir(), m)
			require.NoError(t, err)
			t.Logf("noticed by %s, after %s", by, time.Since(start).Round(time.Second/10))
		})
	}
}

// ofEachPackage gives one mutation of a safety rule for each package of tests: the first whose file
// is in that package, where less is compiled anew. The others run in `make soak` alone: each
// takes seconds to compile.
func ofEachPackage() []mutation {
	var chosen []mutation
	seen := map[string]bool{}
	for _, m := range mutations {
		if strings.HasPrefix(m.rule, "F") && !seen[m.pkg] && "./"+filepath.Dir(m.file) == m.pkg {
			chosen, seen[m.pkg] = append(chosen, m), true
		}
	}
	return chosen
}

// pkg is the tests of one package.
type pkg struct {
	path       string
	tests      testsOf
	wanted     []string // all that mutations name, without subtests
	leastLimit time.Duration
	// twice: the test that notices a mutation must do so again.
	twice bool

	// binary is the path of the tests without a mutation, compiled once.
	binary func() (string, error)
	// green is the run of all wanted tests without a mutation, once, in this process: what
	// an earlier `go test` said proves nothing.
	green func() (result, error)
}

// newPackage gives a package whose tests, without a mutation, are compiled to binary.
func newPackage(ctx context.Context, path, binary string) (*pkg, error) {
	tests, err := parseTests(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	p := &pkg{path: path, tests: tests, leastLimit: leastLimit, twice: true}
	p.binary = sync.OnceValues(func() (string, error) { return binary, compile(ctx, binary, path) })
	p.green = sync.OnceValues(func() (result, error) { return p.run(ctx, pattern(p.wanted, ""), greenLimit) })
	return p, nil
}

// want adds the tests of m to those that run without a mutation. Subtests run by themselves.
func (p *pkg) want(m mutation) error {
	names, sub, err := p.tests.resolve(m.run)
	if err == nil && sub == "" {
		p.wanted = append(p.wanted, names...)
	}
	return err
}

// run runs tests without a mutation.
func (p *pkg) run(ctx context.Context, pattern string, limit time.Duration) (result, error) {
	binary, err := p.binary()
	if err != nil {
		return result{}, err
	}
	return runTests(ctx, binary, p.path, pattern, limit)
}

// errFlaky is of a test whose result differs from run to run.
var errFlaky = errors.New("it is flaky")

// check gives the test that notices m.
func (p *pkg) check(ctx context.Context, dir string, m mutation) (string, error) {
	names, sub, err := p.tests.resolve(m.run)
	if err != nil {
		return "", err
	}
	before := p.green
	if sub != "" {
		before = func() (result, error) { return p.run(ctx, pattern(names, sub), greenLimit) }
	}
	green, err := before()
	if err != nil {
		return "", fmt.Errorf("without the mutation: %w", err)
	}
	for _, name := range names {
		if !green.passed[name] {
			return "", fmt.Errorf("%s does not pass without the mutation, or is skipped:\n%s", name, green.out)
		}
	}
	binary, err := compileMutant(ctx, dir, m)
	if err != nil {
		return "", err
	}
	limit := p.leastLimit + 2*green.took
	first, err := runTests(ctx, binary, p.path, pattern(names, sub), limit, "-test.failfast")
	if err != nil {
		return "", fmt.Errorf("with the mutation: %w", err)
	}
	if len(first.failed) == 0 {
		return "", fmt.Errorf("every test passed with the mutation:\n%s", first.out)
	}
	if !p.twice {
		return first.failed[0], nil
	}
	// A test that fails now and then: it must pass again without, and fail again with it. One
	// subtest of it is enough, if it can run alone.
	by, alone := first.failed[0], pattern([]string{first.failed[0]}, sub)
	again, err := p.run(ctx, first.leaf(by), limit)
	if err == nil && again.passed[by] {
		alone = first.leaf(by)
	} else {
		again, err = p.run(ctx, alone, limit)
	}
	if err == nil && !again.passed[by] {
		err = errFlaky
	}
	if err != nil {
		return "", fmt.Errorf("%s failed without the mutation the second time: %w\n%s", by, err, again.out)
	}
	second, err := runTests(ctx, binary, p.path, alone, limit, "-test.failfast")
	if err == nil && len(second.failed) == 0 {
		err = errFlaky
	}
	if err != nil {
		return "", fmt.Errorf("%s failed with the mutation only once: %w\n%s", by, err, second.out)
	}
	return by, nil
}

// leaf is the pattern of the first subtest of a test that failed and has no failed subtest
// itself, or else of the test.
func (r result) leaf(test string) string {
	path := test
	for _, found := range anyFailLine.FindAllStringSubmatch(r.out, -1) {
		if strings.HasPrefix(found[1], path+"/") {
			path = found[1]
		}
	}
	elements := strings.Split(path, "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(element) + "$"
	}
	return strings.Join(elements, "/")
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

// result is a run of tests that came to its end: each test passed, failed or was skipped.
type result struct {
	passed map[string]bool // those of which no subtest was skipped
	failed []string        // in the order of their ends
	took   time.Duration
	out    string
}

var (
	passLine = regexp.MustCompile(`(?m)^--- PASS: (\S+)`)
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	// anyFailLine is of a subtest too.
	anyFailLine = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	skipLine    = regexp.MustCompile(`--- SKIP: ([^/ ]+)`)
	// brokenLine is of a run that ended early. The indented ones are a panic, or a workflow
	// that is stuck, which a test suite reports as a failure.
	brokenLine = regexp.MustCompile(`(?m)^(panic: |fatal error: )|^\s.*\b(test panicked: |test timeout: )`)
)

// runTests fails unless the tests came to their end: after a panic, a time-out or an exit of
// the process it is not known which test would have failed.
func runTests(ctx context.Context, binary, pkg, pattern string, limit time.Duration, flags ...string) (result, error) {
	// The binary ends itself; if it cannot, or a child of it keeps the pipe, it is ended.
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(flags, "-test.v", "-test.run", pattern, "-test.timeout", limit.String())...)
	cmd.Dir = filepath.Join(root, pkg)
	cmd.WaitDelay = 10 * time.Second
	start := time.Now()
	out, err := cmd.CombinedOutput()
	r := result{passed: map[string]bool{}, took: time.Since(start), out: string(out)}
	for _, found := range passLine.FindAllStringSubmatch(r.out, -1) {
		r.passed[found[1]] = true
	}
	for _, found := range skipLine.FindAllStringSubmatch(r.out, -1) {
		delete(r.passed, found[1])
	}
	for _, found := range failLine.FindAllStringSubmatch(r.out, -1) {
		r.failed = append(r.failed, found[1])
	}
	var exit *exec.ExitError
	switch {
	case brokenLine.MatchString(r.out):
		err = fmt.Errorf("the run panicked or timed out: %w", err)
	case err == nil && len(r.failed) == 0 && len(r.passed) > 0:
		return r, nil
	case errors.As(err, &exit) && exit.ExitCode() == 1 && len(r.failed) > 0:
		return r, nil
	case err == nil:
		err = errors.New("no test ran to its end")
	default:
		err = fmt.Errorf("no test failed, and yet: %w", err)
	}
	return r, fmt.Errorf("%w\n%s", err, r.out)
}
