package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"burnish/internal/testkit/cluster"
	"burnish/internal/testkit/site"
)

// root is the repository's, seen from this package's folder.
const root = "../../.."

var (
	programs site.Programs
	// shared is the server of all tests that do not kill theirs.
	shared *site.Server
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// runAll builds the programs, starts the shared server, runs the tests.
func runAll(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "burnish-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if programs, err = site.Build(root, dir); err != nil {
		return 1, err
	}
	if why := cluster.Missing(); onCluster() && why != "" {
		fmt.Fprintln(os.Stderr, "e2e: skipped on a cluster:", why)
		if os.Getenv("BURNISH_TEST_REQUIRE") == "all" {
			return 1, nil
		}
		return 0, nil
	}
	shared = newServer(dir)
	shared.Fast = true
	if err := shared.Start(context.Background()); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	// Most tests wait for something most of the time.
	if !given("test.parallel") {
		if err := flag.Set("test.parallel", "4"); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// newServer is a server that is not started yet. It leaves processors to the others.
func newServer(dir string) *site.Server {
	return &site.Server{Program: programs.Server, Dir: dir, Env: []string{"GOMAXPROCS=2"}}
}

// onCluster is whether the servers of all tests are clusters: `make test-cluster`.
func onCluster() bool { return filepath.Base(programs.Server) == "burnish-cluster" }

// onlyOnDevserver skips a test that a cluster cannot run.
func onlyOnDevserver(t *testing.T, why string) {
	t.Helper()
	if onCluster() {
		t.Skip("not on a cluster: " + why)
	}
}
