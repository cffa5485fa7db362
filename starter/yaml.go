package main

import (
	"bytes"
	"slices"
	"strings"

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

// booleans of YAML 1.1, which many readers still know.
var booleans = []string{"y", "n", "yes", "no", "on", "off"}

// unstyled takes from a node and those below it how they were written, the quotes of such words apart.
func unstyled(n *yaml.Node) {
	if !slices.Contains(booleans, strings.ToLower(n.Value)) {
		n.Style = 0
	}
	for _, child := range n.Content {
		unstyled(child)
	}
}
