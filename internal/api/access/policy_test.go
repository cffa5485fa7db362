package access

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func withRoles(roles ...string) Principal {
	return Principal{ID: "token:x", Name: "x", Roles: roles}
}

func writePolicy(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	file := filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// changes are some of the rules that need an administrator.
var changes = []string{"cyborg:device:clean", "cyborg:device:power", "cyborg:device:provide", "cyborg:instance:bind"}

// S2.76: role:admin by default.
//
// S3.38
func TestByDefaultReadersReadAndAdminsAct(t *testing.T) {
	p, err := ReadPolicy("", changes)
	require.NoError(t, err)
	reading := []string{"cyborg:device:get_all", "cyborg:device:get_one"}
	for _, rule := range slices.Sorted(maps.Keys(defaults(changes))) {
		t.Run(rule, func(t *testing.T) {
			require.True(t, p.Allows(rule, withRoles("admin")))
			require.True(t, p.Allows(rule, withRoles("member", "Admin")), "roles are compared without case")
			require.Equal(t, slices.Contains(reading, rule), p.Allows(rule, withRoles("reader")))
			require.False(t, p.Allows(rule, withRoles("member", "administrator", "admi")))
			require.False(t, p.Allows(rule, withRoles()))
		})
	}
	require.False(t, p.Allows("cyborg:device:explode", withRoles("admin")))
	require.False(t, p.Allows("", withRoles("admin")))
}

func TestExpressionsAreThoseOfOsloPolicy(t *testing.T) {
	for expression, allowed := range map[string][]string{ // to whom: "" has no role
		"@":                                  {"", "a", "b", "a b"},
		"!":                                  {},
		"role:a":                             {"a", "a b"},
		"ROLE:a or role:b":                   nil,
		"role:A":                             {"a", "a b"},
		"role:a or role:b":                   {"a", "b", "a b"},
		"role:a and role:b":                  {"a b"},
		"role:a AND NOT role:b":              {"a"},
		"not role:a":                         {"", "b"},
		"not role:a and role:b":              {"b"},
		"not (role:a and role:b)":            {"", "a", "b"},
		"role:b or role:a and ! ":            {"b", "a b"},
		"(role:b or role:a) and !":           {},
		"((role:a))":                         {"a", "a b"},
		"not not role:a":                     {"a", "a b"},
		"role:a or (role:b and not(role:a))": {"a", "b", "a b"},
	} {
		t.Run(expression, func(t *testing.T) {
			c, _, err := parseExpression(expression)
			if allowed == nil {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			for _, roles := range []string{"", "a", "b", "a b"} {
				require.Equal(t, slices.Contains(allowed, roles), c(&Policy{}, withRoles(strings.Fields(roles)...)), "%q",
					roles)
			}
		})
	}
}

func TestABadExpressionIsRefused(t *testing.T) {
	for _, expression := range []string{
		"", " ", "role:", "rule:", "admin", "role:a role:b", "role:a or", "and role:a", "not", "(role:a", "role:a)", "()",
		"is_admin:True",
		"user_id:%(user_id)s", "role:%(x)s", "http://h/", "@ @", "role:a,role:b", "role:a (role:b)",
		"role:a && role:b", strings.Repeat("role:a or ", 500) + "role:b",
	} {
		_, _, err := parseExpression(expression)
		require.Error(t, err, "%q", expression)
	}
}

func TestTheFileReplacesDefaults(t *testing.T) {
	p, err := ReadPolicy(writePolicy(t, `
operators: "role:operator or rule:root"
root: role:admin
"cyborg:device:clean": rule:operators
cyborg:device:power: "!"
`), changes)
	require.NoError(t, err)
	require.True(t, p.Allows("cyborg:device:clean", withRoles("operator")))
	require.True(t, p.Allows("cyborg:device:clean", withRoles("admin")))
	require.False(t, p.Allows("cyborg:device:clean", withRoles("reader")))
	require.False(t, p.Allows("cyborg:device:power", withRoles("admin")))
	require.False(t, p.Allows("cyborg:device:provide", withRoles("operator")), "the others keep their default")
}

func TestAWrongPolicyFileIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"cyborg:device:cleen: '@'":                           `line 1: there is no rule "cyborg:device:cleen"`,
		"cyborg:devices:clean: '@'":                          `there is no rule "cyborg:devices:clean"`,
		"admins: role:admin":                                 `there is no rule "admins", and no other rule refers to it`,
		"cyborg:device:clean: role":                          `"role" is not role:NAME`,
		"cyborg:device:clean: ''":                            "is empty",
		"cyborg:device:clean: ":                              "must be text, not nothing",
		"cyborg:device:clean: [[role:admin]]":                "must be text, not a list",
		"cyborg:device:clean: true":                          "must be text",
		"cyborg:device:clean: rule:x":                        `there is no rule "x"`,
		"cyborg:device:clean: rule:cyborg:device:clean":      "refers to itself",
		"a: rule:b\nb: rule:a\ncyborg:device:clean: rule:a":  "refers to itself",
		"cyborg:device:clean: '@'\ncyborg:device:clean: '!'": "already defined",
		"- a": "must be a mapping",
		"cyborg:device:clean: '@'\n---\ncyborg:device:clean: a": "second document",
		"a: *b": "",
	} {
		t.Run(text, func(t *testing.T) {
			file := writePolicy(t, text)
			_, err := ReadPolicy(file, changes)
			require.ErrorContains(t, err, says)
			for line := range strings.SplitSeq(err.Error(), "\n") {
				require.True(t, strings.HasPrefix(line, file+": "), line)
			}
		})
	}
	file := writePolicy(t, "cyborg:device:clean: '@'")
	require.NoError(t, os.Chmod(file, 0o666))
	_, err := ReadPolicy(file, changes)
	require.ErrorContains(t, err, file, "who may write the policy may do everything")
	_, err = ReadPolicy(filepath.Join(t.TempDir(), "none.yaml"), changes)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAnEmptyPolicyFileIsTheDefaults(t *testing.T) {
	p, err := ReadPolicy(writePolicy(t, "# nothing yet\n"), changes)
	require.NoError(t, err)
	require.True(t, p.Allows("cyborg:device:clean", withRoles("admin")))
	require.False(t, p.Allows("cyborg:device:clean", withRoles("reader")))
}
