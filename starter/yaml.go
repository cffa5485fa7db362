package main

import "github.com/goccy/go-yaml"

// toYAML writes JSON as YAML, keys in the same order.
func toYAML(data []byte) ([]byte, error) {
	var v any
	if err := yaml.UnmarshalWithOptions(data, &v, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	return yaml.MarshalWithOptions(v, yaml.IndentSequence(true))
}
