package api

import (
	"context"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Signer signs the acts of an override, by which a device's workflow knows that the API has
// authenticated who asks (D2).
type Signer interface {
	Sign(c contract.OverrideClaims) []byte
}

// signed signs the act for its caller, over what the device shows now. A device that
// has changed since, or is not in state error, refuses it; a repetition it answers as before.
func (c *call) signed(ctx context.Context, in contract.OverrideInput) (contract.OverrideInput, error) {
	if c.Signer == nil {
		return in, &device.Fault{Class: device.NeedsOperator, Code: device.CodeOverrideOff,
			Message: "overrides are off", Remedy: "set BURNISH_API_KEY for the control workers"}
	}
	v, err := c.Devices.Query(ctx, c.name)
	if err != nil {
		return in, err
	}
	in.Principal = c.who.ID
	if in.Approve == "" {
		in.ID = uuid.NewString()
	}
	if shown := v.Override; shown != nil && shown.Numbers != nil {
		in.Signature = c.Signer.Sign(in.Claims(v.UUID, *shown.Numbers, shown.Pending))
	}
	return in, nil
}
