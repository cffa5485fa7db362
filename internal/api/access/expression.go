package access

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// check is a parsed expression.
type check interface {
	allows(p *Policy, who Principal) bool
	// references adds the rules that the expression refers to.
	references(to []string) []string
}

type (
	always bool   // @ and !
	role   string // role:x, in lower case
	ref    string // rule:x
	all    []check
	some   []check
	not    struct{ check }
)

func (a always) allows(*Policy, Principal) bool { return bool(a) }

// As in oslo.policy, roles are compared without case.
func (r role) allows(_ *Policy, who Principal) bool {
	return slices.ContainsFunc(who.Roles, func(has string) bool { return strings.ToLower(has) == string(r) })
}
func (r ref) allows(p *Policy, who Principal) bool { return p.Allows(string(r), who) }
func (n not) allows(p *Policy, who Principal) bool { return !n.check.allows(p, who) }

func (a all) allows(p *Policy, who Principal) bool {
	return !slices.ContainsFunc(a, func(c check) bool { return !c.allows(p, who) })
}

func (s some) allows(p *Policy, who Principal) bool {
	return slices.ContainsFunc(s, func(c check) bool { return c.allows(p, who) })
}

func (a always) references(to []string) []string { return to }
func (r role) references(to []string) []string   { return to }
func (r ref) references(to []string) []string    { return append(to, string(r)) }
func (a all) references(to []string) []string    { return referencesOf(a, to) }
func (s some) references(to []string) []string   { return referencesOf(s, to) }

func referencesOf(checks []check, to []string) []string {
	for _, c := range checks {
		to = c.references(to)
	}
	return to
}

var roleForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)

// largestExpression and deepest bound an expression.
const (
	largestExpression = 4096
	deepest           = 50
)

// parseExpression reads an expression: role:x, rule:y, @ (everyone), ! (none), and, or, not
// and parentheses; not binds closest and or least, as in oslo.policy. Its other checks, and
// the empty expression, which there allows everyone, are errors.
func parseExpression(text string) (check, error) {
	if len(text) > largestExpression {
		return nil, fmt.Errorf("an expression has at most %d characters", largestExpression)
	}
	spaced := strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)
	p := &expressionParser{words: strings.Fields(spaced)}
	c, err := p.or(0)
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("%q is not expected here", p.words[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return c, nil
}

type expressionParser struct{ words []string }

// take removes the next word if it is this one, in any case.
func (p *expressionParser) take(word string) bool {
	if len(p.words) == 0 || !strings.EqualFold(p.words[0], word) {
		return false
	}
	p.words = p.words[1:]
	return true
}

func (p *expressionParser) or(depth int) (check, error) {
	one, err := p.and(depth)
	if err != nil {
		return nil, err
	}
	checks := some{one}
	for p.take("or") {
		if one, err = p.and(depth); err != nil {
			return nil, err
		}
		checks = append(checks, one)
	}
	return checks, nil
}

func (p *expressionParser) and(depth int) (check, error) {
	one, err := p.one(depth)
	if err != nil {
		return nil, err
	}
	checks := all{one}
	for p.take("and") {
		if one, err = p.one(depth); err != nil {
			return nil, err
		}
		checks = append(checks, one)
	}
	return checks, nil
}

func (p *expressionParser) one(depth int) (check, error) {
	switch {
	case depth > deepest:
		return nil, errors.New("it is nested too deeply")
	case len(p.words) == 0:
		return nil, errors.New("a check is missing at its end")
	case p.take("not"):
		c, err := p.one(depth + 1)
		return not{c}, err
	case p.take("("):
		c, err := p.or(depth + 1)
		if err == nil && !p.take(")") {
			err = errors.New("a ) is missing")
		}
		return c, err
	case p.take("@"):
		return always(true), nil
	case p.take("!"):
		return always(false), nil
	}
	word := p.words[0]
	p.words = p.words[1:]
	switch kind, name, _ := strings.Cut(word, ":"); {
	case kind == "role" && roleForm.MatchString(name):
		return role(strings.ToLower(name)), nil
	case kind == "rule" && name != "":
		return ref(name), nil
	}
	return nil, fmt.Errorf("%q is not role:NAME, rule:NAME, @, !, and, or, not or a parenthesis", word)
}
