package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// writeRules writes a host.yaml that the worker accepts, whatever the umask.
func writeRules(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "etc", "host.yaml")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

const goodRules = `# what may be destroyed here
allow:
  paths: [/dev/nvme1n1, "/srv/img/*.img", '/srv/pool/**']
  device_spec:
  - {vendor_id: "8086", address: "0000:0a:00.*"}
  - address: {domain: ".*", bus: "0a", slot: "00", function: "[0-3]"}
  scripts:
    reset: {path: /usr/local/sbin/reset, owner: root, sha256: ` + "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855" + `, uid: 0}
    other: {path: /x, owner: 12, sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}
  fake: true
secrets: /etc/burnish/secrets
`

// F13
func TestRulesOfAFile(t *testing.T) {
	file := writeRules(t, goodRules)
	r, err := LoadRules(file)
	require.NoError(t, err)
	require.NoError(t, r.AllowFake())
	for _, path := range []string{"/dev/nvme1n1", "/srv/img/a.img", "/srv/img/.img", "/srv/pool/a", "/srv/pool/a/b/c"} {
		require.NoError(t, r.AllowPath(path), path)
	}
	for _, path := range []string{
		"/dev/nvme1n2", "/dev/nvme1n1p1", "/dev/nvme1n1/x", "/srv/img/a/b.img", "/srv/img", "/srv/pool",
		"/srv/poolx/a", "/dev/sda",
		"dev/nvme1n1", "", "/srv/pool/../secret", "/srv/pool/", "//srv/pool/a", "/srv/pool/a\x00b", "/srv/pool/./a",
	} {
		requireFault(t, r.AllowPath(path), device.NeedsOperator, device.CodeNotAllowed)
	}
	fault := requireFault(t, r.AllowPath("/dev/sda"), device.NeedsOperator, device.CodeNotAllowed)
	require.Contains(t, fault.Message, "/dev/sda")
	require.Contains(t, fault.Remedy, file)
	require.Contains(t, fault.Remedy, "allow.paths")

	now, err := r.Content()
	require.NoError(t, err)
	require.Equal(t, "/etc/burnish/secrets", now.Secrets)
	zero, sum := uint32(0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	require.Equal(t, map[string]Script{
		"reset": {Path: "/usr/local/sbin/reset", Owner: "root", SHA256: sum, UID: &zero},
		"other": {Path: "/x", Owner: "12", SHA256: sum},
	}, now.Scripts)
	specs := now.Specs
	require.Len(t, specs, 2)
	require.JSONEq(t, `{"vendor_id":"8086","address":"0000:0a:00.*"}`, string(specs[0].JSON))
	require.JSONEq(t, `{"address":{"domain":".*","bus":"0a","slot":"00","function":"[0-3]"}}`, string(specs[1].JSON))
	require.Equal(t, 5, specs[0].Line)
	require.Equal(t, 6, specs[1].Line)
}

// F13
func TestNothingIsAllowedByDefault(t *testing.T) {
	for what, text := range map[string]string{
		"empty": "", "comment": "# nothing\n", "header": "---\n", "null": "allow:\nsecrets: /x\n",
		"empty mapping": "allow: {}\n",
		"empty list":    "allow: {paths: [], device_spec: [], scripts: {}}\n", "fake off": "allow: {fake: false}\n",
		"null list": "allow:\n  paths:\n  scripts:\n",
	} {
		r, err := LoadRules(writeRules(t, text))
		require.NoError(t, err, what)
		requireFault(t, r.AllowPath("/dev/sda"), device.NeedsOperator, device.CodeNotAllowed)
		fault := requireFault(t, r.AllowFake(), device.NeedsOperator, device.CodeNotAllowed)
		require.Contains(t, fault.Remedy, "allow.fake")
	}
	var zero Rules
	requireFault(t, zero.AllowPath("/dev/sda"), device.NeedsOperator, device.CodeNotAllowed)
	requireFault(t, zero.AllowFake(), device.NeedsOperator, device.CodeNotAllowed)
	scripts, err := zero.Scripts()
	require.NoError(t, err)
	require.Empty(t, scripts)
	h := openHost(t) // without rules
	requireFault(t, h.Rules().AllowPath(h.path("x")), device.NeedsOperator, device.CodeNotAllowed)
}

// F13
func TestEachProblemOfRulesHasItsLine(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"unknown key":                  {"allow: {}\nalow: {}\n", `line 2: unknown key "alow" in host.yaml`},
		"unknown key in allow":         {"allow:\n  fake: true\n  fak: true\n", `line 3: unknown key "fak" in allow: must be one of paths, device_spec, scripts, nodes, fake`},
		"capitals":                     {"Allow: {}\n", `line 1: unknown key "Allow"`},
		"key twice":                    {"allow:\n  fake: true\n  fake: false\n", "line 3: "},
		"no mapping":                   {"- a\n", "line 1: host.yaml must be a mapping, not a list"},
		"a word":                       {"allow\n", "line 1: host.yaml must be a mapping, not text"},
		"allow is a list":              {"\nallow: [a]\n", "line 2: allow must be a mapping"},
		"paths is a word":              {"allow:\n  paths: /dev/sda\n", "line 2: paths must be a list, not text"},
		"path is a number":             {"allow:\n  paths: [1]\n", "line 2: an entry of paths must be text"},
		"path is nothing":              {"allow:\n  paths:\n  - /a\n  -\n", "line 4: an entry of paths must be text, not nothing"},
		"path is empty":                {"allow:\n  paths: ['']\n", "line 2: an entry of paths is empty"},
		"path is relative":             {"allow:\n  paths:\n  - dev/sda\n", `line 3: paths: "dev/sda" is not absolute`},
		"path is everything":           {"allow:\n  paths: [/**]\n", "line 2: paths: \"/**\" would allow every path"},
		"path goes up":                 {"allow:\n  paths: [/srv/../etc/*]\n", "line 2: "},
		"path ends in a slash":         {"allow:\n  paths: [/srv/]\n", "line 2: "},
		"path with ** inside":          {"allow:\n  paths: [/srv/**/x]\n", "line 2: paths: \"/srv/**/x\" has **"},
		"path with a bad class":        {"allow:\n  paths: ['/srv/[a']\n", "line 2: paths: \"/srv/[a\" is not a valid pattern"},
		"path with a class over names": {"allow:\n  paths: ['/srv/[a/b]']\n", "is not a valid pattern"},
		"fake is yes":                  {"allow:\n  fake: yes\n", "line 2: fake must be true or false, not text"},
		"fake is 1":                    {"allow: {fake: 1}\n", "line 1: fake must be true or false"},
		"fake is nothing":              {"allow: {fake: }\n", "line 1: fake must be true or false, not nothing"},
		"anchor":                       {"allow: &a {fake: true}\n", "line 1: allow must be a mapping, not an anchor"},
		"alias":                        {"allow: {fake: true}\nsecrets: &x /x\n", "line 2: secrets must be text, not an anchor"},
		"merge":                        {"allow:\n  <<: {fake: true}\n", "line 2: a key of allow must be a plain name"},
		"tag":                          {"allow:\n  fake: !!bool true\n", "line 2: fake must be true or false, not a tag"},
		"second document":              {"allow: {}\n---\nallow: {fake: true}\n", "line 3: a second document"},
		"tab":                          {"allow:\n\tfake: true\n", "line 2: "},
		"open bracket":                 {"allow: {paths: [\n", "line 1: "},
		"spec with a tag":              {"allow:\n  device_spec:\n  - {vendor_id: '8086', vendorid: '1'}\n", `line 3: unknown key "vendorid" in an entry of device_spec: it resembles vendor_id too much to be a tag`},
		"spec with a number":           {"allow:\n  device_spec:\n  - vendor_id: 0x8086\n", "line 3: vendor_id must be text, not integer; put it in quotes"},
		"spec without criteria":        {"allow:\n  device_spec:\n  - {}\n", "line 3: an entry of device_spec without criteria"},
		"spec that is nothing":         {"allow:\n  device_spec:\n  -\n", "line 3: an entry of device_spec without criteria"},
		"spec that is a word":          {"allow:\n  device_spec: [x]\n", "line 2: an entry of device_spec must be a mapping"},
		"spec with an empty address":   {"allow:\n  device_spec:\n  - address: {}\n", "line 3: address is empty"},
		"spec with a strange address":  {"allow:\n  device_spec:\n  - address: {bus: '0a', func: '0'}\n", `unknown key "func" in address`},
		"script without a sum":         {"allow:\n  scripts:\n    a: {path: /x, owner: root}\n", "line 3: script a has no sha256"},
		"script without an owner":      {"allow:\n  scripts:\n    a: {path: /x, sha256: x}\n", "script a has no owner"},
		"script with a short sum":      {"allow:\n  scripts:\n    a:\n      path: /x\n      owner: root\n      sha256: abcd\n", "line 6: sha256 of script a"},
		"script with a relative path":  {"allow:\n  scripts:\n    a: {path: x}\n", "path of script a must be a plain absolute path"},
		"script with an octal uid":     {"allow:\n  scripts:\n    a: {uid: 0750}\n", "uid of script a must be a plain number"},
		"script with a negative uid":   {"allow:\n  scripts:\n    a: {uid: -1}\n", "uid of script a must be a plain number"},
		"script with a key more":       {"allow:\n  scripts:\n    a: {args: x}\n", `unknown key "args" in script a`},
		"secrets relative":             {"secrets: x\n", "line 1: secrets must be a plain absolute path"},
		"secrets nothing":              {"secrets:\n", "line 1: secrets must be text, not nothing"},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			file := writeRules(t, c.text)
			_, err := LoadRules(file)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, file)
			require.NotContains(t, err.Error(), "\n")
			// The same content in a file that was valid when it was loaded.
			r := &Rules{file: file}
			fault := requireFault(t, r.AllowPath("/srv/x"), device.NeedsOperator, device.CodeNotAllowed)
			require.Contains(t, fault.Message, c.want)
			requireFault(t, r.AllowFake(), device.NeedsOperator, device.CodeNotAllowed)
		})
	}
	_, err := LoadRules(writeRules(t, "allow:\n  fak: 1\n  fake: 1\nx: 2\n"))
	var rules *RulesError
	require.ErrorAs(t, err, &rules)
	require.Len(t, rules.Problems, 3, "all of them at once")
}

