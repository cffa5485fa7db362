package device

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxTag is how many characters a role tag may have.
const MaxTag = 60

// CheckTag checks a device's role tag: 1 to 60 characters, none of them a comma or a slash.
// All else is legal: blanks, quotes, line ends (S1.35).
func CheckTag(tag string) error {
	switch {
	case tag == "":
		return errors.New("the tag is empty")
	case !utf8.ValidString(tag):
		return errors.New("the tag is not valid UTF-8")
	case utf8.RuneCountInString(tag) > MaxTag:
		return fmt.Errorf("the tag is longer than %d characters", MaxTag)
	case strings.ContainsAny(tag, ",/"):
		return errors.New("the tag contains a comma or a slash")
	}
	return nil
}
