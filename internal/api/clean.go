package api

import (
	"fmt"

	"burnish/internal/clean/steps"
	"burnish/workflows/contract"
)

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
