// Package openstack runs the real Placement and Keystone for tests, on loopback
// and on files of their own, plays Nova's scheduler on them, and records and disturbs
// what is said to them.
//
//	server := openstack.Start(t, openstack.Options{})
//	recorder := openstack.Record(t, server.URL)
//	store, err := placement.Open(t.Context(), placement.Settings{Getenv: openstack.Noauth(recorder.URL)})
package openstack

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// patient runs a program whose server holds more connections that wait for it than the 5
// of wsgiref, which is the program's: of eight clients at once the kernel would have some
// try again after seconds, or let them wait until they give up.
const largeBacklog = `
import runpy, socketserver, sys
socketserver.TCPServer.request_queue_size = 128
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
`

// startTimeout is long: a machine that runs other tests takes its time.
const startTimeout = 2 * time.Minute

// Missing says in one line what is not installed here, "" where nothing is.
func Missing() string {
	var missing []string
	for _, needed := range [][2]string{{placementAPI, "python3-placement"}, {keystonePublic, "python3-keystone"}} {
		if _, err := os.Stat(needed[0]); err != nil {
			missing = append(missing, fmt.Sprintf("no %s (package %s)", needed[0], needed[1]))
		}
	}
	return strings.Join(missing, "; ")
}

// Need skips the test, with the reason, where the services are not installed.
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
	command []string
	env     []string

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
}

// serve starts a program that is given --host and --port, and waits until it answers.
func serve(t testing.TB, s *Service) *Service {
	t.Helper()
	// The port is free when it is chosen; another may take it before the program does.
	for attempt := range 3 {
		port := freePort(t)
		s.URL = "http://127.0.0.1:" + strconv.Itoa(port)
		if err := s.start(); err == nil {
			t.Cleanup(func() {
				s.Kill(t)
				if t.Failed() {
					t.Log(s.tail())
				}
			})
			return s
		} else if attempt == 2 {
			require.NoError(t, err)
		}
	}
	return s
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	address, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return address.Port
}

// start starts the program on its port and waits until it answers.
func (s *Service) start() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	cmd := exec.Command(python, slices.Concat([]string{"-c", largeBacklog}, s.command, []string{"--host", "127.0.0.1", "--port", port})...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, log, log
	cmd.Env = append(cleanEnvironment(), s.env...)
	// It does not outlive the tests, whichever way they end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed; what it had to say is in its log
		close(ended)
	}()
	s.mu.Lock()
	s.process, s.ended = cmd, ended
	s.mu.Unlock()
	deadline := time.After(startTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(s.URL + "/")
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("%s has ended: %s", s.name, s.Log())
		case <-deadline:
			return fmt.Errorf("%s does not answer within %s: %s", s.name, startTimeout, s.Log())
		}
	}
}

// Kill is kill -9, by its own pid; it returns when the program is gone.
func (s *Service) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.process = nil
	s.mu.Unlock()
	if process == nil {
		return
	}
	if err := process.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err)
	}
	select {
	case <-ended:
	case <-time.After(startTimeout):
		require.Fail(t, s.name+" does not end after kill -9")
	}
}

// Restart starts the program again after Kill, on the same port and files.
func (s *Service) Restart(t testing.TB) {
	t.Helper()
	require.NoError(t, s.start())
}

// Log is what the program has written so far.
func (s *Service) Log() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// tail is the end of the log, for a test that failed.
func (s *Service) tail() string {
	const most = 4000
	text := s.Log()
	return text[max(0, len(text)-most):]
}

func (s *Service) log() string { return filepath.Join(s.Dir, s.name+".log") }

// clean is the environment without what could make the services read other files.
func cleanEnvironment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "OS_") && !strings.HasPrefix(pair, "PYTHON") {
			env = append(env, pair)
		}
	}
	return env
}

// run runs a program to its end.
func run(t testing.TB, dir string, env []string, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(cleanEnvironment(), env...), strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Run(), "%s: %s", strings.Join(args, " "), &out)
	return out.String()
}
