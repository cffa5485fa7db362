package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/pci"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/suites/hardwaretest"
)

// TestMain is also the supervisor that a driver starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Subcommand {
		if err := RunSupervisor(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(runTests(m))
}

// supervisorBinary is the binary that the tests start as a supervisor.
var supervisorBinary = "/proc/self/exe"

func runTests(m *testing.M) (code int) {
	if slowStart {
		dir, err := os.MkdirTemp("", "supervisor-")
		if err == nil {
			defer func() {
				if err := os.RemoveAll(dir); err != nil {
					fmt.Fprintln(os.Stderr, err)
					code = 1
				}
			}()
			supervisorBinary = filepath.Join(dir, "supervisor")
			err = proc.Compile("", "burnish/internal/testkit/cmd/supervisor", supervisorBinary)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "build the supervisor:", err)
			return 1
		}
	}
	return m.Run()
}

// neverStop is a mayGoOn that returns no error.
func neverStop() error { return nil }

// identity is an answer to identify.
func identity(serial, model string, size int64, steps ...string) string {
	text, err := json.Marshal(map[string]any{"serial": serial, "model": model, "size": size, "steps": steps})
	if err != nil {
		panic(err)
	}
	return string(text)
}

const address = "0000:81:00.0"

// gpu is a working program. It keeps the device's memory and a list of its calls in a
// directory. A test changes a verb by a file of the verb's name, which runs first.
const gpu = `#!/bin/sh
set -eu
cd %q
echo "$1 $2" >>calls
if [ -e "$1" ]; then . ./"$1"; fi
case $1 in
identify) echo reading; cat identity ;;
erase_device) : >memory; echo '{"done": true, "note": "all of it"}' ;;
verify) [ ! -s memory ] || { echo "the memory holds something" >&2; exit 1; }; echo '{"done": true}' ;;
*) echo '{"done": true}' ;;
esac
`

// fakeHost is a host with one device in sysfs and its program.
type fakeHost struct {
	driver *Driver
	sys    string
	dev    string
	dir    string // what the program works on
	rules  map[string]host.Script
	target hardware.Target
	opened []string // VFIO groups that were asked for
	guest  error    // what opening one gives
}

func newFakeHost(t *testing.T) *fakeHost {
	t.Helper()
	base := t.TempDir()
	r := &fakeHost{
		sys: filepath.Join(base, "sys"), dev: filepath.Join(base, "dev"), dir: filepath.Join(base, "card"),
		guest:  unix.ENOENT,
		target: hardware.Target{Name: "h1_" + address, Driver: "script", Address: address, Settings: map[string]string{"script": "gpu"}},
	}
	require.NoError(t, os.MkdirAll(r.dir, 0o755))
	require.NoError(t, os.MkdirAll(r.deviceDir(), 0o755))
	r.setAttribute(t, "vendor", "0x10de\n")
	r.setAttribute(t, "device", "0x20b5\n")
	r.setAttribute(t, "class", "0x030200\n")
	r.setAttribute(t, "config", "\xde\x10\xb5\x20")
	r.write(t, "identity",
		`{"serial": "S1", "model": "A100", "firmware": "92.00", "size": 42949672960, "steps": ["erase_device", "verify", "firmware_reflash", "pci_reset"], "estimate": "20m"}`)
	r.write(t, "memory", "a tenant's")
	r.driver = New(Host{
		Allow:   func(pci.Device) error { return nil },
		Scripts: func() (map[string]host.Script, error) { return r.rules, nil },
		Specs:   func() (pci.Specs, error) { return nil, nil },
	})
	r.driver.kernel.Sys, r.driver.kernel.Dev = r.sys, r.dev
	r.driver.supervisor = supervisorBinary
	// Users are looked for in this process only: all processes of the machine take longer than most tests.
	pid := strconv.Itoa(os.Getpid())
	proc := t.TempDir()
	r.driver.kernel.Search.Proc = proc
	require.NoError(t, os.Symlink("/proc/"+pid, filepath.Join(proc, pid)))
	r.driver.grace, r.driver.busyTimeout, r.driver.busyPause = 500*time.Millisecond, 200*time.Millisecond,
		20*time.Millisecond
	r.driver.kernel.OpenGroup = func(path string) (int, error) { r.opened = append(r.opened, path); return -1, r.guest }
	r.setProgram(t, fmt.Sprintf(gpu, r.dir))
	return r
}

func (r *fakeHost) deviceDir() string { return filepath.Join(r.sys, "bus/pci/devices", address) }

// setAttribute writes one sysfs attribute of the device.
func (r *fakeHost) setAttribute(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.deviceDir(), name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// upInterface makes a network interface that is up below a folder of the device.
func (r *fakeHost) upInterface(t *testing.T, folder, name string) {
	t.Helper()
	r.setAttribute(t, folder+name+"/address", "\n")
	require.NoError(t, os.Symlink("../../../../../class/net", filepath.Join(r.deviceDir(), folder, name, "subsystem")))
	require.NoError(t, os.MkdirAll(filepath.Join(r.sys, "class/net", name), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(r.sys, "class/net", name, "flags"), []byte("0x1003\n"), 0o644))
}

// write writes a file in the program's directory.
func (r *fakeHost) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644))
}

// setProgram makes text the device's program, with matching rules.
func (r *fakeHost) setProgram(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(r.dir), "gpu")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	sum := sha256.Sum256([]byte(text))
	r.rules =
		map[string]host.Script{"gpu": {Path: path, Owner: fmt.Sprint(os.Geteuid()), SHA256: hex.EncodeToString(sum[:])}}
}

// calls lists the verbs that the program was called with.
func (r *fakeHost) calls(t *testing.T) (verbs []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "calls"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		verb, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		require.Equal(t, address, at)
		verbs = append(verbs, verb)
	}
	return verbs
}

func (r *fakeHost) discover(t *testing.T) hardware.Discovery {
	t.Helper()
	found, err := r.driver.Discover(t.Context(), r.target, device.Identity{})
	require.NoError(t, err)
	return found
}

// open opens the device as it was enrolled.
func (r *fakeHost) open(t *testing.T, writable bool) hardware.Handle {
	t.Helper()
	h, err := r.driver.Open(t.Context(), r.target, r.discover(t).Identity, writable)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() }) // some tests close it themselves
	return h
}

// runStep runs a step by the device's program.
func (r *fakeHost) runStep(t *testing.T, step string) (string, error) {
	t.Helper()
	return perform(t, r.open(t, true), step)
}

// perform runs a step by the program of an open device.
func perform(t *testing.T, h hardware.Handle, step string) (string, error) {
	t.Helper()
	return h.(hardware.StepRunner).RunStep(t.Context(), hardware.StepRun{Step: step, MayGoOn: neverStop})
}

// requireFault requires a fault with this code and message.
func requireFault(t *testing.T, err error, code device.Code, says string) {
	t.Helper()
	f := hardwaretest.RequireFault(t, err, code)
	require.Contains(t, f.Message, says)
	require.NotEmpty(t, f.Remedy)
}
