package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/host"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// DefaultNamespace is the one that every server has.
const DefaultNamespace = "default"

// Site is one installation: a namespace of a server, a host, folders.
type Site struct {
	Programs  Programs
	Server    *Server
	Namespace string
	Host      string
	// Dir is the site's folder. State, below it, is the state directory of its workers.
	// Files holds what stands for disks; everything in it may be wiped.
	Dir, State, Files string
	// Env are further variables of every process of the site, and of every command.
	Env []string

	mu       sync.Mutex
	workers  int             // so far
	controls []*proc.Process // all processes so far that ran workflows
}

// New makes a site in the folder dir. It starts nothing.
func New(p Programs, server *Server, namespace, host, dir string) (*Site, error) {
	s := &Site{
		Programs: p, Server: server, Namespace: namespace, Host: host,
		Dir: dir, State: filepath.Join(dir, "state"), Files: filepath.Join(dir, "files"),
	}
	for _, sub := range []string{s.State, s.Files, filepath.Dir(s.HostFile())} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, err
		}
	}
	return s, s.Allow(s.Files + "/**")
}

var hosts atomic.Int64

// NewHost gives a host name that no other process on this machine uses.
func NewHost() string { return fmt.Sprintf("test-%d-%d", os.Getpid(), hosts.Add(1)) }

// HostFile is the path of the site's host.yaml.
func (s *Site) HostFile() string { return filepath.Join(s.Dir, "etc", "host.yaml") }

// Allow writes a host.yaml that allows these paths and fake devices, and nothing else.
func (s *Site) Allow(paths ...string) error {
	text, err := json.Marshal(map[string]any{"allow": map[string]any{"paths": paths, "fake": true}})
	if err != nil {
		return err
	}
	return os.WriteFile(s.HostFile(), text, 0o600)
}

// Controls are all processes so far that ran workflows.
func (s *Site) Controls() []*proc.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.controls)
}

// environment is that of every process of the site.
func (s *Site) environment(address string) []string {
	return append(slices.Clone(s.Env),
		"PATH="+os.Getenv("PATH"), "HOME="+s.Dir, "TMPDIR="+s.Dir, "TZ=UTC",
		"TEMPORAL_ADDRESS="+address, "TEMPORAL_NAMESPACE="+s.Namespace)
}

// commandWithin bounds a command of the command line.
const commandWithin = 2 * time.Minute

// Burnish runs the command line. An exit code other than 0 is no error here.
func (s *Site) Burnish(ctx context.Context, args ...string) (proc.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Programs.Burnish, args...)
	cmd.Env = s.environment(s.Server.Address)
	return proc.Run(cmd)
}

// Must is Burnish with an exit code of 0; it gives what was printed.
func (s *Site) Must(ctx context.Context, args ...string) (string, error) {
	r, err := s.Burnish(ctx, args...)
	return r.Stdout, errors.Join(err, r.Err())
}

// Show is `burnish show -o json`.
func (s *Site) Show(ctx context.Context, name string) (v contract.DeviceStatus, err error) {
	out, err := s.Must(ctx, "show", name, "-o", "json")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(out), &v)
}

// List is `burnish list -o json`.
func (s *Site) List(ctx context.Context) ([]contract.DeviceStatus, error) {
	out, err := s.Must(ctx, "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Devices []contract.DeviceStatus }
	return list.Devices, json.Unmarshal([]byte(out), &list)
}

// AwaitDevice polls Show until ok accepts the device. A call that fails counts as not yet.
func (s *Site) AwaitDevice(ctx context.Context, name string, within time.Duration, what string,
	ok func(contract.DeviceStatus) bool) (v contract.DeviceStatus, err error) {
	err = proc.AwaitSlowly(ctx, within, name+" "+what, func() (bool, string) {
		var err error
		v, err = s.Show(ctx, name)
		return err == nil && ok(v), describe(v, err)
	})
	return v, err
}

func describe(v contract.DeviceStatus, err error) string {
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(v)
	return fmt.Sprint(string(text), err)
}

// AwaitState waits for one of the states.
func (s *Site) AwaitState(ctx context.Context, name string, within time.Duration,
	states ...device.State) (contract.DeviceStatus, error) {
	return s.AwaitDevice(ctx, name, within, fmt.Sprintf("to be %v", states), func(v contract.DeviceStatus) bool {
		return slices.Contains(states, v.DeviceState)
	})
}

// Instance is a tenant's UUID, the same for the same word.
func Instance(word string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("burnish:testkit:"+word)).String()
}

// Provider is a device's file in the inventory, as a scheduler would read it.
type Provider struct {
	Generation            int64
	Total, Reserved, Used int
	Consumers             []string
}

// Provider reads the inventory's file of a device.
func (s *Site) Provider(name string) (p Provider, err error) {
	text, err := os.ReadFile(filepath.Join(s.State, "inventory", contract.DeviceUUID(name)+".json"))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

// Journal reads the resume point that the host keeps of a device, false where there is none.
func (s *Site) Journal(name string) (host.Entry, bool, error) { return ReadJournal(s.State, name) }

// ReadJournal is Journal of a worker with a state directory of its own.
func ReadJournal(stateDir, name string) (e host.Entry, found bool, err error) {
	text, err := os.ReadFile(filepath.Join(stateDir, "journal", name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	stored := struct{ Data *host.Entry }{&e}
	return e, true, json.Unmarshal(text, &stored)
}

// InPlaceDir makes an empty folder on a file system that overwrites in place, as the block
// driver demands: the wanted one, or else one in memory, with the reason.
func InPlaceDir(ctx context.Context, wanted string) (dir, reason string, err error) {
	if err := errors.Join(os.RemoveAll(wanted), os.MkdirAll(wanted, 0o700)); err != nil {
		return "", "", err
	}
	refused := overwritesInPlace(ctx, wanted)
	if refused == nil {
		return wanted, "", nil
	}
	fault, ok := device.AsFault(refused)
	if !ok || fault.Code != device.CodeOverwriteUnsupported {
		return "", "", refused
	}
	if dir, err = os.MkdirTemp("/dev/shm", "burnish-"); err != nil {
		return "", "", fmt.Errorf("%w, and there is no folder in memory: %w", refused, err)
	}
	return dir, strings.TrimSuffix(fault.Message, "."), overwritesInPlace(ctx, dir)
}

// overwritesInPlace asks the block driver whether it would wipe a file in dir.
func overwritesInPlace(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "probe")
	if err := os.WriteFile(path, make([]byte, hardware.Align), 0o600); err != nil {
		return err
	}
	_, err := block.New(allowAll{}).Discover(ctx,
		hardware.Target{Name: "probe", Driver: "block", Settings: map[string]string{"path": path}}, device.Identity{})
	return errors.Join(err, os.Remove(path))
}

type allowAll struct{}

func (allowAll) AllowPath(string) error { return nil }
