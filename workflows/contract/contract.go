// Package contract defines the interface of Burnish's workflows, and every package may
// import it: names, inputs, messages, the state that survives a continue-as-new, and the
// status that clients read. Fields are only ever added, never renamed: the states of
// running workflows contain them.
package contract

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
)

// WorkflowDeviceLifecycle is the workflow type of a device; each device has one workflow.
const WorkflowDeviceLifecycle = "DeviceLifecycle"

// TypeNode is the type of whole servers; only they are shared in a pool.
const TypeNode = "NODE"

// Queue is the task queue of workflows and control activities.
const Queue = "burnish"

// Deployment is the name that all versions of the control workers share.
const Deployment = "burnish"

// HostQueue is the task queue of one host's activities.
func HostQueue(host string) string { return "burnish-host." + strings.ToLower(host) }

// WorkflowID is the device's workflow ID; name is canonical.
func WorkflowID(name string) string { return "device/" + name }

// DeviceUUID is the device's UUID, which depends on its name alone; name is canonical.
func DeviceUUID(name string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("burnish:device:"+name)).String()
}

// TaskTimeout is how long a workflow task may take before the server schedules it
// on another worker. A kill -9 of a worker delays its running tasks by this long.
const TaskTimeout = 3 * time.Second

// Signals. Only clean can change the state directly; the others are hints to re-check.
const (
	SignalClean    = "clean"
	SignalObserved = "observed"
	SignalReleased = "released"
	SignalRefresh  = "refresh"
)

// QueryDevice answers with a DeviceStatus, QueryDiscovery with the DiscoveryResult,
// QueryValidate, whose input is a CleanInput, with a CleanPlan, QueryDryRun, whose input is a
// DryRunInput, with a DryRun.
const (
	QueryDevice    = "device"
	QueryDiscovery = "discovery"
	QueryValidate  = "validate"
	QueryDryRun    = "dry_run"
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
	// ActivityFindBySerial searches the other devices for a serial.
	ActivityFindBySerial = "FindBySerial"
)

// Activities of the host worker, beside the steps, each of which is registered by its own
// name.
const (
	// ActivityDiscover examines the hardware of one device.
	ActivityDiscover = "Discover"
	// ActivityForget deletes the host's record of a device that Burnish no longer manages.
	ActivityForget = "Forget"
	// ActivityPower changes or reads the power state of a device.
	ActivityPower = "Power"
)

// Enrollment is an operator's description of a device.
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
	// OperatorAssertsClean: the operator asserts that the device is clean. It counts only if
	// cleaning on enrollment is off.
	OperatorAssertsClean bool `json:"operator_asserts_clean,omitempty"`
	// Imported: the device may have been in use before Burnish managed it, so that a
	// tenant's signatures on it are no reason to refuse it (S2.84).
	Imported bool `json:"imported,omitempty"`
	// Pool is the pool that a server is shared in; nil if it is Burnish's alone.
	Pool *Pool `json:"pool,omitempty"`
	// Labels are the operator's own words for the device; device.CheckLabels says which there
	// may be. They decide nothing.
	Labels map[string]string `json:"labels,omitempty"`
}

