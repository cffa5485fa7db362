package main

import (
	"bytes"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// toYAML writes JSON, which is YAML too, as block YAML, keys in the same order.
func toYAML(data []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	unstyled(&document)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// ofYAML11 is text that readers of YAML 1.1 take for a boolean or a number to the base 60.
var ofYAML11 = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

// unstyled takes from a node and those below it how they were written, the quotes of such text apart.
func unstyled(n *yaml.Node) {
	if !ofYAML11.MatchString(n.Value) {
		n.Style = 0
	}
	for _, child := range n.Content {
		unstyled(child)
	}
}
