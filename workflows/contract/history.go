package contract

import "burnish/internal/device"

// History is what happened to a device, the newest last: the answer of the HTTP API, and of
// `burnish history`.
type History struct {
	Name     string           `json:"name"`
	UUID     string           `json:"uuid"`
	State    device.State     `json:"device_state"`
	Bindings []device.Binding `json:"bindings"`
	Cleans   []CleanSummary   `json:"cleans"`
	Acts     []Act            `json:"acts"`
}

// HistoryOf is the history in a device's status. What it has none of is an empty list.
func HistoryOf(v DeviceStatus) History {
	return History{
		Name: v.Name, UUID: v.UUID, State: v.DeviceState,
		Bindings: append([]device.Binding{}, v.Bindings...),
		Cleans:   append([]CleanSummary{}, v.Cleans...),
		Acts:     append([]Act{}, v.Acts...),
	}
}
