package doctor

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"burnish/internal/host"
)

// lvmGuarded: LVM uses only the devices of its own list, or its filter rejects drives. Where
// LVM has a list in force, it ignores the filter. Without LVM nothing is activated.
func lvmGuarded(root string) bool {
	settings, installed := readLVM(root)
	if !installed {
		return true
	}
	use := strings.ToLower(strings.Join(settings["use_devicesfile"], ""))
	if slices.Contains([]string{"1", "y", "yes", "on", "true"}, use) {
		list := cmp.Or(strings.Join(settings["devicesfile"], ""), "system.devices")
		if _, err := os.Stat(filepath.Join(root, "etc/lvm/devices", list)); err == nil {
			return true // a list that is not there lists everything
		}
	}
	first := func(path string) string { return firstMatch(settings["global_filter"], path) }
	// LVM accepts a drive if it accepts any of the drive's names.
	return first("/dev/nvme9n1") == "r" && first("/dev/disk/by-id/nvme-eui.9") != "a"
}

// firstMatch gives the letter (a or r) of the first pattern that matches a path, as LVM
// does; "" if none matches or one is invalid.
func firstMatch(patterns []string, path string) string {
	for _, p := range patterns {
		if len(p) < 3 {
			return ""
		}
		// After the letter: a delimiter, the expression, and the delimiter again.
		expression, err := regexp.Compile(p[2 : len(p)-1])
		if err != nil {
			return ""
		}
		if expression.MatchString(path) {
			return p[:1]
		}
	}
	return ""
}

// lvmValue is one value of a setting, a word or a string.
var lvmValue = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^\s\[\],"]+`)

// readLVM asks LVM for its settings, with the defaults of its build: use_devicesfile is 1 on RHEL 9
// and 0 on Debian 12. An older LVM does not know it, and says the others.
func readLVM(root string) (settings map[string][]string, installed bool) {
	for _, place := range []string{"usr/sbin/lvm", "sbin/lvm", "usr/bin/lvm"} {
		program := filepath.Join(root, place)
		if _, err := os.Stat(program); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ask := exec.CommandContext(ctx, program, "lvmconfig", "--typeconfig", "full",
			"devices/use_devicesfile", "devices/devicesfile", "devices/global_filter")
		ask.Env = host.ChildEnv("LVM_SYSTEM_DIR=" + filepath.Join(root, "etc/lvm"))
		said, _ := ask.Output() // what it does not say guards nothing
		settings = map[string][]string{}
		for line := range strings.Lines(string(said)) {
			name, values, _ := strings.Cut(line, "=")
			for _, value := range lvmValue.FindAllString(values, -1) {
				settings[name] = append(settings[name], strings.Trim(value, `"`))
			}
		}
		return settings, true
	}
	return nil, false
}
