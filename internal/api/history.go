package api

import (
	"cmp"
	"context"

	"burnish/internal/device"
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

// history is what happened to a device, the newest last.
type history struct {
	Name     string                  `json:"name"`
	UUID     string                  `json:"uuid"`
	State    device.State            `json:"device_state"`
	Bindings []device.Binding        `json:"bindings"`
	Cleans   []contract.CleanSummary `json:"cleans"`
	Acts     []contract.Act          `json:"acts"`
}

// showHistory is GET …/history.
func showHistory(ctx context.Context, c *call) (any, error) {
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	v, unanswered, err := c.read(ctx)
	if err := cmp.Or(err, unanswered); err != nil { // only the workflow knows its history
		return nil, err
	}
	return history{v.Name, v.UUID, v.DeviceState, append([]device.Binding{}, v.Bindings...),
		append([]contract.CleanSummary{}, v.Cleans...), append([]contract.Act{}, v.Acts...)}, nil
}
