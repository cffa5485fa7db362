package lifecycle

import (
	"testing"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// AddVerb has every device take a verb for the time of a test: it is refused of a device that an
// instance has, and else answered with its reason.
func AddVerb(t *testing.T, v contract.Verb) {
	before := acts
	t.Cleanup(func() { acts = before })
	acts = append(acts[:len(acts):len(acts)], &update[operations, contract.ReasonInput]{asked: v,
		validate: func(d operations, _ contract.ReasonInput) error {
			if has := d.tenant(); has != "" {
				return d.Refuse(device.CodeInUse, "instance "+has+" has the device", "wait for its unbind")
			}
			return nil
		},
		do: func(d operations, _ workflow.Context, in contract.ReasonInput) (contract.Result, error) {
			return contract.Result{Device: d.Status(), Note: in.Reason}, nil
		},
		ahead: func(d operations, in contract.ReasonInput) (contract.DryRun, error) {
			return d.asItIs(false, in.Reason)
		},
	})
}
