package device

import (
	"fmt"
	"regexp"
	"strings"
)

var macForm = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)

// CanonicalMAC is a MAC in its one spelling: six pairs of lower-case hexadecimal digits, parted by
// colons. Only its form is checked: clouds give guests every kind of MAC.
func CanonicalMAC(text string) (string, error) {
	mac := strings.ToLower(strings.ReplaceAll(text, "-", ":"))
	if !macForm.MatchString(mac) {
		return "", fmt.Errorf("MAC %q is not of the form 02:00:00:00:00:01", text)
	}
	return mac, nil
}
