// Package yamlfile reads the YAML files that operators write, strictly: one document
// of plain mappings, lists and values. Unknown and duplicate keys, anchors, aliases,
// merges and tags are problems, and each problem names its line.
//
// It walks the syntax tree and does not use the library's decoder, which turns 0x8086
// into "32902" where text is wanted, takes the first of two documents for the whole
// file, and follows aliases and merge keys, behind which a reader of the file may
// overlook what it says.
package yamlfile

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Reader collects the problems of a file. What its methods return for a node with a
// problem is the zero value.
type Reader struct{ problems []string }

// Node is a part of the file: a mapping, a list or a value.
type Node struct{ node ast.Node }

// Parse reads the one document of a file. An empty file is Nothing.
func (r *Reader) Parse(text []byte) Node {
	file, err := parser.ParseBytes(text, 0)
	var syntax yaml.Error
	switch {
	case errors.As(err, &syntax) && syntax.GetToken() != nil:
		r.ProblemAt(syntax.GetToken().Position.Line, "%s", strings.TrimSpace(syntax.GetMessage()))
		return Node{}
	case err != nil:
		r.problems = append(r.problems, err.Error())
		return Node{}
	}
	var body Node
	for _, document := range file.Docs {
		switch {
		case document.Body == nil:
		case body.node != nil:
			r.Problem(Node{document.Body}, "a second document begins; a file must have only one")
		default:
			body.node = document.Body
		}
	}
	return body
}

// Problems gives the problems so far, in the order in which they were found; those of
// Problem and ProblemAt begin with "line N: ".
func (r *Reader) Problems() []string { return r.problems }

// Problem adds a problem of a node.
func (r *Reader) Problem(at Node, format string, args ...any) {
	r.ProblemAt(at.Line(), format, args...)
}

// ProblemAt adds a problem of a line; 0 is the file as a whole.
func (r *Reader) ProblemAt(line int, format string, args ...any) {
	problem := fmt.Sprintf(format, args...)
	if line > 0 {
		problem = fmt.Sprintf("line %d: %s", line, problem)
	}
	r.problems = append(r.problems, problem)
}

// Line is where the node begins; 0 where there is none.
func (n Node) Line() int {
	if n.node == nil {
		return 0
	}
	// The token of a mapping is its first colon.
	if mapping, ok := n.node.(ast.MapNode); ok {
		if iter := mapping.MapRange(); iter.Next() {
			return iter.Key().GetToken().Position.Line
		}
	}
	return n.node.GetToken().Position.Line
}

// Nothing says that the node is absent, empty or null.
func (n Node) Nothing() bool {
	if n.node == nil {
		return true
	}
	_, null := n.node.(*ast.NullNode)
	return null
}

// Mapping gives the entries of a mapping in their order: those with a known key, or
// all where none is listed. Nothing is an empty mapping. what names the node in problems.
func (r *Reader) Mapping(n Node, what string, known ...string) iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		if n.Nothing() {
			return
		}
		entries, ok := n.node.(ast.MapNode)
		if !ok {
			r.Problem(n, "%s must be a mapping, not %s", what, n.kind())
			return
		}
		seen := make(map[string]bool)
		for entry := entries.MapRange(); entry.Next(); {
			at, value := Node{entry.Key()}, Node{entry.Value()}
			key, ok := at.node.(*ast.StringNode)
			switch {
			case !ok:
				r.Problem(at, "a key of %s must be a plain name, not %s", what, at.kind())
			case seen[key.Value]:
				r.Problem(at, "duplicate key %q in %s", key.Value, what)
			case len(known) == 1 && key.Value != known[0]:
				r.Problem(at, "unknown key %q in %s: the only key is %s", key.Value, what, known[0])
			case len(known) > 0 && !slices.Contains(known, key.Value):
				r.Problem(at, "unknown key %q in %s: must be one of %s", key.Value, what, strings.Join(known, ", "))
			default:
				seen[key.Value] = true
				if !yield(key.Value, value) {
					return
				}
			}
		}
	}
}

// List gives the items of a list. Nothing is an empty list.
func (r *Reader) List(n Node, what string) []Node {
	if n.Nothing() {
		return nil
	}
	list, ok := n.node.(*ast.SequenceNode)
	if !ok {
		r.Problem(n, "%s must be a list, not %s", what, n.kind())
		return nil
	}
	items := make([]Node, 0, len(list.Values))
	for _, item := range list.Values {
		items = append(items, Node{item})
	}
	return items
}

// Text takes strings only: a number where text is wanted may not be read as it was
// meant (010, 1e5, 0x8086).
func (r *Reader) Text(n Node, what string) string {
	s, ok := n.node.(*ast.StringNode)
	switch {
	case !ok:
		r.Problem(n, "%s must be text, not %s; put it in quotes", what, n.kind())
		return ""
	case s.Value == "":
		r.Problem(n, "%s is empty", what)
	}
	return s.Value
}

// Scalar gives any single value as it is written: 0012 stays 0012.
func (r *Reader) Scalar(n Node, what string) string {
	switch value := n.node.(type) {
	case *ast.StringNode:
		return value.Value
	case *ast.LiteralNode:
		return value.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return value.GetToken().Value
	}
	r.Problem(n, "%s must be text, not %s", what, n.kind())
	return ""
}

// Bool takes true and false.
func (r *Reader) Bool(n Node, what string) bool {
	b, ok := n.node.(*ast.BoolNode)
	if !ok {
		r.Problem(n, "%s must be true or false, not %s", what, n.kind())
		return false
	}
	return b.Value
}

// IsBool says whether the node is true or false, without quotes.
func (n Node) IsBool() bool {
	_, ok := n.node.(*ast.BoolNode)
	return ok
}

// IsInteger says whether the node is an integer, without quotes.
func (n Node) IsInteger() bool {
	_, ok := n.node.(*ast.IntegerNode)
	return ok
}

// IsFloat says whether the node is a number that is no integer, without quotes.
func (n Node) IsFloat() bool {
	_, ok := n.node.(*ast.FloatNode)
	return ok
}

// IsList says whether the node is a list.
func (n Node) IsList() bool {
	_, ok := n.node.(*ast.SequenceNode)
	return ok
}

// IsMapping says whether the node is a mapping.
func (n Node) IsMapping() bool {
	_, ok := n.node.(ast.MapNode)
	return ok
}

// Number takes an integer or a decimal number.
func (r *Reader) Number(n Node, what string) float64 {
	switch n.node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if f, err := strconv.ParseFloat(n.node.GetToken().Value, 64); err == nil {
			return f
		}
	}
	r.Problem(n, "%s must be a number, not %s", what, n.kind())
	return 0
}

// Uint32 takes a plain decimal number. It reads the text, not the value: 0750 is octal
// to some readers and decimal to others.
func (r *Reader) Uint32(n Node, what string) (uint32, bool) {
	if n.IsInteger() {
		text := n.node.GetToken().Value
		if value, err := strconv.ParseUint(text, 10, 32); err == nil && text == strconv.FormatUint(value, 10) {
			return uint32(value), true
		}
	}
	r.Problem(n, "%s must be a plain number", what)
	return 0, false
}

// kind names what the file has here.
func (n Node) kind() string {
	switch n.node.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return "text"
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.BoolNode:
		return "true or false"
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "an anchor, an alias or a merge"
	case *ast.TagNode:
		return "a tag"
	}
	return strings.ToLower(n.node.Type().String())
}
