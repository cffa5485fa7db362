package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// guard is what keeps a host from activating, by itself, what a guest left on a drive:
// volumes of LVM, arrays of md, file systems (SAFETY F21).
type activationGuard struct {
	// rule is the udev rule that is in force, "" where none is.
	rule string
	// open are the programs that would look at a drive without it.
	open []string
}

// Unguarded says in one line what is missing where this host would activate, by itself,
// what a guest left on a drive; "" where a udev rule or the settings of LVM and md
// forbid it, or nothing is there that would. root is where the machine's files are: "/".
func AutoActivationRisk(root string) string {
	if gap := findActivationGuard(root).missing(); gap != "" {
		return gap + "; " + activationRemedy
	}
	return ""
}

// gap says what is missing, "" where nothing is.
func (g activationGuard) missing() string {
	if g.rule != "" || len(g.open) == 0 {
		return ""
	}
	return fmt.Sprintf("%s would activate what a guest left on a drive, and neither a udev rule nor their settings forbid it",
		strings.Join(g.open, " and "))
}

const activationRemedy = "put deploy/udev/59-burnish-nvme.rules in place, or set them as docs/nvme.md says"

// ruleFolders are those of udev; of two files of one name the first counts.
var ruleFolders = []string{"etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"}

// blkidOff is the property that keeps udev from looking into a disk, and lastRule the
// file that asks for it: a rule that sorts behind it comes too late.
const (
	blkidOff = "UDEV_DISABLE_PERSISTENT_STORAGE_BLKID_FLAG"
	lastRule = "60-persistent-storage.rules"
)

func findActivationGuard(root string) activationGuard {
	g := activationGuard{}
	seen := map[string]bool{}
	lvm, md := false, false
	for _, folder := range ruleFolders {
		files, _ := filepath.Glob(filepath.Join(root, folder, "*.rules")) // the pattern is right
		for _, file := range files {
			name := filepath.Base(file)
			if seen[name] {
				continue
			}
			seen[name] = true
			text := active(file)
			lvm = lvm || strings.Contains(text, "lvm pvscan") || strings.Contains(text, "lvm2-pvscan@")
			md = md || strings.Contains(text, "mdadm --incremental") || strings.Contains(text, "mdadm -I ")
			if g.rule == "" && name < lastRule && setsGuard(text) {
				g.rule = "/" + filepath.Join(folder, name)
			}
		}
	}
	if lvm && !lvmGuarded(root) {
		g.open = append(g.open, "LVM")
	}
	if md && !mdGuarded(root) {
		g.open = append(g.open, "md")
	}
	return g
}

// setsGuard says whether a file of rules sets the property, and, where it is Burnish's
// own, whether one of its lines names drives.
func setsGuard(text string) bool {
	return strings.Contains(text, `ENV{`+blkidOff+`}="1"`) &&
		(!strings.Contains(text, `LABEL="burnish_nvme"`) || strings.Contains(text, `GOTO="burnish_nvme"`))
}

// LVM's filter, the patterns in it, and its own list of devices, which counts only where
// the file of that list is there.
var (
	filter   = regexp.MustCompile(`\bglobal_filter\s*=\s*\[?((?:\s*"[^"]*"\s*,?)*)`)
	patterns = regexp.MustCompile(`"([^"]*)"`)
	listed   = regexp.MustCompile(`\buse_devicesfile\s*=\s*1\b`)
)

func lvmGuarded(root string) bool {
	_, missing := os.Stat(filepath.Join(root, "etc/lvm/devices/system.devices"))
	for _, file := range []string{"etc/lvm/lvm.conf", "etc/lvm/lvmlocal.conf"} {
		text := active(filepath.Join(root, file))
		if missing == nil && listed.MatchString(text) {
			return true
		}
		if found := filter.FindStringSubmatch(text); found != nil {
			first := func(path string) string { return firstMatch(patterns.FindAllStringSubmatch(found[1], -1), path) }
			// One name of a drive that is accepted outweighs others that are rejected.
			if first("/dev/nvme9n1") == "r" && first("/dev/disk/by-id/nvme-eui.9") != "a" {
				return true
			}
		}
	}
	return false
}

// firstMatch gives a or r of the first pattern that matches a path, as LVM reads them;
// "" where none does, or where one cannot be read.
func firstMatch(patterns [][]string, path string) string {
	for _, p := range patterns {
		if len(p[1]) < 3 {
			return ""
		}
		// Behind the first letter stands any sign, the expression, and the sign again.
		expression, err := regexp.Compile(p[1][2 : len(p[1])-1])
		if err != nil {
			return ""
		}
		if expression.MatchString(path) {
			return p[1][:1]
		}
	}
	return ""
}

// mdGuarded wants -all first: of the words of AUTO the first that fits counts, and
// whoever wrote the drive chose the names in its metadata.
func mdGuarded(root string) bool {
	for _, file := range []string{"etc/mdadm/mdadm.conf", "etc/mdadm.conf"} {
		for line := range strings.Lines(active(filepath.Join(root, file))) {
			if words := strings.Fields(line); len(words) > 1 && strings.EqualFold(words[0], "AUTO") {
				return words[1] == "-all" // a second AUTO is not read
			}
		}
	}
	return false
}

// active is a file without the lines that are comments; "" where it cannot be read,
// which then guards nothing.
func active(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	lines := slices.Collect(strings.Lines(string(text)))
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }), "")
}

// unmarked lists the disks of a drive that udev has seen without the rule. Where udev
// does not run nobody activates anything by it.
func disksWithoutRule(root, address string) []string {
	if _, err := os.Stat(filepath.Join(root, "run/udev/control")); err != nil {
		return nil
	}
	var found []string
	disks, _ := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices", address, "nvme/nvme*/nvme*n*/dev")) // the pattern is right
	for _, file := range disks {
		number, err := os.ReadFile(file)
		if err != nil {
			continue // it went away
		}
		known, err := os.ReadFile(filepath.Join(root, "run/udev/data/b"+strings.TrimSpace(string(number))))
		if err != nil || !strings.Contains("\n"+string(known), "\nE:"+blkidOff+"=1\n") {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}
