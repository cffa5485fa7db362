// Package openstack runs the real Placement, Keystone and Ironic on loopback, each with files of
// its own. It acts as Nova's scheduler on them, and it records requests and injects faults
// into them.
//
//	server := openstack.Start(t, openstack.Options{})
//	recorder := openstack.Record(t, server.URL)
//	store, err := placement.Open(t.Context(), placement.Settings{Getenv: openstack.Noauth(recorder.URL)})
package openstack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
)

// The programs, and the interpreter that Debian's packages are for: another may be
// the first on the PATH.
const (
	python          = "/usr/bin/python3"
	placementAPI    = "/usr/bin/placement-api"
	placementManage = "/usr/bin/placement-manage"
	keystonePublic  = "/usr/bin/keystone-wsgi-public"
	keystoneManage  = "/usr/bin/keystone-manage"
)

// startTimeout is long: the machine may be running other tests.
const startTimeout = 5 * time.Minute

// Missing names in one line the packages that are not installed, "" where none is missing.
func Missing() string {
	var missing []string
	for _, needed := range [][2]string{{placementAPI, "python3-placement"}, {keystonePublic, "python3-keystone"}} {
		if _, err := os.Stat(needed[0]); err != nil {
			missing = append(missing, fmt.Sprintf("no %s (package %s)", needed[0], needed[1]))
		}
	}
	return strings.Join(missing, "; ")
}

// SkipIfMissing skips the test where the services are not installed.
func SkipIfMissing(t testing.TB) {
	t.Helper()
	if missing := Missing(); missing != "" {
		t.Skip(missing)
	}
}

// Service is one program that serves HTTP on a loopback port.
type Service struct {
	// URL is where it serves, the same after a restart.
	URL string
	// Dir holds its configuration, its database and its log.
	Dir string

	name    string
	forker  *forker
	program string
	env     []string

	mu      sync.Mutex
	process *forked
}

// serve starts the program on a free port and waits until it answers.
func (s *Service) serve(ctx context.Context) error {
	// The port is free when it is chosen; another program may take it before this one does.
	for attempt := 1; ; attempt++ {
		ports, err := proc.FreePorts(0)
		if err != nil {
			return err
		}
		s.URL = "http://127.0.0.1:" + strconv.Itoa(ports[0])
		if err := s.start(ctx); err == nil || attempt == 3 {
			return err
		}
	}
}

// serveTest serves until the test ends.
func (s *Service) serveTest(t testing.TB) {
	t.Helper()
	require.NoError(t, s.serve(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		if t.Failed() {
			t.Log(s.process.tail())
		}
	})
}

// start starts the program on its port and waits until it answers.
func (s *Service) start(ctx context.Context) error {
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	p, err := s.forker.start(s.Dir, filepath.Join(s.Dir, s.name+".log"), append(cleanEnvironment(), s.env...),
		[]string{s.program, "--host", "127.0.0.1", "--port", port})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	answers := false
	if err := proc.Await(ctx, startTimeout, 20*time.Millisecond, s.name+" to answer", func() (bool, string) {
		answer, err := http.Get(s.URL + "/")
		if err == nil {
			err = answer.Body.Close()
		}
		answers = err == nil
		return answers || !p.alive(), fmt.Sprint(err)
	}); err != nil || !answers {
		return fmt.Errorf("start %s: %w: %s", s.name, err, p.tail())
	}
	return nil
}

// Close kills the program, as Kill does.
func (s *Service) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.kill()
}

// Kill is kill -9. It returns when the program has ended.
func (s *Service) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, s.Close())
}

// Restart starts the program again after Kill, on the same port and files.
func (s *Service) Restart(t testing.TB) {
	t.Helper()
	require.NoError(t, s.start(t.Context()))
}

// cleanEnvironment leaves out what could make the services read other files.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "OS_") || strings.HasPrefix(pair, "PYTHON")
	})
}

// runPython runs a program to its end.
func runPython(ctx context.Context, dir string, env []string, stdin string, args ...string) error {
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(cleanEnvironment(), env...), strings.NewReader(stdin)
	_, err := proc.Succeed(cmd)
	return err
}
