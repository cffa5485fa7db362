package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/hardware/drivers"
)

// sound is a machine that passes every check.
func sound() system {
	return system{
		fileSystem: func(string) (fileSystem, error) { return fileSystem{name: "ext4", free: 1 << 30}, nil },
		direct:     func(string) error { return nil },
		openat2:    func() error { return nil },
		leases:     func() (bool, error) { return true, nil },
		drivers:    drivers.New,
	}
}

// worker is a worker's settings, with a state directory as a worker creates it.
func worker(t *testing.T, role config.Role) config.Worker {
	t.Helper()
	dir := t.TempDir()
	w := config.Worker{
		Role: role, Host: "h1", StateDir: filepath.Join(dir, "state"), Drivers: []string{"block", "fake"}, Inventory: "file",
		Policy:   clean.Policy{StepSettings: device.StepSettings{Verify: "full"}},
		HostFile: filepath.Join(dir, "host.yaml"),
	}
	require.NoError(t, os.Mkdir(w.StateDir, 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "disks"), 0o700))
	allow(t, w, fmt.Sprintf("allow: {paths: [%q]}", filepath.Join(dir, "disks", "**")))
	return w
}

func allow(t *testing.T, w config.Worker, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(w.HostFile, []byte(text), 0o600))
}

func TestMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		role   config.Role
		change func(*testing.T, *config.Worker, *system)
		uid    int
		level  Level
		check  string
		says   string
	}{
		"nothing is wrong": {level: OK, check: "host.yaml", says: "disks/**"},
		"a control worker": {role: config.RoleControl, level: OK, check: "inventory", says: "file"},
		"a control worker's system": {role: config.RoleControl, change: func(_ *testing.T, _ *config.Worker, s *system) {
			s.openat2 = func() error { return errors.New("not asked") }
		}, level: OK, check: "policy"},
		"an unknown step in the policy": {
			change: func(_ *testing.T, w *config.Worker, _ *system) { w.Policy.Priorities = map[string]float64{"polish": 3} },
			level:  Fail, check: "policy", says: "polish",
		},
		"the erase switched off": {
			change: func(_ *testing.T, w *config.Worker, _ *system) { w.Policy.Priorities = map[string]float64{"zero": 0} },
			level:  Fail, check: "policy", says: "zero",
		},
		"a wrong verify":       {change: func(_ *testing.T, w *config.Worker, _ *system) { w.Policy.Verify = "some" }, level: Fail, check: "policy", says: `"some"`},
		"an unknown inventory": {change: func(_ *testing.T, w *config.Worker, _ *system) { w.Inventory = "book" }, level: Fail, check: "inventory", says: `"book"`},
		"no state directory":   {change: func(_ *testing.T, w *config.Worker, _ *system) { w.StateDir += "-none" }, level: Fail, check: "state directory", says: "does not exist; start burnish-worker"},
		"others may write it": {
			change: func(t *testing.T, w *config.Worker, _ *system) { require.NoError(t, os.Chmod(w.StateDir, 0o777)) },
			level:  Fail, check: "state directory", says: "chmod it to 0700",
		},
		"others may write below it": {
			change: func(t *testing.T, w *config.Worker, _ *system) {
				require.NoError(t, os.Mkdir(filepath.Join(w.StateDir, "journal"), 0o700))
				require.NoError(t, os.Chmod(filepath.Join(w.StateDir, "journal"), 0o777))
			},
			level: Fail, check: "state directory", says: "journal may be written by others",
		},
		"a file in its place": {
			change: func(t *testing.T, w *config.Worker, _ *system) {
				w.StateDir += ".file"
				require.NoError(t, os.WriteFile(w.StateDir, nil, 0o600))
			},
			level: Fail, check: "state directory", says: "is not a directory",
		},
		"in memory": {
			change: func(_ *testing.T, _ *config.Worker, s *system) {
				s.fileSystem = func(string) (fileSystem, error) {
					return fileSystem{name: "tmpfs", memory: true, free: 1 << 30}, nil
				}
			},
			level: Fail, check: "state directory", says: "on tmpfs, which loses its contents",
		},
		"on another machine": {
			change: func(_ *testing.T, _ *config.Worker, s *system) {
				s.fileSystem = func(string) (fileSystem, error) { return fileSystem{name: "NFS", remote: true, free: 1 << 30}, nil }
			},
			level: Fail, check: "state directory", says: "on NFS",
		},
		"no space": {
			change: func(_ *testing.T, _ *config.Worker, s *system) {
				s.fileSystem = func(string) (fileSystem, error) { return fileSystem{name: "ext4", free: 63 << 20}, nil }
			},
			level: Fail, check: "state directory", says: "only 63 MiB are free",
		},
		"a broken file system": {
			change: func(_ *testing.T, _ *config.Worker, s *system) {
				s.fileSystem = func(string) (fileSystem, error) { return fileSystem{}, errors.New("input/output error") }
			},
			level: Fail, check: "state directory", says: "input/output error",
		},
		"no O_DIRECT": {change: func(_ *testing.T, _ *config.Worker, s *system) {
			s.direct = func(string) error { return errors.New("EINVAL") }
		}, level: Warn, check: "kernel", says: "does not support O_DIRECT: EINVAL"},
		"an old kernel": {change: func(_ *testing.T, _ *config.Worker, s *system) {
			s.openat2 = func() error { return errors.New("function not implemented") }
		}, level: Fail, check: "kernel", says: "Linux 5.6"},
		"no leases": {change: func(_ *testing.T, _ *config.Worker, s *system) { s.leases = func() (bool, error) { return false, nil } }, level: Fail, check: "kernel", says: "sysctl fs.leases-enable=1"},
		"leases not known": {change: func(_ *testing.T, _ *config.Worker, s *system) {
			s.leases = func() (bool, error) { return false, os.ErrNotExist }
		}, level: Warn, check: "kernel", says: "cannot read whether"},
		"a worker in a container": {change: func(t *testing.T, _ *config.Worker, s *system) {
			s.root = t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(s.root, "proc/self/ns"), 0o700))
			require.NoError(t, os.MkdirAll(filepath.Join(s.root, "proc/1/fd"), 0o700))
			require.NoError(t, os.Symlink("pid:[4026532207]", filepath.Join(s.root, "proc/self/ns/pid")))
		}, level: Warn, check: "processes", says: "outside of its process namespace; run it as root in the machine's own"},
		"a worker that sees all processes": {change: func(t *testing.T, _ *config.Worker, s *system) {
			s.root = t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(s.root, "proc/1/fd"), 0o700))
		}, level: OK, check: "processes", says: "sees every process"},
		"an unknown driver": {change: func(_ *testing.T, w *config.Worker, _ *system) { w.Drivers = []string{"floppy"} }, level: Fail, check: "drivers", says: "must be one of block, fake"},
		"no host.yaml":      {change: func(_ *testing.T, w *config.Worker, _ *system) { w.HostFile += ".none" }, level: Fail, check: "host.yaml", says: "no such file"},
		"a host.yaml that others may write": {
			change: func(t *testing.T, w *config.Worker, _ *system) { require.NoError(t, os.Chmod(w.HostFile, 0o666)) },
			level:  Fail, check: "host.yaml", says: "may be written by others",
		},
		"a host.yaml that does not parse": {change: func(t *testing.T, w *config.Worker, _ *system) { allow(t, *w, "allow: {path: [/x]}") }, level: Fail, check: "host.yaml", says: `unknown key "path"`},
		"nothing is allowed":              {change: func(t *testing.T, w *config.Worker, _ *system) { allow(t, *w, "allow: {}") }, level: Warn, check: "host.yaml", says: "nothing may be destroyed on this host"},
		"no host.yaml named, role host":   {role: config.RoleHost, change: func(_ *testing.T, w *config.Worker, _ *system) { w.HostFile = "" }, level: Warn, check: "host.yaml", says: "no host.yaml: nothing may be destroyed"},
		"no host.yaml named, role all":    {change: func(_ *testing.T, w *config.Worker, _ *system) { w.HostFile = "" }, level: OK, check: "host.yaml", says: "state/**, fake devices"},
		"specs and fake devices": {
			change: func(t *testing.T, w *config.Worker, _ *system) {
				allow(t, *w, `allow: {device_spec: [{vendor_id: "8086"}], fake: true}`)
			},
			level: OK, check: "host.yaml", says: "1 PCI device specs, fake devices",
		},
		"a path that is not there":       {change: func(t *testing.T, w *config.Worker, _ *system) { allow(t, *w, "allow: {paths: [/no/such/*]}") }, level: Warn, check: "host.yaml", says: "/no/such/* matches no existing path"},
		"block devices, as root":         {change: func(t *testing.T, w *config.Worker, _ *system) { allow(t, *w, "allow: {paths: [/dev/null]}") }, level: OK, check: "host.yaml", says: "/dev/null"},
		"block devices, as another user": {change: func(t *testing.T, w *config.Worker, _ *system) { allow(t, *w, "allow: {paths: [/dev/null]}") }, uid: 1000, level: Fail, check: "host.yaml", says: "run burnish-worker as root"},
	} {
		t.Run(name, func(t *testing.T) {
			role := tt.role
			if role == "" {
				role = config.RoleAll
			}
			w, s := worker(t, role), sound()
			if tt.change != nil {
				tt.change(t, &w, &s)
			}
			var f Findings
			m := machine{Findings: &f, settings: w, uid: tt.uid, system: s}
			m.all()
			require.Equal(t, tt.level == Fail, f.Failures() > 0, "%+v", f)
			var lines []string
			found := false
			for _, one := range f {
				require.NotEmpty(t, one.Message)
				require.Equal(t, one.Level != OK, one.Remedy != "", "what to do, where there is something: %+v", one)
				line := one.Message + "; " + one.Remedy
				lines = append(lines, line)
				require.NotContains(t, line, "\n")
				if one.Check == tt.check && one.Level == tt.level && strings.Contains(line, tt.says) {
					found = true
				}
				if tt.level != Fail && tt.level != Warn {
					require.Equal(t, OK, one.Level, line)
				}
			}
			require.True(t, found, "%v", lines)
		})
	}
}