// F13
func TestReadAgainBeforeEachStep(t *testing.T) {
	const text = "allow: {paths: [/srv/x], fake: true}\n"
	file := writeRules(t, text)
	dir := filepath.Dir(file)
	r, err := LoadRules(file)
	require.NoError(t, err)
	good := func() {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, r.AllowPath("/srv/x"))
		require.NoError(t, r.AllowFake())
	}
	bad := func(want string) {
		t.Helper()
		for _, err := range []error{r.AllowPath("/srv/x"), r.AllowFake()} {
			fault := requireFault(t, err, device.NeedsOperator, device.CodeNotAllowed)
			require.Contains(t, fault.Error(), want)
		}
	}
	good()
	require.NoError(t, os.WriteFile(file, []byte("allow: {paths: [/srv/y]}\n"), 0o600))
	bad(file)
	good()
	require.NoError(t, os.WriteFile(file, []byte("allow: {paths: [/srv/x], fake: true, x: 1}\n"), 0o600))
	bad("line 1")
	good()
	require.NoError(t, os.Remove(file))
	bad("no such file")
	good()
	for _, mode := range []os.FileMode{0o620, 0o602} {
		require.NoError(t, os.Chmod(file, mode))
		bad("written by others")
		require.NoError(t, os.Chmod(file, 0o644))
		require.NoError(t, os.Chmod(dir, mode|0o100))
		bad("written by others")
		require.NoError(t, os.Chmod(dir, 0o755))
		good()
	}
	require.NoError(t, os.Rename(file, file+".real"))
	require.NoError(t, os.Symlink(file+".real", file))
	bad("symbolic link")
	require.NoError(t, os.Remove(file))
	require.NoError(t, unix.Mkfifo(file, 0o600)) // opening it must not hang
	bad("not a regular file")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	bad("not a regular file")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte(text+strings.Repeat("#", largestRules)), 0o600))
	bad("larger than")
	good()
	if os.Geteuid() != 0 {
		t.Log("files of other users are not tested: only root can create them")
		return
	}
	require.NoError(t, os.Chown(file, 12345, 0))
	bad("uid 12345")
	require.NoError(t, os.Chown(file, 0, 0))
	require.NoError(t, os.Chown(dir, 12345, 0))
	bad("uid 12345")
	require.NoError(t, os.Chown(dir, 0, 0))
	good()
}

