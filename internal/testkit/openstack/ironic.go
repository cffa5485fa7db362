package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"burnish/internal/testkit/proc"
)

// ironicModules is where Debian's package python3-ironic has its programs as modules: that package
// brings no service, so installing it starts nothing.
const ironicModules = "/usr/lib/python3/dist-packages/ironic/cmd"

// MissingIronic names in one line the package that is not installed, "" where it is.
func MissingIronic() string {
	return missingIronic(ironicModules)
}

func missingIronic(modules string) string {
	for _, name := range []string{"api.py", "conductor.py", "dbsync.py"} {
		path := filepath.Join(modules, name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Sprintf("no %s (apt-get install --no-install-recommends python3-ironic)", path)
		}
	}
	return ""
}

// Ironic is an API and a conductor with one SQLite database, for nodes of fake hardware.
type Ironic struct {
	// URL is where the API serves.
	URL string
	// API and Conductor are the processes; those that they start are in their process groups.
	API, Conductor *proc.Process
}

// ironicClient asks without a proxy, for a whole fleet at once.
var ironicClient = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

// ironicConf is for a database and ports of its own: no authentication, and logs with warnings only.
// No limit of how much is done at once stands in the way of a hundred nodes.
const ironicConf = `[DEFAULT]
auth_strategy = noauth
state_path = %[1]s
tempdir = %[1]s
use_stderr = true
default_log_levels = eventlet=WARNING,ironic=WARNING,ironic_lib=WARNING,oslo=WARNING,alembic=WARNING
host = 127.0.0.1
my_ip = 127.0.0.1
rpc_transport = json-rpc
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake
enabled_inspect_interfaces = no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[api]
host_ip = 127.0.0.1
port = %[2]d
[json_rpc]
auth_strategy = noauth
host_ip = 127.0.0.1
port = %[3]d
[conductor]
automated_clean = true
workers_pool_size = 300
max_concurrent_clean = 1000
max_concurrent_deploy = 1000
[database]
connection = sqlite:///%[4]s
[oslo_concurrency]
lock_path = %[1]s
`

// StartIronic starts an Ironic with its files in dir, which the caller stops. Its database is as
// durable as that of burnish-devserver: SQLite with WAL and synchronous=2.
func StartIronic(ctx context.Context, dir string) (*Ironic, error) {
	ports, err := proc.FreePorts(0, 0)
	if err != nil {
		return nil, err
	}
	conf, database := filepath.Join(dir, "ironic.conf"), filepath.Join(dir, "ironic.sqlite")
	if err := os.WriteFile(conf, fmt.Appendf(nil, ironicConf, dir, ports[0], ports[1], database), 0o600); err != nil {
		return nil, err
	}
	if err := runPython(ctx, dir, nil, "", ironicProgram("dbsync", conf, "create_schema")...); err != nil {
		return nil, err
	}
	// The mode stays with the file. Python's SQLite has synchronous=2 for each connection that says nothing else.
	if err := runPython(ctx, dir, nil, "", "-c", `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
found = db.execute("PRAGMA journal_mode=WAL").fetchone()[0], db.execute("PRAGMA synchronous").fetchone()[0]
sys.exit(0 if found == ("wal", 2) else "SQLite has %s" % (found,))
`, database); err != nil {
		return nil, err
	}
	i := &Ironic{URL: "http://127.0.0.1:" + strconv.Itoa(ports[0])}
	if i.Conductor, err = startIronicProcess("conductor", dir, conf); err == nil {
		i.API, err = startIronicProcess("api", dir, conf)
	}
	if err == nil {
		err = i.awaitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, i.Stop())
	}
	return i, nil
}

// ironicProgram is the arguments of the interpreter for one of Ironic's programs.
func ironicProgram(name, conf string, args ...string) []string {
	script := fmt.Sprintf("import sys; sys.argv[0] = 'ironic-%[1]s'; from ironic.cmd.%[1]s import main; sys.exit(main())",
		name)
	return slices.Concat([]string{"-c", script, "--config-file", conf}, args)
}