func TestSettings(t *testing.T) {
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "BURNISH_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("BURNISH_HOST", "h1")
	t.Setenv("BURNISH_STATEDIR", "/x")
	var f Findings
	w, ok := f.Settings()
	require.True(t, ok)
	require.Equal(t, "h1", w.Host)
	require.Equal(t, Findings{
		{Level: Warn, Check: "settings", Message: "BURNISH_STATEDIR is not a valid setting", Remedy: "did you mean BURNISH_STATE_DIR? see burnish-worker --help"},
		{Level: OK, Check: "settings", Message: "role all, host h1: BURNISH_HOST"},
	}, f)

	t.Setenv("BURNISH_ROLE", "both")
	t.Setenv("BURNISH_STOP_TIMEOUT", "0s")
	f = nil
	_, ok = f.Settings()
	require.False(t, ok)
	require.True(t, f.Failures() > 0)
	require.Len(t, f, 3)
	require.Contains(t, f[1].Message, "BURNISH_ROLE")
	require.Contains(t, f[2].Message, "BURNISH_STOP_TIMEOUT")
}

// The real requests to the kernel, on the machine that runs the tests.
func TestLinux(t *testing.T) {
	s := linux()
	on, err := s.fileSystem(t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, on.name)
	require.NotZero(t, on.free)
	if shm, err := s.fileSystem("/dev/shm"); err == nil {
		require.True(t, shm.memory, "%+v", shm)
	}
	proc, err := s.fileSystem("/proc")
	require.NoError(t, err)
	require.Contains(t, proc.name, "0x9fa0")
	_, err = s.fileSystem("/no/such/dir")
	require.Error(t, err)
	require.NoError(t, s.openat2())
	require.Error(t, s.direct("/proc"))
	leases, err := s.leases()
	require.NoError(t, err)
	text, err := os.ReadFile("/proc/sys/fs/leases-enable")
	require.NoError(t, err)
	require.Equal(t, string(text) == "1\n", leases)
}

// The paths below a missing state directory are not reported too.
func TestOneMistakeIsReportedOnce(t *testing.T) {
	w := worker(t, config.RoleAll)
	w.HostFile, w.StateDir = "", w.StateDir+"-none"
	var f Findings
	machine{Findings: &f, settings: w, system: sound()}.all()
	count := 0
	for _, one := range f {
		if one.Level != OK {
			count++
		}
	}
	require.Equal(t, 1, count, "%+v", f)
}
