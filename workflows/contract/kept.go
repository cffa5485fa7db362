package contract

import "encoding/json"

// The bounded lists of a device are decoded into what they may take: decoding grows a list by
// doubling, and each idle device of a worker would keep what that left over.

// UnmarshalJSON decodes the list.
func (l *Bindings) UnmarshalJSON(text []byte) (err error) {
	*l, err = decodeKept[Bindings](text, KeptBindings)
	return err
}

// UnmarshalJSON decodes the list.
func (l *RecentUpdates) UnmarshalJSON(text []byte) (err error) {
	*l, err = decodeKept[RecentUpdates](text, KeptUpdates)
	return err
}

// UnmarshalJSON decodes the list.
func (l *ActLog) UnmarshalJSON(text []byte) (err error) {
	*l, err = decodeKept[ActLog](text, KeptActs)
	return err
}

func decodeKept[L ~[]T, T any](text []byte, most int) (L, error) {
	list := make([]T, 0, most)
	err := json.Unmarshal(text, &list)
	return list, err
}