func startIronicProcess(name, dir, conf string) (*proc.Process, error) {
	cmd := exec.Command(python, ironicProgram(name, conf)...)
	cmd.Dir = dir
	// The API asks the conductor over HTTP, never by way of a proxy.
	cmd.Env = append(cleanEnvironment(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	return proc.Start("ironic-"+name, filepath.Join(dir, "ironic-"+name+".log"), cmd)
}

// awaitReady waits until the API answers and knows the conductor.
func (i *Ironic) awaitReady(ctx context.Context) error {
	err := proc.Await(ctx, startTimeout, 20*time.Millisecond, "Ironic to answer", func() (bool, string) {
		var answer struct {
			Drivers []struct {
				Hosts []string `json:"hosts"`
			} `json:"drivers"`
		}
		err := i.ask(ctx, http.MethodGet, "/v1/drivers", nil, &answer)
		ready := err == nil && len(answer.Drivers) == 1 && len(answer.Drivers[0].Hosts) == 1
		return ready || !i.API.Alive() || !i.Conductor.Alive(), fmt.Sprint(err)
	})
	for _, p := range []*proc.Process{i.API, i.Conductor} {
		switch {
		case err != nil:
			err = fmt.Errorf("%w: %s", err, p.Tail())
		case !p.Alive():
			err = fmt.Errorf("%s ended: %s", p.Name, p.Tail())
		}
	}
	return err
}

// Stop kills both, with the processes that they started. Nothing of them is used again.
func (i *Ironic) Stop() error {
	return errors.Join(i.API.KillGroup(), i.Conductor.KillGroup())
}

// Node is what Ironic says about a node.
type Node struct {
	UUID  string `json:"uuid"`
	State string `json:"provision_state"`
	// Reservation is the conductor that works on it, "" where none does: then it takes requests.
	Reservation string `json:"reservation"`
	LastError   string `json:"last_error"`
}

// Failed is the reason why the node goes no further by itself, nil where it does.
func (n Node) Failed() error {
	if n.State == "error" || strings.HasSuffix(n.State, " failed") {
		return fmt.Errorf("node %s is in state %s: %s", n.UUID, n.State, n.LastError)
	}
	return nil
}

const nodeFields = "?fields=uuid,provision_state,reservation,last_error"

// NewNode creates a node of fake hardware in state enroll. Its cleans have no step.
func (i *Ironic) NewNode(ctx context.Context, name string) (n Node, err error) {
	in := map[string]string{"name": name, "driver": "fake-hardware", "bios_interface": "no-bios",
		"raid_interface": "no-raid"}
	err = i.ask(ctx, http.MethodPost, "/v1/nodes", in, &n)
	return n, err
}

// Node reads one node.
func (i *Ironic) Node(ctx context.Context, uuid string) (Node, error) {
	var n Node
	return n, i.ask(ctx, http.MethodGet, "/v1/nodes/"+uuid+nodeFields, nil, &n)
}

// Nodes reads all nodes, up to a thousand, in one request.
func (i *Ironic) Nodes(ctx context.Context) ([]Node, error) {
	var answer struct {
		Nodes []Node `json:"nodes"`
	}
	return answer.Nodes, i.ask(ctx, http.MethodGet, "/v1/nodes"+nodeFields+"&limit=1000", nil, &answer)
}

// Provision asks for a provision state: manage, provide, active or deleted.
func (i *Ironic) Provision(ctx context.Context, uuid, target string) error {
	return i.ask(ctx, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", map[string]string{"target": target}, nil)
}

// ask sends one request and reads its answer into out.
func (i *Ironic) ask(ctx context.Context, method, path string, in, out any) error {
	status, text, err := request(ctx, ironicClient, method, i.URL+path,
		map[string]string{"X-OpenStack-Ironic-API-Version": "1.80", "Content-Type": "application/json"}, in, out)
	if err == nil && status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%d %s", status, text)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
