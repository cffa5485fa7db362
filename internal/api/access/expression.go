package access

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// check is a parsed expression.
type check func(p *Policy, who Principal) bool

func always(yes bool) check { return func(*Policy, Principal) bool { return yes } }

// role is role:x, in lower case. As in oslo.policy, roles are compared without case.
func role(name string) check {
	return func(_ *Policy, who Principal) bool {
		return slices.ContainsFunc(who.Roles, func(has string) bool { return strings.ToLower(has) == name })
	}
}

var roleForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)

// largestExpression and deepest bound an expression.
const (
	largestExpression = 4096
	deepest           = 50
)

// parseExpression reads an expression, and names the rules that it refers to: role:x, rule:y, @
// (everyone), ! (none), and, or, not and parentheses; not binds closest and or least, as in
// oslo.policy. Its other checks, and the empty expression, which there allows everyone, are errors.
func parseExpression(text string) (c check, refers []string, err error) {
	if len(text) > largestExpression {
		return nil, nil, fmt.Errorf("an expression has at most %d characters", largestExpression)
	}
	spaced := strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)
	p := &expressionParser{words: strings.Fields(spaced)}
	c, err = p.or(0)
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("%q is not expected here", p.words[0])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%q: %w", text, err)
	}
	return c, p.refers, nil
}

type expressionParser struct {
	words  []string
	refers []string
}

// take removes the next word if it is this one, in any case.
func (p *expressionParser) take(word string) bool {
	if len(p.words) == 0 || !strings.EqualFold(p.words[0], word) {
		return false
	}
	p.words = p.words[1:]
	return true
}

func (p *expressionParser) or(depth int) (check, error) {
	left, err := p.and(depth)
	if err != nil || !p.take("or") {
		return left, err
	}
	right, err := p.or(depth)
	return func(p *Policy, who Principal) bool { return left(p, who) || right(p, who) }, err
}

func (p *expressionParser) and(depth int) (check, error) {
	left, err := p.one(depth)
	if err != nil || !p.take("and") {
		return left, err
	}
	right, err := p.and(depth)
	return func(p *Policy, who Principal) bool { return left(p, who) && right(p, who) }, err
}

func (p *expressionParser) one(depth int) (check, error) {
	switch {
	case depth > deepest:
		return nil, errors.New("it is nested too deeply")
	case len(p.words) == 0:
		return nil, errors.New("a check is missing at its end")
	case p.take("not"):
		c, err := p.one(depth + 1)
		return func(p *Policy, who Principal) bool { return !c(p, who) }, err
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
		p.refers = append(p.refers, name)
		return func(p *Policy, who Principal) bool { return p.Allows(name, who) }, nil
	}
	return nil, fmt.Errorf("%q is not role:NAME, rule:NAME, @, !, and, or, not or a parenthesis", word)
}
