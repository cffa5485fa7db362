package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
)

// finder is a driver that finds devices by itself.
type finder struct {
	hardware.Driver
	init, err error
	found     []hardware.Found
	untried   string
}

func (f finder) Init(context.Context) error { return f.init }

func (f finder) UntriedTool(context.Context) (string, error) { return f.untried, nil }

func (f finder) Find(context.Context) ([]hardware.Found, error) { return f.found, f.err }

// files makes a machine's files.
func files(t *testing.T, root string, all map[string]string) {
	t.Helper()
	for name, text := range all {
		file := filepath.Join(root, name)
		mode := os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), mode))
	}
}

// The udev rules of Debian 12 that activate volumes, in short.
const (
	lvmRules = `IMPORT{program}="/sbin/lvm pvscan --cache --listvg $env{DEVNAME}"` + "\n"
	mdRules  = `ACTION=="add|change", IMPORT{program}="/sbin/mdadm --incremental --export $devnode --offroot $env{DEVLINKS}"` + "\n"
)

// shipped is the rule of deploy/udev, with one drive named.
func shipped(t *testing.T, name bool) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/udev/59-burnish-nvme.rules")
	require.NoError(t, err)
	if name {
		return string(text) + "\n" + `KERNELS=="0000:01:00.0", GOTO="burnish_nvme"` + "\n"
	}
	return string(text)
}

const address = "0000:01:00.0"

// oneDrive is a driver that finds one drive.
var oneDrive = map[string]hardware.Driver{"nvme": finder{found: []hardware.Found{{Address: address}}}}

// foundOn are the findings of a host with these drivers, whose files are below root.
func foundOn(t *testing.T, root string, uid int, all map[string]hardware.Driver) Findings {
	t.Helper()
	w, s := worker(t, config.RoleHost), sound()
	s.root = root
	s.drivers = func([]string, drivers.Host) (map[string]hardware.Driver, error) { return all, nil }
	var f Findings
	machine{Findings: &f, settings: w, uid: uid, system: s}.all()
	return f
}

func TestDriversAreCheckedOnTheirHost(t *testing.T) {
	one := []hardware.Found{{Address: address}}
	for name, tt := range map[string]struct {
		driver finder
		uid    int
		level  Level
		says   string
	}{
		"in order":            {finder{found: one}, 0, OK, "device_spec matches 1 devices (0000:01:00.0)"},
		"it can start":        {finder{found: one}, 0, OK, "the driver can start on this host"},
		"an unknown version":  {finder{untried: "a tool 9.9"}, 0, Warn, "never tested with a tool 9.9"},
		"many":                {finder{found: make([]hardware.Found, 9)}, 0, OK, "device_spec matches 9 devices (, , , , , , , , …)"},
		"none":                {finder{}, 0, Warn, "no device matches device_spec"},
		"no permission":       {finder{err: errors.New("permission denied")}, 0, Fail, "permission denied"},
		"not root":            {finder{found: one}, 1000, Fail, "uid 1000 cannot send commands to drives"},
		"its tool is missing": {finder{init: &device.Fault{Code: device.CodeToolMissing, Message: "nvme-cli cannot be run", Remedy: "install it"}}, 0, Fail, "nvme-cli cannot be run"},
		"it fails":            {finder{init: errors.New("no such thing")}, 0, Fail, "no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			f := foundOn(t, t.TempDir(), tt.uid, map[string]hardware.Driver{"nvme": tt.driver})
			require.Equal(t, tt.level == Fail, f.Failures() > 0, "%+v", f)
			require.True(t, says(f, tt.level, "nvme", tt.says), "%+v", f)
		})
	}
}

