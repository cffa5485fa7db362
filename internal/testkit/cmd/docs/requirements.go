package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// shownTests is how many tests a row names; the rest is counted.
const shownTests = 4

var (
	// requirementRow is a row of the page: number, sentence, tests or why there are none.
	requirementRow = regexp.MustCompile(`^\| (S[0-4]\.[0-9]+) \| (.*?) \| (.*) \|$`)
	// ruleRow is a rule or decision of safety.md; its title is what stands in bold.
	ruleRow = regexp.MustCompile(`(?m)^\| ([FD][0-9]+)(?: \(M\))? \| \*\*(.*?)\*\*(.*)\|$`)
)

// requirementsPage gives the page with the tests of each number, or every mistake of page and
// comments at once.
func requirementsPage(root, page string) (string, error) {
	safety, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	if err != nil {
		return "", err
	}
	cited, err := citations(root)
	if err != nil {
		return "", err
	}
	known := map[string]bool{}
	var problems []error
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		row := requirementRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		n, sentence, why := row[1], row[2], row[3]
		if known[n] {
			problems = append(problems, fmt.Errorf("%s is listed twice", n))
		}
		known[n] = true
		have := tests(cited[n])
		switch explained := strings.HasPrefix(why, "planned") || strings.HasPrefix(why, "["); {
		case len(have) > 0:
			why = summary(have)
		case !explained:
			problems = append(problems, fmt.Errorf("%s has no test: %s", n, sentence))
		}
		lines[i] = fmt.Sprintf("| %s | %s | %s |", n, sentence, why)
	}
	var rules strings.Builder
	rules.WriteString("| number | rule | tests |\n|---|---|---|\n")
	for _, row := range ruleRow.FindAllStringSubmatch(string(safety), -1) {
		n, title, text := row[1], strings.TrimSuffix(row[2], "."), row[3]
		known[n] = true
		have := tests(cited[n])
		shown := summary(have)
		if len(have) == 0 {
			shown = "planned"
			if !strings.Contains(text, "*Planned.*") {
				problems = append(problems, fmt.Errorf("safety.md: %s has no test: %s", n, title))
			}
		}
		fmt.Fprintf(&rules, "| %s | [%s](safety.md) | %s |\n", n, title, shown)
	}
	for _, n := range slices.Sorted(maps.Keys(cited)) {
		if !known[n] {
			problems = append(problems, fmt.Errorf("%s cites %s, which neither requirements.md nor safety.md lists",
				cited[n][0].Place, n))
		}
	}
	if len(problems) > 0 {
		return "", errors.Join(problems...)
	}
	return between(strings.Join(lines, "\n"), "safety", rules.String())
}

// summary names some tests and counts the others.
func summary(names []string) string {
	shown := names[:min(len(names), shownTests)]
	quoted := make([]string, len(shown))
	for i, name := range shown {
		quoted[i] = "`" + name + "`"
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
