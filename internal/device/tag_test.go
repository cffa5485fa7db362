package device

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// S1.35
func TestTagsOfOneToSixtyCharactersWithoutCommaAndSlash(t *testing.T) {
	for name, tag := range map[string]string{
		"one character":             "a",
		"sixty characters":          strings.Repeat("a", 60),
		"sixty of several bytes":    strings.Repeat("ä", 60),
		"sixty outside the BMP":     strings.Repeat("🖧", 60),
		"blanks":                    "  oracle  db ",
		"quotes":                    `"it's"`,
		"line ends":                 "a\nb\r\n",
		"equals sign and colon":     "role=db:1",
		"what a shell acts on":      "$(id) `id` ; & | > <",
		"what a udev rule acts on":  `%k $kernel \ * ? [a]`,
		"NUL":                       "a\x00b",
		"the replacement character": "\uFFFD",
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, CheckTag(tag)) })
	}
	for name, tag := range map[string]string{
		"empty":                     "",
		"sixty-one characters":      strings.Repeat("a", 61),
		"sixty-one of several byte": strings.Repeat("ä", 61),
		"comma":                     "a,b",
		"slash":                     "a/b",
		"not UTF-8":                 "a\xff",
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckTag(tag)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "\n", "an error is one line")
		})
	}
	require.NotContains(t, CheckTag("a\n\x1b[2J,b").Error(), "\x1b", "a tag is quoted")
}
