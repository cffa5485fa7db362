package mutation

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutation removes one promise from the product: old, which occurs in file exactly once,
// becomes new, and one of the tests that run names must fail.
type mutation struct {
	rule string // the number of the rule, if one states the promise
	name string // the promise

	file, old, new string

	pkg string
	run string // names of tests, "TestA TestB/sub"; or "cites F1": each test whose comment cites F1
}

var mutations = slices.Concat(
	lifecycleMutations, runbookMutations, overrideMutations,
	lostMutations, recordMutations, hardwareMutations, inTaskMutations, followMutations, oneHoldMutations,
	limitsMutations, pollMutations,
	hostMutations,
	stateDirMutations,
	telemetryMutations,
	journalMutations,
	leaseMutations,
	inventoryMutations,
	stepsMutations, offerMutations, watchedMutations,
	blockMutations,
	nvmeMutations, firmwareMutations, biosMutations,
	redfishMutations, redfishSessionMutations, redfishLostMutations,
	scriptMutations,
	poolCommandMutations, instanceCommandMutations, instanceDeviceMutations,
	remoteMutations,
	redfishDriveMutations,
	oneviewMutations, sharedPoolMutations,
	metadataMutations,
	accessMutations, apiMutations, listMutations, actMutations,
	guestDeviceMutations, guestMutations, instanceMutations, answerMutations,
)

// root is the repository's root, relative to this package.
const root = "../../.."

func TestEveryMutationHasItsPlace(t *testing.T) {
	tests := map[string]testsOf{}
	seen := map[string]bool{}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			require.False(t, seen[m.name], "two mutations have this name")
			seen[m.name] = true
			require.NotEqual(t, m.old, m.new)
			text, err := os.ReadFile(filepath.Join(root, m.file))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), m.old), "occurrences in %s of\n%s", m.file, m.old)
			if tests[m.pkg] == nil {
				tests[m.pkg], err = parseTests(filepath.Join(root, m.pkg))
				require.NoError(t, err)
			}
			_, _, err = tests[m.pkg].resolve(m.run)
			require.NoError(t, err, "in %s", m.pkg)
		})
	}
}

// TestEveryMarkedRuleHasAMutation reads the rules that docs/safety.md marks with (M).
func TestEveryMarkedRuleHasAMutation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	rules := map[string]bool{}
	for _, m := range mutations {
		rules[m.rule] = true
	}
	marked := regexp.MustCompile(`(?m)^\| (F\d+) \(M\) \|(.*)$`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, marked)
	for _, rule := range marked {
		planned := strings.Contains(rule[2], "*Planned.*")
		require.Equal(t, !planned, rules[rule[1]], "rule %s has a mutation, planned: %v", rule[1], planned)
	}
}
