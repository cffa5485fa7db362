package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"burnish/internal/host"
	"burnish/internal/yamlfile"
)

// A rule of the API begins with one of these (S2.76).
const (
	rulePrefix = "cyborg:device:"
)

const (
	readers = "role:admin or role:reader"
	admins  = "role:admin"
)

// defaults are the rules with their expressions; changes are those that need an administrator.
func defaults(changes []string) map[string]string {
	rules := map[string]string{
		rulePrefix + "get_all": readers,
		rulePrefix + "get_one": readers,
		// What only operators see of a device: without it, a caller sees Cyborg's own fields.
		rulePrefix + "get_details": admins,
	}
	for _, rule := range changes {
		rules[rule] = admins
	}
	return rules
}

// Policy says which roles may do what.
type Policy struct {
	// rules have no reference to an unknown rule, and none to itself; refers are the references.
	rules  map[string]check
	refers map[string][]string
}

// ReadPolicy reads BURNISH_API_POLICY: a YAML mapping of rules to expressions in the
// language of oslo.policy. It replaces the defaults of the rules that it has; "" is no file.
// The error has one line for each problem.
func ReadPolicy(file string, changes []string) (*Policy, error) {
	if file == "" {
		return parsePolicy("the defaults", nil, changes)
	}
	text, err := host.ReadTrusted(file)
	if err != nil {
		return nil, err
	}
	return parsePolicy(file, text, changes)
}

func parsePolicy(name string, text []byte, changes []string) (*Policy, error) {
	var r yamlfile.Reader
	p := &Policy{rules: make(map[string]check), refers: make(map[string][]string)}
	known := defaults(changes)
	for rule, expression := range known {
		if err := p.set(rule, expression); err != nil {
			return nil, fmt.Errorf("the default of %s: %w", rule, err)
		}
	}
	lines := make(map[string]yamlfile.Node)
	for rule, value := range r.Mapping(r.Parse(text), "the policy") {
		lines[rule] = value
		if _, ok := known[rule]; !ok && strings.Contains(rule, ":") {
			r.Problem(value, "there is no rule %q", rule)
			continue
		}
		expression := r.Text(value, rule)
		if expression == "" {
			continue
		}
		if err := p.set(rule, expression); err != nil {
			r.Problem(value, "%s: %v", rule, err)
		}
	}
	if len(r.Problems()) == 0 {
		p.checkReferences(&r, lines)
	}
	if problems := r.Problems(); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", name, strings.Join(problems, "\n"+name+": "))
	}
	return p, nil
}

func (p *Policy) set(rule, expression string) (err error) {
	p.rules[rule], p.refers[rule], err = parseExpression(expression)
	return err
}

// checkReferences finds references to unknown rules, rules that refer to themselves, and
// names that no rule refers to, which are usually misspelled.
func (p *Policy) checkReferences(r *yamlfile.Reader, lines map[string]yamlfile.Node) {
	used := make(map[string]bool)
	for _, rule := range slices.Sorted(maps.Keys(p.rules)) {
		for _, other := range p.refers[rule] {
			used[other] = true
			if _, ok := p.rules[other]; !ok {
				r.Problem(lines[rule], "%s: there is no rule %q", rule, other)
			}
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(p.rules)) {
		if !used[rule] && !strings.Contains(rule, ":") {
			r.Problem(lines[rule], "there is no rule %q, and no other rule refers to it", rule)
		}
		if p.reaches(rule, rule, make(map[string]bool)) {
			r.Problem(lines[rule], "%s refers to itself", rule)
		}
	}
}

// reaches says whether a rule refers to another one, also through others.
func (p *Policy) reaches(from, to string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(p.refers[from], func(next string) bool {
		return next == to || p.reaches(next, to, seen)
	})
}

// Allows says whether the policy lets this principal do what the rule is for. An unknown rule
// allows nothing.
func (p *Policy) Allows(rule string, who Principal) bool {
	c := p.rules[rule]
	return c != nil && c(p, who)
}
