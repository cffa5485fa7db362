package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"burnish/internal/device"
)

// RecentUpdate is an update that was carried out. Refusal is set if it failed.
type RecentUpdate struct {
	ID      string   `json:"id"`
	Refusal *Refusal `json:"refusal,omitempty"`
}

// RecentUpdates are the last updates by ID with their outcome, the latest last (KeptUpdates). In
// JSON they are a list of RecentUpdate; in memory they are packed, because each idle device of a
// worker has them.
type RecentUpdates []byte

// With returns the updates with one more, or with another outcome of one that is in them.
func (l RecentUpdates) With(update RecentUpdate) RecentUpdates {
	id := packText(make([]byte, 0, packedLength), update.ID)
	entry := packText(id, packedRefusal(update.Refusal))
	entries := (&unpacker{packed: l}).entries(KeptUpdates+1, (*unpacker).skipUpdate)
	if at := slices.IndexFunc(entries, func(e []byte) bool { return bytes.HasPrefix(e, id) }); at >= 0 {
		entries[at] = entry
	} else {
		entries = append(entries, entry)
	}
	return bytes.Join(entries[max(len(entries)-KeptUpdates, 0):], nil)
}

func (u *unpacker) skipUpdate() {
	u.textParts()
	u.textParts()
}

// Find finds an update by its ID.
func (l RecentUpdates) Find(id string) (RecentUpdate, bool) {
	packed := packText(make([]byte, 0, packedLength), id)
	for u := (unpacker{packed: l}); u.more(); {
		found := bytes.HasPrefix(u.packed, packed)
		u.textParts()
		if found {
			return RecentUpdate{ID: id, Refusal: readRefusal(u.text())}, true
		}
		u.textParts()
	}
	return RecentUpdate{}, false
}

// OtherBody says that an update with this ID's key and another body is in them.
func (l RecentUpdates) OtherBody(id string) bool {
	if !strings.Contains(id, requestMark) { // as most IDs
		return false
	}
	for u := (unpacker{packed: l}); u.more(); {
		if OtherBody(u.text(), id) {
			return true
		}
		u.textParts()
	}
	return false
}

// All are the updates, the latest last.
func (l RecentUpdates) All() []RecentUpdate {
	all := make([]RecentUpdate, 0, KeptUpdates)
	u := unpacker{packed: l}
	for u.grow(); u.more(); {
		id, refusal := u.text(), u.text()
		all = append(all, RecentUpdate{ID: id, Refusal: readRefusal(refusal)})
	}
	return all
}

// MarshalJSON writes the list.
func (l RecentUpdates) MarshalJSON() ([]byte, error) { return json.Marshal(l.All()) }

// UnmarshalJSON reads the list.
func (l *RecentUpdates) UnmarshalJSON(text []byte) error {
	all := make([]RecentUpdate, 0, KeptUpdates)
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the recent updates: %w", err)
	}
	packed := make([]byte, 0, len(text))
	for _, u := range all {
		packed = packText(packText(packed, u.ID), packedRefusal(u.Refusal))
	}
	*l = append([]byte(nil), packed...) // without free room
	return nil
}

func packedRefusal(r *Refusal) string {
	if r == nil {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil { // a time that JSON does not have
		return packedRefusal(unreadableRefusal(err))
	}
	return string(text)
}

func readRefusal(text string) *Refusal {
	if text == "" {
		return nil
	}
	var r Refusal
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return unreadableRefusal(err)
	}
	return &r
}

// unreadableRefusal is the outcome of an update that failed, and whose own refusal cannot be kept.
func unreadableRefusal(err error) *Refusal {
	return &Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: "it failed; why cannot be read: " + err.Error()}}
}
