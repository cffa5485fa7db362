package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"burnish/internal/clean"
	"burnish/internal/device"
)

// policyFile is the form of the file that BURNISH_POLICY names. Empty values are nil.
type policyFile struct {
	Priorities map[string]*float64 `yaml:"priorities"`
	NVMe       map[string]ast.Node `yaml:"nvme"`
	Wear       map[string]ast.Node `yaml:"wear"`
}

// policyKey is a key of the section nvme or wear.
type policyKey struct {
	section, name string
	byDefault     string // what holds where the key is left out
	set           func(value string) error
}

// policyKeys lists the keys, each with where its value goes.
func policyKeys(p *clean.Policy) []policyKey {
	const ofDrive = "the drive's own limit"
	return []policyKey{
		{"nvme", "clear_action", "auto", text(&p.NVMe.Action)},
		{"nvme", "clear_strategy", "auto", text(&p.NVMe.Strategy)},
		{"nvme", "sanitize_stall", "10m", positiveDuration(&p.SanitizeStall)},
		{"wear", "percent_used", ofDrive, percent(&p.Wear.PercentUsed, 255)}, // a drive counts on past 100
		{"wear", "avail_spare", ofDrive, percent(&p.Wear.Spare, 100)},
	}
}

// defaultStall is how long a sanitize may make no progress where the policy says nothing.
const defaultStall = 10 * time.Minute

// LoadPolicy reads a policy file as a worker would that is set by nothing else.
func LoadPolicy(file string) (clean.Policy, error) {
	policy := clean.Policy{StepSettings: device.StepSettings{SanitizeStall: defaultStall}}
	return policy, readPolicy(file, &policy)
}

// readPolicy sets what the file says of cleans. The error has one line for each value
// that is wrong, with its position in the file, unless the form of the file itself is
// wrong. It does not check the priorities against the steps.
func readPolicy(path string, policy *clean.Policy) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file policyFile
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return fmt.Errorf("%s: %s", path, firstLine(err))
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(tree.Docs) > 1 { // the decoder ignores it
		return fmt.Errorf("%s: [%d:1] a second document begins; one is wanted", path, tree.Docs[1].Start.Position.Line)
	}
	var wrong []error
	complain := func(key, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s%s: %s", path, positionOf(tree, key), fmt.Sprintf(format, args...)))
	}
	for _, step := range slices.Sorted(maps.Keys(file.Priorities)) {
		priority := file.Priorities[step]
		if priority == nil { // it must not count as 0, which switches the step off
			complain("priorities.'"+step+"'", "%s has no priority; 0 switches a step off", step)
			continue
		}
		if policy.Priorities == nil {
			policy.Priorities = map[string]float64{}
		}
		policy.Priorities[step] = *priority
	}
	sections := map[string]map[string]ast.Node{"nvme": file.NVMe, "wear": file.Wear}
	for _, key := range policyKeys(policy) {
		node, given := sections[key.section][key.name]
		delete(sections[key.section], key.name)
		if !given {
			continue
		}
		at, value := key.section+"."+key.name, ""
		if node != nil {
			if err := yaml.NodeToValue(node, &value); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s", path, firstLine(err)))
				continue
			}
		}
		if value == "" {
			complain(at, "%s has no value; leave it out for %s", key.name, key.byDefault)
		} else if err := key.set(value); err != nil {
			complain(at, "%s: %s", key.name, err)
		}
	}
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		for _, name := range slices.Sorted(maps.Keys(sections[section])) {
			complain(section+".'"+name+"'", "unknown field %q", name)
		}
	}
	if err := policy.NVMe.Validate(); err != nil {
		at := "nvme"
		var which *clean.PolicyError
		if errors.As(err, &which) {
			at += "." + which.Key
		}
		complain(at, "%s", err)
	}
	return errors.Join(wrong...)
}

func text[T ~string](into *T) func(string) error {
	return func(value string) error {
		*into = T(value)
		return nil
	}
}

func positiveDuration(into *time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a positive duration such as 10m", value)
		}
		*into = d
		return nil
	}
}

func percent(into *int, limit int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > limit {
			return fmt.Errorf("%s is not within 1 to %d percent", value, limit)
		}
		*into = n
		return nil
	}
}

func firstLine(err error) string {
	return strings.SplitN(yaml.FormatError(err, false, false), "\n", 2)[0]
}

// positionOf gives the position of a key's value, as ": [line:column]", or "" where the
// file does not have the key.
func positionOf(tree *ast.File, key string) string {
	path, err := yaml.PathString("$." + key)
	if err != nil {
		return ""
	}
	node, err := path.FilterFile(tree)
	if err != nil || node == nil {
		return ""
	}
	at := node.GetToken().Position
	return fmt.Sprintf(": [%d:%d]", at.Line, at.Column)
}
