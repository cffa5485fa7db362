package host

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/pci"
	"burnish/internal/spelling"
	"burnish/internal/yamlfile"
)

// Content is what a valid host.yaml says.
type Content struct {
	Paths   []string
	Specs   []DeviceSpec
	Scripts map[string]Script
	Nodes   []string // the serials of servers
	Fake    bool
	Secrets string // the path of the file with the secrets, "" where none is named
}

// RulesError lists what is wrong with a host.yaml, each with its line.
type RulesError struct {
	File     string
	Problems []string
}

// Error is one line.
func (e *RulesError) Error() string {
	return e.File + ": " + strings.Join(e.Problems, "; ")
}

// parseRules reads host.yaml.
func parseRules(name string, text []byte) (Content, error) {
	r := &rulesReader{}
	content := r.file(text)
	if problems := r.Problems(); len(problems) > 0 {
		return Content{}, &RulesError{File: name, Problems: problems}
	}
	return content, nil
}

// rulesReader reads host.yaml.
type rulesReader struct{ yamlfile.Reader }

func (r *rulesReader) file(text []byte) Content {
	var content Content
	for key, value := range r.Mapping(r.Parse(text), "host.yaml", "allow", "secrets") {
		switch key {
		case "allow":
			r.allow(value, &content)
		case "secrets":
			content.Secrets = r.absolute(value, "secrets")
		}
	}
	return content
}

func (r *rulesReader) allow(node yamlfile.Node, content *Content) {
	for key, value := range r.Mapping(node, "allow", "paths", "device_spec", "scripts", "nodes", "fake") {
		switch key {
		case "paths":
			for _, item := range r.List(value, key) {
				content.Paths = append(content.Paths, r.pattern(item))
			}
		case "device_spec":
			for _, item := range r.List(value, key) {
				content.Specs = append(content.Specs, r.deviceSpec(item))
			}
		case "scripts":
			content.Scripts = make(map[string]Script)
			for name, script := range r.Mapping(value, key) {
				content.Scripts[name] = r.script(script, name)
			}
		case "nodes":
			for _, item := range r.List(value, key) {
				content.Nodes = append(content.Nodes, r.serial(item))
			}
		case "fake":
			content.Fake = r.Bool(value, key)
		}
	}
}

func (r *rulesReader) absolute(node yamlfile.Node, what string) string {
	path := r.Text(node, what)
	if path != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
		r.Problem(node, "%s must be a plain absolute path, not %q", what, path)
	}
	return path
}

// serial reads the serial of a server. A number stays as it is written: 0012.
func (r *rulesReader) serial(node yamlfile.Node) string {
	serial := strings.Join(strings.Fields(r.Scalar(node, "an entry of nodes")), "_")
	if serial == "" || strings.ContainsAny(serial, "*?[") {
		r.Problem(node, "an entry of nodes must be the whole serial of a server, not %q", serial)
	}
	return serial
}

func (r *rulesReader) pattern(node yamlfile.Node) string {
	pattern := r.Text(node, "an entry of paths")
	if pattern == "" {
		return ""
	}
	if why := checkPattern(pattern); why != "" {
		r.Problem(node, "paths: %q %s", pattern, why)
	}
	return pattern
}

// deviceSpec reads an entry as Nova and Cyborg do: criteria, one_time_use (S0.2), live_migratable
// (S0.24), the erase policy of its devices (S2.105), and tags. Unlike Nova's, an entry must have a
// criterion, and no tag that resembles one of the other keys: a misspelled criterion would make it
// match more devices.
func (r *rulesReader) deviceSpec(node yamlfile.Node) DeviceSpec {
	entry, lines := make(map[string]any), make(map[string]int)
	before := len(r.Problems())
	for key, value := range r.Mapping(node, "an entry of device_spec") {
		lines[key] = value.Line()
		if !slices.Contains(specKeys, key) {
			if like := resembles(key); like != "" {
				r.Problem(value, "unknown key %q in an entry of device_spec: it resembles %s too much to be a tag", key, like)
			}
			entry[key] = r.Scalar(value, key)
			continue
		}
		if key == "one_time_use" || key == "live_migratable" {
			if !value.Nothing() {
				entry[key] = r.Scalar(value, key)
			}
			continue
		}
		if key != "address" || !value.IsMapping() {
			entry[key] = r.Text(value, key)
			continue
		}
		address := make(map[string]string)
		for part, expression := range r.Mapping(value, "address", "domain", "bus", "slot", "function") {
			lines["address."+part] = expression.Line()
			address[part] = r.Text(expression, part)
		}
		if len(address) == 0 {
			r.Problem(value, "address is empty and would match every device")
		}
		entry[key] = address
	}
	spec := DeviceSpec{Line: node.Line()}
	if len(r.Problems()) > before {
		return spec
	}
	text, err := json.Marshal(entry)
	if err != nil {
		r.ProblemAt(spec.Line, "device_spec: %v", err)
		return spec
	}
	spec.JSON = text
	if spec.Spec, err = pci.ParseSpec(text); err != nil {
		line := spec.Line
		var fault *pci.Invalid
		if errors.As(err, &fault) && lines[fault.Field] > 0 {
			line = lines[fault.Field]
		}
		r.ProblemAt(line, "device_spec: %v", err)
		return spec
	}
	if !spec.Spec.Narrows() {
		r.ProblemAt(spec.Line, "an entry of device_spec without criteria would match every device")
	}
	return spec
}

