package udev

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Whatever the tags, serials and MACs are, each line is one that this package meant: it says
// exactly the document's tags, and its matches are those of the serial and no other text.
func TestRandomTextIsHarmless(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		var devices []map[string]any
		wanted := map[string]bool{}
		for i := range 1 + random.IntN(4) {
			tag, serial := randomText(random, 60), fmt.Sprintf("%d%s", i, randomText(random, 30))
			devices = append(devices, map[string]any{
				"type": "disk", "bus": "scsi", "address": randomText(random, 10), "path": randomText(random, 10),
				"serial": serial, "tags": []string{tag},
			})
			if _, held := literal(strings.Trim(serial, " ")); held {
				wanted[tag] = true
			}
		}
		document, err := json.Marshal(map[string]any{"devices": devices})
		require.NoError(t, err)
		rules, err := Rules(document)
		require.NoError(t, err, "%s", document)
		requireHarmless(t, rules, wanted)
	}
}

// pieces are what udev gives a meaning to, and some text.
var pieces = []string{"*", "?", "[", "]", "|", `"`, `\`, "\n", "\r", "\x00", "$", "%", "$kernel", "%k", "!", "'", " ",
	"_", "__", "-", "e", "#", ",", "=", "+=", "é", "日", "🂡", "a", "Z", "0", "5f", `", RUN+="/bin/sh`}

func randomText(random *rand.Rand, limit int) string {
	text := ""
	for n := random.IntN(limit) + 1; utf8.RuneCountInString(text) < n; {
		text += pieces[random.IntN(len(pieces))]
	}
	return string([]rune(text)[:min(limit, utf8.RuneCountInString(text))])
}

var (
	matchKeys  = regexp.MustCompile(`^(ACTION|SUBSYSTEMS?|KERNEL|DEVPATH|TAG|ATTRS?\{(serial|address|addr_assign_type)\}|ENV\{(DEVTYPE|ID_SERIAL_SHORT|ID_SCSI_SERIAL|\.BURNISH_MAC_SET)\})$`)
	assignKeys = regexp.MustCompile(`^(TAG\+=|ENV\{BURNISH_TAGS\}=|ENV\{\.BURNISH_MAC_SET\}=|SYMLINK\+=|GOTO=|LABEL=)$`)
	safeValue  = regexp.MustCompile(`^[A-Za-z0-9_ /-]+$`)
)

// requireHarmless checks each part of the rules, and that they hold these tags of disks.
func requireHarmless(t *testing.T, rules string, wanted map[string]bool) {
	t.Helper()
	found := map[string]bool{}
	for _, rule := range readRules(t, rules) {
		for _, one := range rule {
			if one.operator == "==" || one.operator == "!=" {
				require.Regexp(t, matchKeys, one.key)
				continue
			}
			require.Regexp(t, assignKeys, one.key+one.operator)
			require.Regexp(t, safeValue, one.value)
			if encoded, ok := strings.CutPrefix(one.value, "burnish-disk-"); ok && one.key == "TAG" {
				require.LessOrEqual(t, len(one.value), 255, "a file's name")
				found[decode(t, encoded)] = true
			}
		}
	}
	require.Equal(t, wanted, found)
}

func TestTwoTagsNeverHaveOneEncoding(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	seen := map[string]string{}
	tags := []string{"_", "_5f", "__", "-", "a b", "a_20b", "A", "a", "\x00", "\x00\x00", strings.Repeat("\x00", 60),
		strings.Repeat("\x00", 59), strings.Repeat("🂡", 60), strings.Repeat("\U0010ffff", 60)}
	for range 2000 {
		tags = append(tags, randomText(random, 60))
	}
	for _, tag := range tags {
		encoded := Encode(tag)
		require.Regexp(t, `^[A-Za-z0-9_-]{1,220}$`, encoded, "%q", tag)
		require.Equal(t, tag, decode(t, encoded))
		if other, taken := seen[encoded]; taken {
			require.Equal(t, other, tag)
		}
		seen[encoded] = tag
	}
}

func TestASerialThatIsAPatternMatchesItselfAlone(t *testing.T) {
	t.Parallel()
	for _, serial := range []string{"*", "?", "[a-z]", "[!a]", "S*", "a?c", "a]b", "[", "$x%k"} {
		value, ok := literal(serial)
		require.True(t, ok, serial)
		require.True(t, matches(string(value), serial), "%s as %s", serial, value)
		for _, other := range []string{"S1", "abc", "b", "x", "", "a", "S", serial + "x", "x" + serial} {
			require.False(t, matches(string(value), other), "%s as %s matches %s", serial, value, other)
		}
	}
	for _, serial := range []string{"a|b", `a"b`, `a\`, "a\nb", "a\rb", "a\x00b", "\t", "é", ""} {
		_, ok := literal(serial)
		require.False(t, ok, "%q", serial)
	}
}

