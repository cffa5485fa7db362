// Package contract is the face of Burnish's workflows that everyone may import:
// names, inputs, messages, what survives a continue-as-new, and what is shown.
// Fields are only ever added, never renamed: running devices carry them.
package contract

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
)

// WorkflowDeviceLifecycle is the type of the one workflow per device.
const WorkflowDeviceLifecycle = "DeviceLifecycle"

// Queue takes workflows and control activities.
const Queue = "burnish"

// HostQueue takes the hardware steps of one host.
func HostQueue(host string) string { return "burnish-host." + strings.ToLower(host) }

// WorkflowID is the device's workflow ID; name is canonical.
func WorkflowID(name string) string { return "device/" + name }

// DeviceUUID is the device's UUID, the same wherever it is computed; name is
// canonical.
func DeviceUUID(name string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("burnish:device:"+name)).String()
}

// TaskTimeout is how long a workflow task may take before the server gives it to
// another worker: what a kill -9 in the middle of one costs.
const TaskTimeout = 3 * time.Second

// Updates: validated, answered, and idempotent by what DeviceState remembers.
const (
	UpdateEnroll   = "enroll"
	UpdateProvide  = "provide"
	UpdateClaim    = "claim"
	UpdateBurn     = "burn"
	UpdateUnclaim  = "unclaim"
	UpdateBind     = "bind"
	UpdateUnbind   = "unbind"
	UpdateRebuild  = "rebuild"
	UpdateClean    = "clean"
	UpdateAbort    = "abort"
	UpdateManage   = "manage"
	UpdateMaintain = "maintain"
	UpdateRetire   = "retire"
	UpdateForget   = "forget"
	UpdateReplace  = "replace"
	UpdateMove     = "move"
)

// Signals: hints. None moves the state by itself, but for clean.
const (
	SignalClean    = "clean"
	SignalObserved = "observed"
	SignalReleased = "released"
	SignalRefresh  = "refresh"
)

// QueryDevice answers with a DeviceStatus, QueryDiscovery with the DiscoveryResult.
const (
	QueryDevice    = "device"
	QueryDiscovery = "discovery"
)

// Activities of the control worker.
const (
	ActivityEnsureProvider  = "EnsureProvider"
	ActivityReserveForBind  = "ReserveForBind"
	ActivityReadReservation = "ReadReservation"
	ActivityEnsureReserved  = "EnsureReserved"
	ActivityUnreserve       = "Unreserve"
	ActivityDeleteProvider  = "DeleteProvider"
	ActivityFindPreviousRun = "FindPreviousRun"
	// ActivityFindBySerial looks for a serial among the other devices.
	ActivityFindBySerial = "FindBySerial"
)

// ActivityDiscover is the host worker's look at a device; its other activities are
// the steps, each registered by its own name.
const (
	ActivityDiscover = "Discover"
	// ActivityForget has the host forget a device that is no longer Burnish's.
	ActivityForget = "Forget"
)

// Enrollment is what an operator says of a device.
type Enrollment struct {
	Name            string            `json:"name"`
	Host            string            `json:"host"`
	Driver          string            `json:"driver"`
	Type            string            `json:"type,omitempty"`
	Address         string            `json:"address,omitempty"`
	Settings        map[string]string `json:"settings,omitempty"`
	Owner           device.Owner      `json:"owner"`
	OneTimeUse      bool              `json:"one_time_use,omitempty"`
	AcceptSignature string            `json:"accept_signature,omitempty"`
	// OperatorAssertsClean: the operator says that the device is clean; counts only where
	// cleaning on enrolment is switched off.
	OperatorAssertsClean bool `json:"operator_asserts_clean,omitempty"`
	// Imported: the device was in use before Burnish knew it, so that what a tenant left
	// on it is no reason to refuse it (S2.84).
	Imported bool `json:"imported,omitempty"`
}

// EnrollInput enrols; Provide goes on to the first clean at once. Import takes the
// inventory's word for what the device is now, and asks no host (S2.84, D8). Provider is
// the one that Import speaks of, by its UUID; "" is the one that is found.
type EnrollInput struct {
	Enrollment Enrollment `json:"enrollment"`
	Provide    bool       `json:"provide,omitempty"`
	Import     bool       `json:"import,omitempty"`
	Provider   string     `json:"provider,omitempty"`
}

// BindInput is claim, burn, unclaim and bind: Deadline counts for claim alone, and
// is RFC 3339.
type BindInput struct {
	Instance string `json:"instance"`
	Request  string `json:"request,omitempty"`
	Tag      string `json:"tag,omitempty"`
	Deadline string `json:"deadline,omitempty"`
}

// BindResult tells the tenancy's number; 0 for a claim, which is none yet.
type BindResult struct {
	Binding int          `json:"binding"`
	Device  DeviceStatus `json:"device"`
	// Already: the same request had been granted before.
	Already bool `json:"already,omitempty"`
}

// UnbindInput is unbind and rebuild.
type UnbindInput struct {
	Instance string `json:"instance"`
}

// CleanInput is the clean update and signal. Without Steps it is a full clean.
type CleanInput struct {
	Reason string   `json:"reason,omitempty"`
	Steps  []string `json:"steps,omitempty"`
}

// ReasonInput is manage, provide, abort, retire and forget. Lost is retire's: the
// hardware is gone.
type ReasonInput struct {
	Reason string `json:"reason,omitempty"`
	Lost   bool   `json:"lost,omitempty"`
}

// ReplaceInput says that another piece of hardware took the device's place; Provide
// goes on to its first clean at once.
type ReplaceInput struct {
	AcceptSignature string `json:"accept_signature,omitempty"`
	Provide         bool   `json:"provide,omitempty"`
	Reason          string `json:"reason,omitempty"`
}

// MoveInput is where the device's piece is now, under another name: of the Enrolment
// count Name, Address, and Host, Driver and Settings where they differ.
type MoveInput struct {
	Enrollment Enrollment `json:"enrollment"`
}

// MaintainInput sets or, with Off, clears the operator's hold.
type MaintainInput struct {
	Reason string `json:"reason,omitempty"`
	Off    bool   `json:"off,omitempty"`
}

// Result answers an update. Already says that nothing had to change; Note is one
// line for the operator.
type Result struct {
	Device  DeviceStatus `json:"device"`
	Already bool         `json:"already,omitempty"`
	Note    string       `json:"note,omitempty"`
}

// Hint is the input of the signals observed, released and refresh.
type Hint struct {
	// Source says who hints: "host start", "sweep", "nova".
	Source string `json:"source,omitempty"`
	// Host is what the host's record knows of the device, with "host start".
	Host *HostDeviceRecord `json:"host,omitempty"`
	// Binding is the tenancy that the hint speaks of; 0: of none in particular.
	Binding int `json:"binding,omitempty"`
	// ObservedAt is when it was observed, RFC 3339; a hint older than the present binding is
	// dropped.
	ObservedAt string `json:"observed_at,omitempty"`
	// DuplicateAt is another slot in which the device's serial was seen (SAFETY F23).
	DuplicateAt string `json:"duplicate_at,omitempty"`
}
