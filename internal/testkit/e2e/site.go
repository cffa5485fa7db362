package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/inventory/file"
	"burnish/workflows/contract"
)

// Site is the world of one test: a namespace, a folder, a host.
type Site struct {
	Server    *Server
	Namespace string
	Host      string
	// Dir is the test's folder; State, below it, is the state directory of its
	// workers unless one is given its own; Files holds what stands for disks.
	Dir, State, Files string
	Client            client.Client

	programs Programs
	// controls are all workers so far that run workflows.
	controls []*Process
}

var hosts atomic.Int64

// NewHost gives a host name that no other test process on this machine uses.
func NewHost() string { return fmt.Sprintf("e2e-%d-%d", os.Getpid(), hosts.Add(1)) }

// NewSite makes a site on a server.
func NewSite(t testing.TB, p Programs, s *Server) *Site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	site := &Site{
		Server: s, Namespace: s.Namespace(t), Host: NewHost(), programs: p,
		Dir: dir, State: filepath.Join(dir, "state"), Files: inPlace(t, filepath.Join(dir, "files")),
	}
	site.Client = s.dial(t, site.Namespace)
	for _, sub := range []string{site.State, filepath.Dir(site.Rules())} {
		require.NoError(t, os.MkdirAll(sub, 0o700))
	}
	site.Allow(t, site.Files+"/**")
	return site
}

// inPlace gives a folder whose file system overwrites in place, as the block driver
// demands (SAFETY F14): the wanted one, or else one in memory.
func inPlace(t testing.TB, wanted string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(wanted, 0o700))
	refused := probe(t, wanted)
	if refused == nil {
		return wanted
	}
	dir, err := os.MkdirTemp("/dev/shm", "burnish-e2e-")
	if err != nil {
		t.Skipf("no file system here overwrites in place: %v; %v", refused, err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, probe(t, dir))
	return dir
}

// probe asks the driver itself.
func probe(t testing.TB, dir string) error {
	t.Helper()
	path := filepath.Join(dir, "probe")
	require.NoError(t, os.WriteFile(path, make([]byte, hardware.Align), 0o600))
	defer func() { require.NoError(t, os.Remove(path)) }()
	_, err := block.New(anything{}).Discover(t.Context(),
		hardware.Target{Name: "probe", Driver: "block", Settings: map[string]string{"path": path}}, device.Identity{})
	return err
}

// anything lets the probe look at its own file.
type anything struct{}

func (anything) AllowPath(string) error { return nil }

// Rules is the path of the site's host.yaml.
func (s *Site) Rules() string { return filepath.Join(s.Dir, "etc", "host.yaml") }

// Allow makes host.yaml allow these paths, and fake devices.
func (s *Site) Allow(t testing.TB, paths ...string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"allow": map[string]any{"paths": paths, "fake": true}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.Rules(), text, 0o600))
}

// environment is that of every process of the site.
func (s *Site) environment(address string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "TMPDIR=" + s.Dir, "TZ=UTC",
		"TEMPORAL_ADDRESS=" + address, "TEMPORAL_NAMESPACE=" + s.Namespace,
	}
}

// Result is what the command line came to.
type Result struct {
	Args           []string
	Stdout, Stderr string
	Code           int
}

// String shows the call as in a terminal.
func (r Result) String() string {
	return fmt.Sprintf("$ burnish %s\n%s%s(exit %d)", strings.Join(r.Args, " "), r.Stdout, r.Stderr, r.Code)
}

// Burnish runs the command line.
func (s *Site) Burnish(t testing.TB, args ...string) Result {
	t.Helper()
	r, err := s.burnish(args...)
	require.NoError(t, err)
	return r
}

// burnish may run in any goroutine.
func (s *Site) burnish(args ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.programs.Burnish, args...)
	cmd.Env = s.environment(s.Server.Address)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		err = nil
	}
	return Result{Args: args, Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}, err
}

