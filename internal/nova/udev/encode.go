package udev

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"
)

// maxTag is the longest tag in characters (S1.35). Any of them, encoded, fits into the name of
// a file, as which udev keeps it.
const maxTag = 60

// maxReadable is the longest readable encoding in bytes.
const maxReadable = 200

// Encode writes a tag with letters, digits, - and _ alone, which is what udev takes: letters,
// digits and - stand for themselves, any other byte of its UTF-8 is _ and two hexadecimal
// digits. A tag that would be longer than 200 bytes so is __ and the base64 (RFC 4648,
// section 5) of its characters as one number, 21 bits each. Two tags never have one encoding.
func Encode(tag string) string {
	var b strings.Builder
	for i := range len(tag) {
		if c := tag[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() <= maxReadable {
		return b.String()
	}
	const bits = 21
	number := new(big.Int)
	for _, r := range tag {
		// Plus 1: a first character of 0 counts too.
		number.Or(number.Lsh(number, bits), big.NewInt(int64(r)+1))
	}
	return "__" + base64.RawURLEncoding.EncodeToString(number.Bytes())
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
}

// checkTag says why a tag cannot be a role; "" if it can.
func checkTag(tag string) string {
	switch n := utf8.RuneCountInString(tag); {
	case n == 0:
		return "a tag is empty"
	case n > maxTag:
		return fmt.Sprintf("a tag has more than %d characters", maxTag)
	}
	return ""
}