// EnrollInput enrolls a device. Provide starts its first clean at once. Import accepts the
// inventory's reservation as the device's state, without a discovery on the host (S2.84,
// D8). Provider is the UUID of the provider to import; "" accepts any.
type EnrollInput struct {
	Enrollment Enrollment `json:"enrollment"`
	Provide    bool       `json:"provide,omitempty"`
	Import     bool       `json:"import,omitempty"`
	Provider   string     `json:"provider,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	// Hardware is what the sender knows of it; only the workflow's summary shows it.
	Hardware Hardware `json:"hardware,omitzero"`
	Caller   `api:"-"`
}

// BindInput is the input of claim, burn, unclaim and bind. Only claim uses Deadline, which
// is RFC 3339.
type BindInput struct {
	Instance string `json:"instance" flag:"instance" help:"UUID: the instance, in the 36-character form"`
	Request  string `json:"request,omitempty" flag:"request" help:"ID: a repeated bind with the same one and instance returns the same binding, never a second one. A device knows its last 500"`
	Tag      string `json:"tag,omitempty" flag:"tag" help:"T: the device's role in the guest, 1 to 60 characters, but no comma and no slash"`
	Deadline string `json:"deadline,omitempty" api:"-"`
	// Managed: the instance's workflow holds the binding. If the binding ends otherwise than by
	// an unbind with ByInstance, the device signals SignalDeviceLeft to it.
	Managed bool `json:"managed,omitempty" api:"-"`
	// Held: the instance has the device by its memory. A burn confirms that, or is refused; it binds nothing.
	Held   bool   `json:"held,omitempty" api:"-"`
	Reason string `json:"reason,omitempty" flag:"reason"`
	Caller `api:"-"`
}

// UnbindInput is the input of unbind and rebuild.
type UnbindInput struct {
	Instance string `json:"instance" flag:"instance" help:"UUID: the instance that the device is bound to"`
	// ByInstance: the instance's workflow ends the binding itself. Only unbind uses it.
	ByInstance bool   `json:"by_instance,omitempty" api:"-"`
	Reason     string `json:"reason,omitempty" flag:"reason"`
	Caller     `api:"-"`
}

// CleanInput is the input of the clean update and signal. Without Steps and Runbook it is a
// full clean. Args are the arguments of the named steps, each a JSON object. Runbook names a
// runbook of the policy; then there are neither Steps nor Args.
type CleanInput struct {
	Reason  string                     `json:"reason,omitempty" flag:"reason"`
	Steps   []string                   `json:"steps,omitempty"`
	Args    map[string]json.RawMessage `json:"args,omitempty"`
	Runbook string                     `json:"runbook,omitempty"`
	Caller  `api:"-"`
}

// Manual says that the clean is not a full one: it never makes a dirty device available.
func (in CleanInput) Manual() bool { return len(in.Steps) > 0 || in.Runbook != "" }

// CleanPlan is what a clean would do, or the fault that says why it would not.
type CleanPlan struct {
	Operation     device.Operation `json:"operation,omitempty"`
	Runbook       string           `json:"runbook,omitempty"`
	RunbookDigest string           `json:"runbook_digest,omitempty"`
	PolicyDigest  string           `json:"policy_digest"`
	Steps         []Planned        `json:"steps"`
	Fault         *device.Fault    `json:"fault,omitempty"`
}

// ReasonInput is the input of what takes nothing but a reason.
type ReasonInput struct {
	Reason string `json:"reason,omitempty" flag:"reason"`
	Caller `api:"-"`
}

// TenantInput is the input of manage and forget. Instance names the instance that has the device:
// they are refused without it, because they would end its binding.
type TenantInput struct {
	Instance string `json:"instance,omitempty" flag:"instance" help:"UUID: the instance that has the device, whose binding this ends"`
	Reason   string `json:"reason,omitempty" flag:"reason"`
	Caller   `api:"-"`
}

// RetireInput is the input of retire. Lost: the hardware is gone. Instance is as in TenantInput.
type RetireInput struct {
	Instance string `json:"instance,omitempty" flag:"instance" help:"UUID: the instance that has the device, whose binding this ends"`
	Reason   string `json:"reason,omitempty" flag:"reason"`
	Lost     bool   `json:"lost,omitempty" flag:"lost" help:"the hardware is gone; do not contact its host"`
	Caller   `api:"-"`
}

// ReplaceInput accepts other hardware in the device's slot. Provide starts its first clean
// at once. Instance is as in TenantInput.
type ReplaceInput struct {
	Provide         bool   `json:"provide,omitempty" flag:"provide" help:"clean it and make it available"`
	AcceptSignature string `json:"accept_signature,omitempty" flag:"accept-signature" help:"S[,S…]: file-system signatures on it that may be destroyed"`
	Instance        string `json:"instance,omitempty" flag:"instance" help:"UUID: the instance that has the device, whose binding this ends"`
	Reason          string `json:"reason,omitempty" flag:"reason"`
	Caller          `api:"-"`
}

// MoveInput names the slot that the device's hardware is in now. It uses the enrollment's
// Name and Address, and its Host, Driver and Settings if they are set. Instance is as in
// TenantInput.
type MoveInput struct {
	Enrollment Enrollment `json:"enrollment"`
	Instance   string     `json:"instance,omitempty" flag:"instance" help:"UUID: the instance that has the device, whose binding this ends"`
	Reason     string     `json:"reason,omitempty" flag:"reason"`
	Caller     `api:"-"`
}

// MaintenanceInput begins or, with Off, ends the operator's maintenance.
type MaintenanceInput struct {
	Reason string `json:"reason,omitempty" flag:"reason"`
	Off    bool   `json:"off,omitempty" flag:"off" help:"release it"`
	Caller `api:"-"`
}

// Result is the answer to an update. Already says that nothing had to change, which is also
// the answer to a repetition under the update's own ID, in a later run of the workflow; in the
// same run Temporal gives the first answer again. A clean has no other use for Already: a
// second clean is refused, by CodeRefused with the state pending_cleaning or cleaning, so that
// any Result says that this very request was accepted. Note is one line for the operator.
//
// Binding is the number of the binding that a bind made or found; a claim is no binding yet.
type Result struct {
	Binding int          `json:"binding,omitempty"`
	Device  DeviceStatus `json:"device"`
	Already bool         `json:"already,omitempty"`
	Note    string       `json:"note,omitempty"`
}

// Hint is the input of the signals observed, released and refresh.
type Hint struct {
	// Source names the sender, as "host start".
	Source string `json:"source,omitempty"`
	// Host is the host's record of the device, sent when its worker starts. With Numbers only its
	// numbers are to be compared.
	Host    *HostDeviceRecord `json:"host,omitempty"`
	Numbers bool              `json:"numbers,omitempty"`
	// Started: the host's worker has heard no events of the kernel until now. Its earlier looks do not count.
	Started bool `json:"started,omitempty"`
	// Binding is the number of the binding that the hint is about; 0 for any.
	Binding int `json:"binding,omitempty"`
	// ObservedAt is the time of the observation, RFC 3339. A hint older than the present
	// binding is dropped.
	ObservedAt string `json:"observed_at,omitempty"`
	// DuplicateAt is another device with the same serial (F23).
	DuplicateAt string `json:"duplicate_at,omitempty"`
	// Hardware: the host saw that the hardware may have changed: it looks at the device again.
	Hardware bool `json:"hardware,omitempty"`
	// Wait is the report of an activity of the device's own workflow, and no hint about the
	// device.
	Wait *WaitReport `json:"wait,omitempty"`
	// Slot is the answer of the workflow of the limits, and no hint about the device.
	Slot *SlotAnswer `json:"slot,omitempty"`
}
