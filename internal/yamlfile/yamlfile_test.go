package yamlfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachProblemNamesItsLine(t *testing.T) {
	r := &Reader{}
	root := r.Parse([]byte("text: 5\nbool: yes\nnumber: five\nuid: 0750\nlist: {}\nextra: 1\nscalar: [1]\n"))
	for key, value := range r.Mapping(root, "the file", "text", "bool", "number", "uid", "list", "scalar") {
		switch key {
		case "text":
			require.Empty(t, r.Text(value, key))
		case "bool":
			require.False(t, r.Bool(value, key))
		case "number":
			require.Zero(t, r.Number(value, key))
		case "uid":
			_, ok := r.Uint32(value, key)
			require.False(t, ok)
		case "list":
			require.Empty(t, r.List(value, key))
		case "scalar":
			require.Empty(t, r.Scalar(value, key))
		}
	}
	require.Equal(t, []string{
		"line 1: text must be text, not integer; put it in quotes",
		"line 2: bool must be true or false, not text",
		"line 3: number must be a number, not text",
		"line 4: uid must be a plain number",
		"line 5: list must be a list, not a mapping",
		`line 6: unknown key "extra" in the file: must be one of text, bool, number, uid, list, scalar`,
		"line 7: scalar must be text, not a list",
	}, r.Problems())
}

func TestAnEmptyFileIsNothing(t *testing.T) {
	for _, text := range []string{"", "# a remark\n", "---\n", "null\n"} {
		r := &Reader{}
		require.True(t, r.Parse([]byte(text)).Nothing(), text)
		require.Empty(t, r.Problems(), text)
	}
}

func TestAScalarIsTakenAsItIsWritten(t *testing.T) {
	for _, text := range []string{"0012", "1e5", "true", "a b", "0x10"} {
		r := &Reader{}
		require.Equal(t, text, r.Scalar(r.Parse([]byte(text)), "it"))
		require.Empty(t, r.Problems())
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a: {b: [1, &x 2]}\n---\nb: *x\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		r := &Reader{}
		for key, value := range r.Mapping(r.Parse(text), "the file") {
			for _, item := range r.List(value, key) {
				r.Scalar(item, key)
				r.Number(item, key)
				r.Uint32(item, key)
			}
		}
	})
}
