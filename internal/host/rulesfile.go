package host

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"burnish/internal/pci"
)

// rulesContent is what a valid host.yaml says.
type rulesContent struct {
	paths   []string
	specs   []DeviceSpec
	scripts map[string]Script
	fake    bool
	secrets string
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

// parseRules reads host.yaml. It walks the syntax tree and does not decode into Go
// values: a decoder turns 0x8086 into "32902" where a string is wanted, takes the
// first of two documents for the whole file, and follows aliases and merge keys,
// behind which a reader of the file may overlook what is allowed.
func parseRules(name string, text []byte) (rulesContent, error) {
	w := &walker{}
	content := w.file(text)
	if len(w.problems) > 0 {
		return rulesContent{}, &RulesError{File: name, Problems: w.problems}
	}
	return content, nil
}

// walker collects problems; after one, what its methods return is not used.
type walker struct{ problems []string }

func (w *walker) problem(at ast.Node, format string, args ...any) {
	w.problemAt(at.GetToken().Position.Line, format, args...)
}

func (w *walker) problemAt(line int, format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

func (w *walker) file(text []byte) rulesContent {
	tree, err := parser.ParseBytes(text, 0)
	var syntax yaml.Error
	switch {
	case errors.As(err, &syntax) && syntax.GetToken() != nil:
		w.problemAt(syntax.GetToken().Position.Line, "%s", syntax.GetMessage())
		return rulesContent{}
	case err != nil:
		w.problems = append(w.problems, err.Error())
		return rulesContent{}
	}
	var body ast.Node
	for _, doc := range tree.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			w.problem(doc.Body, "a second document begins; only one is read")
		default:
			body = doc.Body
		}
	}
	var content rulesContent
	for key, value := range w.mapping(body, "host.yaml", "allow", "secrets") {
		switch key {
		case "allow":
			w.allow(value, &content)
		case "secrets":
			content.secrets = w.absolute(value, "secrets")
		}
	}
	return content
}

func (w *walker) allow(node ast.Node, content *rulesContent) {
	for key, value := range w.mapping(node, "allow", "paths", "device_spec", "scripts", "fake") {
		switch key {
		case "paths":
			for _, item := range w.sequence(value, key) {
				content.paths = append(content.paths, w.pattern(item))
			}
		case "device_spec":
			for _, item := range w.sequence(value, key) {
				content.specs = append(content.specs, w.deviceSpec(item))
			}
		case "scripts":
			content.scripts = make(map[string]Script)
			for name, script := range w.mapping(value, key) {
				content.scripts[name] = w.script(script, name)
			}
		case "fake":
			content.fake = w.boolean(value, key)
		}
	}
}

// pair is what mapping yields.
type pair = func(yield func(key string, value ast.Node) bool)

// mapping yields the entries of node in their order: those with a key in known, or
// all where known is empty. Nothing and null are empty mappings.
func (w *walker) mapping(node ast.Node, what string, known ...string) pair {
	return func(yield func(string, ast.Node) bool) {
		if isNothing(node) {
			return
		}
		entries, ok := node.(ast.MapNode)
		if !ok {
			w.problem(node, "%s must be a mapping, not %s", what, kind(node))
			return
		}
		seen := make(map[string]bool)
		for iter := entries.MapRange(); iter.Next(); {
			key, ok := iter.Key().(*ast.StringNode)
			switch {
			case !ok:
				w.problem(iter.Key(), "a key of %s must be a plain name, not %s", what, kind(iter.Key()))
			case seen[key.Value]:
				w.problem(key, "key %q of %s stands here twice", key.Value, what)
			case len(known) > 0 && !slices.Contains(known, key.Value):
				w.problem(key, "unknown key %q in %s; known are %s", key.Value, what, strings.Join(known, ", "))
			default:
				seen[key.Value] = true
				if !yield(key.Value, iter.Value()) {
					return
				}
			}
		}
	}
}

func (w *walker) sequence(node ast.Node, what string) []ast.Node {
	if isNothing(node) {
		return nil
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		w.problem(node, "%s must be a list, not %s", what, kind(node))
		return nil
	}
	return list.Values
}

// text takes strings alone: a number that stands where a string is wanted was not
// always meant as it is read (010, 1e5, 0x8086).
func (w *walker) text(node ast.Node, what string) string {
	s, ok := node.(*ast.StringNode)
	switch {
	case !ok:
		w.problem(node, "%s must be text, not %s; put it in quotes", what, kind(node))
		return ""
	case s.Value == "":
		w.problem(node, "%s is empty", what)
	}
	return s.Value
}

func (w *walker) boolean(node ast.Node, what string) bool {
	b, ok := node.(*ast.BoolNode)
	if !ok {
		w.problem(node, "%s must be true or false, not %s", what, kind(node))
		return false
	}
	return b.Value
}