// A PCI device whose model the policy does not name cannot be enrolled, and root must clean it.
func TestModelsWithoutAnEntryAreNamed(t *testing.T) {
	w, s := worker(t, config.RoleHost), sound()
	s.root, w.NVMeHelper = t.TempDir(), "/usr/libexec/burnish-helper"
	w.Policy.Models = []device.Model{{ID: "1af4:1110"}}
	s.drivers = func(_ []string, of drivers.Host) (map[string]hardware.Driver, error) {
		require.Equal(t, w.Policy.Models, of.Policy.Models, "the driver needs them")
		return map[string]hardware.Driver{"pci": finder{found: []hardware.Found{{Address: address, Model: "1af4:1110"},
			{Address: "0000:02:00.0", Model: "10de:20b5"}}}}, nil
	}
	var f Findings
	machine{Findings: &f, settings: w, uid: 1000, system: s}.all()
	require.True(t, says(f, Warn, "pci",
		"models of the policy has no entry for 10de:20b5 at 0000:02:00.0: it cannot be enrolled"), "%+v", f)
	require.False(t, says(f, Warn, "pci",
		"models of the policy has no entry for 1af4:1110 at 0000:01:00.0: it cannot be enrolled"), "%+v", f)
	require.True(t, says(f, Fail, "pci", "uid 1000 cannot read and change devices"), "%+v", f)
}

// says requires a finding.
func says(f Findings, level Level, check, text string) bool {
	for _, one := range f {
		if one.Level == level && one.Check == check && one.Message == text {
			return true
		}
	}
	return false
}

