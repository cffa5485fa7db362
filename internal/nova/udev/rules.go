package udev

import (
	"fmt"
	"slices"
	"strings"
)

// Names that the guest's programs may use: the property with a device's tags, apart by
// blanks, the start of its udev tags, and the folder of its links below /dev.
const (
	Property  = "BURNISH_TAGS"
	TagPrefix = "burnish-"
	LinkDir   = "burnish"
)

// envMACSet is a property for the time of the rules: the MAC is not the card's own.
const envMACSet = ".BURNISH_MAC_SET"

const head = `# Written by burnish udev-rules: which of this guest's devices has which tag.
# The tag T of a disk is the udev tag burnish-disk-T and the link /dev/burnish/disk/T, that of
# a network card the udev tag burnish-nic-T; all tags of a device are in BURNISH_TAGS.
# In T any byte but letters, digits and - is _ and two hexadecimal digits.
ACTION=="remove", GOTO="burnish_end"
SUBSYSTEM!="block|net|pci|usb", GOTO="burnish_end"
SUBSYSTEM=="block", ENV{DEVTYPE}=="partition", GOTO="burnish_end"
SUBSYSTEM=="block", KERNEL=="dm-*|md*|loop*|ram*|zram*|nvme*c*n*", GOTO="burnish_end"
SUBSYSTEM=="net", ENV{DEVTYPE}=="vlan|bond|bridge|macvlan|macvtap|ipvlan|ipvtap|vxlan|geneve", GOTO="burnish_end"
SUBSYSTEM=="net", DEVPATH!="/devices/virtual/*", ATTR{addr_assign_type}=="3", ENV{.BURNISH_MAC_SET}="1"
`

const foot = `LABEL="burnish_end"
`

// Rules writes the rules for the devices of a metadata document. A document without tags gives
// rules that do nothing.
func Rules(document []byte) (string, error) {
	entries, err := read(document)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	var disks []string // the tags of those that have a rule
	for i, e := range entries {
		if len(e.Tags) == 0 {
			continue
		}
		lines, fault := rulesOf(i, entries)
		if fault == "" && e.tooLong(lines) {
			fault = "its rule would be longer than udev reads"
		}
		if fault != "" {
			fmt.Fprintf(&b, "# device %d: no rule: %s\n", i+1, fault)
			continue
		}
		fmt.Fprintf(&b, "# device %d\n", i+1)
		for _, line := range lines {
			b.WriteString(e.rule(line) + "\n")
		}
		if e.Type == typeDisk {
			disks = append(disks, e.Tags...)
		}
	}
	writeLinks(&b, disks)
	b.WriteString(foot)
	return b.String(), nil
}

// rule is the line that marks a device on which all these conditions hold.
func (e entry) rule(conditions []match) string {
	var b strings.Builder
	for _, m := range conditions {
		b.WriteString(m.String() + ", ")
	}
	return b.String() + e.marks()
}

// tooLong reports whether udev would not read a line, and with it the rest of the rules: it
// takes 16384 bytes.
func (e entry) tooLong(lines [][]match) bool {
	const most = 16000
	return slices.ContainsFunc(lines, func(line []match) bool { return len(e.rule(line)) > most })
}

// marks are what a rule does to a device.
func (e entry) marks() string {
	var b strings.Builder
	var all []string
	for _, tag := range e.Tags {
		fmt.Fprintf(&b, `TAG+="%s", `, e.udevTag(tag))
		all = append(all, Encode(tag))
	}
	fmt.Fprintf(&b, `ENV{%s}="%s"`, Property, strings.Join(all, " "))
	return b.String()
}

func (e entry) udevTag(tag string) string { return TagPrefix + e.Type + "-" + Encode(tag) }

// writeLinks gives the disk with each tag a link; of an NVMe controller's namespaces the first.
func writeLinks(b *strings.Builder, all []string) {
	slices.Sort(all)
	for _, tag := range slices.Compact(all) {
		e := entry{Type: typeDisk}
		fmt.Fprintf(b, `SUBSYSTEM=="block", TAG=="%s", KERNEL!="nvme*n[2-9]|nvme*n[1-9][0-9]*", SYMLINK+="%s/disk/%s"`+"\n",
			e.udevTag(tag), LinkDir, Encode(tag))
	}
}
