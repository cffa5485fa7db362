package api

import (
	"context"
	"encoding/json"
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

// cleanBody is the body of POST …/clean. Without steps and runbook it is a full clean.
type cleanBody struct {
	CleanSteps []namedStep `json:"clean_steps,omitempty"`
	Runbook    string      `json:"runbook,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

// namedStep is a step that the caller names. Interface must be the step's own, or is left out.
type namedStep struct {
	Interface string          `json:"interface,omitempty"`
	Step      string          `json:"step"`
	Args      json.RawMessage `json:"args,omitempty"`
}

// check compares the interface with the step's own.
func (s namedStep) check() error {
	known, ok := stepsByName[s.Step]
	if s.Interface == "" || !ok || s.Interface == string(known.Interface) {
		return nil // the workflow refuses a step that it does not know
	}
	return invalid(fmt.Sprintf("the step %s has the interface %s, not %s", s.Step, known.Interface, s.Interface), "name its own interface, or none")
}

var stepsByName = func() map[string]steps.Step {
	all := map[string]steps.Step{}
	for _, s := range steps.All() {
		all[s.Name] = s
	}
	return all
}()

// cleanDevice asks for a clean. // S2.73
func cleanDevice(ctx context.Context, c *call, in cleanBody) (any, error) {
	input, err := in.input()
	if err != nil {
		return nil, err
	}
	input.Caller = c.caller()
	return c.result(c.Devices.Clean(ctx, c.name, input))
}

// input is the body as the workflow takes it.
func (in cleanBody) input() (contract.CleanInput, error) {
	input := contract.CleanInput{Reason: in.Reason, Runbook: in.Runbook}
	for _, s := range in.CleanSteps {
		if err := s.check(); err != nil {
			return input, err
		}
		input.Steps = append(input.Steps, s.Step)
		if len(s.Args) > 0 {
			if input.Args == nil {
				input.Args = map[string]json.RawMessage{}
			}
			input.Args[s.Step] = s.Args
		}
	}
	return input, nil
}
