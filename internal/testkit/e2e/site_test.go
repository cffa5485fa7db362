package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Site is a site of one test: what fails ends the test, what is started ends with it.
type Site struct {
	*site.Site
	Client sdkclient.Client
}

// Workflows is the typed client of the site's workflows.
func (s *Site) Workflows() *client.Client { return client.New(s.Client) }

// newSite is a site on the shared server.
func newSite(t testing.TB) *Site {
	t.Helper()
	return siteOn(t, shared)
}

// ownServer starts a server that the test may kill, with a site on it.
func ownServer(t testing.TB) *Site {
	t.Helper()
	s := newServer(t.TempDir())
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return siteOn(t, s)
}

// siteOn makes a site with a namespace, a folder and a host name of its own.
func siteOn(t testing.TB, server *site.Server) *Site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	host := site.NewHost()
	require.NoError(t, server.NewNamespace(t.Context(), host))
	s, err := site.New(programs, server, host, host, dir)
	require.NoError(t, err)
	s.Files = inPlaceDir(t, s.Files)
	own := &Site{Site: s}
	own.serve(t, server)
	own.Allow(t, s.Files+"/**")
	return own
}

// serve makes a server the site's.
func (s *Site) serve(t testing.TB, server *site.Server) {
	t.Helper()
	c, err := server.Dial(s.Namespace)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s.Server, s.Client = server, c
}

