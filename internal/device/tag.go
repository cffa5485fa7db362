package device

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxTag is how many characters a role tag may have.
const MaxTag = 60

// CheckTag refuses what cannot be a tag (S1.35): one has 1 to 60 characters, and neither a
// comma nor a slash. Everything else is legal: blanks, quotes and line ends too.
func CheckTag(tag string) error {
	switch n := utf8.RuneCountInString(tag); {
	case tag == "":
		return errors.New("a tag is empty: leave it out, or give 1 to 60 characters")
	case !utf8.ValidString(tag):
		return fmt.Errorf("tag %q is not UTF-8", tag)
	case n > MaxTag:
		return fmt.Errorf("tag %q has %d characters: the most is %d", tag, n, MaxTag)
	case strings.ContainsAny(tag, ",/"):
		return fmt.Errorf("tag %q has a comma or a slash: neither is allowed", tag)
	}
	return nil
}
