package access

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// largestExpression bounds an expression.
const largestExpression = 4096

// operators are oslo.policy's in Go, where they bind as they do there: not closest, and or least.
var operators = map[string]string{"and": "&&", "or": "||", "not": "!", "(": "(", ")": ")"}

// parseExpression reads an expression, and names the rules that it refers to: role:x, rule:y, @
// (everyone), ! (none), and, or, not and parentheses, as in oslo.policy. Its other checks, and the
// empty expression, which there allows everyone, are errors.
func parseExpression(text string) (c check, refers []string, err error) {
	if len(text) > largestExpression {
		return nil, nil, fmt.Errorf("an expression has at most %d characters", largestExpression)
	}
	var inGo strings.Builder
	checks := map[string]check{}
	for _, word := range strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)) {
		term := operators[strings.ToLower(word)]
		if term == "" {
			term = fmt.Sprintf("c%d", len(checks))
			kind, name, _ := strings.Cut(word, ":")
			switch {
			case word == "@" || word == "!":
				checks[term] = always(word == "@")
			case kind == "role" && roleForm.MatchString(name):
				checks[term] = role(strings.ToLower(name))
			case kind == "rule" && name != "":
				refers = append(refers, name)
				checks[term] = func(p *Policy, who Principal) bool { return p.Allows(name, who) }
			default:
				return nil, nil, fmt.Errorf("%q: %q is not role:NAME, rule:NAME, @, !, and, or, not or a parenthesis", text, word)
			}
		}
		inGo.WriteString(term + " ")
	}
	tree, err := parser.ParseExpr(inGo.String())
	if err == nil {
		c, err = checkOf(tree, checks)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%q: it is not checks joined by and, or, not and parentheses", text)
	}
	return c, refers, nil
}

// checkOf is the check that an expression of Go stands for.
func checkOf(tree ast.Expr, checks map[string]check) (check, error) {
	switch e := tree.(type) {
	case *ast.Ident:
		return checks[e.Name], nil
	case *ast.ParenExpr:
		return checkOf(e.X, checks)
	case *ast.UnaryExpr:
		c, err := checkOf(e.X, checks)
		return func(p *Policy, who Principal) bool { return !c(p, who) }, err
	case *ast.BinaryExpr:
		left, err := checkOf(e.X, checks)
		right, wrong := checkOf(e.Y, checks)
		both := e.Op == token.LAND
		return func(p *Policy, who Principal) bool {
			return left(p, who) && right(p, who) || !both && (left(p, who) || right(p, who))
		}, cmp.Or(err, wrong)
	}
	return nil, fmt.Errorf("%T", tree)
}
