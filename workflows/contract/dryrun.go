package contract

import (
	"encoding/json"

	"burnish/internal/device"
)

// LabelInput changes a device's labels.
type LabelInput struct {
	device.LabelChange
	Reason string `json:"reason,omitempty" flag:"reason"`
	Caller `api:"-"`
}

// DryRunInput asks what an update would do: its name and its input.
type DryRunInput struct {
	Update string          `json:"update"`
	Input  json.RawMessage `json:"input"`
}

// DryRun is what an update would do now, as far as the device's workflow knows: what its host,
// its inventory or its appliance say is asked only when it is done.
type DryRun struct {
	// State is the device's next state; that of a device that is forgotten or moved away is "".
	State device.State `json:"state"`
	// Already: nothing would change.
	Already bool `json:"already,omitempty"`
	// Steps are those of the clean that it would start, in order.
	Steps []string `json:"steps,omitempty"`
	// Instance is the instance whose binding it would end.
	Instance string `json:"instance,omitempty"`
	// Note is what else is to be known, in one line.
	Note string `json:"note,omitempty"`
	// Refusal says why the update would be refused; nothing else is set then.
	Refusal *Refusal `json:"refusal,omitempty"`
}
