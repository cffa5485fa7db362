package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"burnish/workflows/contract"
)

// fleetEntry is one device of a fleet file: what to ask for, or what is wrong with
// it, with its line.
type fleetEntry struct {
	name  string // as far as it could be read
	line  int
	input contract.EnrollInput
	err   error
}

// parseFleet reads a fleet file. Its error is one of the whole file, with the line;
// a device's own error stands in its entry.
func parseFleet(data []byte) ([]fleetEntry, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntaxError(err)
	}
	if len(file.Docs) > 1 {
		return nil, errors.New("it contains more than one YAML document")
	}
	var body ast.Node
	if len(file.Docs) == 1 {
		body = file.Docs[0].Body
	}
	top, ok := mapping(body)
	if !ok {
		return nil, at(body, "must be a mapping with the key devices")
	}
	var entries []fleetEntry
	for _, pair := range top {
		if key := keyOf(pair); key != "devices" {
			return nil, at(pair.Key, "unknown key %q: the only top-level key is devices", key)
		}
		list, ok := pair.Value.(*ast.SequenceNode)
		if !ok {
			return nil, at(pair.Key, "devices: must be a list")
		}
		for _, node := range list.Values {
			entries = append(entries, parseEntry(node))
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("it contains no device")
	}
	markDuplicates(entries)
	return entries, nil
}

// markDuplicates refuses a name that an entry before has.
func markDuplicates(entries []fleetEntry) {
	lines := map[string]int{}
	for i, e := range entries {
		if e.err != nil {
			continue
		}
		name := e.input.Enrollment.Name
		if line, ok := lines[name]; ok {
			entries[i].err = fmt.Errorf("line %d: %s is a duplicate of line %d", e.line, name, line)
			continue
		}
		lines[name] = e.line
	}
}

// parseEntry reads one device.
func parseEntry(node ast.Node) fleetEntry {
	pairs, ok := mapping(node)
	if !ok {
		return fleetEntry{err: at(node, "must be a mapping")}
	}
	var (
		e     enrollment
		first error
	)
	for _, pair := range pairs {
		if err := e.read(keyOf(pair), pair); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		return fleetEntry{name: e.name, err: first}
	}
	in, err := e.input()
	if err != nil {
		return fleetEntry{name: e.name, err: at(node, "%s", err)}
	}
	return fleetEntry{name: in.Enrollment.Name, line: lineOf(node), input: in}
}

// read takes one key of a device.
func (e *enrollment) read(key string, pair *ast.MappingValueNode) error {
	texts := map[string]*string{
		"name": &e.name, "host": &e.host, "driver": &e.driver, "type": &e.kind,
		"address": &e.address, "accept_signature": &e.acceptSignature,
	}
	truths := map[string]*bool{"one_time_use": &e.oneTimeUse, "provide": &e.provide, "clean": &e.clean}
	if into, ok := texts[key]; ok {
		text, ok := scalar(pair.Value)
		if !ok {
			return at(pair.Key, "%s: must be a string", key)
		}
		*into = text
		return nil
	}
	if into, ok := truths[key]; ok {
		truth, ok := pair.Value.(*ast.BoolNode)
		if !ok {
			return at(pair.Key, "%s: must be true or false", key)
		}
		*into = truth.Value
		return nil
	}
	if key != "set" {
		return at(pair.Key, "unknown key %q: must be one of name, host, driver, type, address, set, one_time_use, provide, clean, accept_signature", key)
	}
	pairs, ok := mapping(pair.Value)
	if !ok {
		return at(pair.Key, "set: must be a mapping of settings")
	}
	e.set = map[string]string{}
	for _, p := range pairs {
		text, ok := scalar(p.Value)
		if !ok {
			return at(p.Key, "set: %s: must be a string", keyOf(p))
		}
		e.set[keyOf(p)] = text
	}
	return nil
}

// mapping gives the pairs of a mapping, however the parser holds it.
func mapping(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func keyOf(pair *ast.MappingValueNode) string {
	if text, ok := scalar(pair.Key); ok {
		return text
	}
	return pair.Key.String()
}

// scalar gives a scalar as it was written: 0012 stays 0012. An alias, a list or a
// mapping is none, and neither is nothing.
func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// at is an error with its line.
func at(node ast.Node, format string, args ...any) error {
	what := fmt.Errorf(format, args...)
	if node == nil {
		return what
	}
	return fmt.Errorf("line %d: %w", lineOf(node), what)
}

// lineOf is the line on which a node begins; a mapping's own token is the first
// colon.
func lineOf(node ast.Node) int {
	if pairs, ok := mapping(node); ok && len(pairs) > 0 {
		node = pairs[0].Key
	}
	return node.GetToken().Position.Line
}

// syntaxError gives the parser's error as one line.
func syntaxError(err error) error {
	var e yaml.Error
	if errors.As(err, &e) {
		return fmt.Errorf("line %d: %s", e.GetToken().Position.Line, strings.TrimSpace(e.GetMessage()))
	}
	return err
}
