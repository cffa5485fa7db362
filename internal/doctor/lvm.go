package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// lvmGuarded: LVM uses only the devices of its own list, or its filter rejects drives. Where
// LVM has a list in force, it ignores the filter.
func lvmGuarded(root string) bool {
	settings := readLVM(root)
	use := settings["devices/use_devicesfile"]
	name := slices.Concat(settings["devices/devicesfile"], []string{"system.devices"})
	if len(use) == 0 {
		use = []string{builtinDevicesFile(root)}
	}
	if slices.Contains([]string{"1", "y", "yes", "on", "true"}, strings.ToLower(use[0])) {
		if _, err := os.Stat(filepath.Join(root, "etc/lvm/devices", name[0])); err == nil {
			return true // a list that is not there lists everything
		}
	}
	first := func(path string) string { return firstMatch(settings["devices/global_filter"], path) }
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

// readLVM gives LVM's settings, each under section/key: lvmlocal.conf comes before lvm.conf.
// A file that cannot be read gives none.
func readLVM(root string) map[string][]string {
	settings := map[string][]string{}
	for _, file := range []string{"lvm.conf", "lvmlocal.conf"} {
		text, err := os.ReadFile(filepath.Join(root, "etc/lvm", file))
		if err == nil {
			parseLVM(string(text), settings)
		}
	}
	return settings
}

// lvmTokens are those of lvm.conf(5): a comment, a string, a sign, a word.
var lvmTokens = regexp.MustCompile(`#[^\n]*|"(?:[^"\\]|\\.)*"|'[^']*'|[{}\[\]=,]|[^\s#{}\[\]=,"']+`)

// parseLVM adds a file's settings. The last of several with one name counts.
func parseLVM(text string, settings map[string][]string) {
	tokens := slices.DeleteFunc(lvmTokens.FindAllString(text, -1), func(t string) bool { return t[0] == '#' })
	var sections []string
	for i := 0; i < len(tokens); i++ {
		next := ""
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case next == "{":
			sections = append(sections, tokens[i])
			i++
		case tokens[i] == "}" && len(sections) > 0:
			sections = sections[:len(sections)-1]
		case next == "=":
			key := strings.Join(append(slices.Clone(sections), tokens[i]), "/")
			value := []string{}
			i += 2
			if i < len(tokens) && tokens[i] == "[" {
				for i++; i < len(tokens) && tokens[i] != "]"; i++ {
					if tokens[i] != "," {
						value = append(value, strings.Trim(tokens[i], `"'`))
					}
				}
			} else if i < len(tokens) {
				value = append(value, strings.Trim(tokens[i], `"'`))
			}
			settings[key] = value
		}
	}
}

// commented is the value that LVM's build has written into lvm.conf, as a comment.
var commented = regexp.MustCompile(`(?m)^\s*#\s*use_devicesfile\s*=\s*(\d)\s*$`)

// builtinDevicesFile is what use_devicesfile is where no file sets it: 1 on RHEL 9, 0 on Debian 12. LVM itself
// says it; where no LVM is installed that could activate anything, its lvm.conf does.
func builtinDevicesFile(root string) string {
	for _, place := range []string{"usr/sbin/lvm", "sbin/lvm", "usr/bin/lvm"} {
		program := filepath.Join(root, place)
		if _, err := os.Stat(program); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ask := exec.CommandContext(ctx, program, "lvmconfig", "--typeconfig", "default", "devices/use_devicesfile")
		said, err := ask.Output()
		_, value, found := strings.Cut(string(said), "=")
		if err != nil || !found {
			return "0" // an older LVM does not know it
		}
		return strings.TrimSpace(value)
	}
	text, err := os.ReadFile(filepath.Join(root, "etc/lvm/lvm.conf"))
	if found := commented.FindSubmatch(text); err == nil && found != nil {
		return string(found[1])
	}
	return "0"
}