// specKeys are the keys of an entry of device_spec that are no tags.
var specKeys = []string{"vendor_id", "product_id", "address", "one_time_use", "live_migratable", "clear_action",
	"clear_strategy"}

// stems begin other spellings of a key, without signs. The parts of an address belong into it.
var stems = map[string]string{
	"vendor": "vendor_id", "product": "product_id", "deviceid": "product_id", "addr": "address", "domain": "address",
	"bus":  "address",
	"slot": "address", "function": "address", "devname": "devname", "onetime": "one_time_use",
	"livemigr": "live_migratable", "clear": "clear_action or clear_strategy",
}

// resembles names the key that an operator may have meant by another one: it begins alike, or
// differs in at most two letters.
func resembles(key string) string {
	letters := func(s string) string {
		return strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
				return c
			}
			return -1
		}, strings.ToLower(s))
	}
	for _, known := range specKeys {
		if spelling.Distance(letters(key), letters(known)) <= 2 {
			return known
		}
	}
	for _, stem := range slices.Sorted(maps.Keys(stems)) {
		if strings.HasPrefix(letters(key), stem) {
			return stems[stem]
		}
	}
	return ""
}

func (r *rulesReader) script(node yamlfile.Node, name string) Script {
	var s Script
	what := "script " + name
	given := make(map[string]bool)
	for key, value := range r.Mapping(node, what, "path", "owner", "sha256", "uid") {
		given[key] = true
		switch key {
		case "path":
			s.Path = r.absolute(value, "path of "+what)
		case "owner":
			s.Owner = r.user(value, "owner of "+what)
		case "sha256":
			s.SHA256 = strings.ToLower(r.Text(value, "sha256 of "+what))
			if sum, err := hex.DecodeString(s.SHA256); err != nil || len(sum) != 32 {
				r.Problem(value, "sha256 of %s must be 64 hexadecimal digits", what)
			}
		case "uid":
			if uid, ok := r.Uint32(value, "uid of "+what); ok {
				s.UID = &uid
			}
		}
	}
	for _, key := range []string{"path", "owner", "sha256"} {
		if !given[key] {
			r.ProblemAt(node.Line(), "%s has no %s", what, key)
		}
	}
	return s
}

// user reads a name, or a uid as a number.
func (r *rulesReader) user(node yamlfile.Node, what string) string {
	if !node.IsInteger() {
		return r.Text(node, what)
	}
	if uid, ok := r.Uint32(node, what); ok {
		return strconv.FormatUint(uint64(uid), 10)
	}
	return ""
}

// anyDepth at the end of a pattern matches everything below, at any depth.
const anyDepth = "/**"

// checkPattern says what is wrong with a pattern of allow.paths.
func checkPattern(pattern string) string {
	names := strings.TrimSuffix(pattern, anyDepth)
	switch {
	case !strings.HasPrefix(pattern, "/"):
		return "is not absolute"
	case names == "":
		return "would allow every path"
	case path.Clean(names) != names:
		return "is not in its shortest form: no //, no . or .., no / at the end"
	case strings.Contains(names, "**"):
		return "has ** elsewhere than in a trailing /**"
	}
	for name := range strings.SplitSeq(names, "/") {
		if _, err := path.Match(name, ""); err != nil {
			return "is not a valid pattern"
		}
	}
	return ""
}

// matchPath matches each name separately: with path.Match on the whole path a class like
// [^a] would match a slash.
func matchPath(pattern, resolved string) bool {
	names, deep := strings.CutSuffix(pattern, anyDepth)
	want, have := strings.Split(names, "/"), strings.Split(resolved, "/")
	if deep {
		if len(have) <= len(want) {
			return false
		}
		have = have[:len(want)]
	}
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