// lineOf are the rules for a document's devices, without those of all documents and of links.
func lineOf(t *testing.T, devices string) (rules []string, comments []string) {
	t.Helper()
	text, err := Rules([]byte(`{"devices":[` + devices + `]}`))
	require.NoError(t, err)
	text = strings.TrimSuffix(strings.TrimPrefix(text, head), foot)
	for line := range strings.Lines(text) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.Contains(line, "no rule: "):
			comments = append(comments, line)
		case !strings.HasPrefix(line, "#") && !strings.Contains(line, "SYMLINK"):
			rules = append(rules, line)
		}
	}
	return rules, comments
}

func TestWhatCannotBeToldApartGetsNoRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, devices, why string }{
		{"two disks of one serial", `{"type":"disk","bus":"none","serial":"S","tags":["a"]},{"type":"disk","bus":"none","serial":"S "}`, "# device 1: no rule: another device of the document has its serial or MAC, and no address parts them"},
		{"two cards of one MAC at one address", `{"type":"nic","bus":"pci","address":"0000:00:02.0","mac":"52:54:00:00:00:01","tags":["a"]},{"type":"nic","bus":"pci","address":"0000:00:02.0","mac":"52-54-00-00-00-01"}`, "# device 1: no rule: another device of the document has its serial or MAC, and no address parts them"},
		{"two disks at one address", `{"type":"disk","bus":"pci","address":"0000:00:02.0","tags":["a"]},{"type":"disk","bus":"pci","address":"0000:00:02.0","serial":"S"}`, "# device 1: no rule: another device of the document has its address or name"},
		{"nothing known", `{"type":"disk","bus":"none","address":"none","serial":null,"tags":["a"]}`, "# device 1: no rule: neither serial, MAC, address nor name is known"},
		{"a MAC that is a pattern", `{"type":"nic","bus":"none","mac":"??:??:??:??:??:??","tags":["a"]}`, "# device 1: no rule: its serial, MAC or address has no form that a rule can hold"},
		{"an address that is a pattern", `{"type":"disk","bus":"pci","address":"*","tags":["a"]}`, "# device 1: no rule: its serial, MAC or address has no form that a rule can hold"},
		{"an empty tag", `{"type":"disk","bus":"none","serial":"S","tags":[""]}`, "# device 1: no rule: a tag is empty"},
		{"a long tag", `{"type":"disk","bus":"none","serial":"S","tags":["` + strings.Repeat("é", 61) + `"]}`, "# device 1: no rule: a tag has more than 60 characters"},
		{"a type that is no word", `{"type":"disk\"","bus":"none","serial":"S","tags":["a"]}`, "# device 1: no rule: its type is not a word of small letters and digits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rules, comments := lineOf(t, c.devices)
			require.Empty(t, rules)
			require.Equal(t, []string{c.why}, comments)
		})
	}
}

// Devices without tags get no rule, and unknown keys, as Nova has them, are accepted.
func TestADocumentWithoutTagsHasRulesThatDoNothing(t *testing.T) {
	t.Parallel()
	for _, document := range []string{`{}`, `{"devices":null}`, `{"devices":[]}`,
		`{"uuid":"u","devices":[{"type":"nic","bus":"pci","address":"none","mac":"52:54:00:00:00:01","vlan":7,"vf_trusted":false,"later":{"a":[1]}}]}`} {
		rules, err := Rules([]byte(document))
		require.NoError(t, err)
		require.Equal(t, head+foot, rules)
	}
}

func TestADocumentThatCannotBeReadGivesNoRules(t *testing.T) {
	t.Parallel()
	for _, document := range []string{``, `null`, `[]`, `"x"`, `{`, `{"devices":{}}`, `{"devices":[{"tags":"a"}]}`,
		`{"devices":[]} x`, "{\"devices\":[{\"tags\":[\"\xff\"]}]}", `{"devices":[{"tags":["\ud800"]}]}`,
		`{"devices":[],"devices":[]}`} {
		rules, err := Rules([]byte(document))
		require.Error(t, err, document)
		require.Empty(t, rules)
	}
}

// The order of a device's tags changes nothing, and a tag that is listed twice is one.
func TestTagsAreASet(t *testing.T) {
	t.Parallel()
	one, _ := lineOf(t, `{"type":"gpu","bus":"pci","address":"0000:00:02.0","tags":["b","a","b"]}`)
	two, _ := lineOf(t, `{"type":"gpu","bus":"pci","address":"0000:00:02.0","tags":["a","b"]}`)
	require.Equal(t, one, two)
	require.True(t,
		slices.Equal(one,
			[]string{
				`SUBSYSTEM=="pci", KERNEL=="0000:00:02.0", TAG+="burnish-gpu-a", TAG+="burnish-gpu-b", ENV{BURNISH_TAGS}="a b"`}))
}
