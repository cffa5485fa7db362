package client

import (
	"slices"
	"strings"
	"unicode"
)

// running selects the workflows of one type that have not ended.
func running(workflowType string) string {
	return "WorkflowType = " + literal(workflowType) + " AND ExecutionStatus = 'Running'"
}

// joined joins terms that must all hold; an empty one holds for all.
func joined(terms ...string) string {
	return strings.Join(slices.DeleteFunc(terms, func(t string) bool { return t == "" }), " AND ")
}

// anyOf selects the workflows whose attribute has one of the values. Temporal's SQL stores
// cannot compare every value: the server trims quotes off both ends, and escapes a
// backslash, a double quote or a control character for MySQL, even if it runs on
// SQLite or PostgreSQL. For such a value anyOf compares the part before the first of
// them; "" if there is none. The caller filters the server's results again.
func anyOf(attribute string, values []string) string {
	var exact, terms []string
	for _, value := range values {
		v := stored(value)
		i := strings.IndexFunc(v, func(r rune) bool { return r == '\'' || r == '"' || r == '\\' || unicode.IsControl(r) })
		switch {
		case i < 0:
			exact = append(exact, literal(v))
		case i == 0:
			return ""
		default:
			terms = append(terms, attribute+" STARTS_WITH "+literal(v[:i]))
		}
	}
	switch len(exact) {
	case 0:
	case 1:
		terms = append(terms, attribute+" = "+exact[0])
	default:
		terms = append(terms, attribute+" IN ("+strings.Join(exact, ", ")+")")
	}
	if len(terms) > 1 {
		return "(" + strings.Join(terms, " OR ") + ")"
	}
	return strings.Join(terms, "")
}

// literal is a string of Temporal's query language, whatever it contains.
func literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(stored(s)) + "'"
}

// stored is a string as a search attribute stores it: JSON replaces each byte that is
// not valid UTF-8.
func stored(s string) string { return string([]rune(s)) }
