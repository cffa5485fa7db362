package api

import (
	"context"
	"fmt"

	"burnish/internal/clean/steps"
	"burnish/workflows/contract"
)

// listCleaningSteps is GET …/cleaning/steps: a bare list of what a full clean would do. // S3.31
func listCleaningSteps(ctx context.Context, c *call) (any, error) {
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	v, err := c.status(ctx)
	if err != nil {
		return nil, err
	}
	return append([]contract.CleanStep{}, v.Steps...), nil
}

// checkInterfaces compares the interfaces that a body names with the steps' own.
func checkInterfaces(in contract.CleanBody) error {
	for _, s := range in.CleanSteps {
		known, ok := stepsByName[s.Step] // the workflow refuses a step that it does not know
		if s.Interface != "" && ok && s.Interface != string(known.Interface) {
			what := fmt.Sprintf("the step %s has the interface %s, not %s", s.Step, known.Interface, s.Interface)
			return invalid(what, "name its own interface, or none")
		}
	}
	return nil
}

var stepsByName = func() map[string]steps.Step {
	all := map[string]steps.Step{}
	for _, s := range steps.All() {
		all[s.Name] = s
	}
	return all
}()
