// Package doctor checks a machine that runs a worker. It calls the worker's own code
// where that exists. It only reads; PlacementTrial alone writes.
package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/host"
)

// Level is the severity of a finding.
type Level string

// The levels. Only Fail keeps a worker from working.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is the result of one check, with its remedy.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Findings are in the order of the checks.
type Findings []Finding

// OK adds a finding at level OK.
func (f *Findings) OK(check, format string, args ...any) {
	*f = append(*f, Finding{Level: OK, Check: check, Message: fmt.Sprintf(format, args...)})
}

// Warn adds a finding that may be intended.
func (f *Findings) Warn(check, remedy, format string, args ...any) {
	*f = append(*f, Finding{Level: Warn, Check: check, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Fail adds a finding that keeps a worker from working.
func (f *Findings) Fail(check, remedy, format string, args ...any) {
	*f = append(*f, Finding{Level: Fail, Check: check, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// fault adds why something does not work: a fault has its own remedy.
func (f *Findings) fault(check, remedy string, err error) {
	if fault, ok := device.AsFault(err); ok {
		f.Fail(check, fault.Remedy, "%s", fault.Message)
	} else {
		f.Fail(check, remedy, "%v", err)
	}
}

// Failures counts the findings at level Fail.
func (f Findings) Failures() int {
	n := 0
	for _, finding := range f {
		if finding.Level == Fail {
			n++
		}
	}
	return n
}

// Settings reads the worker's settings from the environment. ok is false where they
// are invalid; then nothing that depends on them can be checked.
func (f *Findings) Settings() (w config.Worker, ok bool) {
	known, unknown := config.Given()
	for _, name := range unknown {
		remedy := "see burnish-worker --help"
		if near := config.Nearest(name); near != "" {
			remedy = "did you mean " + near + "? " + remedy
		}
		f.Warn("settings", remedy, "%s is not a valid setting", name)
	}
	w, err := config.LoadWorker()
	for _, wrong := range split(err) {
		f.Fail("settings", "correct it, see burnish-worker --help", "%v", wrong)
	}
	if err != nil {
		return w, false
	}
	names := "none is set, defaults apply"
	if len(known) > 0 {
		names = strings.Join(known, ", ")
	}
	f.OK("settings", "role %s, host %s: %s", w.Role, w.Host, names)
	return w, true
}

// split gives each of joined errors.
func split(err error) []error {
	var many interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &many):
		return many.Unwrap()
	}
	return []error{err}
}

// Machine checks what a worker with these settings needs from its machine. server is the one
// that the worker would serve; it is empty if that is not known.
func (f *Findings) Machine(w config.Worker, server host.Server) {
	machine{Findings: f, settings: w, server: server, uid: os.Geteuid(), system: linux()}.all()
}

// machine is one run of the checks; system is the part of the kernel that tests replace.
type machine struct {
	*Findings
	settings config.Worker
	server   host.Server
	uid      int
	system   system
}

func (m machine) all() {
	if m.settings.Role.Controls() {
		m.control()
	}
	m.stateDir()
	if m.settings.Role.Hosts() {
		m.host()
	}
}

// control checks what the control worker refuses to start without.
func (m machine) control() {
	_, err := clean.NewPlanner(steps.All().Planning(), m.settings.Policy)
	if err = errors.Join(err, m.settings.Policy.StepSettings.Validate()); err != nil {
		for _, wrong := range split(err) {
			m.Fail("policy", "correct BURNISH_POLICY or BURNISH_VERIFY", "%v", wrong)
		}
	} else {
		m.OK("policy", "the policy is valid, verify is %s", m.settings.Policy.Verify)
	}
	m.inventory()
	m.oneview()
}

// leastSpace must be free for the records of a host. They are small, but a step fails
// when one cannot be written.
const leastSpace = 64 << 20

func (m machine) stateDir() {
	const check = "state directory"
	dir := m.settings.StateDir
	if err := host.CheckStateDir(dir); errors.Is(err, fs.ErrNotExist) {
		m.Fail(check, "start burnish-worker, which creates it, or set BURNISH_STATE_DIR", "%s does not exist", dir)
		return
	} else if err != nil {
		m.Fail(check, "correct it, or set BURNISH_STATE_DIR", "%v", err)
		return
	}
	m.OK(check, "%s is private to uid %d", dir, m.uid)
	m.serverOf(dir)
	on, err := m.system.fileSystem(dir)
	if err != nil {
		m.Fail(check, "repair the file system", "%v", err)
		return
	}
	switch {
	case on.memory:
		m.Fail(check, "set BURNISH_STATE_DIR to a directory on a local disk",
			"%s is on %s, which loses its contents at a restart", dir, on.name)
	case on.remote:
		m.Fail(check, "set BURNISH_STATE_DIR to a directory on a local disk",
			"%s is on %s, a network file system with unreliable locks", dir, on.name)
	case on.free < leastSpace:
		m.Fail(check, "free some space", "only %d MiB are free on the file system of %s", on.free>>20, dir)
	default:
		m.OK(check, "on %s, %d MiB free", on.name, on.free>>20)
	}
	if !m.settings.Role.Hosts() {
		return
	}
	if err := m.system.direct(dir); err != nil {
		m.Warn("kernel", "image files below it cannot be cleaned; keep them on ext4 or xfs",
			"%s does not support O_DIRECT: %v", dir, err)
	} else {
		m.OK("kernel", "O_DIRECT works below %s", dir)
	}
}

// host checks what a host's worker refuses to start without, and what it may do.
func (m machine) host() {
	if err := m.system.openat2(); err != nil {
		m.Fail("kernel", "use Linux 5.6 or newer, without a seccomp profile that forbids openat2",
			"openat2 does not work: %v", err)
	} else {
		m.OK("kernel", "openat2 works")
	}
	switch on, err := m.system.leases(); {
	case err != nil:
		m.Warn("kernel", "check sysctl fs.leases-enable", "cannot read whether the kernel supports leases: %v", err)
	case !on:
		m.Fail("kernel", "sysctl fs.leases-enable=1", "fs.leases-enable is 0: other users of a device cannot be detected")
	default:
		m.OK("kernel", "fs.leases-enable is 1")
	}
	rules, err := host.WorkerRules(m.settings.HostFile, m.settings.StateDir, m.settings.Role == config.RoleAll)
	if err != nil {
		m.Fail("host.yaml", "correct it; until then the host refuses to destroy anything", "%v", err)
		return
	}
	m.allowed(rules)
	m.drivers(rules)
}

// allowed lists what may be destroyed on this host.
func (m machine) allowed(rules *host.Rules) {
	const check = "host.yaml"
	may, err := rules.Content()
	if err != nil {
		m.Fail(check, "correct it; no restart is needed", "%v", err)
		return
	}
	where := m.settings.HostFile
	if where == "" {
		where = "no host.yaml"
	}
	if len(may.Paths) == 0 && len(may.Specs) == 0 && len(may.Nodes) == 0 && !may.Fake {
		m.Warn(check, "list what may be destroyed, and set BURNISH_HOST_FILE to the file",
			"%s: nothing may be destroyed on this host", where)
		return
	}
	what := slices.Clone(may.Paths)
	if len(may.Specs) > 0 {
		what = append(what, fmt.Sprintf("%d PCI device specs", len(may.Specs)))
	}
	if len(may.Nodes) > 0 {
		what = append(what, fmt.Sprintf("%d servers", len(may.Nodes)))
	}
	if may.Fake {
		what = append(what, "fake devices")
	}
	m.OK(check, "%s: may be destroyed: %s", where, strings.Join(what, ", "))
	for _, pattern := range may.Paths {
		if strings.HasPrefix(pattern, "/dev/") && m.uid != 0 {
			m.Fail(check, "run burnish-worker as root on this host, or remove "+pattern+" from host.yaml",
				"%s is allowed, but uid %d cannot write to block devices", pattern, m.uid)
			continue
		}
		matches, err := filepath.Glob(strings.TrimSuffix(pattern, "/**"))
		if m.settings.HostFile != "" && err == nil && len(matches) == 0 {
			m.Warn(check, "check the spelling; patterns match resolved paths", "%s matches no existing path", pattern)
		}
	}
}
