package device

import (
	"regexp"
	"strings"
	"unicode"
)

// SerialKey is a serial number without the differences in which two systems write it: blanks,
// underscores in their place, and small letters. "" if it is unknown, or one of those that many
// servers, disks and drives report because their factory has written none: it distinguishes nothing.
func SerialKey(text string) string {
	blank := func(r rune) bool { return r == '_' || r == 0 || unicode.IsSpace(r) }
	key := strings.ToUpper(strings.Join(strings.FieldsFunc(text, blank), ""))
	if isPlaceholder(key) {
		return ""
	}
	return key
}

// placeholderWords begin, or are, what is reported for a serial that was not written: "Not Applicable",
// "To Be Filled By O.E.M.", "Chassis Serial Number", and the kind of a wwid whose number is zero.
var placeholderWords = longest(`^(?:` + strings.Join([]string{
	"NOT?", "NON", "NONE", "N[AB]", "NULL", "NIL", "UNKNOWN?", "INVALID", "EMPTY", "BLANK", "MISSING", "BAD", "TB[AD]",
	"TO", "BE", "BY", "IS", "OF", "OUT", "FILL(?:ED)?", "[OE]EM", "ODM", "CUSTOMER", "USER", "VENDOR", "MANUFACTURER",
	"(?:UN)?(?:APPLICABLE|AVAILABLE|SPECIFIED|PRESENT|SUPPORTED|PROVIDED|DEFINED|ASSIGNED|SET|USED|PROGRAMMED)",
	"(?:UN)?(?:INITIALI[SZ]ED|REPORTED|READABLE|FOUND|INSTALLED|CONFIGURED|IMPLEMENTED|ENTERED|RECORDED|VALID)",
	"(?:UN)?(?:WRITTEN|POPULATED)", "DEFAULT", "PLACEHOLDER", "DUMMY", "RESERVED", "ERROR", "FAILED",
	"STRING", "TEXT", "VALUE", "FIELD", "DATA", "INDEX", "SPEC", "INFO(?:RMATION)?", "TYPE[0-9]",
	"SYSTEM", "SERVER", "CHASSIS", "ENCLOSURE", "BASE", "MAIN", "MOTHER", "BOARD", "PRODUCT", "DRIVE", "DISK", "DEVICE",
	"HARDWARE", "ASSET", "TAG", "SERIAL", "NUMBER", "SER", "NUM", "SERNUM0", "[BC]?SN", "[MN]B", "ATN", "ID", "IDENTIFIER",
	"EUI", "NAA", "UUID", "WW(?:N|ID)", "0X",
}, "|") + `)*`)

// longest gives an expression that matches as much as it can.
func longest(text string) *regexp.Regexp {
	r := regexp.MustCompile(text)
	r.Longest()
	return r
}

// isPlaceholder says whether a text in capitals is no serial: nothing but such words and punctuation, a run of
// one character ("00000000", "XXXX"), or characters in their order ("0123456789ABCDEF"), also behind such words.
func isPlaceholder(key string) bool {
	text := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, key)
	rest := []rune(placeholderWords.ReplaceAllString(text, ""))
	if len(rest) == 0 || strings.Trim(text, "0") == "" {
		return true
	}
	run, inOrder := 2, 5
	if len(string(rest)) < len(text) {
		// Less than this behind words is a name that somebody gave: "disk 1", "SN123456".
		run, inOrder = 8, 8
	}
	same, next := len(rest) >= run, len(rest) >= inOrder
	for i, r := range rest[1:] {
		same = same && r == rest[i]
		next = next && follows(rest[i], r)
	}
	return same || next
}

// follows: b comes after a where somebody types, or counts, in order.
func follows(a, b rune) bool {
	switch a {
	case '9':
		return strings.ContainsRune("01A", b)
	case '0':
		return b == '1' || b == 'A'
	case 'F':
		return b == 'G' || b == '0'
	}
	return b == a+1
}
