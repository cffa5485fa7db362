package contract

import (
	"cmp"
	"slices"
	"time"

	"burnish/internal/device"
)

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

// ImportHistoryInput is what an export kept of a device. Cleans and acts have the latest last. What the device has, or
// cannot have had by its own numbers, is left out.
type ImportHistoryInput struct {
	Labels map[string]string `json:"labels,omitempty"`
	Cleans []CleanSummary    `json:"cleans,omitempty"`
	Acts   []Act             `json:"acts,omitempty"`
	Reason string            `json:"reason,omitempty" flag:"reason"`
	Caller `api:"-"`
}

// EventKind says which part of a history an Event is of. Their order is that of events of one
// moment: a request comes before what it leads to.
type EventKind int

// The kinds of events.
const (
	EventAct EventKind = iota
	EventBindingOver
	EventBindingBegan
	EventCleanBegan
	EventCleanEnded
)

// Event is one event of a history. Of the acts, bindings and cleans it has the one that it is
// of. By is who did it, ByBurnish if no person did, "" if that is not known.
type Event struct {
	At      time.Time
	Kind    EventKind
	By      string
	From    string
	Reason  string
	Act     *Act
	Binding *device.Binding
	Clean   *CleanSummary
}

// Events are all events of the history whose time is known, in the order of time.
func (h History) Events() []Event {
	var all []Event
	for i := range h.Acts {
		a := &h.Acts[i]
		all = append(all, Event{At: a.At, Kind: EventAct, By: a.By, From: a.From, Reason: a.Reason, Act: a})
	}
	for i := range h.Bindings {
		b := &h.Bindings[i]
		for kind, m := range map[EventKind]*device.Moment{EventBindingBegan: b.Began, EventBindingOver: b.Over} {
			if m != nil {
				all = append(all, Event{At: m.At, Kind: kind, By: m.By, Reason: m.Reason, Binding: b})
			}
		}
	}
	for i := range h.Cleans {
		c := &h.Cleans[i]
		if c.Override == nil {
			all = append(all, Event{At: c.StartedAt, Kind: EventCleanBegan, By: c.By, Reason: c.Reason, Clean: c})
		}
		ended := Event{At: c.EndedAt, Kind: EventCleanEnded, By: ByBurnish, Clean: c}
		if c.Failure != nil {
			ended.Reason = c.Failure.Message
		}
		all = append(all, ended)
	}
	slices.SortStableFunc(all, func(a, b Event) int {
		return cmp.Or(a.At.Truncate(time.Millisecond).Compare(b.At.Truncate(time.Millisecond)), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.number(), b.number()))
	})
	return all
}

func (e Event) number() int {
	switch {
	case e.Binding != nil:
		return e.Binding.Number
	case e.Clean != nil:
		return e.Clean.Number
	}
	return 0
}
