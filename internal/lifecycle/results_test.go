package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// F26
func TestACleanEndsOnlyWithAResultOfEachPlannedStep(t *testing.T) {
	run := func(plan []string, results ...string) *contract.CleanRun {
		r := &contract.CleanRun{}
		for _, step := range plan {
			r.Plan = append(r.Plan, contract.Planned{Step: step})
		}
		for _, step := range results {
			r.Results = append(r.Results, contract.StepResult{Step: step})
		}
		return r
	}
	plan := []string{"zero", "verify"}
	require.Nil(t, incomplete(run(plan, "zero", "verify")))
	for what, r := range map[string]*contract.CleanRun{
		"no plan":               run(nil),
		"no result":             run(plan),
		"no zero":               run(plan, "verify"),
		"no verify":             run(plan, "zero"),
		"twice the same result": run(plan, "verify", "verify"),
		"another order":         run(plan, "verify", "zero"),
		"more than planned":     run(plan, "zero", "verify", "verify"),
	} {
		f := incomplete(r)
		require.NotNil(t, f, what)
		require.Equal(t, device.CodeResultMismatch, f.Code, what)
		require.Equal(t, device.NeedsOperator, f.Class, what)
	}
}