// Must is Burnish that must succeed; it gives what was printed.
func (s *Site) Must(t testing.TB, args ...string) string {
	t.Helper()
	r := s.Burnish(t, args...)
	require.Zero(t, r.Code, r)
	return r.Stdout
}

// Refused is a call that must end with exit code 1, and the code of its fault, in
// JSON as programs read it.
func (s *Site) Refused(t testing.TB, code device.Code, args ...string) Result {
	t.Helper()
	r := s.Burnish(t, append(args, "-o", "json")...)
	require.Equal(t, 1, r.Code, r)
	var told struct {
		Error struct {
			Code            device.Code
			Device, Message string
			Remedy          string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.Stderr), &told), r)
	require.Equal(t, code, told.Error.Code, r)
	require.NotEmpty(t, told.Error.Message, r)
	require.NotEmpty(t, told.Error.Remedy, r)
	return r
}

// Show is `burnish show -o json`.
func (s *Site) Show(t testing.TB, name string) contract.DeviceStatus {
	t.Helper()
	v, r, err := s.show(name)
	require.NoError(t, err)
	require.Zero(t, r.Code, r)
	return v
}

func (s *Site) show(name string) (v contract.DeviceStatus, r Result, err error) {
	r, err = s.burnish("show", name, "-o", "json")
	if err == nil && r.Code == 0 {
		err = json.Unmarshal([]byte(r.Stdout), &v)
	}
	return v, r, err
}

// AwaitDevice polls `burnish show` until ok likes what it says. A call that fails
// counts as not yet.
func (s *Site) AwaitDevice(t testing.TB, name string, within time.Duration, what string, ok func(contract.DeviceStatus) bool) contract.DeviceStatus {
	t.Helper()
	var v contract.DeviceStatus
	Await(t, within, name+" "+what, func() (bool, string) {
		var r Result
		var err error
		v, r, err = s.show(name)
		return err == nil && r.Code == 0 && ok(v), fmt.Sprint(r, err)
	})
	return v
}

// AwaitState waits for one of the states.
func (s *Site) AwaitState(t testing.TB, name string, within time.Duration, states ...device.State) contract.DeviceStatus {
	t.Helper()
	return s.AwaitDevice(t, name, within, fmt.Sprintf("to be %v", states), func(v contract.DeviceStatus) bool {
		for _, state := range states {
			if v.DeviceState == state {
				return true
			}
		}
		return false
	})
}

// Instance is a tenant's UUID, the same for the same word.
func Instance(word string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("burnish:e2e:"+word)).String()
}

// Bind and Unbind are a tenant's verbs.
func (s *Site) Bind(t testing.TB, name, tenant string) {
	t.Helper()
	s.Must(t, "bind", name, "--instance", Instance(tenant))
}

// Unbind ends a tenancy.
func (s *Site) Unbind(t testing.TB, name, tenant string) {
	t.Helper()
	s.Must(t, "unbind", name, "--instance", Instance(tenant))
}

// Provider is a device's file in the inventory, as a scheduler would read it.
type Provider struct {
	Generation            int64
	Total, Reserved, Used int
	Consumers             []string
}

// Provider reads the inventory's file of a device.
func (s *Site) Provider(t testing.TB, name string) Provider {
	t.Helper()
	p, err := s.provider(name)
	require.NoError(t, err)
	return p
}

func (s *Site) provider(name string) (p Provider, err error) {
	text, err := os.ReadFile(filepath.Join(s.State, "inventory", contract.DeviceUUID(name)+".json"))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

// RequireReserved says what must stand in the inventory's file.
func (s *Site) RequireReserved(t testing.TB, name string, reserved int) {
	t.Helper()
	p := s.Provider(t, name)
	require.Equal(t, [3]int{1, reserved, 0}, [3]int{p.Total, p.Reserved, p.Used}, "total, reserved and used of %s", name)
}

// Store opens the inventory beside the worker that has it open.
func (s *Site) Store(t testing.TB) *file.Store {
	t.Helper()
	store, err := file.New(filepath.Join(s.State, "inventory"))
	require.NoError(t, err)
	return store
}