// F13
func TestOwnersOfTheRulesFile(t *testing.T) {
	const reg, dir = unix.S_IFREG, unix.S_IFDIR
	for what, c := range map[string]struct {
		mode, kind, owner, worker uint32
		ok                        bool
	}{
		"root's, worker root":            {reg | 0o644, reg, 0, 0, true},
		"root's, worker a user":          {reg | 0o644, reg, 0, 1000, true},
		"own, worker a user":             {reg | 0o600, reg, 1000, 1000, true},
		"another's, worker a user":       {reg | 0o600, reg, 1001, 1000, false},
		"a user's, worker root":          {reg | 0o600, reg, 1000, 0, false},
		"root's, group may write":        {reg | 0o664, reg, 0, 0, false},
		"root's, others may write":       {reg | 0o646, reg, 0, 1000, false},
		"own, group may write":           {reg | 0o660, reg, 1000, 1000, false},
		"a directory for a file":         {dir | 0o700, reg, 0, 0, false},
		"a file for a directory":         {reg | 0o700, dir, 0, 0, false},
		"root's directory":               {dir | 0o755, dir, 0, 0, true},
		"a directory as /tmp is, sticky": {dir | 0o1777, dir, 0, 0, false},
	} {
		err := checkTrustedStat(unix.Stat_t{Mode: c.mode, Uid: c.owner}, "/x", c.kind, c.worker)
		require.Equal(t, c.ok, err == nil, "%s: %v", what, err)
	}
}