// inPlaceDir gives a folder whose file system overwrites in place: the wanted one, or else
// one in memory.
func inPlaceDir(t testing.TB, wanted string) string {
	t.Helper()
	dir, _, err := site.InPlaceDir(t.Context(), wanted)
	if err != nil {
		t.Skipf("no file system here overwrites in place: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// Allow makes host.yaml allow these paths, and fake devices.
func (s *Site) Allow(t testing.TB, paths ...string) {
	t.Helper()
	require.NoError(t, s.Site.Allow(paths...))
}

// Burnish runs the command line.
func (s *Site) Burnish(t testing.TB, args ...string) proc.Result {
	t.Helper()
	r, err := s.Site.Burnish(context.WithoutCancel(t.Context()), patiently(args...)...) // in a cleanup too
	require.NoError(t, err)
	return r
}

// Must is Burnish that must succeed; it gives what was printed.
func (s *Site) Must(t testing.TB, args ...string) string {
	t.Helper()
	r := s.Burnish(t, args...)
	require.Zero(t, r.Code, r)
	return r.Stdout
}

// AwaitSaid repeats a command that must succeed until its output is as wanted: what it reads of
// the listing may be a moment older than what the devices say themselves.
func (s *Site) AwaitSaid(t testing.TB, wanted func(out string) bool, args ...string) {
	t.Helper()
	Await(t, 20*time.Second, strings.Join(args, " ")+" to say what the devices do", func() (bool, string) {
		out := s.Must(t, args...)
		return wanted(out), out
	})
}

// AwaitListed is AwaitSaid of an output that contains the text.
func (s *Site) AwaitListed(t testing.TB, text string, args ...string) {
	t.Helper()
	s.AwaitSaid(t, func(out string) bool { return strings.Contains(out, text) }, args...)
}

// Refused is a call that must end with exit code 1 and this fault code, in JSON as
// programs read it.
func (s *Site) Refused(t testing.TB, code device.Code, args ...string) proc.Result {
	t.Helper()
	r := s.Burnish(t, append(args, "-o", "json")...)
	require.Equal(t, 1, r.Code, r)
	var failure struct {
		Error struct {
			Code                    device.Code
			Device, Message, Remedy string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.Stderr), &failure), r)
	require.Equal(t, code, failure.Error.Code, r)
	require.NotEmpty(t, failure.Error.Message, r)
	require.NotEmpty(t, failure.Error.Remedy, r)
	return r
}

// Show is `burnish show -o json`.
func (s *Site) Show(t testing.TB, name string) contract.DeviceStatus {
	t.Helper()
	v, err := s.Site.Show(t.Context(), name)
	require.NoError(t, err)
	return v
}

// AwaitDevice polls `burnish show` until ok accepts the device.
func (s *Site) AwaitDevice(t testing.TB, name string, within time.Duration, what string,
	ok func(contract.DeviceStatus) bool) contract.DeviceStatus {
	t.Helper()
	v, err := s.Site.AwaitDevice(t.Context(), name, patience*within, what, ok)
	require.NoError(t, err)
	return v
}

// query asks the device's workflow, without a process of the command line, which would take the
// processor from what is waited for. What a running step says is not in the answer.
func (s *Site) query(ctx context.Context, name string) (v contract.DeviceStatus, seen string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	v, err = s.Workflows().Query(ctx, name)
	text, unreadable := json.Marshal(v)
	return v, fmt.Sprint(string(text), err, unreadable), err
}

// AwaitStatus waits until ok accepts what the device's workflow says of itself.
func (s *Site) AwaitStatus(t testing.TB, name string, within time.Duration, what string,
	ok func(contract.DeviceStatus) bool) (v contract.DeviceStatus) {
	t.Helper()
	Await(t, within, name+" "+what, func() (bool, string) {
		var seen string
		var err error
		v, seen, err = s.query(t.Context(), name)
		return err == nil && ok(v), seen
	})
	return v
}

// AwaitState waits for one of the states, and gives what `show` says of it.
func (s *Site) AwaitState(t testing.TB, name string, within time.Duration,
	states ...device.State) (v contract.DeviceStatus) {
	t.Helper()
	is := func(v contract.DeviceStatus) bool { return slices.Contains(states, v.DeviceState) }
	for v.DeviceState == "" || !is(v) { // it may have gone on
		s.AwaitStatus(t, name, within, fmt.Sprintf("to be %v", states), is)
		v = s.Show(t, name)
	}
	return v
}

// retry does something until it succeeds, as a client does whose server is away.
func (s *Site) retry(t testing.TB, what string, do func(context.Context) error) {
	t.Helper()
	poll(t, time.Minute, proc.PollEvery, what, func() (bool, string) {
		err := do(t.Context())
		return err == nil, fmt.Sprint(err)
	})
}

// each does something with several things at once. What fails ends the test when all have ended.
func each[T any](t *testing.T, all []T, do func(int, T)) {
	t.Helper()
	done := make(chan struct{})
	for i, one := range all {
		go func() {
			defer func() { done <- struct{}{} }() // also where do ends the goroutine: require does
			do(i, one)
		}()
	}
	for range all {
		<-done
	}
	if t.Failed() {
		t.FailNow()
	}
}

// Instance is a tenant's UUID, the same for the same word.
func Instance(word string) string { return site.Instance(word) }

// Bind gives the device to a tenant.
func (s *Site) Bind(t testing.TB, name, tenant string) {
	t.Helper()
	s.Must(t, "bind", name, "--instance", Instance(tenant))
}

// Unbind takes the device from its tenant.
func (s *Site) Unbind(t testing.TB, name, tenant string) {
	t.Helper()
	s.Must(t, "unbind", name, "--instance", Instance(tenant))
}

// Provider reads the inventory's file of a device.
func (s *Site) Provider(t testing.TB, name string) site.Provider {
	t.Helper()
	p, err := s.Site.Provider(name)
	require.NoError(t, err)
	return p
}

// RequireReserved asserts what stands in the inventory's file.
func (s *Site) RequireReserved(t testing.TB, name string, reserved int) {
	t.Helper()
	p := s.Provider(t, name)
	require.Equal(t, [3]int{1, reserved, 0}, [3]int{p.Total, p.Reserved, p.Used}, "total, reserved and used of %s", name)
}

// AwaitReserved waits for a value of reserved: the write follows the change of the state.
func (s *Site) AwaitReserved(t testing.TB, name string, reserved int) {
	t.Helper()
	Await(t, 30*time.Second, fmt.Sprintf("reserved=%d of %s", reserved, name), func() (bool, string) {
		p := s.Provider(t, name)
		return p.Reserved == reserved, fmt.Sprint(p)
	})
}

// Worker is a worker of one test.
type Worker struct{ *site.Worker }

// Worker makes a worker of the site that is not started yet.
func (s *Site) Worker(t testing.TB, role string, env ...string) *Worker {
	t.Helper()
	w := &Worker{s.Site.Worker(role, env...)}
	t.Cleanup(func() {
		require.NoError(t, w.Process.Kill())
		if t.Failed() && w.Process != nil {
			t.Logf("the end of the log of the %s worker of %s:\n%s", w.Role, w.Host, w.Tail())
		}
	})
	return w
}

// Run is Worker, started.
func (s *Site) Run(t testing.TB, role string, env ...string) *Worker {
	t.Helper()
	w := s.Worker(t, role, env...)
	w.Start(t)
	return w
}

// Start starts the worker, or starts it again, and returns when it polls.
func (w *Worker) Start(t testing.TB) {
	t.Helper()
	require.NoError(t, w.Worker.Start(t.Context()))
}

// Kill is kill -9.
func (w *Worker) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, w.Process.Kill())
}

// Freeze is SIGSTOP.
func (w *Worker) Freeze(t testing.TB) {
	t.Helper()
	require.NoError(t, w.Process.Freeze())
}

// Thaw is SIGCONT.
func (w *Worker) Thaw(t testing.TB) {
	t.Helper()
	require.NoError(t, w.Process.Thaw())
}

// Stop is SIGTERM; it gives the exit code.
func (w *Worker) Stop(t testing.TB, within time.Duration) int {
	t.Helper()
	require.NoError(t, w.Signal(syscall.SIGTERM))
	code, err := w.Wait(within)
	require.NoError(t, err)
	return code
}