// F21
func TestActivationOfAGuestsVolumes(t *testing.T) {
	lvm, err := exec.LookPath("lvm")
	if err != nil {
		t.Skip("lvm is not installed: deploy/setup-test.sh installs it")
	}
	// How LVM answers on RHEL 9, whose build has the list switched on.
	const rhel9 = "#!/bin/sh\necho use_devicesfile=1; echo 'devicesfile=\"system.devices\"'; echo " +
		"'global_filter=[\"a|.*|\"]'\n"
	rules := map[string]string{"usr/lib/udev/rules.d/69-lvm.rules": lvmRules,
		"usr/lib/udev/rules.d/64-md-raid-assembly.rules": mdRules}
	for name, tt := range map[string]struct {
		files map[string]string
		rule  string
		open  []string
	}{
		"nothing is there":       {files: map[string]string{"usr/lib/udev/rules.d/69-lvm.rules": "", "usr/lib/udev/rules.d/64-md-raid-assembly.rules": ""}},
		"LVM and md":             {open: []string{"LVM", "md"}},
		"the rule":               {files: map[string]string{"etc/udev/rules.d/59-burnish-nvme.rules": shipped(t, true)}, rule: "/etc/udev/rules.d/59-burnish-nvme.rules", open: []string{"LVM", "md"}},
		"a rule of another name": {files: map[string]string{"etc/udev/rules.d/10-guests.rules": `KERNEL=="nvme*", ENV{UDEV_DISABLE_PERSISTENT_STORAGE_BLKID_FLAG}="1"`}, rule: "/etc/udev/rules.d/10-guests.rules", open: []string{"LVM", "md"}},
		"as it is shipped":       {files: map[string]string{"etc/udev/rules.d/59-burnish-nvme.rules": shipped(t, false)}, open: []string{"LVM", "md"}},
		"too late":               {files: map[string]string{"etc/udev/rules.d/90-burnish-nvme.rules": shipped(t, true)}, open: []string{"LVM", "md"}},
		"masked": {files: map[string]string{
			"usr/lib/udev/rules.d/59-burnish-nvme.rules": shipped(t, true), "etc/udev/rules.d/59-burnish-nvme.rules": "",
		}, open: []string{"LVM", "md"}},
		"the settings": {files: map[string]string{
			"etc/lvm/lvm.conf":     "devices {\n\tglobal_filter = [ \"a|^/dev/sda|\", \"r|.*|\" ]\n}\n",
			"etc/mdadm/mdadm.conf": "ARRAY /dev/md0 UUID=1\nAUTO -all\n",
		}},
		"one word": {files: map[string]string{
			"etc/lvm/lvm.conf": "devices/global_filter = \"r/nvme/\"\n", "etc/mdadm.conf": "auto -all\n",
		}},
		"LVM's own list": {files: map[string]string{
			"etc/lvm/lvmlocal.conf": "devices {\n  use_devicesfile=1\n}\n", "etc/lvm/devices/system.devices": "VERSION=1.1.1\n",
		}, open: []string{"md"}},
		"a list of another name": {files: map[string]string{
			"etc/lvm/lvm.conf":            "devices { use_devicesfile = \"yes\" }\ndevices { devicesfile = \"own.devices\" }",
			"etc/lvm/devices/own.devices": "",
		}, open: []string{"md"}},
		"a list that is not there": {files: map[string]string{"etc/lvm/lvmlocal.conf": "devices {\n  use_devicesfile=1\n}\n"}, open: []string{"LVM", "md"}},
		"a filter by kernel names": {files: map[string]string{"etc/lvm/lvm.conf": "devices { global_filter = [ \"r|^/dev/nvme|\" ] }\n"}, open: []string{"md"}},
		"a host on a drive of its own": {files: map[string]string{
			"etc/lvm/lvm.conf": "devices {\nglobal_filter = [ \"a|^/dev/disk/by-id/nvme-MODEL_SERIAL-part3$|\", # its own\n\t\"r|^/dev/nvme|\" ]\n}\n",
		}, open: []string{"md"}},
		"another name is accepted": {files: map[string]string{
			"etc/lvm/lvm.conf": "devices { global_filter = [ \"r|^/dev/nvme|\", \"a|.*|\" ] }\n",
		}, open: []string{"LVM", "md"}},
		"other disks are rejected":     {files: map[string]string{"etc/lvm/lvm.conf": "devices { global_filter = [ \"r|^/dev/sd|\" ] }\n"}, open: []string{"LVM", "md"}},
		"a filter that cannot be read": {files: map[string]string{"etc/lvm/lvm.conf": "devices { global_filter = [ \"r|(|\", \"r\" ] }\n"}, open: []string{"LVM", "md"}},
		"an empty pattern":             {files: map[string]string{"etc/lvm/lvm.conf": "devices { global_filter = [ \"r\", \"r|.*|\" ] }\n"}, open: []string{"LVM", "md"}},
		"comments": {files: map[string]string{
			"etc/lvm/lvm.conf":               "devices {\n# global_filter = [ \"r|.*|\" ]\n\t# use_devicesfile = 1\nuse_devicesfile = 0 # use_devicesfile = 1\n}\n",
			"etc/lvm/devices/system.devices": "", "etc/mdadm/mdadm.conf": "#AUTO -all\n",
		}, open: []string{"LVM", "md"}},
		"all is accepted": {files: map[string]string{
			"etc/lvm/lvm.conf":     "devices {\nglobal_filter = [ \"a|.*|\" ]\nfilter = [ \"r|.*|\" ]\n}\n",
			"etc/mdadm/mdadm.conf": "AUTO +1.x -all\nAUTO -all\n",
		}, open: []string{"LVM", "md"}},
		// LVM says "It's not part of any section", and uses its default.
		"in no section":      {files: map[string]string{"etc/lvm/lvm.conf": "global_filter = [ \"r|nvme|\" ]\n"}, open: []string{"LVM", "md"}},
		"in another section": {files: map[string]string{"etc/lvm/lvm.conf": "backup { global_filter = [ \"r|nvme|\" ] }\n"}, open: []string{"LVM", "md"}},
		"the last value counts": {files: map[string]string{
			"etc/lvm/lvm.conf": "devices { global_filter = [ \"r|nvme|\" ] }\ndevices { global_filter = [ \"a|.*|\" ] }\n",
		}, open: []string{"LVM", "md"}},
		"lvmlocal.conf switches the list off": {files: map[string]string{
			"etc/lvm/lvm.conf":               "devices { use_devicesfile = 1 }\n",
			"etc/lvm/lvmlocal.conf":          "devices { use_devicesfile = 0 }\n",
			"etc/lvm/devices/system.devices": "",
		}, open: []string{"LVM", "md"}},
		"lvmlocal.conf accepts all": {files: map[string]string{
			"etc/lvm/lvm.conf":      "devices { global_filter = [ \"r|nvme|\" ] }\n",
			"etc/lvm/lvmlocal.conf": "devices { global_filter = [ \"a|.*|\" ] }\n",
		}, open: []string{"LVM", "md"}},
		"RHEL 9": {files: map[string]string{"etc/lvm/devices/system.devices": "", "usr/sbin/lvm": rhel9},
			open: []string{"md"}},
		"RHEL 9 without a list": {files: map[string]string{"usr/sbin/lvm": rhel9}, open: []string{"LVM", "md"}},
		"Debian 12": {files: map[string]string{
			"etc/lvm/lvm.conf": "devices {\n\t# use_devicesfile = 0\n}\n", "etc/lvm/devices/system.devices": "",
		}, open: []string{"LVM", "md"}},
		"an LVM that does not know the list": {files: map[string]string{
			"usr/sbin/lvm": "#!/bin/sh\necho 'Configuration node devices/use_devicesfile not found' >&2; echo 'global_filter=\"r/nvme/\"'; exit 5\n",
		}, open: []string{"md"}},
		"an LVM that does not answer": {files: map[string]string{"usr/sbin/lvm": "#!/bin/sh\nexit 3\n"}, open: []string{"LVM", "md"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files(t, root, rules)
			files(t, root, tt.files)
			if tt.files["usr/sbin/lvm"] == "" {
				files(t, root, map[string]string{"usr/sbin/lvm": "#!/bin/sh\nexec " + lvm + " \"$@\"\n"})
			}
			g := findActivationGuard(root)
			require.Equal(t, activationGuard{rule: tt.rule, open: tt.open}, g)
			f := foundOn(t, root, 0, oneDrive)
			require.False(t, f.Failures() > 0, "%+v", f)
			if tt.rule == "" && len(tt.open) > 0 {
				require.True(t, says(f, Warn, "udev", g.missing()), "%+v", f)
				require.Equal(t, g.missing()+"; "+activationRemedy, AutoActivationRisk(root))
				return
			}
			require.Empty(t, AutoActivationRisk(root))
		})
	}
}