func (w *walker) absolute(node ast.Node, what string) string {
	path := w.text(node, what)
	if path != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
		w.problem(node, "%s must be a plain absolute path, not %q", what, path)
	}
	return path
}

func (w *walker) pattern(node ast.Node) string {
	pattern := w.text(node, "an entry of paths")
	if pattern == "" {
		return ""
	}
	if why := checkPattern(pattern); why != "" {
		w.problem(node, "paths: %q %s", pattern, why)
	}
	return pattern
}

// deviceSpec takes the criteria of Nova's entry, and one_time_use (S0.2), and judges
// them as Nova does. Unlike Nova's, an entry takes no other tags and no policy: a misspelt
// key would make it match more devices, not fewer. For the same reason it must have a
// criterion.
func (w *walker) deviceSpec(node ast.Node) DeviceSpec {
	entry, lines := make(map[string]any), make(map[string]int)
	before := len(w.problems)
	for key, value := range w.mapping(node, "an entry of device_spec", "vendor_id", "product_id", "address", "one_time_use") {
		lines[key] = lineOf(value)
		if _, is := value.(*ast.BoolNode); is && key == "one_time_use" {
			entry[key] = w.boolean(value, key)
			continue
		}
		if _, object := value.(ast.MapNode); !object || key != "address" {
			entry[key] = w.text(value, key)
			continue
		}
		address := make(map[string]string)
		for part, expression := range w.mapping(value, "address", "domain", "bus", "slot", "function") {
			lines["address."+part] = lineOf(expression)
			address[part] = w.text(expression, part)
		}
		if len(address) == 0 {
			w.problem(value, "address is empty and would match every device")
		}
		entry[key] = address
	}
	spec := DeviceSpec{Line: lineOf(node)}
	if len(w.problems) > before {
		return spec
	}
	text, err := json.Marshal(entry)
	if err != nil {
		w.problemAt(spec.Line, "device_spec: %v", err)
		return spec
	}
	spec.JSON = text
	if spec.Spec, err = pci.ParseSpec(text); err != nil {
		line := spec.Line
		var fault *pci.Invalid
		if errors.As(err, &fault) && lines[fault.Field] > 0 {
			line = lines[fault.Field]
		}
		w.problemAt(line, "device_spec: %v", err)
		return spec
	}
	if !spec.Spec.Narrows() {
		w.problemAt(spec.Line, "an entry of device_spec without criteria would match every device")
	}
	return spec
}

func (w *walker) script(node ast.Node, name string) Script {
	var s Script
	what := "script " + name
	given := make(map[string]bool)
	for key, value := range w.mapping(node, what, "path", "owner", "sha256", "uid") {
		given[key] = true
		switch key {
		case "path":
			s.Path = w.absolute(value, "path of "+what)
		case "owner":
			s.Owner = w.user(value, "owner of "+what)
		case "sha256":
			s.SHA256 = strings.ToLower(w.text(value, "sha256 of "+what))
			if sum, err := hex.DecodeString(s.SHA256); err != nil || len(sum) != 32 {
				w.problem(value, "sha256 of %s must be 64 hexadecimal digits", what)
			}
		case "uid":
			s.UID = w.uid(value, "uid of "+what)
		}
	}
	for _, key := range []string{"path", "owner", "sha256"} {
		if !given[key] {
			w.problemAt(lineOf(node), "%s has no %s", what, key)
		}
	}
	return s
}

// user takes a name, or a uid as a number.
func (w *walker) user(node ast.Node, what string) string {
	if _, ok := node.(*ast.IntegerNode); !ok {
		return w.text(node, what)
	}
	if uid := w.uid(node, what); uid != nil {
		return strconv.FormatUint(uint64(*uid), 10)
	}
	return ""
}

func (w *walker) uid(node ast.Node, what string) *uint32 {
	// The text, not the value: 0750 is octal to some readers and decimal to others.
	if _, ok := node.(*ast.IntegerNode); ok {
		text := node.GetToken().Value
		if n, err := strconv.ParseUint(text, 10, 32); err == nil && text == strconv.FormatUint(n, 10) {
			uid := uint32(n)
			return &uid
		}
	}
	w.problem(node, "%s must be a plain number", what)
	return nil
}

func isNothing(node ast.Node) bool {
	if node == nil {
		return true
	}
	_, null := node.(*ast.NullNode)
	return null
}

func lineOf(node ast.Node) int {
	return node.GetToken().Position.Line
}

// kind names what stands in the file, for people.
func kind(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return "text"
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "an anchor, an alias or a merge"
	case *ast.TagNode:
		return "a tag"
	}
	return strings.ToLower(node.Type().String())
}

// below, at the end of a pattern, stands for everything below.
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
			return "is no valid pattern"
		}
	}
	return ""
}

// matchPath matches name by name: path.Match on the whole would let a class like
// [^a] match a slash.
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
