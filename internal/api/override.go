package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Signer signs the acts of an override, by which a device's workflow knows that the API has
// authenticated who asks (D2).
type Signer interface {
	Sign(c contract.OverrideClaims) []byte
}

// overrideBody requests an override, by Reason and ExpiresAt, or approves the one whose ID is
// in Approve.
type overrideBody struct {
	Reason    string    `json:"reason,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Approve   string    `json:"approve,omitempty"`
}

func overrideRoute() route {
	r := act("override", v21, 0,
		"Request the return of a device in state error without a clean, or approve what another principal has requested", overrideDevice)
	r.Codes = append([]device.Code{device.CodeOverrideOff, device.CodeSamePrincipal, device.CodeOverrideUnsigned}, r.Codes...)
	return r
}

// overrideDevice signs the act for its caller, over what the device shows now. A device that
// has changed since, or is not in state error, refuses it; a repetition it answers as before.
func overrideDevice(ctx context.Context, c *call, in overrideBody) (any, error) {
	if c.Signer == nil {
		return nil, &device.Fault{Class: device.NeedsOperator, Code: device.CodeOverrideOff, Message: "overrides are off", Remedy: "set BURNISH_API_KEY for the control workers"}
	}
	v, err := c.Devices.Query(ctx, c.name)
	if err != nil {
		return nil, err
	}
	input := contract.OverrideInput{Reason: in.Reason, ExpiresAt: in.ExpiresAt, Approve: in.Approve, Principal: c.who.ID, Caller: c.caller()}
	if in.Approve == "" {
		input.ID = uuid.NewString()
	}
	if shown := v.Override; shown != nil && shown.Numbers != nil {
		input.Signature = c.Signer.Sign(input.Claims(v.UUID, *shown.Numbers, shown.Pending))
	}
	return c.result(c.Devices.Override(ctx, c.name, input))
}
