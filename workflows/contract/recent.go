package contract

import "slices"

// RecentUpdate is an update that was carried out. Refusal is set if it failed.
type RecentUpdate struct {
	ID      string   `json:"id"`
	Refusal *Refusal `json:"refusal,omitempty"`
}

// RecentUpdates are the last updates by ID with their outcome, the latest last (KeptUpdates).
type RecentUpdates []RecentUpdate

// With returns the updates with one more, or with another outcome of one that is in them.
func (l RecentUpdates) With(update RecentUpdate) RecentUpdates {
	if at := l.index(update.ID); at >= 0 {
		l = slices.Clone(l)
		l[at] = update
		return l
	}
	return append(slices.Clone(l[max(len(l)+1-KeptUpdates, 0):]), update)
}

// Find finds an update by its ID.
func (l RecentUpdates) Find(id string) (RecentUpdate, bool) {
	if at := l.index(id); at >= 0 {
		return l[at], true
	}
	return RecentUpdate{}, false
}

// OtherBody says that an update with this ID's key and another body is in them.
func (l RecentUpdates) OtherBody(id string) bool {
	return slices.ContainsFunc(l, func(u RecentUpdate) bool { return OtherBody(u.ID, id) })
}

func (l RecentUpdates) index(id string) int {
	return slices.IndexFunc(l, func(u RecentUpdate) bool { return u.ID == id })
}
