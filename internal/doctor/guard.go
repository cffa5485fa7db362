package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// activationGuard is what prevents a host from activating volumes of LVM, arrays of md or
// file systems that a guest left on a drive (F21).
type activationGuard struct {
	// rule is the active udev rule, "" if there is none.
	rule string
	// open are the programs that would activate volumes without it.
	open []string
}

// AutoActivationRisk describes in one line why this host could activate volumes that a
// guest left on a drive. It is "" if a udev rule or the settings of LVM and md prevent
// that, or neither is installed. root is the root of the file system, "/".
func AutoActivationRisk(root string) string {
	if gap := findActivationGuard(root).missing(); gap != "" {
		return gap + "; " + activationRemedy
	}
	return ""
}

// missing describes the gap, "" if there is none.
func (g activationGuard) missing() string {
	if g.rule != "" || len(g.open) == 0 {
		return ""
	}
	return fmt.Sprintf("%s would activate volumes that a guest left on a drive; no udev rule and no setting prevents it",
		strings.Join(g.open, " and "))
}

const activationRemedy = "install deploy/udev/59-burnish-nvme.rules, or configure LVM and md as docs/nvme.md describes"

// ruleFolders are the folders of udev rules. Of two files with one name the first counts.
var ruleFolders = []string{"etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d",
	"lib/udev/rules.d"}

// blkidOff is the property that stops udev from probing a disk. lastRule is the file that
// reads it: a rule that sorts after it has no effect.
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

// setsGuard reports whether a rules file sets the property. In Burnish's own file a line
// must also match drives.
func setsGuard(text string) bool {
	return strings.Contains(text, `ENV{`+blkidOff+`}="1"`) &&
		(!strings.Contains(text, `LABEL="burnish_nvme"`) || strings.Contains(text, `GOTO="burnish_nvme"`))
}

// mdGuarded requires -all as the first word of AUTO: the first matching word counts, and
// a tenant chooses the names in the metadata.
func mdGuarded(root string) bool {
	for _, file := range []string{"etc/mdadm/mdadm.conf", "etc/mdadm.conf"} {
		for line := range strings.Lines(active(filepath.Join(root, file))) {
			if words := strings.Fields(line); len(words) > 1 && strings.EqualFold(words[0], "AUTO") {
				return words[1] == "-all" // mdadm reads only the first AUTO
			}
		}
	}
	return false
}

// active is a file without its comments; "" if it cannot be read, and so guards nothing.
func active(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	lines := slices.Collect(strings.Lines(string(text)))
	return strings.Join(
		slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }), "")
}

// disksWithoutRule lists the disks of a drive that udev processed before the rule was
// installed. Without a running udev there are none.
func disksWithoutRule(root, address string) []string {
	if _, err := os.Stat(filepath.Join(root, "run/udev/control")); err != nil {
		return nil
	}
	var found []string
	// the pattern is right
	disks, _ := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices", address, "nvme/nvme*/nvme*n*/dev"))
	for _, file := range disks {
		number, err := os.ReadFile(file)
		if err != nil {
			continue // removed meanwhile
		}
		known, err := os.ReadFile(filepath.Join(root, "run/udev/data/b"+strings.TrimSpace(string(number))))
		if err != nil || !strings.Contains("\n"+string(known), "\nE:"+blkidOff+"=1\n") {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}
