package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"burnish/internal/clean"
)

// policyFile is what BURNISH_POLICY names. Pointers tell what was left empty from what
// was not given.
type policyFile struct {
	Priorities map[string]*float64 `yaml:"priorities"`
	NVMe       struct {
		Action   *string `yaml:"clear_action"`
		Strategy *string `yaml:"clear_strategy"`
	} `yaml:"nvme"`
}

// LoadPolicy reads what a policy file says of cleans, as a worker does.
func LoadPolicy(file string) (clean.Policy, error) {
	priorities, erase, err := loadPolicy(file)
	return clean.Policy{Priorities: priorities, NVMe: erase}, err
}

// loadPolicy reads policy.yaml: the priorities of steps, nil where there are none, and
// how NVMe devices are erased. Of a file whose form is right every error is told, one a
// line, each with its line in the file; whether a step exists is not known here.
func loadPolicy(file string) (map[string]float64, clean.ErasePolicy, error) {
	none := clean.ErasePolicy{}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, none, err
	}
	var policy policyFile
	if err := yaml.UnmarshalWithOptions(text, &policy, yaml.Strict()); err != nil {
		return nil, none, fmt.Errorf("%s: %s", file, strings.SplitN(yaml.FormatError(err, false, false), "\n", 2)[0])
	}
	// What the decoder is silent about: a second document, and a key without a value. A
	// step without a number must not count as 0 and switch the step off.
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, none, fmt.Errorf("%s: %w", file, err)
	}
	if len(tree.Docs) > 1 {
		return nil, none, fmt.Errorf("%s: [%d:1] a second document begins; one is wanted", file, tree.Docs[1].Start.Position.Line)
	}
	var wrong []error
	complain := func(path, format string, args ...any) {
		at, _ := lineOf(tree, path)
		wrong = append(wrong, fmt.Errorf("%s%s: %s", file, at, fmt.Sprintf(format, args...)))
	}
	var priorities map[string]float64
	for _, step := range slices.Sorted(maps.Keys(policy.Priorities)) {
		priority := policy.Priorities[step]
		if priority == nil {
			complain("$.priorities.'"+step+"'", "%s has no priority; 0 switches a step off", step)
			continue
		}
		if priorities == nil {
			priorities = map[string]float64{}
		}
		priorities[step] = *priority
	}
	var erase clean.ErasePolicy
	for _, key := range []struct {
		name  string
		value *string
		set   func(string)
	}{
		{"clear_action", policy.NVMe.Action, func(v string) { erase.Action = clean.Action(v) }},
		{"clear_strategy", policy.NVMe.Strategy, func(v string) { erase.Strategy = clean.Strategy(v) }},
	} {
		path := "$.nvme." + key.name
		_, given := lineOf(tree, path)
		switch {
		case key.value != nil && *key.value != "":
			key.set(*key.value)
		case given:
			complain(path, "%s has no value; leave it out for auto", key.name)
		}
	}
	if err := erase.Validate(); err != nil {
		var which *clean.PolicyError
		if errors.As(err, &which) {
			complain("$.nvme."+which.Key, "%s", err)
		} else {
			complain("$.nvme", "%s", err)
		}
	}
	return priorities, erase, errors.Join(wrong...)
}

// lineOf says where a value stands, and whether it does.
func lineOf(tree *ast.File, path string) (string, bool) {
	p, err := yaml.PathString(path)
	if err != nil {
		return "", false
	}
	node, err := p.FilterFile(tree)
	if err != nil || node == nil {
		return "", false
	}
	at := node.GetToken().Position
	return fmt.Sprintf(": [%d:%d]", at.Line, at.Column), true
}
