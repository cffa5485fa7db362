package metadata

import (
	"errors"
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

// buses are the buses with an example of an address on each; none has no address.
var buses = []struct{ name, form, example string }{
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
	for _, b := range buses {
		if b.form != "" {
			forms[b.name] = regexp.MustCompile(`\A(?:` + b.form + `)\z`)
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

// CheckTag refuses what cannot be a tag (S1.35): one has 1 to 60 characters, and neither a
// comma nor a slash. Everything else is legal: blanks, quotes and line ends too.
func CheckTag(tag string) error {
	switch n := utf8.RuneCountInString(tag); {
	case tag == "":
		return errors.New("a tag is empty: leave it out, or give 1 to 60 characters")
	case !utf8.ValidString(tag):
		return fmt.Errorf("tag %q is not UTF-8", tag)
	case n > device.MaxTag:
		return fmt.Errorf("tag %q has %d characters: the most is %d", tag, n, device.MaxTag)
	case strings.ContainsAny(tag, ",/"):
		return fmt.Errorf("tag %q has a comma or a slash: neither is allowed", tag)
	}
	return nil
}

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
	i := slices.IndexFunc(buses, func(b struct{ name, form, example string }) bool { return b.name == g.Bus })
	switch {
	case g.Bus == "":
		return fmt.Errorf("a guest's address has no bus: it is one of %s", busNames())
	case i < 0:
		return fmt.Errorf("bus %q is not known: it is one of %s", g.Bus, busNames())
	case g.Address == "":
	case g.Bus == None:
		return fmt.Errorf("address %q on bus none: that bus has no addresses", g.Address)
	case len(g.Address) > maxAddress || !addressForms[g.Bus].MatchString(strings.ToLower(g.Address)):
		return fmt.Errorf("address %q is not one of bus %s, such as %s", g.Address, g.Bus, buses[i].example)
	}
	if g.MAC != "" {
		if _, err := device.CanonicalMAC(g.MAC); err != nil {
			return err
		}
	}
	if g.Path != "" && (len(g.Path) > maxPath || !printable(g.Path) || !path.IsAbs(g.Path) || path.Clean(g.Path) != g.Path) {
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
	for _, b := range buses {
		names = append(names, b.name)
	}
	return strings.Join(names, ", ")
}

// printable says that a text is UTF-8 with nothing that a terminal or a log may act on.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