// udev's database shows which drives a rule does not match.
//
// F21
func TestDrivesThatTheRuleDoesNotReach(t *testing.T) {
	root := t.TempDir()
	files(t, root, map[string]string{
		"etc/udev/rules.d/59-burnish-nvme.rules":                     shipped(t, true),
		"sys/bus/pci/devices/0000:01:00.0/nvme/nvme0/nvme0n1/dev":    "259:0\n",
		"sys/bus/pci/devices/0000:01:00.0/nvme/nvme0/nvme0n2/dev":    "259:1\n",
		"sys/bus/pci/devices/0000:01:00.0/nvme/nvme0/nvme0c0n3/size": "8\n",
		"run/udev/data/b259:0":                                       "S:disk/by-id/nvme-X\nE:UDEV_DISABLE_PERSISTENT_STORAGE_BLKID_FLAG=1\nG:systemd\n",
		"run/udev/data/b259:1":                                       "S:disk/by-id/nvme-Y\nE:ID_FS_TYPE=LVM2_member\n",
	})
	require.Empty(t, disksWithoutRule(root, address), "udev does not run")
	files(t, root, map[string]string{"run/udev/control": ""})
	require.Equal(t, []string{"nvme0n2"}, disksWithoutRule(root, address))
	f := foundOn(t, root, 0, oneDrive)
	require.True(t,
		says(f, Warn, "udev", "the rule of /etc/udev/rules.d/59-burnish-nvme.rules was not applied to nvme0n2"), "%+v", f)
}

// programs is a driver that runs programs of the operator.
type programs struct {
	hardware.Driver
	all map[string]error
	err error
}

func (p programs) Programs() (map[string]error, error) { return p.all, p.err }

// F13
func TestEachProgramIsComparedWithHostYAML(t *testing.T) {
	for name, tt := range map[string]struct {
		driver programs
		level  Level
		says   string
	}{
		"unchanged": {programs{all: map[string]error{"gpu": nil}}, OK, "gpu matches host.yaml"},
		"changed":   {programs{all: map[string]error{"gpu": &device.Fault{Code: device.CodeNotAllowed, Message: "the SHA-256 is another", Remedy: "look"}}}, Fail, "the SHA-256 is another"},
		"no memory": {programs{all: map[string]error{"gpu": errors.New("no memory")}}, Fail, "gpu: no memory"},
		"none":      {programs{}, Warn, "host.yaml allows no script, and this driver needs one"},
		"not read":  {programs{err: errors.New("host.yaml is broken")}, Fail, "host.yaml is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			f := foundOn(t, t.TempDir(), 0, map[string]hardware.Driver{"script": tt.driver})
			require.Equal(t, tt.level == Fail, f.Failures() > 0, "%+v", f)
			require.True(t, says(f, tt.level, "script", tt.says), "%+v", f)
		})
	}
}