// F13
func TestWorkerOutOfDescriptorsTriesAgain(t *testing.T) {
	require.Equal(t, device.NeedsOperator, unusable(fmt.Errorf("open /x: %w", unix.ENOENT)).Class)
	fault := unusable(fmt.Errorf("open /x: %w", unix.EMFILE))
	requireFault(t, fault, device.Transient, device.CodeNotAllowed)
}

// F13
func TestWithoutAFile(t *testing.T) {
	dir := testDir(t)
	r := DefaultRules(dir)
	requireFault(t, r.AllowPath(filepath.Join(dir, "x")), device.NeedsOperator, device.CodeNotAllowed) // not there yet
	h, err := Open(dir, hostName(t), r)
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()

	require.NoError(t, r.AllowFake())
	for _, path := range []string{"disk.img", "fake/d1/contents", "locks/x"} {
		require.NoError(t, r.AllowPath(filepath.Join(dir, path)), path)
	}
	for _, path := range []string{dir, dir + "x", dir + "-2/x", "/dev/sda", "/", filepath.Dir(dir), dir + "/../x"} {
		requireFault(t, r.AllowPath(path), device.NeedsOperator, device.CodeNotAllowed)
	}
	link := dir + "-link"
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, DefaultRules(link).AllowPath(filepath.Join(dir, "x")), "names are compared as they resolve")
	requireFault(t, DefaultRules("/").AllowPath("/dev/sda"), device.NeedsOperator, device.CodeNotAllowed)
}

// F13
func TestOwnRecordsAreNeverADevice(t *testing.T) {
	dir := testDir(t)
	file := writeRules(t, "allow: {paths: ['"+dir+"/**', '"+filepath.Dir(dir)+"/**']}\n")
	broad, err := LoadRules(file)
	require.NoError(t, err)
	for _, r := range []*Rules{broad, DefaultRules(dir)} {
		h, err := Open(dir, hostName(t), r)
		require.NoError(t, err)
		require.NoError(t, r.AllowPath(filepath.Join(dir, "disk.img")))
		for _, path := range []string{"host.lock", "lock", "lock/S1", "journal/d1.json", "devices/d1.json"} {
			fault := requireFault(t, r.AllowPath(filepath.Join(dir, path)), device.NeedsOperator, device.CodeNotAllowed)
			require.Contains(t, fault.Message, "own records")
		}
		require.NoError(t, h.Close())
	}
	itself := writeRules(t, "")
	require.NoError(t, os.WriteFile(itself, []byte("allow: {paths: ['"+filepath.Dir(itself)+"/*']}\n"), 0o600))
	r, err := LoadRules(itself)
	require.NoError(t, err)
	require.NoError(t, r.AllowPath(itself+".old"))
	requireFault(t, r.AllowPath(itself), device.NeedsOperator, device.CodeNotAllowed)
}

// F13
func TestPatternsStayWithinOneName(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/dev/nvme*n1", "/dev/nvme0n1", true},
		{"/dev/nvme*n1", "/dev/nvme0/n1", false},
		{"/dev/sd?", "/dev/sda", true},
		{"/dev/sd?", "/dev/sda1", false},
		{"/dev/sd?", "/dev/sd/", false},
		{"/srv/a[^b]c", "/srv/axc", true},
		{"/srv/a[^b]c", "/srv/a/c", false},
		{"/srv/*/x", "/srv/a/x", true},
		{"/srv/*/x", "/srv/a/b/x", false},
		{"/srv/*/**", "/srv/a/b/c", true},
		{"/srv/*/**", "/srv/a", false},
		{"/srv/**", "/srv/.hidden/x", true},
		{`/srv/\*`, "/srv/*", true},
		{`/srv/\*`, "/srv/a", false},
		{"/*", "/a", true},
		{"/*", "/a/b", false},
	} {
		require.Empty(t, checkPattern(c.pattern), c.pattern)
		require.Equal(t, c.want, matchPath(c.pattern, c.path), "%s with %s", c.path, c.pattern)
	}
}

// For any content: no crash, each problem on one line, and a file with a problem allows
// nothing.
func FuzzRules(f *testing.F) {
	f.Add([]byte(goodRules))
	f.Add([]byte("allow: &a {paths: *a}\n"))
	f.Add([]byte("---\n? [a]\n: |\n  b\n--- !!map\n<<: {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		content, err := parseRules("f", text)
		if err != nil {
			require.Zero(t, content)
			return
		}
		for _, pattern := range content.Paths {
			require.Empty(t, checkPattern(pattern))
		}
		for _, spec := range content.Specs {
			require.True(t, json.Valid(spec.JSON))
		}
	})
}
