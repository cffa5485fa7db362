package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// A device's own strings are the same after they were written as YAML and read again.
func TestYAMLKeepsEveryString(t *testing.T) {
	for _, text := range []string{
		"", "plain", "two words", "h1_0000:01:00.0", "0000:01:00.0", "true", "No", "null", "~", "y", "123", "0x1f",
		"1e3", "1:30", ".inf", ".nan", "2026-01-02T03:04:05Z", "- a", "a: b", "a:", "# c", "a #b", "'q'", `"dq"`,
		"two\nlines", "tab\tx", " lead", "trail ", "@x", "*a", "&b", "!t", "{x", "[y", "|", "> z", `\back`, "é", "\x01", "<<",
		"/dev/sdb", "a-", "-",
	} {
		in := map[string]any{"key": text, "list": []any{text, []any{text}, map[string]any{"in": text, "out": text}},
			"map": map[string]any{"k": text}}
		var out bytes.Buffer
		require.NoError(t, encode(&out, formatYAML, indented, in))
		var back map[string]any
		require.NoError(t, yaml.Unmarshal(out.Bytes(), &back), "%q:\n%s", text, out.String())
		require.Equal(t, in, back, out.String())
	}
}

func TestYAMLForm(t *testing.T) {
	in := json.RawMessage(
		`{"z":1.5,"a":null,"big":3200000000000,"none":[],"empty":{},"list":[{"x":1,"y":[1,[2,3]]},"s"],"yes":true}`)
	var out bytes.Buffer
	require.NoError(t, encode(&out, formatYAML, compact, in))
	require.Equal(t, `z: 1.5
a: null
big: 3200000000000
none: []
empty: {}
list:
  - x: 1
    "y":
      - 1
      - - 2
        - 3
  - s
"yes": true
`, out.String())
}
