package udev

import (
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// token is one part of a rule, as udev reads it.
type token struct{ key, operator, value string }

var tokenForm = regexp.MustCompile(`^([A-Z]+(?:\{[A-Za-z0-9_.]+\})?)(==|!=|\+=|=)"((?:[^"\\]|\\")*)"(?:, |$)`)

// readRules reads rules as udev does: a line ends at \n, \r or NUL, and one that ends in a
// backslash goes on. Comments are left out.
func readRules(t *testing.T, text string) [][]token {
	t.Helper()
	require.True(t, strings.HasSuffix(text, "\n"))
	require.NotContains(t, text, "\\", "no line goes on, and nothing is escaped")
	var rules [][]token
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("\n\r\x00", r) }) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var rule []token
		for line != "" {
			parts := tokenForm.FindStringSubmatch(line)
			require.NotNil(t, parts, "not a rule: %q", line)
			rule = append(rule, token{parts[1], parts[2], parts[3]})
			line = line[len(parts[0]):]
		}
		rules = append(rules, rule)
	}
	return rules
}

// decode is the way back from Encode.
func decode(t *testing.T, encoded string) string {
	t.Helper()
	if packed, ok := strings.CutPrefix(encoded, "__"); ok {
		raw, err := base64.RawURLEncoding.DecodeString(packed)
		require.NoError(t, err)
		number, base, digit := new(big.Int).SetBytes(raw), big.NewInt(1<<21), new(big.Int)
		var all []rune
		for number.Sign() > 0 {
			number.DivMod(number, base, digit)
			all = append(all, rune(digit.Int64()-1))
		}
		slices.Reverse(all)
		return string(all)
	}
	var b []byte
	for i := 0; i < len(encoded); i++ {
		if encoded[i] != '_' {
			b = append(b, encoded[i])
			continue
		}
		require.Less(t, i+2, len(encoded))
		one, err := hex.DecodeString(encoded[i+1 : i+3])
		require.NoError(t, err)
		b = append(b, one...)
		i += 2
	}
	return string(b)
}

// matches compares as udev does: alternatives apart by |, shell patterns, and blanks behind
// the text count only if the pattern ends in one.
func matches(pattern, text string) bool {
	if !strings.HasSuffix(pattern, " ") {
		text = strings.TrimRight(text, " ")
	}
	for one := range strings.SplitSeq(pattern, "|") {
		expression := "(?s)^"
		for i := 0; i < len(one); i++ {
			switch c := one[i]; c {
			case '*':
				expression += ".*"
			case '?':
				expression += "."
			case '[':
				end := strings.IndexByte(one[i+2:], ']') + i + 2
				expression += "[" + regexp.QuoteMeta(one[i+1:end]) + "]"
				i = end
			default:
				expression += regexp.QuoteMeta(string(c))
			}
		}
		if regexp.MustCompile(expression + "$").MatchString(text) {
			return true
		}
	}
	return false
}
