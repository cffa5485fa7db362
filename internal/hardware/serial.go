package hardware

import (
	"slices"
	"strings"

	"burnish/internal/device"
)

// CanonicalSerial is the one form of a serial, whichever driver or table it comes from: a
// CanonicalText (F23), or "" for what device.SerialKey takes for none.
func CanonicalSerial(text string) string {
	if device.SerialKey(text) == "" {
		return ""
	}
	return CanonicalText(text)
}

// CanonicalText is the one form of what hardware says of itself: each run of blanks is one
// underscore.
func CanonicalText(text string) string {
	return strings.Join(strings.Fields(strings.Trim(text, "\x00")), "_")
}

// SameSerial compares two systems' readings of a serial number. An unknown one is equal to
// none.
func SameSerial(a, b string) bool {
	return device.SerialKey(a) != "" && device.SerialKey(a) == device.SerialKey(b)
}

// SerialForms are the forms of a serial number in which a listing of devices may have it: a
// listing compares whole words.
func SerialForms(text string) []string {
	canonical, key := CanonicalSerial(text), device.SerialKey(text)
	if key == "" {
		return nil
	}
	var forms []string
	for _, form := range []string{text, canonical, strings.ToUpper(canonical), strings.ToLower(canonical), key,
		strings.ToLower(key)} {
		if !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	return forms
}
