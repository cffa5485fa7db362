package contract

import "burnish/internal/device"

// PowerInput is the input of power. Target is on, off or reset. Instance is as in TenantInput.
type PowerInput struct {
	Target   string `json:"target"`
	Instance string `json:"instance,omitempty" flag:"instance" help:"UUID: the instance that has the device"`
	Reason   string `json:"reason,omitempty" flag:"reason"`
	Caller   `api:"-"`
}

// PowerCall is the input of the activity Power. Without an Action it reads the state.
type PowerCall struct {
	Enrollment Enrollment      `json:"enrollment"`
	Identity   device.Identity `json:"identity"`
	Action     string          `json:"action,omitempty"`
	// Seq and Binding are the workflow's: a host that knows later ones refuses.
	Seq     int64 `json:"seq,omitempty"`
	Binding int   `json:"binding,omitempty"`
}

// PowerResult is its result: on, off, or the hardware's own word; "" if it was not read.
type PowerResult struct {
	State string `json:"state,omitempty"`
}
