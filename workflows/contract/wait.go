package contract

import (
	"fmt"
	"time"

	"burnish/internal/device"
)

// What a device waits for: the inventory, its host, a provider of Nova's that is gone, its
// return to the offer, the end of a pause that its workflow makes, the appliance of its shared
// pool, or in a runbook its operator (hold), a time (timer) or the others of its group (together).
const (
	WaitInventory = "inventory"
	WaitHost      = "host"
	WaitProvider  = "provider"
	WaitReturn    = "return"
	WaitPause     = "pause"
	WaitAppliance = "appliance"
	WaitHold      = "hold"
	WaitTimer     = "timer"
	WaitTogether  = "together"
)

// Wait is a wait of a device, with its cause. What failed is tried again all the time. The
// wait ends when a try succeeds, or when the work is given up.
type Wait struct {
	For   string       `json:"for"` // WaitInventory, …
	Fault device.Fault `json:"fault"`
	Since time.Time    `json:"since"`
	// CallAt is when the operator is called; zero is never. Called: he was.
	CallAt time.Time `json:"call_at,omitzero"`
	Called bool      `json:"called,omitempty"`
}

// WaitReport is what an activity reports by the signal observed, because its workflow cannot
// see it: that its attempts fail, or that an attempt makes no progress.
type WaitReport struct {
	For string `json:"for"`
	// Fault is the cause; without a Code the wait is over.
	Fault device.Fault `json:"fault,omitzero"`
	// Seq is the scheduling of the host's step that reports; 0 for other activities.
	Seq int64 `json:"seq,omitempty"`
	// Stalled: the activity waits longer than TellAfter already. Moving: it waits in a queue
	// that moves, and reports Stalled itself.
	Stalled bool `json:"stalled,omitempty"`
	Moving  bool `json:"moving,omitempty"`
}

// StatusWait is the wait that a status shows.
type StatusWait struct {
	For     string      `json:"for"`
	Code    device.Code `json:"code"`
	Message string      `json:"message"`
	Since   time.Time   `json:"since"`
	// Place is the device's place in the queue for a slot; only clients that ask the
	// workflow of the limits know it.
	Place int `json:"place,omitempty"`
}

// ForeignWrites counts the writes of other clients that had a device cleaned again.
type ForeignWrites struct {
	Count int       `json:"count"`
	At    time.Time `json:"at"` // the last one
}

// QueuedForSlot says that a clean waits for a slot, and its place in line, from 1.
func QueuedForSlot(place int) string {
	suffix := "th"
	if teens := place % 100; teens < 11 || teens > 13 {
		switch place % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("queued for a slot (%d%s in line)", place, suffix)
}
