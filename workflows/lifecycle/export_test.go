package lifecycle

import (
	"testing"

	"burnish/internal/device"
	core "burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// AddVerb has every device take a verb for the time of a test: it is refused of a device that an
// instance has, and else answered with its reason.
func AddVerb(t *testing.T, v contract.Verb) {
	t.Cleanup(core.Extend(v,
		func(d *core.State, _ contract.ReasonInput) error {
			if has := d.Tenant(); has != "" {
				return d.Refuse(contract.Refusal{Fault: device.Fault{Code: device.CodeInUse,
					Message: "instance " + has + " has the device", Remedy: "wait for its unbind"}})
			}
			return nil
		},
		func(in contract.ReasonInput) string { return in.Reason }))
}
