// Package tagging is what Nova's device role tagging takes: the types of devices among which a tag is
// unique, and the buses and addresses at which a guest finds a device. It is pure.
package tagging

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The document's types of devices that have fields of their own. Every other type is the
// device's in lower case (S1.9).
const (
	NIC  = "nic"
	Disk = "disk"
)

// TypeOf is the document's type for a device's type (S1.9). A tag is unique among an
// instance's devices of one type in this sense (S1.3).
func TypeOf(deviceType string) string {
	switch t := strings.ToLower(deviceType); t {
	case "nvme", Disk:
		return Disk
	default:
		return t
	}
}

// The guest's buses (S1.10). None is that of containers and of devices on the board, and of
// a device of whose bus nothing is known.
const (
	PCI  = "pci"
	USB  = "usb"
	SCSI = "scsi"
	IDE  = "ide"
	Xen  = "xen"
	None = "none"
)

// Bus is one of the guest's buses with the form of its addresses and an example of one; none has
// no address.
type Bus struct{ Name, Form, Example string }

// Buses are all of them.
var Buses = []Bus{
	{PCI, `[a-f0-9]{4}:[a-f0-9]{2}:[01][a-f0-9]\.[0-7]`, "0000:00:05.0"},
	{USB, `[a-f0-9]+:[a-f0-9]+`, "0:1"},
	{SCSI, `[a-f0-9]+:[a-f0-9]+:[a-f0-9]+:[a-f0-9]+`, "1:0:2:0"},
	{IDE, `[0-1]:[0-1]`, "0:1"},
	{Xen, `[0-9]+`, "51712"},
	{None, "", ""},
}

var addressForms = compileForms()

// compileForms makes patterns that must match all of an address.
func compileForms() map[string]*regexp.Regexp {
	forms := map[string]*regexp.Regexp{}
	for _, b := range Buses {
		if b.Form != "" {
			forms[b.Name] = regexp.MustCompile(`\A(?:` + b.Form + `)\z`)
		}
	}
	return forms
}

// maxAddress, maxPath and maxDevname are in bytes.
const (
	maxAddress = 64
	maxPath    = 255
	maxDevname = 15 // the kernel's, without the closing NUL
)

// CheckGuest refuses guest addresses of one device that the document cannot show. Several
// are for a device that the guest sees on several buses, so that each bus is named once.
func CheckGuest(guest []contract.GuestAddress) error {
	seen := map[string]bool{}
	for _, g := range guest {
		if err := checkAddress(g); err != nil {
			return err
		}
		if seen[g.Bus] {
			return fmt.Errorf("bus %s is given twice for one device: each of its buses has one address", g.Bus)
		}
		seen[g.Bus] = true
	}
	return nil
}

func checkAddress(g contract.GuestAddress) error {
	i := slices.IndexFunc(Buses, func(b Bus) bool { return b.Name == g.Bus })
	switch {
	case g.Bus == "":
		return fmt.Errorf("a guest's address has no bus: it is one of %s", busNames())
	case i < 0:
		return fmt.Errorf("bus %q is not known: it is one of %s", g.Bus, busNames())
	case g.Address == "":
	case g.Bus == None:
		return fmt.Errorf("address %q on bus none: that bus has no addresses", g.Address)
	case len(g.Address) > maxAddress || !addressForms[g.Bus].MatchString(strings.ToLower(g.Address)):
		return fmt.Errorf("address %q is not one of bus %s, such as %s", g.Address, g.Bus, Buses[i].Example)
	}
	if g.MAC != "" {
		if _, err := device.CanonicalMAC(g.MAC); err != nil {
			return err
		}
	}
	if g.Path != "" && (len(g.Path) > maxPath || !printable(g.Path) || !path.IsAbs(g.Path) ||
		path.Clean(g.Path) != g.Path) {
		return fmt.Errorf("path %q is not an absolute path of the guest, such as /dev/xvda", g.Path)
	}
	if g.Devname != "" && (len(g.Devname) > maxDevname || !printable(g.Devname) ||
		strings.ContainsAny(g.Devname, "/: ") || strings.Trim(g.Devname, ".") == "") {
		return fmt.Errorf("devname %q is not the name of a network device, such as eth0", g.Devname)
	}
	return nil
}

func busNames() string {
	var names []string
	for _, b := range Buses {
		names = append(names, b.Name)
	}
	return strings.Join(names, ", ")
}

// printable says that a text is UTF-8 with nothing that a terminal or a log may act on.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
