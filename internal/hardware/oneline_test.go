package hardware_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
)

// Temporal refuses a message that is not valid UTF-8, and a terminal obeys control characters:
// what hardware says has neither, also where it is cut.
func TestForeignTextIsOnePrintableLine(t *testing.T) {
	require.Equal(t, "a b c", hardware.OneLine(" a\r\n\tb  c "))
	require.Equal(t, "stop \uFFFD", hardware.OneLine("\x1b[2J st\aop \xff\x1b]0;title\x07"))
	for _, word := range []string{"x", "é", "日", "\xc3b"} {
		for n := range 5 {
			line := hardware.OneLine(strings.Repeat("a", n) + strings.Repeat(word, 400))
			require.True(t, utf8.ValidString(line))
			require.Equal(t, 301, utf8.RuneCountInString(line))
		}
	}
	require.Equal(t, strings.Repeat("é", 300), hardware.OneLine(strings.Repeat("é", 300)))
}
