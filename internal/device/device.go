// Package device holds the two tables that decide: what a device is, which events are
// legal in which state, and what each leads to. It imports the standard library
// only, keeps no clock and does no I/O; the workflow asks it, and obeys.
package device

import "time"

// State is where a device stands between two tenants (S2.39, S3.17, S2.84).
type State string

// The states of a device.
const (
	// Unknown: nothing proves what happened to the device. It stays reserved until its
	// inventory was read (S2.84).
	Unknown State = "unknown"
	// Manageable: the operator has the device; no tenant can get it.
	Manageable State = "manageable"
	// Available: a tenant may get the device, if it is allocatable (Device.Allocatable).
	Available State = "available"
	// Allocated: a tenant has it.
	Allocated State = "allocated"
	// PendingCleaning: a clean is due. It starts by itself unless it awaits a manual clean.
	PendingCleaning State = "pending_cleaning"
	// Cleaning: a clean runs, or its device is being returned.
	Cleaning State = "cleaning"
	// Error: an operator must act; the device stays reserved.
	Error State = "error"
	// Retired: out of service, permanently reserved.
	Retired State = "retired"
)

// States lists every state in the order in which people meet them.
func States() []State {
	return []State{Unknown, Manageable, Available, Allocated, PendingCleaning, Cleaning, Error, Retired}
}

// Status is Cyborg's administrative switch, orthogonal to State (S2.50).
type Status string

// The two values of Status.
const (
	Enabled     Status = "enabled"
	Maintaining Status = "maintaining"
)

// Maintenance is the typed reason of the maintenance flag (D3); empty is off.
type Maintenance string

// The reasons for maintenance.
const (
	MaintenanceOff         Maintenance = ""
	MaintenanceOperator    Maintenance = "operator"
	MaintenanceCleanFailed Maintenance = "clean_failed"
	MaintenanceTaken       Maintenance = "taken"
	MaintenanceQuarantined Maintenance = "quarantined"
)

// Owner says who makes a device's allocations in the inventory (SAFETY F6).
type Owner string

// The two owners.
const (
	// OwnerSelf: Burnish burns at bind and makes no allocation, so that an
	// inventory's used = 0 proves nothing.
	OwnerSelf Owner = "self"
	// OwnerNova: Nova allocates and burns; a binding is the consumer observed.
	OwnerNova Owner = "nova"
)

// Claim reserves the right to burn until Deadline; no other claim or bind is
// accepted meanwhile. Burning is set by the start of the burn: from then on the
// device counts as used by a tenant, whatever comes of the burn.
type Claim struct {
	Instance string    `json:"instance"`
	Request  string    `json:"request,omitempty"`
	Tag      string    `json:"tag,omitempty"`
	Deadline time.Time `json:"deadline"`
	Burning  bool      `json:"burning,omitempty"`
	// Managed: the instance's own workflow asked for the claim, and will hold the binding.
	Managed bool `json:"managed,omitempty"`
}

// Binding is the device in use by one instance. Number counts a device's bindings, from 1.
type Binding struct {
	Number   int    `json:"number"`
	Instance string `json:"instance"`
	Request  string `json:"request,omitempty"`
	Tag      string `json:"tag,omitempty"`
	// Observed: the inventory showed this consumer; no bind update made the binding.
	Observed bool `json:"observed,omitempty"`
	// Managed: the instance's own workflow holds the binding, and is to know when it ends.
	Managed bool `json:"managed,omitempty"`
	// Held: an operator held the device when the inventory showed this use. It is the operator's again when the use
	// ends (SAFETY F43).
	Held bool `json:"held,omitempty"`
	// Ended says who ended the binding other than by an unbind, and how. Only the history
	// has it.
	Ended string `json:"ended,omitempty"`
	// Began and Over say when it began and ended, by whom and why. Only a listing of the
	// history has them, as far as they are kept.
	Began *Moment `json:"began,omitempty"`
	Over  *Moment `json:"over,omitempty"`
}

// Moment is when something began or ended. Verb is the request that did it, or the event; By
// is who sent it, "" if that is not known.
type Moment struct {
	At     time.Time `json:"at"`
	Verb   string    `json:"verb,omitempty"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Unit is the hardware in the device's slot; Number counts replacements.
type Unit struct {
	Number int    `json:"number"`
	Serial string `json:"serial,omitempty"`
}

// Device is everything that decides what may happen next. Its zero value is not
// a device; New makes one.
type Device struct {
	State       State       `json:"state"`
	Dirty       bool        `json:"dirty"`
	Status      Status      `json:"status"`
	Maintenance Maintenance `json:"maintenance,omitempty"`
	Claim       *Claim      `json:"claim,omitempty"`
	Binding     *Binding    `json:"binding,omitempty"`
	Bindings    int         `json:"bindings,omitempty"` // the number of the last binding
	Unit        Unit        `json:"unit"`
	// NotSanitized: Dirty was cleared without a full plan (D2, D4, D7). The next full
	// plan ends it.
	NotSanitized bool `json:"not_sanitized,omitempty"`
	// Returning: the device is clean and its reservation is being lowered; the
	// only time at which reserved may be 0 in a state other than available.
	Returning bool `json:"returning,omitempty"`
	// NamedSteps: the clean under way runs steps that an operator named; it cannot
	// make the device clean (SAFETY F7).
	NamedSteps bool `json:"named_steps,omitempty"`
	// AwaitingManualClean: automated cleaning is off, and the device waits in
	// pending_cleaning for the operator's clean (D7).
	AwaitingManualClean bool `json:"awaiting_manual_clean,omitempty"`
	// Unseen: the hardware was out of Burnish's hands since its host last saw the enrolled
	// identity. While it is set, nothing lowers the reservation (SAFETY F27). A dirty device
	// needs a full plan, whose verify is such a look.
	Unseen bool `json:"unseen,omitempty"`
	// LostRace: the pool took the device between the last poll and a bind (S4.13).
	LostRace bool `json:"lost_race,omitempty"`

	OneTimeUse bool  `json:"one_time_use,omitempty"`
	Owner      Owner `json:"owner"`
	// Cleanable: an erase path and its verify are locked in for this device.
	Cleanable bool `json:"cleanable,omitempty"`
}

// Allocatable says whether the device may be handed to a tenant: exactly then its
// reservation in the inventory is 0 (S2.40).
func (d Device) Allocatable() bool {
	return d.State == Available && d.Status == Enabled && d.Maintenance == MaintenanceOff && d.Claim == nil
}

// InMaintenance says that the operator or another system keeps the device out of the
// pool.
func (d Device) InMaintenance() bool {
	return d.Status != Enabled || d.Maintenance != MaintenanceOff
}
