package config

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/yamlfile"
)

// policyKey is a key of the section nvme or wear.
type policyKey struct {
	section, name string
	byDefault     string // the value if the key is left out
	set           func(value string) error
}

// policyKeys lists the keys, each with where its value goes.
func policyKeys(p *clean.Policy) []policyKey {
	const ofDrive = "the drive's own limit"
	return []policyKey{
		{"nvme", "clear_action", "auto", text(&p.NVMe.Action)},
		{"nvme", "clear_strategy", "auto", text(&p.NVMe.Strategy)},
		{"nvme", "sanitize_stall", "10m", positiveDuration(&p.SanitizeStall)},
		{"wear", "percent_used", ofDrive, percent(&p.Wear.PercentUsed, 255)}, // drives count beyond 100
		{"wear", "avail_spare", ofDrive, percent(&p.Wear.Spare, 100)},
	}
}

// sections reads the sections that are more than keys with one value each.
var sections = map[string]func(*yamlfile.Reader, yamlfile.Node, *clean.Policy){
	"priorities": readPriorities, "phases": readPhases, "limits": readLimits, "bios": readBIOS, "firmware": readFirmware,
	"models": readModels, "properties": readProperties, "golden": readGolden, "require_covered": readCoverage,
	"runbooks": readRunbooks,
}

// defaultStall is how long a sanitize may make no progress if the policy does not set it.
const defaultStall = 10 * time.Minute

// LoadPolicy reads a policy file; every other setting has its default.
func LoadPolicy(file string) (clean.Policy, error) {
	policy := clean.Policy{StepSettings: device.StepSettings{SanitizeStall: defaultStall}}
	return policy, readPolicy(file, &policy)
}

// readPolicy applies a policy file. The error has one line for each value
// that is wrong, with its line in the file. It does not check the priorities against
// the steps.
func readPolicy(path string, policy *clean.Policy) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r := &yamlfile.Reader{}
	given := map[string]yamlfile.Node{}
	for section, node := range r.Mapping(r.Parse(text), "the policy", "priorities", "nvme", "wear", "limits", "bios",
		"firmware", "models", "properties", "golden", "require_covered", "runbooks", "phases") {
		given[section] = node
		if read, ok := sections[section]; ok {
			read(r, node, policy)
			continue
		}
		var known []string
		for _, key := range policyKeys(policy) {
			if key.section == section {
				known = append(known, key.name)
			}
		}
		for name, value := range r.Mapping(node, section, known...) {
			given[section+"."+name] = value
		}
	}
	for _, key := range policyKeys(policy) {
		node, ok := given[key.section+"."+key.name]
		if !ok {
			continue
		}
		before, value := len(r.Problems()), ""
		if !node.Nothing() {
			value = r.Scalar(node, key.name)
		}
		switch {
		case len(r.Problems()) > before:
		case value == "":
			r.Problem(node, "%s has no value; leave it out for %s", key.name, key.byDefault)
		default:
			if err := key.set(value); err != nil {
				r.Problem(node, "%s: %s", key.name, err)
			}
		}
	}
	if err := policy.NVMe.Validate(); err != nil {
		at := given["nvme"]
		var which *clean.PolicyError
		if errors.As(err, &which) {
			at = given["nvme."+which.Key]
		}
		r.Problem(at, "%s", err)
	}
	var wrong []error
	for _, problem := range r.Problems() {
		wrong = append(wrong, fmt.Errorf("%s: %s", path, problem))
	}
	return errors.Join(wrong...)
}

func readPriorities(r *yamlfile.Reader, node yamlfile.Node, policy *clean.Policy) {
	for step, value := range r.Mapping(node, "priorities") {
		if value.Nothing() { // it must not count as 0, which switches the step off
			r.Problem(value, "%s has no priority; 0 switches a step off", step)
			continue
		}
		if policy.Priorities == nil {
			policy.Priorities = map[string]float64{}
		}
		policy.Priorities[step] = r.Number(value, "the priority of "+step)
	}
}

// readPhases reads the section phases. Which step may be moved where is the planner's.
func readPhases(r *yamlfile.Reader, node yamlfile.Node, policy *clean.Policy) {
	for step, value := range r.Mapping(node, "phases") {
		phase := r.Text(value, "the phase of "+step)
		if phase == "" {
			continue
		}
		if policy.Phases == nil {
			policy.Phases = map[string]clean.Phase{}
		}
		policy.Phases[step] = clean.Phase(phase)
	}
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
