package yamlfile

import (
	"errors"
	"net/netip"
	"reflect"
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

// A struct says the form of a file: its keys, and what each takes. Each mistake has its line, and what a file
// may not say is an unknown key.
func TestAFileIsDecodedAsItsStructSays(t *testing.T) {
	type item struct {
		Name  string   `json:"name"`
		Tags  []string `json:"tags,omitempty"`
		Inner string   `json:"inner" yaml:"-"`
	}
	type file struct {
		Items  []item            `json:"items"`
		Size   int64             `yaml:"size"`
		Stop   bool              `yaml:"stop"`
		Set    map[string]string `yaml:"set"`
		At     netip.Addr        `yaml:"at"`
		Caller string            `json:"caller" api:"-"`
	}
	refuse := func(into any) error {
		if i, ok := into.(*item); ok && i.Name == "bad" {
			return errors.New("it is bad")
		}
		return nil
	}
	decode := func(text string) (f file, problems []string) {
		r := &Reader{}
		r.Decode(r.Parse([]byte(text)), "the file", &f, refuse)
		return f, r.Problems()
	}
	require.Equal(t, []string{"items", "size", "stop", "set", "at"}, Keys(reflect.TypeFor[file]()))
	got, problems := decode("items:\n- {name: 0012, tags: [' a', b]}\nsize: 7\nstop: true\nset: {k: ''}\nat: 10.0.0.1\n")
	require.Empty(t, problems)
	require.Equal(t, file{Items: []item{{Name: "0012", Tags: []string{" a", "b"}}}, Size: 7, Stop: true,
		Set: map[string]string{"k": ""}, At: netip.MustParseAddr("10.0.0.1")}, got)
	for text, says := range map[string]string{
		"items: [{name: bad}]":             "line 1: it is bad",
		"size: 1\nitems:\n- {inner: x}":    `line 3: unknown key "inner" in an item of items: must be one of name, tags`,
		"caller: me":                       `line 1: unknown key "caller" in the file: must be one of items, size, stop, set, at`,
		"items: [{name: }]":                "line 1: name has no value",
		"items: [{name: a, tags: [\"\"]}]": "line 1: an item of tags has no value",
		"items: [null]":                    "line 1: an item of items must be a mapping, not nothing",
		"size: 0":                          `line 1: size: "0" is not a positive number`,
		"size: 0x10":                       `line 1: size: "0x10" is not a positive number`,
		"at: here":                         `line 1: at: ParseAddr("here"): unable to parse IP`,
		"":                                 "the file must be a mapping, not nothing",
		"stop: true\nstop: false":          `line 2: mapping key "stop" already defined at [1:1]`,
		"stop: true\n---\nstop: false":     "line 3: a second document begins; a file must have only one",
		"items:\n\t- {name: a}":            "line 2: found character '\t' that cannot start any token",
		"items: [{name: &x a}]":            "line 1: name must be text, not an anchor, an alias or a merge",
		"<<: {stop: true}":                 "line 1: a key of the file must be a plain name, not an anchor, an alias or a merge",
	} {
		_, problems := decode(text)
		require.Equal(t, []string{says}, problems, text)
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
