package contract

import "time"

// An override returns a device in state error to the offer without a clean (D2). One
// principal requests it, another one approves it. Each of the two acts carries a signature
// of the API, which alone knows who asked.

// MaxOverride is how far ahead the expiry of a request may be.
const MaxOverride = 24 * time.Hour

// OverrideAct is one of the two acts.
type OverrideAct string

// The acts.
const (
	OverrideRequest OverrideAct = "request"
	OverrideApprove OverrideAct = "approve"
)

// OverrideNumbers say in which situation a device is: each clean, binding and request of an
// override makes another one. They count from Since, when the device's workflow began.
type OverrideNumbers struct {
	Since    time.Time `json:"since"`
	Clean    int       `json:"clean"`
	Binding  int       `json:"binding"`
	Override int       `json:"override"`
}

// OverrideClaims are what the signature of an act is over. Another device, act, request,
// principal or situation has other claims, so that no signature counts twice.
type OverrideClaims struct {
	Device    string // its UUID
	Act       OverrideAct
	ID        string // of the request
	Reason    string
	ExpiresAt time.Time
	Principal string // the ID of who acts
	By        string // as OverrideInput.By
	Numbers   OverrideNumbers
}

// Override is a request of an override, and its approval. RequestedBy and ApprovedBy are for
// people, RequestedAs and ApprovedAs the IDs of the two principals.
type Override struct {
	ID          string    `json:"id"`
	Reason      string    `json:"reason"`
	ExpiresAt   time.Time `json:"expires_at"`
	RequestedBy string    `json:"requested_by"`
	RequestedAt time.Time `json:"requested_at"`
	RequestedAs string    `json:"requested_as"`
	ApprovedBy  string    `json:"approved_by,omitempty"`
	ApprovedAs  string    `json:"approved_as,omitempty"`
	ApprovedAt  time.Time `json:"approved_at,omitzero"`
}

// OverrideState is what a device's workflow keeps of overrides.
type OverrideState struct {
	// Number counts the requests.
	Number int `json:"number"`
	// Pending waits for its approval. It ends when anything but maintenance and power changes
	// the device.
	Pending *Override `json:"pending,omitempty"`
	// Approved is why the device is not sanitized.
	Approved *Override `json:"approved,omitempty"`
}

// StatusOverride is what clients read of overrides.
type StatusOverride struct {
	Pending  *Override `json:"pending,omitempty"`
	Approved *Override `json:"approved,omitempty"`
	// Numbers are there in state error, and only by the query: a signature is over them too.
	Numbers *OverrideNumbers `json:"numbers,omitempty"`
}

// OverrideNumbers are those of the device as it is now.
func (s *DeviceState) OverrideNumbers() OverrideNumbers {
	n := OverrideNumbers{Since: s.CreatedAt, Clean: s.Cleans, Binding: s.Device.Bindings}
	if s.Override != nil {
		n.Override = s.Override.Number
	}
	return n
}

// OverrideInput is one act of an override. The request gives Reason and ExpiresAt, the
// approval gives the request's ID in Approve.
type OverrideInput struct {
	Reason    string    `json:"reason,omitempty" flag:"reason"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Approve   string    `json:"approve,omitempty" flag:"approve" help:"ID: approve the request that burnish show NAME names so"`
	// ID is that of the request, which the API makes.
	ID string `json:"id,omitempty" api:"-"`
	// Principal is the unique ID of who acts, Signature the API's over the OverrideClaims.
	Principal string `json:"principal,omitempty" api:"-"`
	Signature []byte `json:"signature,omitempty" api:"-"`
	Caller    `api:"-"`
}

// Claims are what the act's signature is over: device is the UUID, numbers and pending are the
// device's. What an approval is for is the pending request, whatever its sender has read.
func (in OverrideInput) Claims(device string, numbers OverrideNumbers, pending *Override) OverrideClaims {
	c := OverrideClaims{
		Device: device, Act: OverrideRequest, ID: in.ID, Reason: in.Reason, ExpiresAt: in.ExpiresAt,
		Principal: in.Principal, By: in.By, Numbers: numbers,
	}
	if in.Approve != "" {
		c.Act, c.ID, c.Reason, c.ExpiresAt = OverrideApprove, in.Approve, "", time.Time{}
		if pending != nil {
			c.ID, c.Reason, c.ExpiresAt = pending.ID, pending.Reason, pending.ExpiresAt
		}
	}
	return c
}
