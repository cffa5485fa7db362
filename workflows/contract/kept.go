package contract

import "encoding/json"

// The bounded lists of a device are decoded into what they may take: decoding grows a list by
// doubling, and each idle device of a worker would keep what that left over.

// UnmarshalJSON decodes the list.
func (l *Bindings) UnmarshalJSON(text []byte) (err error) {
	*l, err = decodeKept(text, *l, KeptBindings)
	return err
}

// UnmarshalJSON decodes the list.
func (l *RecentUpdates) UnmarshalJSON(text []byte) (err error) {
	*l, err = decodeKept(text, *l, KeptUpdates)
	return err
}

// UnmarshalJSON decodes the list.
func (l *ActLog) UnmarshalJSON(text []byte) (err error) {
	*l, err = decodeKept(text, *l, KeptActs)
	return err
}

func decodeKept[L ~[]T, T any](text []byte, _ L, most int) (L, error) {
	list := make([]T, 0, most)
	err := json.Unmarshal(text, &list)
	return list, err
}
