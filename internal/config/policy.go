package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

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
		Stall    *string `yaml:"sanitize_stall"`
	} `yaml:"nvme"`
	Wear struct {
		PercentUsed *int `yaml:"percent_used"`
		Spare       *int `yaml:"avail_spare"`
	} `yaml:"wear"`
}

// defaultStall is how long a sanitize may stand still where the policy says nothing.
const defaultStall = 10 * time.Minute

// LoadPolicy reads what policy.yaml says of cleans: the priorities of steps, nil where
// there are none, how NVMe devices are erased, and from when on a device is worn out.
// Of a file whose form is right every error is told, one a line, each with its line in
// the file; whether the steps allow the priorities is not asked here.
func LoadPolicy(file string) (clean.Policy, error) {
	none := clean.Policy{}
	text, err := os.ReadFile(file)
	if err != nil {
		return none, err
	}
	var policy policyFile
	if err := yaml.UnmarshalWithOptions(text, &policy, yaml.Strict()); err != nil {
		return none, fmt.Errorf("%s: %s", file, strings.SplitN(yaml.FormatError(err, false, false), "\n", 2)[0])
	}
	// What the decoder is silent about: a second document, and a key without a value. A
	// step without a number must not count as 0 and switch the step off.
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return none, fmt.Errorf("%s: %w", file, err)
	}
	if len(tree.Docs) > 1 {
		return none, fmt.Errorf("%s: [%d:1] a second document begins; one is wanted", file, tree.Docs[1].Start.Position.Line)
	}
	var wrong []error
	complain := func(path, format string, args ...any) {
		at, _ := lineOf(tree, path)
		wrong = append(wrong, fmt.Errorf("%s%s: %s", file, at, fmt.Sprintf(format, args...)))
	}
	made := clean.Policy{SanitizeStall: defaultStall}
	for _, step := range slices.Sorted(maps.Keys(policy.Priorities)) {
		priority := policy.Priorities[step]
		if priority == nil {
			complain("$.priorities.'"+step+"'", "%s has no priority; 0 switches a step off", step)
			continue
		}
		if made.Priorities == nil {
			made.Priorities = map[string]float64{}
		}
		made.Priorities[step] = *priority
	}
	for _, key := range []struct {
		name  string
		value *string
		set   func(string)
	}{
		{"clear_action", policy.NVMe.Action, func(v string) { made.NVMe.Action = clean.Action(v) }},
		{"clear_strategy", policy.NVMe.Strategy, func(v string) { made.NVMe.Strategy = clean.Strategy(v) }},
		{"sanitize_stall", policy.NVMe.Stall, func(v string) {
			stall, err := time.ParseDuration(v)
			if err != nil || stall <= 0 {
				complain("$.nvme.sanitize_stall", "sanitize_stall: %q is no positive duration, as 10m", v)
				return
			}
			made.SanitizeStall = stall
		}},
	} {
		path := "$.nvme." + key.name
		_, given := lineOf(tree, path)
		switch {
		case key.value != nil && *key.value != "":
			key.set(*key.value)
		case given:
			complain(path, "%s has no value; leave it out for %s", key.name, map[bool]string{true: "10m", false: "auto"}[key.name == "sanitize_stall"])
		}
	}
	if err := made.NVMe.Validate(); err != nil {
		var which *clean.PolicyError
		if errors.As(err, &which) {
			complain("$.nvme."+which.Key, "%s", err)
		} else {
			complain("$.nvme", "%s", err)
		}
	}
	for _, key := range []struct {
		name  string
		value *int
		most  int
		into  *int
	}{
		// The drive counts on past 100 percent, to 255.
		{"percent_used", policy.Wear.PercentUsed, 255, &made.Wear.PercentUsed},
		{"avail_spare", policy.Wear.Spare, 100, &made.Wear.Spare},
	} {
		path := "$.wear." + key.name
		_, given := lineOf(tree, path)
		switch {
		case key.value != nil && *key.value >= 1 && *key.value <= key.most:
			*key.into = *key.value
		case key.value != nil:
			complain(path, "%s: %d is not within 1 to %d percent", key.name, *key.value, key.most)
		case given:
			complain(path, "%s has no value; leave it out for the drive's own limit", key.name)
		}
	}
	return made, errors.Join(wrong...)
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
