package device

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,126}$`)
	addressForm = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-1][0-9a-fA-F]\.[0-7]$`)
)

// CanonicalName gives the one spelling of a device's name: `<hostname>_<pci>` in
// lower case where the name ends in a PCI address (S2.34; Nova writes it in upper
// case), any other name as it is. The error names the form that is wanted.
func CanonicalName(name string) (string, error) {
	if !nameForm.MatchString(strings.ReplaceAll(name, "_", "-")) {
		return "", fmt.Errorf("%q is not a valid device name: want 1 to 127 letters, digits and . _ : @ -, the first a "+
			"letter or digit", name)
	}
	if i := strings.LastIndexByte(name, '_'); i > 0 && addressForm.MatchString(name[i+1:]) {
		return strings.ToLower(name), nil
	}
	return name, nil
}

// SplitName reads host and address from a canonical name that NameOf made; found is
// false for any other.
func SplitName(name string) (host, address string, found bool) {
	cut := strings.LastIndex(name, "_")
	if cut < 1 || !addressForm.MatchString(name[cut+1:]) {
		return "", "", false
	}
	return name[:cut], name[cut+1:], true
}

// NameOf gives the name that a host and a PCI address make (S2.34).
func NameOf(host, address string) (string, error) {
	if !addressForm.MatchString(address) {
		return "", fmt.Errorf("%q is not a valid PCI address: want domain:bus:slot.function, as 0000:01:00.0", address)
	}
	return CanonicalName(strings.ToLower(host + "_" + address))
}
