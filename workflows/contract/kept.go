package contract

import (
	"encoding/json"

	"burnish/internal/device"
)

// The bounded lists of a device are decoded into what they may take: decoding grows a list by
// doubling, and each idle device of a worker would keep what that left over.

// UnmarshalJSON decodes the list.
func (l *Bindings) UnmarshalJSON(text []byte) error {
	return decodeKept(text, (*[]device.Binding)(l), KeptBindings)
}

// UnmarshalJSON decodes the list.
func (l *RecentUpdates) UnmarshalJSON(text []byte) error {
	return decodeKept(text, (*[]RecentUpdate)(l), KeptUpdates)
}

// UnmarshalJSON decodes the list.
func (l *ActLog) UnmarshalJSON(text []byte) error { return decodeKept(text, (*[]Act)(l), KeptActs) }

func decodeKept[T any](text []byte, list *[]T, most int) error {
	*list = make([]T, 0, most)
	return json.Unmarshal(text, list)
}
