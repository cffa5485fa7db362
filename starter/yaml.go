package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// toYAML writes JSON as block YAML, keys in the same order. JSON strings and
// numbers are also valid YAML; only words that every YAML reader reads as text are
// written without quotes.
func toYAML(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	node, err := readNode(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	var b strings.Builder
	node.write(&b, 0)
	return []byte(b.String()), nil
}

// node is a JSON value that keeps the order of its keys: scalar is set for a leaf,
// keys for an object, and neither for a list.
type node struct {
	scalar   string
	object   bool
	keys     []string
	children []node
}

func readNode(d *json.Decoder) (node, error) {
	t, err := d.Token()
	if err != nil {
		return node{}, fmt.Errorf("read JSON: %w", err)
	}
	open, ok := t.(json.Delim)
	if !ok {
		return leaf(t)
	}
	n := node{object: open == '{'}
	for d.More() {
		if n.object {
			key, err := d.Token()
			if err != nil {
				return node{}, fmt.Errorf("read JSON: %w", err)
			}
			k, err := leaf(key)
			if err != nil {
				return node{}, err
			}
			n.keys = append(n.keys, k.scalar)
		}
		child, err := readNode(d)
		if err != nil {
			return node{}, err
		}
		n.children = append(n.children, child)
	}
	_, err = d.Token()
	return n, err
}

var (
	plainWord = regexp.MustCompile(`^[A-Za-z_/]([A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?$`)
	reserved  = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
)

// leaf gives a scalar as YAML writes it.
func leaf(t json.Token) (node, error) {
	text, isText := t.(string)
	if isText && plainWord.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text)) {
		return node{scalar: text}, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(t); err != nil {
		return node{}, fmt.Errorf("write YAML: %w", err)
	}
	return node{scalar: strings.TrimSpace(b.String())}, nil
}

// write writes the node; its first key or item continues the present line.
func (n node) write(b *strings.Builder, indent int) {
	switch {
	case n.scalar != "":
		b.WriteString(n.scalar + "\n")
		return
	case len(n.children) == 0 && n.object:
		b.WriteString("{}\n")
		return
	case len(n.children) == 0:
		b.WriteString("[]\n")
		return
	}
	for i, child := range n.children {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", indent))
		}
		if !n.object {
			b.WriteString("- ")
			child.write(b, indent+2)
			continue
		}
		b.WriteString(n.keys[i] + ":")
		if child.scalar != "" || len(child.children) == 0 {
			b.WriteString(" ")
			child.write(b, 0)
			continue
		}
		b.WriteString("\n" + strings.Repeat(" ", indent+2))
		child.write(b, indent+2)
	}
}
