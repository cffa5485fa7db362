package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// shared is the server of all tests that let it live.
var (
	shared   *Server
	programs Programs
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
	defer func() {
		if gone := os.RemoveAll(dir); err == nil {
			err = gone
		}
	}()
	if programs, err = Build(dir); err != nil {
		return 1, err
	}
	shared = NewServer(programs.Server, dir, true)
	if err := shared.Start(); err != nil {
		return 1, err
	}
	defer shared.Stop()
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

// newSite is a site on the shared server.
func newSite(t testing.TB) *Site {
	t.Helper()
	return NewSite(t, programs, shared)
}

// ownServer starts a server that the test may kill, with a site on it.
func ownServer(t testing.TB) *Site {
	t.Helper()
	s := NewServer(programs.Server, t.TempDir(), false)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return NewSite(t, programs, s)
}
